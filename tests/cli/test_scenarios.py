import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.cli.errors import USAGE, Failure
from callboard.cli.scenarios import load_parts, load_subject

MODULE = """
from callboard import Agent, say
from callboard.testing import Scenario
print("loading")
host = Agent("host")
talk = Scenario(host, lambda request: say("hi"))
class Box:
    inner = talk
def make():
    return talk
def helps(other):
    return other
def nothing() -> None: ...
def _hidden():
    return talk
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder with a module of scenarios the current one."""
    (tmp_path / "talks.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("talks", None)


def failure(spec: str) -> Failure:
    with pytest.raises(Failure) as caught:
        load_subject(spec)
    return caught.value


def test_a_scenario_is_found_by_module_file_attribute_and_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = {
        load_subject(spec).fingerprint
        for spec in ("talks:talk", "talks.py:talk", "talks:Box.inner", "talks:make")
    }
    assert len(found) == 1
    assert capsys.readouterr() == ("", "loading\n")


def test_a_scenario_that_is_not_there_is_answered_with_those_that_are() -> None:
    found = failure("talks:nothing_like_it")
    assert found.exit_code == USAGE
    assert found.message.endswith("scenarios there: make (a function), talk")


def test_a_named_scenario_is_made_again_and_its_errors_are_told() -> None:
    make_world, monitors = load_parts("talks:talk")
    assert make_world().moves()
    assert monitors
    out = sys.stdout
    with pytest.raises(MisuseError, match="talks has no 'other'"):
        load_parts("talks:other")
    assert sys.stdout is out
