import os
import stat
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import FileError
from callboard.runtime.files import writing
from callboard.runtime.files.opening import FOLDER, Opener, by_component
from callboard.runtime.files.writing import write_whole
from tests.runtime.files.trees import open_files, outside_of


def write(root: Path, opener: Opener, path: str, data: bytes = b"new") -> str:
    """Write, and return the reason of a refusal."""
    folder = os.open(root, FOLDER)
    try:
        write_whole(folder, opener, path, data)
    except FileError as error:
        return error.reason
    except OSError as error:
        return os.strerror(error.errno or 0)
    finally:
        os.close(folder)
    return ""


def test_a_file_is_made_with_the_folders_above_it(root: Path, opener: Opener) -> None:
    assert write(root, opener, "new/deep/er/file", b"x" * 300_000) == ""
    assert (root / "new/deep/er/file").read_bytes() == b"x" * 300_000
    assert write(root, opener, "a/b/more/file") == ""
    assert (root / "a/b/more/file").read_bytes() == b"new"


def test_a_file_that_is_replaced_keeps_its_permissions_but_no_special_ones(
    root: Path, opener: Opener
) -> None:
    (root / "top.txt").chmod(0o4750)
    assert write(root, opener, "top.txt") == ""
    assert stat.S_IMODE((root / "top.txt").stat().st_mode) == 0o750
    assert (root / "top.txt").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a", "folder"),
        ("link-file", "Too many levels of symbolic links"),
        ("link-dangling", "Too many levels of symbolic links"),
        ("link-dir/new", "Too many levels of symbolic links"),
        ("link-dangling/new/file", "Too many levels of symbolic links"),
        ("pipe", "special"),
        ("hard", "hard_link"),
        ("top.txt/x", "Not a directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_other_places_are_refused_and_nothing_is_left(
    root: Path, opener: Opener, path: str, why: str
) -> None:
    before, outside = sorted(root.rglob("*")), outside_of(root.parent)
    assert write(root, opener, path) == why
    assert sorted(root.rglob("*")) == before
    assert outside_of(root.parent) == outside


def test_a_write_that_fails_leaves_the_old_file_alone(
    root: Path, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "full")

    monkeypatch.setattr(os, "write", full)
    assert write(root, opener, "top.txt") == "No space left on device"
    assert (root / "top.txt").read_bytes() == b"inside: top.txt"
    assert not list(root.glob(".callboard*"))


def test_a_name_that_an_earlier_process_left_is_passed_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_COUNT", iter([7, 8]))
    left = root / f".callboard-{os.getpid()}-7.tmp"
    left.write_text("left")
    assert write(root, by_component, "file") == ""
    assert left.read_text() == "left"


def test_writes_leave_no_descriptor_behind(root: Path, opener: Opener) -> None:
    before = len(open_files())
    for path in ("top.txt", "n/e/w", "hard", "link-dir/x", "pipe", "a/one/x/y"):
        write(root, opener, path)
    assert len(open_files()) == before
