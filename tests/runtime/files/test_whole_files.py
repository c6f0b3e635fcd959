import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import FileError
from callboard.runtime.files import whole_files
from callboard.runtime.files.opening import FOLDER, Opener, by_component
from callboard.runtime.files.whole_files import Entry, entries_of, read_whole, refused, write_whole
from tests.runtime.files.trees import open_files, outside_of


def read(path: Path, max_bytes: int = 1_000, *, hard_links: bool = False) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return read_whole(file, path.name, max_bytes, hard_links=hard_links)
    finally:
        os.close(file)


def reason_of(path: Path, max_bytes: int = 1_000) -> str:
    with pytest.raises(FileError) as caught:
        read(path, max_bytes)
    return caught.value.reason


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1_000)
    assert read(tmp_path / "file") == b"x" * 1_000
    assert reason_of(tmp_path / "file", 999) == "large"
    (tmp_path / "empty").touch()
    assert read(tmp_path / "empty") == b""


def test_only_plain_files_with_one_name_are_read(root: Path) -> None:
    assert reason_of(root) == "folder"
    assert reason_of(root / "pipe") == "special"
    assert reason_of(root / "hard") == "hard_link"
    assert read(root / "hard", hard_links=True).startswith(b"CANARY")


def test_a_file_that_the_system_makes_up_is_read_to_its_end() -> None:
    assert b"self" not in read(Path("/proc/self/stat"))
    assert reason_of(Path("/proc/cpuinfo"), 10) == "large"


def test_a_file_that_changes_is_read_again_and_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0")
    real, changes = os.pread, [b"1", b"22"]

    def while_it_changes(*arguments: int) -> bytes:
        data = real(*arguments)
        if changes:
            path.write_bytes(changes.pop(0))
        return data

    monkeypatch.setattr(os, "pread", while_it_changes)
    assert read(path) == b"22"
    changes += [b"1" * n for n in range(1, 20)]
    assert reason_of(path) == "changed"


def test_a_file_that_a_thread_rewrites_is_one_of_its_contents(tmp_path: Path) -> None:
    path, stop = tmp_path / "file", threading.Event()
    wholes = {bytes([letter]) * 70_000 for letter in b"abc"}
    path.write_bytes(b"a" * 70_000)

    def rewrite() -> None:
        while not stop.is_set():
            for whole in wholes:
                (tmp_path / "new").write_bytes(whole)
                (tmp_path / "new").replace(path)

    thread = threading.Thread(target=rewrite)
    thread.start()
    try:
        assert {read(path, 100_000) for _ in range(300)} <= wholes
    finally:
        stop.set()
        thread.join()


def test_entries_have_their_kind_and_size_in_order(root: Path) -> None:
    (root / "a" / "pipe").symlink_to("x")
    os.mkfifo(root / "a" / "z")
    folder = os.open(root / "a", os.O_RDONLY)
    assert entries_of(folder, "a") == [
        Entry("a/b", "folder", 0),
        Entry("a/link-root", "link", 0),
        Entry("a/one", "file", 13),
        Entry("a/pipe", "link", 0),
        Entry("a/z", "other", 0),
    ]
    os.close(folder)


def test_an_error_of_the_system_is_told_in_its_words_without_a_place() -> None:
    error = refused("a/b", OSError(errno.ENOSPC, "x", "/srv/place"))
    assert (str(error), error.reason) == ("a/b: no space left on device", "failed")
    assert str(refused("a", OSError())) == "a: input/output error"
    assert refused("a", OSError(errno.ELOOP, "x")).reason == "link"


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
    monkeypatch.setattr(whole_files, "_COUNT", iter([7, 8]))
    left = root / f".callboard-{os.getpid()}-7.tmp"
    left.write_text("left")
    assert write(root, by_component, "file") == ""
    assert left.read_text() == "left"


def test_writes_leave_no_descriptor_behind(root: Path, opener: Opener) -> None:
    before = len(open_files())
    for path in ("top.txt", "n/e/w", "hard", "link-dir/x", "pipe", "a/one/x/y"):
        write(root, opener, path)
    assert len(open_files()) == before
