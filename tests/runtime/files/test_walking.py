from pathlib import Path

import pytest

from callboard.actors.protocol.errors import FileError
from callboard.runtime.files import walking
from callboard.runtime.files.files import Files


def paths(files: Files, path: str = ".") -> list[str]:
    return [entry.path for entry in files.walk(path)]


def test_a_walk_finds_plain_files_and_follows_no_link(root: Path) -> None:
    found = paths(Files(root))
    assert {"a/b/c/three", "docs/page.md", "top.txt", "two\nlines"} <= set(found)
    assert not [path for path in found if "link" in path or "pipe" in path]


def test_a_walk_enters_a_skipped_folder_only_if_it_begins_there(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").touch()
    assert ".git/HEAD" not in paths(Files(root))
    assert paths(Files(root), ".git") == [".git/HEAD"]


def test_a_walk_sees_what_may_be_read(root: Path) -> None:
    assert paths(Files(root, read=["a/b", "docs/page.md"])) == [
        "a/b/c/three",
        "a/b/hard",
        "a/b/two",
        "docs/page.md",
    ]


def test_a_walk_has_an_end_and_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "ENTRIES_MAX", 5)
    walk = Files(root).walk()
    assert len(list(walk)) < 5
    assert walk.is_cut


def test_a_walk_goes_only_so_deep(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "DEPTH_MAX", 2)
    walk = Files(root).walk("a")
    assert "a/b/c/three" in [entry.path for entry in walk]
    assert not walk.is_cut
    (root / "a/b/c/d").mkdir()
    assert "a/b/c/three" in [entry.path for entry in walk]
    assert walk.is_cut


def test_a_folder_that_goes_away_is_left_out(root: Path) -> None:
    walk = iter(Files(root).walk("a"))
    assert next(walk).path == "a/b/c/three"
    (root / "a/b/two").unlink()
    assert [entry.path for entry in walk] == ["a/b/hard", "a/b/two", "a/one"]  # as it was listed
    with pytest.raises(FileError):
        paths(Files(root), "nope")
