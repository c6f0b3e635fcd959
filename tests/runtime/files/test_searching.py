from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import FileError, ToolError
from callboard.runtime.files import searching
from callboard.runtime.files.files import Files
from callboard.runtime.files.searching import Glob, LinePattern
from tests.tables import table


@table(
    ("pattern", "path", "wanted"),
    [
        ("*.py", "a/b.py", True),
        ("*.py", "b.pyc", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("src/*", "src/x/y", False),
        ("./src/?.py", "src/a.py", True),
        ("**", "a/two\nlines", True),
        ("{a,b}/*.{py,md}", "b/x.md", True),
        ("{a,b}/*.{py,md}", "c/x.md", False),
        ("[!a]x", "bx", True),
        ("[!a]x", "ax", False),
        ("[a-c]x", "bx", True),
        ("[x", "[x", True),
        ("a.b+(c)", "a.b+(c)", True),
        ("a.b", "axb", False),
        ("é*", "éa", True),
    ],
)
def test_a_glob_matches_whole_paths(pattern: str, path: str, wanted: bool) -> None:
    assert Glob(pattern).matches(path) == wanted


@pytest.mark.parametrize("bad", ["{a", "[z-a]", "x" * 1_001])
def test_a_glob_that_is_not_understood_is_told(bad: str) -> None:
    with pytest.raises(ToolError, match="the glob"):
        Glob(bad)


def found(pattern: str, text: str, *, ignore_case: bool = False) -> list[tuple[int, str]]:
    data = text.encode()
    lines = LinePattern(pattern, ignore_case=ignore_case).lines(data)
    return [(line.number, data[line.start : line.end].decode()) for line in lines]


def test_lines_that_match_are_found_once_with_their_numbers() -> None:
    assert found("t.o", "one\ntwo two\n\nthree\ntwo") == [(2, "two two"), (5, "two")]
    assert found("^$", "a\n\nb\n") == [(2, "")]
    assert found("^t|e$", "one\ntwo\nto be\nx") == [(1, "one"), (2, "two"), (3, "to be")]
    assert found("TWO", "two", ignore_case=True) == [(1, "two")]
    assert found("a\\nb", "a\nb") == [], "no line holds a line break"
    assert found("x", "") == []


@table("bad", ["(a", "(?=a)", "\\1", "x" * 1_001, "(x{1000}){1000}"])
def test_an_expression_that_is_not_understood_is_told(bad: str) -> None:
    with pytest.raises(ToolError, match="the pattern"):
        LinePattern(bad)


@given(st.text(alphabet="ab\n", max_size=60), st.sampled_from(["a", "^b", "b$", "ab", "a*b", "^$"]))
def test_the_lines_are_those_that_python_finds(text: str, pattern: str) -> None:
    import re

    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    wanted = [(number, line) for number, line in enumerate(lines, 1) if re.search(pattern, line)]
    assert found(pattern, text) == wanted


def test_pieces_end_at_lines_and_a_search_can_be_stopped_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "_PIECE_BYTES", 10)
    text = "one two\nthree\n" * 20 + "a line longer than a piece of ten\n" + "two"
    lines = text.split("\n")
    assert found("t", text) == [(n, line) for n, line in enumerate(lines, 1) if "t" in line]

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        list(LinePattern("x").lines(b"a\n", stop))


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
    monkeypatch.setattr(searching, "ENTRIES_MAX", 5)
    walk = Files(root).walk()
    assert len(list(walk)) < 5
    assert walk.is_cut


def test_a_walk_goes_only_so_deep(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "DEPTH_MAX", 2)
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
