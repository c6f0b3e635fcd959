"""A folder is read and never left, and nothing in it makes a reader wait."""

import os
from pathlib import Path

import pytest

from callboard.demo.tools import Folder, Place
from tests.demo.folders import write


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    write(tmp_path / "outside", {"b.txt": "secret"})
    return tmp_path / "outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "root", {"a.txt": "hello", "sub/b.txt": "world"})
    return tmp_path / "root"


def places(root: Path) -> dict[str, Place]:
    return {place.path: place for place in Folder(root).places}


def test_links_are_never_followed(root: Path, secret: Path) -> None:
    (root / "file-link").symlink_to(secret / "b.txt")
    (root / "folder-link").symlink_to(secret, target_is_directory=True)
    found = places(root)
    assert list(found) == ["a.txt", "sub/b.txt"]
    with pytest.raises(ValueError, match="cannot be read: a part of it is a link"):
        Folder(root).read(Place("file-link", "file-link", 6))


def test_a_folder_that_becomes_a_link_after_the_walk_is_not_followed(root: Path, secret: Path) -> None:
    folder = Folder(root)
    (root / "sub" / "b.txt").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(secret, target_is_directory=True)
    with pytest.raises(ValueError, match="cannot be read: a part of it is a link"):
        folder.read(folder.places[-1])


def test_a_file_that_becomes_a_pipe_after_the_walk_makes_no_reader_wait(root: Path) -> None:
    folder = Folder(root)
    (root / "a.txt").unlink()
    os.mkfifo(root / "a.txt")
    with pytest.raises(ValueError, match="cannot be read: it is a pipe"):
        folder.read(folder.places[0])


def test_a_file_that_is_gone_is_said_to_be_gone_without_naming_the_root(root: Path) -> None:
    folder = Folder(root)
    (root / "a.txt").unlink()
    with pytest.raises(ValueError) as raised:  # noqa: PT011  # the whole text is compared below
        folder.read(folder.places[0])
    assert str(raised.value) == "a.txt cannot be read: there is no such file."


def test_files_of_size_zero_as_the_kernel_makes_them_up_are_never_opened(root: Path) -> None:
    assert Folder(root).read(Place("never", "never/opened", 0)) == ""


def test_every_name_is_printable_and_unique_and_its_file_can_be_read(root: Path) -> None:
    odd = [b"new\nline", b"\xff\xfe", b"back\\slash", b"\\xff", b"\\udcff", b" ", b"\x1b[0m", b"-rf", b"*"]
    for name in odd:
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_bytes(name.hex().encode())
    folder = Folder(root)
    assert {folder.read(place) for place in folder.places} == {
        *(name.hex() for name in odd),
        "hello",
        "world",
    }
    assert all(place.path.isprintable() for place in folder.places)


def test_text_loses_its_mark_and_windows_line_ends_and_binary_is_refused(root: Path) -> None:
    (root / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo \xf6\r\n")
    (root / "b.txt").write_bytes(b"\0")
    folder = Folder(root)
    assert folder.read(folder.places[0]) == "one\ntwo \ufffd\n"
    with pytest.raises(ValueError, match=r"b\.txt is binary"):
        folder.read(folder.places[1])


def test_a_large_tree_is_cut_and_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Folder(root).is_cut
    monkeypatch.setattr("callboard.demo.tools.ENTRIES_MAX", 2)
    assert Folder(root).is_cut


def test_folders_of_copies_and_caches_are_not_looked_into(root: Path) -> None:
    own = ["venv/__init__.py", "vendor/__init__.py", "build/__init__.py", "caches/x.py", "git/x.py"]
    others = [
        ".git/config",
        "node_modules/x.js",
        "env/pyvenv.cfg",
        "c/CACHEDIR.TAG",
        "p.egg-info/X",
        "dist/x.py",
    ]
    write(root, dict.fromkeys([*own, *others], ""))
    found = places(root)
    assert set(own) <= set(found)
    assert not set(others) & set(found)


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_root_that_is_not_a_folder_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=name):
        Folder(tmp_path / name)


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root, target_is_directory=True)
    folder = Folder(tmp_path / "link")
    assert folder.read(folder.places[0]) == "hello"
