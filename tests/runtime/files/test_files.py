import gc
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import FileError, MisuseError
from callboard.runtime.files.files import Files
from callboard.runtime.files.opening import Opener
from tests.runtime.files.trees import open_files, with_opener


def reason_of(error: pytest.ExceptionInfo[FileError]) -> str:
    return error.value.reason


def test_everything_may_be_read_and_nothing_written_by_default(root: Path, opener: Opener) -> None:
    files = with_opener(Files(root), opener)
    assert files.read_text("a/b/two") == "inside: a/b/two"
    with pytest.raises(FileError, match="may not be written; nothing is allowed") as caught:
        files.write_text("a/new", "x")
    assert reason_of(caught) == "denied"


def test_prefixes_hold_for_reading_and_writing(root: Path, opener: Opener) -> None:
    files = with_opener(Files(root, read=["docs", "top.txt"], write=["drafts"]), opener)
    assert files.read_text("docs/page.md") == "inside: docs/page.md"
    assert files.read_text("./top.txt") == "inside: top.txt"
    for path in ("docs-old/old.md", "a/one", "drafts/x", "."):
        with pytest.raises(FileError, match=r"may not be read; allowed are: docs, top\.txt"):
            files.read_bytes(path)
    files.write_bytes("drafts/new/x", b"1")
    for path in ("docs/page.md", "drafts-2/x", "x"):
        with pytest.raises(FileError, match="may not be written; allowed are: drafts"):
            files.write_bytes(path, b"1")


def test_a_listing_has_the_ways_to_what_may_be_read(root: Path) -> None:
    files = Files(root, read=["a/b/c", "docs"])
    assert [entry.path for entry in files.entries()] == ["a", "docs"]
    assert [entry.path for entry in files.entries("a")] == ["a/b"]
    assert [entry.path for entry in files.entries("a/b/c")] == ["a/b/c/three"]
    with pytest.raises(FileError) as caught:
        files.entries("ä")
    assert reason_of(caught) == "denied"


def test_a_part_never_allows_more(root: Path) -> None:
    files = Files(root, read=["a", "docs"], write=["a"])
    part = files.narrowed(["a/b", "ä"], ["."]).narrowed(write=["a/b", "docs"])
    assert (part.area.read, part.area.write) == (("a/b",), ("a/b",))
    assert part.read_text("a/b/two") == "inside: a/b/two"
    with pytest.raises(FileError):
        part.read_text("a/one")
    assert part.root == files.root
    assert part.area.name == "files"


def test_a_part_holds_the_folder_open_and_the_last_one_closes_it(root: Path) -> None:
    gc.collect()
    before = len(open_files())
    part = Files(root).narrowed(["a"])
    gc.collect()
    assert part.read_text("a/one") == "inside: a/one"
    del part
    gc.collect()
    assert len(open_files()) == before


def test_the_folder_stays_the_same_one_if_it_is_renamed(root: Path) -> None:
    files = Files(root)
    root.rename(root.with_name("moved"))
    root.mkdir()
    assert files.read_text("a/one") == "inside: a/one"


@pytest.mark.parametrize("bad", ["nope", "top.txt", "a\0b", None, 3.5])
def test_a_root_is_a_folder(root: Path, bad: object) -> None:
    given = root / bad if isinstance(bad, str) else bad
    with pytest.raises(MisuseError, match="the root of files"):
        Files(given)  # type: ignore[arg-type]  # the wrong argument is the test


@pytest.mark.parametrize("bad", ["", "a\nb", "x" * 101, None])
def test_a_name_is_printable(root: Path, bad: str) -> None:
    with pytest.raises(MisuseError, match="printable"):
        Files(root, name=bad)


def test_its_repr_has_no_place_of_the_machine(root: Path) -> None:
    assert repr(Files(root, read=["a"], name="project")) == "Files(name='project', read=['a'], write=[])"


def test_what_is_written_has_a_limit_and_is_text(root: Path) -> None:
    files = Files(root, write=["."])
    with pytest.raises(FileError, match="at most 10,000,000") as caught:
        files.write_bytes("big", b"x" * 10_000_001)
    assert reason_of(caught) == "large"
    with pytest.raises(FileError, match="not Unicode"):
        files.write_text("file", "\ud800")
    with pytest.raises(FileError, match="the root is a folder"):
        files.write_text(".", "x")


def test_text_is_read_with_its_encoding(root: Path) -> None:
    (root / "wide").write_bytes("é\r\n".encode("utf-16"))
    found = Files(root).read("wide")
    assert (found.text, found.line_end) == ("é\n", "\r\n")
