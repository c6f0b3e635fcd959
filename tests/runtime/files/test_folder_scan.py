"""A folder before and after a program: the compared files and the gaps."""

import os
from pathlib import Path

import pytest

from callboard import Files
from callboard.runtime.files import folder_scan
from callboard.runtime.files.folder_scan import (
    ABSENT,
    UNREAD,
    Folder,
    Found,
    look,
    open_here,
    others_changed,
    scan,
)
from tests.runtime.files.history_kit import Told, change


@pytest.fixture
def root(tmp_path: Path) -> Path:
    change(tmp_path / "a", b"text")
    change(tmp_path / "d/b", b"more")
    change(tmp_path / ".git/x", b"not entered")
    return tmp_path


def test_links_devices_and_names_that_are_not_utf8_are_told_apart(root: Path) -> None:
    (root / "link").symlink_to("a")
    os.mkfifo(root / "pipe")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_bytes(b"x")
    found = scan(Files(root))
    assert sorted(found.files) == ["a", "d/b"]
    assert sorted(found.others) == [b"link", b"pipe", b"\xff"]
    (root / "link").unlink()
    assert others_changed(found, scan(Files(root))) == 1


def test_a_file_that_this_process_has_open_is_passed_over_and_never_opened(root: Path) -> None:
    with (root / "log.db").open("wb") as file:
        about = os.fstat(file.fileno())
        assert (about.st_dev, about.st_ino) in open_here()
        assert "log.db" not in scan(Files(root)).files
        assert look(Files(root), "log.db") == UNREAD
    assert look(Files(root), "log.db") == Found(b"")


def test_open_files_are_known_in_a_sandbox_without_devices(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (root / "a").open("rb"):
        known = open_here()

        def missing(path: str) -> list[str]:
            raise FileNotFoundError(path)

        monkeypatch.setattr(os, "listdir", missing)
        assert open_here() == known


def test_files_that_are_missing_large_or_no_files_are_looked_at(root: Path) -> None:
    files = Files(root)
    with (root / "large").open("wb") as large:
        large.truncate(10_000_001)
    (root / "link").symlink_to("a")
    os.link(root / "a", root / "again")
    assert look(files, "none/at/all") == ABSENT
    assert look(files, "large") == Found(None, 10_000_001, left_out="large")
    assert [look(files, name) for name in ("link", "d", "again")] == [UNREAD, UNREAD, UNREAD]


def test_large_files_are_not_read_before_they_change(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_scan, "REMEMBERED_MAX", 3)
    folder = Folder(Files(root))
    before = folder.seen()
    change(root / "a", b"other text")
    assert list(folder.changes(before, folder.seen())) == [("a", UNREAD, Found(b"other text", 10))]


def test_an_untouched_file_is_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_scan, "_SETTLED_NS", -(10**12))
    folder = Folder(Files(root))
    folder.seen()
    read: list[str] = []

    def noted(self: Folder, path: str) -> Found:
        read.append(path)
        return look(self._files, path)

    monkeypatch.setattr(Folder, "look", noted)
    change(root / "d/b", b"changed")
    folder.seen()
    assert read == ["d/b"]


def test_beyond_the_limit_nothing_is_compared_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_scan, "ENTRIES_MAX", 3)
    told = Told(tmp_path / "root")
    body = told.run(*((f"f{number}", b"x") for number in range(5)))
    assert "entries, and the rest was not compared" in body.files_gap
    assert len(told.history.versions) <= 3


def test_an_empty_folder_has_no_versions(tmp_path: Path) -> None:
    told = Told(tmp_path / "root")
    assert (told.run().files, told.as_of()) == ((), {})
