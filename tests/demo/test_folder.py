"""A folder is read and never left, and nothing in it makes a reader wait."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.demo.folder import Folder, Place
from tests.demo.folders import write


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    write(outside, {"secret.txt": "secret", "sub/deep.txt": "secret"})
    return outside


@pytest.fixture
def root(tmp_path: Path, secret: Path) -> Path:
    write(tmp_path / "root", {"a.txt": "hello", "sub/b.txt": "world"})
    return tmp_path / "root"


def paths(folder: Folder) -> list[str]:
    return [place.shown for place in folder.index.places]


@pytest.mark.parametrize(
    "path", ["..", "../outside/secret.txt", "sub/../../outside/secret.txt", "/etc/passwd", "a\0b", "sub\\x00"]
)
def test_paths_that_lead_out_are_refused(path: str, root: Path) -> None:
    with pytest.raises(PermissionError, match=r"not followed|only paths relative"):
        Folder(root).at(path)


@pytest.mark.parametrize("path", ["", ".", "./", "sub/..", "./sub//b.txt", "sub/./b.txt"])
def test_a_path_may_be_written_in_several_ways_but_never_upwards(path: str, root: Path) -> None:
    folder = Folder(root)
    if ".." in path:
        with pytest.raises(PermissionError):
            folder.at(path)
    else:
        assert folder.at(path).shown in (".", "sub/b.txt")


def test_links_are_listed_and_never_followed(root: Path, secret: Path) -> None:
    (root / "file-link").symlink_to(secret / "secret.txt")
    (root / "folder-link").symlink_to(secret, target_is_directory=True)
    (root / "own-link").symlink_to(root / "a.txt")
    folder = Folder(root)
    assert paths(folder) == ["a.txt", "file-link", "folder-link", "own-link", "sub", "sub/b.txt"]
    for path in ("file-link", "own-link"):
        with pytest.raises(PermissionError, match="symbolic link"):
            folder.read(folder.at(path))
    for path in ("folder-link/secret.txt", "folder-link/sub/deep.txt"):
        with pytest.raises(OSError, match="links are not followed"):
            folder.at(path)


def test_a_folder_that_becomes_a_link_after_it_was_listed_is_not_followed(root: Path, secret: Path) -> None:
    folder = Folder(root)
    places = folder.below(".")
    (root / "sub" / "b.txt").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(secret, target_is_directory=True)
    (secret / "b.txt").write_text("secret")
    contents = {place.shown: found for place, found in folder.read_all(places, 100)}
    assert contents["a.txt"] == b"hello"
    assert isinstance(contents["sub/b.txt"], str)


def test_a_file_that_becomes_a_pipe_after_it_was_listed_is_not_opened(root: Path) -> None:
    folder = Folder(root)
    places = folder.below("a.txt")
    (root / "a.txt").unlink()
    os.mkfifo(root / "a.txt")
    assert [found for _, found in folder.read_all(places, 100)] == ["it is no regular file but a FIFO"]


def test_a_file_that_is_gone_is_said_to_be_gone(root: Path) -> None:
    folder = Folder(root)
    places = folder.below("sub")
    (root / "sub" / "b.txt").unlink()
    assert [found for _, found in folder.read_all(places, 100)] == ["it is not there"]
    with pytest.raises(FileNotFoundError, match=r"sub/b.txt: it is not there\."):
        folder.at("sub/b.txt")


def test_files_that_the_kernel_makes_up_are_never_opened() -> None:
    kernel = Folder("/proc/self")
    assert kernel.read(Place("status", "status", "file")) == b""


def test_every_name_that_is_listed_can_be_opened_again(root: Path) -> None:
    odd = [
        b"new\nline",
        b"\xff\xfe",
        b"back\\slash",
        b"\\xff",
        b" ",
        b"\x1b[0m",
        "größe".encode(),
        b"-rf",
        b"*",
    ]
    for name in odd:
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_bytes(name)
    folder = Folder(root)
    files = [folder.at(path) for path in paths(folder) if path != "sub"]
    assert {folder.read(place) for place in files} == {*odd, b"hello", b"world"}


def test_the_tree_is_walked_from_the_top_and_cut_where_it_is_too_large(root: Path) -> None:
    write(root, {f"sub/{number}.txt": "" for number in range(20)})
    index = Folder(root, entries_max=10).index
    assert index.is_cut
    assert len(index.places) == 10
    assert [place.shown for place in index.places[:2]] == ["a.txt", "sub"]


def test_folders_that_nobody_wrote_are_skipped_and_named(root: Path) -> None:
    write(
        root,
        {
            ".git/config": "",
            "node_modules/x/index.js": "",
            "env/pyvenv.cfg": "",
            "cache/CACHEDIR.TAG": "",
            "pkg.egg-info/PKG-INFO": "",
            "setup.py": "",
            "build/lib/x.py": "",
            "venv/__init__.py": "",
            "vendor/__init__.py": "",
            "go/go.mod": "",
            "go/vendor/x.go": "",
        },
    )
    folder = Folder(root)
    skipped = {skip.path: skip.why for skip in folder.index.skipped}
    assert skipped == {
        ".git": "version control",
        "node_modules": "installed packages",
        "env": "installed packages",
        "cache": "a cache",
        "pkg.egg-info": "built",
        "build": "built",
        "go/vendor": "copies of other projects",
    }
    assert "venv/__init__.py" in paths(folder)
    assert "vendor/__init__.py" in paths(folder)


def test_what_is_never_looked_into_cannot_be_read_by_its_path_either(root: Path) -> None:
    write(root, {".git/config": "token = x"})
    with pytest.raises(PermissionError, match="version control"):
        Folder(root).at(".git/config")


def test_a_build_folder_with_an_init_file_is_a_package(root: Path) -> None:
    write(root, {"pyproject.toml": "", "build/__init__.py": ""})
    assert "build/__init__.py" in paths(Folder(root))


def test_what_is_too_large_is_said_to_be_huge(root: Path) -> None:
    with (root / "large.txt").open("wb") as file:
        file.truncate(1_000)
    found = dict(Folder(root).read_all(Folder(root).below("large.txt"), 999))
    assert list(found.values()) == ["huge: 1000 bytes"]


def test_one_call_reads_only_so_many_bytes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.demo.folder.SCAN_BYTES_MAX", 7)
    found = [found for _, found in Folder(root).read_all(Folder(root).below("."), 100)]
    assert found == [b"hello", "more than 7 bytes in one go"]


@pytest.mark.parametrize("root", ["missing", "file"])
def test_a_root_that_is_no_folder_is_refused(root: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        Folder(tmp_path / root)


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root, target_is_directory=True)
    assert paths(Folder(tmp_path / "link")) == ["a.txt", "sub", "sub/b.txt"]


@pytest.fixture
def locked(root: Path) -> Iterator[Path]:
    (root / "sub").chmod(0)
    yield root
    (root / "sub").chmod(0o755)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_not_be_read_is_named(locked: Path) -> None:
    assert [(skip.path, skip.why) for skip in Folder(locked).index.skipped] == [("sub", "permission denied")]
