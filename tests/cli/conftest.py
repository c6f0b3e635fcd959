"""One log for all tests that only look; a copy for those that change something."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from callboard.cli.main import cli
from callboard.runtime.models.protocol import model_named
from tests.cli.agents import SURVEY
from tests.cli.recorded import record

Callboard = Callable[..., Result]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a log with three sessions, for tests that only read it."""
    path = tmp_path_factory.mktemp("recorded") / "callboard.db"
    record(path)
    return path


@pytest.fixture
def own_log(recorded: Path, tmp_path: Path) -> Path:
    """Copy the log, for tests that change it."""
    return shutil.copyfile(recorded, tmp_path / "own.db")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a user's folder the current one; each test loads its module again."""
    (tmp_path / "survey.py").write_text(SURVEY)
    monkeypatch.setattr(sys, "path", list(sys.path))
    model_named.cache_clear()  # its models come from the module of an earlier test
    yield tmp_path
    sys.modules.pop("survey", None)


@pytest.fixture
def callboard(recorded: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callboard:
    """Run the command line in this process, off a terminal, on the recorded log."""
    monkeypatch.setenv("CALLBOARD_LOG", str(recorded))
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(cli, arguments, input=text, prog_name="callboard")

    return run


def on_own_log(callboard: Callboard, folder: Path, command: str) -> Callboard:
    """Return a function that runs a command in this process, on a log of its own."""

    def ran(*arguments: str, text: str | None = None) -> Result:
        return callboard(command, *arguments, "--log", str(folder / "own.db"), text=text)

    return ran
