"""The copy of a folder for a fork."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.file_area import FileArea
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.errors import MissingVersions, MisuseError
from callboard.runtime.files.copying import FolderCopy, copied
from callboard.runtime.secrets.redactor import Redactor
from tests.runtime.files.history_kit import Told, change, folder


@pytest.fixture
def told(tmp_path: Path) -> Told:
    told = Told(tmp_path / "root")
    change(told.root / "other", b"as of today")
    change(told.root / "node_modules/x", b"also")
    told.write("a", b"1")
    told.write("a", b"2")
    return told


def test_a_copy_has_files_as_of_the_event_and_others_as_of_today(told: Told, tmp_path: Path) -> None:
    (told.root / "other").chmod(0o755)
    made = copied(told.files, None, tmp_path / "copy", told.recorded(1))
    assert folder(tmp_path / "copy") == {"a": b"1", "other": b"as of today", "node_modules/x": b"also"}
    assert (tmp_path / "copy/other").stat().st_mode & 0o111
    assert (made.left_out, made.files.area) == ((), told.files.area)
    assert folder(told.root)["a"] == b"2"
    before = copied(told.files, None, tmp_path / "before", told.recorded(0))
    assert "a" not in folder(Path(before.files.root))


def test_no_link_of_a_copy_leads_out_of_it(told: Told, tmp_path: Path) -> None:
    (told.root / "d").mkdir()
    links = {
        "inside": "other",
        "absolute": str(told.root / "other"),
        "climbs": "../../etc/passwd",
        "d/aside": "../node_modules",
        "by_others": "d/aside/../..",
        "nowhere": "missing",
    }
    for name, to in links.items():
        (told.root / name).symlink_to(to)
    os.mkfifo(told.root / "pipe")
    made = copied(told.files, None, tmp_path / "copy", told.recorded())
    assert sorted(made.left_out) == ["absolute", "by_others", "climbs", "pipe"]
    kept = [path.name for path in (tmp_path / "copy").rglob("*") if path.is_symlink()]
    assert sorted(kept) == ["aside", "inside", "nowhere"]


@pytest.mark.parametrize("name", ["other", "node_modules"])
def test_nothing_comes_in_through_a_name_that_becomes_a_link_meanwhile(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    change(tmp_path / "outside/x", b"of others")
    to = tmp_path / "outside" / ("x" if name == "other" else "")
    opened = os.open

    def swap_first(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == name and not (told.root / name).is_symlink():
            (told.root / name).rename(tmp_path / "aside")
            (told.root / name).symlink_to(to)
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap_first)
    monkeypatch.setattr(os, "supports_dir_fd", os.supports_dir_fd | {swap_first})
    copied(told.files, None, tmp_path / "copy", told.recorded())
    assert (told.root / name).is_symlink()
    assert b"of others" not in folder(tmp_path / "copy").values()


def test_a_file_that_this_process_has_open_is_left_out(told: Told, tmp_path: Path) -> None:
    with (told.root / "log.db").open("wb"):
        made = copied(told.files, None, tmp_path / "copy", told.recorded())
    assert made.left_out == ("log.db",)


def test_a_place_that_is_no_empty_folder_is_refused(told: Told, tmp_path: Path) -> None:
    change(tmp_path / "full/x", b"x")
    change(tmp_path / "file", b"x")
    for name, why in {
        "full": "not an empty folder",
        "file": "not an empty folder",
        "root/copy": "lies in the folder",
    }.items():
        with pytest.raises(MisuseError, match=why):
            copied(told.files, None, tmp_path / name, told.recorded())
    assert folder(tmp_path / "full") == {"x": b"x"}


def test_a_version_that_is_lost_stops_a_copy_unless_told(tmp_path: Path) -> None:
    redactor = Redactor()
    redactor.learn("KEY", "open-sesame")
    told = Told(tmp_path / "root", redactor=redactor)
    told.write("a", b"open-sesame")
    change(told.root / "a", b"today")
    with pytest.raises(MissingVersions, match=r"bytes of a \(secret\); pass skip_lost"):
        copied(told.files, None, tmp_path / "copy", told.recorded())
    assert not (tmp_path / "copy").exists()
    copied(told.files, None, tmp_path / "copy", told.recorded(), skip_lost=True)
    assert folder(tmp_path / "copy") == {"a": b"today"}


def test_without_the_folder_a_copy_has_the_files_of_the_history(told: Told, tmp_path: Path) -> None:
    area = FileArea("files", write=("a",), labels=("web",), history=True)
    made = copied(None, area, tmp_path / "copy", told.recorded(1))
    assert (folder(tmp_path / "copy"), made.files.area) == ({"a": b"1"}, area)
    with pytest.raises(MisuseError, match="has no files"):
        copied(None, None, tmp_path / "none", told.recorded(1))
    assert not (tmp_path / "none").exists()


def test_a_copy_is_discarded_as_it_came(told: Told, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    copied(told.files, None, tmp_path / "empty", told.recorded()).discard()
    copied(told.files, None, tmp_path / "new", told.recorded()).discard()
    assert (folder(tmp_path / "empty"), (tmp_path / "new").exists()) == ({}, False)


def test_recorded_versions_are_put_into_a_copy_wherever_tools_may_write(told: Told, tmp_path: Path) -> None:
    made = copied(told.files.narrowed(write=["nowhere"]), None, tmp_path / "copy", told.recorded(1))
    newest = tuple(one.version for one in told.recorded().files.values())
    place = FolderCopy(made.files, told.contents)
    assert place.put_result(ToolReturned(1, 0, files=newest)) == ""
    assert folder(tmp_path / "copy")["a"] == b"2"
    change(tmp_path / "copy/a", b"1")
    unknown = replace(newest[0], path="b", digest="0" * 64)
    assert "does not have the bytes" in place.put_result(ToolReturned(1, 0, files=(*newest, unknown)))
    assert folder(tmp_path / "copy")["a"] == b"1"  # all of a result, or nothing
    (tmp_path / "copy/a").unlink()
    (tmp_path / "copy/a").mkdir()
    assert "it is a folder" in place.put_result(ToolReturned(1, 0, files=newest))
