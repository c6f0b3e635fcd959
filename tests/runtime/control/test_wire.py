"""Where a control socket stands."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import StoreFailed
from callboard.runtime.control.wire import (
    PATH_BYTES_MAX,
    bound_socket,
    places_of,
    refuse_foreign_folder,
)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder with a short path: that of pytest leaves no room below the bound."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        monkeypatch.setenv("XDG_RUNTIME_DIR", made)
        yield Path(made)


def log_of_length(folder: Path, length: int) -> Path:
    """Return a log whose socket beside it has a path of so many bytes."""
    name = "x" * (length - len(os.fsencode(folder)) - len("/.db.sock"))
    return folder / f"{name}.db"


def test_a_socket_stands_beside_its_log_up_to_the_last_byte(run: Path) -> None:
    fits = log_of_length(run, PATH_BYTES_MAX)
    assert places_of(fits)[0] == fits.with_name(fits.name + ".sock")
    assert places_of(log_of_length(run, PATH_BYTES_MAX + 1))[0].parent == run / "callboard"


def test_a_long_path_gets_a_private_folder_of_the_user_and_a_name_of_its_own(run: Path) -> None:
    names = set()
    for more in (1, 2):
        made, place = bound_socket(log_of_length(run, PATH_BYTES_MAX + more))
        made.close()
        names.add(place.name)
        assert place.parent.stat().st_mode & 0o777 == 0o700
        assert place.stat().st_mode & 0o777 == 0o600
    assert len(names) == 2


@pytest.mark.parametrize("runtime", ["", "relative", "/nowhere/at/all"])
def test_without_a_runtime_folder_it_is_one_for_temporary_files(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    assert places_of(tmp_path / "a.db")[-1].parent == Path("/tmp") / f"callboard-{os.geteuid()}"


def test_a_folder_that_others_can_enter_or_that_is_a_link_is_refused(tmp_path: Path) -> None:
    open_one, link = tmp_path / "open", tmp_path / "link"
    open_one.mkdir(mode=0o755)
    (tmp_path / "private").mkdir(mode=0o700)
    link.symlink_to(tmp_path / "private")
    for folder in (open_one, link):
        with pytest.raises(StoreFailed, match="not a private folder"):
            refuse_foreign_folder(folder)
    refuse_foreign_folder(tmp_path / "private")


def test_where_no_socket_can_stand_every_place_is_named(run: Path) -> None:
    log = run / "a.db"
    log.with_name("a.db.sock").write_text("")
    (run / "callboard").write_text("")
    with pytest.raises(StoreFailed, match=r"a\.db\.sock is not a socket.*callboard.*(exists|folder)"):
        bound_socket(log)
