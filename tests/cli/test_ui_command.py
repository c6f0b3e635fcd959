"""`callboard ui`: a page that only its user can read, opened in the browser."""

import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Callboard
from tests.cli.recorded import damage
from tests.replay.page.kit import PageData


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the addresses that a browser is asked to open."""
    found: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: found.append(address) or True)  # type: ignore[func-returns-value]  # it is None
    return found


def test_the_page_is_written_and_opened_and_only_the_user_can_read_it(
    callboard: Callboard, opened: list[str], temporary_folder: Path
) -> None:
    done = callboard("ui", "20250101")
    assert (done.exit_code, done.stdout) == (0, "")
    (path,) = temporary_folder.iterdir()
    assert opened == [path.as_uri()]
    assert str(path) in done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PageData(path.read_bytes()).summary["session"] == "20250101-survey"


def test_an_event_is_named_in_the_link(callboard: Callboard, opened: list[str]) -> None:
    assert callboard("ui", "20250101#7").exit_code == 0
    assert opened[0].endswith(".html#7")


def test_no_open_prints_the_path_and_opens_nothing(
    callboard: Callboard, opened: list[str], temporary_folder: Path
) -> None:
    done = callboard("ui", "--no-open")
    assert done.stdout == f"{next(temporary_folder.iterdir())}\n"
    assert opened == []


def test_without_a_browser_the_path_is_printed(
    callboard: Callboard, monkeypatch: pytest.MonkeyPatch, temporary_folder: Path
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    done = callboard("ui")
    assert done.stdout == f"{next(temporary_folder.iterdir())}\n"
    assert "no browser" in done.stderr


@pytest.mark.parametrize("seq", ["0", "29", "x", "-1"])
def test_an_event_that_is_not_there_is_not_found(
    callboard: Callboard, opened: list[str], seq: str, temporary_folder: Path
) -> None:
    done = callboard("ui", f"20250101#{seq}")
    assert done.exit_code == 3
    assert "events 1 to 28" in done.stderr
    assert (opened, list(temporary_folder.iterdir())) == ([], [])


def test_a_damaged_log_leaves_no_page(
    callboard: Callboard, own_log: Path, opened: list[str], temporary_folder: Path
) -> None:
    damage(own_log, 12)
    done = callboard("ui", "20250101", "--log", str(own_log))
    assert done.exit_code == 4
    assert (opened, list(temporary_folder.iterdir())) == ([], [])


def test_export_writes_the_same_page(callboard: Callboard, tmp_path: Path, opened: list[str]) -> None:
    path = tmp_path / "page.html"
    done = callboard("export", "20250101", "--format", "html", "-o", str(path))
    assert (done.exit_code, done.stdout) == (0, "")
    written = callboard("ui", "20250101", "--no-open").stdout.strip()
    assert path.read_bytes() == Path(written).read_bytes()
    assert callboard("export", "--all", "--format", "html", "-o", str(tmp_path / "all.html")).exit_code == 2
    assert not (tmp_path / "all.html").exists()


def test_two_sessions_are_one_page(
    callboard: Callboard, opened: list[str], temporary_folder: Path, tmp_path: Path
) -> None:
    done = callboard("ui", "20250101#7", "--beside", "20250103")
    assert done.exit_code == 0, done.stderr
    (path,) = temporary_folder.iterdir()
    assert opened == [f"{path.as_uri()}#7"]
    other = tmp_path / "two.html"
    written = callboard("export", "20250101", "--beside", "20250103", "--format", "html", "-o", str(other))
    assert written.exit_code == 0, written.stderr
    assert other.read_bytes() == path.read_bytes()
    assert callboard("export", "20250101", "--beside", "20250103").exit_code == 2
    assert callboard("ui", "20250101", "--beside", "nobody").exit_code == 3


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--act", "--with", "nowhere:host"], 3, "there is no module 'nowhere'"),
        (["--act", "--with", "broken.py:host"], 1, "loading broken.py failed: ZeroDivisionError"),
        (["--act", "--with", "empty.py:host"], 3, "has no 'host'"),
        (["--with", "empty.py:host"], 2, "--with is for --act"),
        (["--act", "--model", "scripted:x:y"], 2, "go with --with"),
        (["--act", "--also", "missing.db"], 3, "there is no log at missing.db"),
        (["--act", "--log", "missing.db"], 3, "there is no log at missing.db"),
        (["--follow", "--also", "other.db", "20250101"], 2, "--also is for the list"),
        (["--sessions", "20250101"], 2, "leave SESSION out"),
        (["--act", "--beside", "20250103"], 2, "leave --beside out"),
        (["--act", "--port", "99999"], 2, "99999"),
    ],
)
def test_a_server_that_cannot_be_is_refused_before_it_listens(
    callboard: Callboard, tmp_path: Path, opened: list[str], options: list[str], code: int, said: str
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "empty.py").write_text("")
    done = callboard("ui", *options)
    assert (done.exit_code, opened) == (code, [])
    assert said in done.stderr
