import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.file_area import FileArea, covers, leads_to, narrowed, prefixes_of
from tests.tables import table

parts = st.sampled_from(["a", "b", "a-b", "é"])
paths = st.lists(parts, min_size=1, max_size=3).map("/".join)
prefixes = st.lists(paths | st.just("."), max_size=4)


@table("bad", ["", "/etc", "..", "a/../b", "a\0b", "a" * 5_000, 3])
def test_a_prefix_leads_neither_out_nor_up(bad: object) -> None:
    with pytest.raises(MisuseError, match=r"not a path below the root|tuple of texts"):
        prefixes_of("read", [bad])  # type: ignore[list-item]  # the wrong argument is the test


@pytest.mark.parametrize("bad", ["docs", 3, None])
def test_prefixes_are_a_list(bad: object) -> None:
    with pytest.raises(MisuseError, match="use a list of paths"):
        prefixes_of("read", bad)  # type: ignore[arg-type]  # the wrong argument is the test


def test_there_are_not_too_many_prefixes() -> None:
    with pytest.raises(MisuseError, match="at most 1,000"):
        prefixes_of("read", map(str, range(1_001)))


def test_prefixes_have_one_form() -> None:
    assert prefixes_of("read", ["b//c/", "./a", "a/x", "b/./c"]) == ("a", "b/c")
    assert prefixes_of("read", ["./", "a"]) == (".",)


def test_a_folder_whose_name_only_begins_so_is_not_covered() -> None:
    assert covers(["docs"], "docs/a")
    assert covers(["docs"], "docs")
    assert not covers(["docs"], "docs-old/a")
    assert not covers([], ".")


def test_a_folder_above_a_prefix_leads_to_it() -> None:
    assert leads_to(["a/b/c"], "a")
    assert leads_to(["a/b/c"], ".")
    assert not leads_to(["a/b/c"], "a/b/c")
    assert not leads_to(["ab/c"], "a")
    assert not leads_to([], ".")


@given(prefixes, prefixes, prefixes, prefixes, paths)
def test_a_narrowed_area_covers_what_both_cover_and_nothing_else(
    read: list[str], write: list[str], less: list[str], fewer: list[str], path: str
) -> None:
    area = FileArea("files", prefixes_of("read", read), prefixes_of("write", write))
    small = narrowed(area, less, fewer)
    assert covers(small.read, path) == (covers(area.read, path) and covers(less, path))
    assert covers(small.write, path) == (covers(area.write, path) and covers(fewer, path))
    assert narrowed(small, less, fewer) == small
    assert narrowed(area) == area
    assert small.name == area.name
