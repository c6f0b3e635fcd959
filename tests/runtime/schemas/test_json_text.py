import contextlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from callboard.runtime.schemas.json_text import (
    TooDeep,
    Unreadable,
    canonical,
    clip,
    count,
    is_deeper,
    listing,
    names,
    parse,
    pointer,
    problem,
    show,
    size,
    values_bound,
)
from tests.runtime.schemas.kit import text
from tests.tables import table

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
values = st.recursive(scalars, lambda each: st.lists(each) | st.dictionaries(st.text(), each), max_leaves=20)


def depth(value: object) -> int:
    if isinstance(value, dict | list):
        return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0


def counted(value: object) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(counted, children))


@table(
    "broken", [b"", b"{", b"nul", b"NaN", b"[Infinity]", b"1e400", b'"\\ud800"', b"\xff", b'"\x00"', b"1 2"]
)
def test_text_that_is_not_json_is_unreadable_and_raises_nothing_else(broken: bytes) -> None:
    with pytest.raises(Unreadable, match="not JSON"):
        parse(broken)


def test_nesting_beyond_the_decoders_stack_is_told_apart() -> None:
    with pytest.raises(TooDeep):
        parse(b"[" * 100_000)


@given(st.binary(max_size=50))
def test_any_bytes_are_read_or_unreadable(data: bytes) -> None:
    with contextlib.suppress(Unreadable):
        parse(data)


@pytest.mark.slow
@settings(max_examples=50)
@given(values)
def test_a_values_depth_is_measured_exactly(value: object) -> None:
    written = msgspec.json.encode(value)
    assert not is_deeper(written, value, depth(value))
    assert depth(value) == 0 or is_deeper(written, value, depth(value) - 1)


@pytest.mark.slow
@settings(max_examples=50)
@given(values)
def test_the_number_of_values_is_never_underestimated(value: object) -> None:
    assert values_bound(text(value)) >= size(value) == counted(value)


def test_pointers_escape_slashes_and_tildes() -> None:
    assert pointer(["a/b", 0, "c~d"]) == "/a~1b/0/c~0d"
    assert pointer([]) == ""


@table(
    ("one", "two"),
    [(1, 1.0), (-0.0, 0), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([1.0], [1]), (10**20, 1e20)],
)
def test_values_that_json_schema_calls_equal_share_a_text(one: object, two: object) -> None:
    assert canonical(one) == canonical(two)


@table(("one", "two"), [(1, True), (0, False), ("1", 1), ("null", None), ([], {}), ("a", ["a"]), ('"a', "a")])
def test_values_that_differ_differ_in_their_texts(one: object, two: object) -> None:
    assert canonical(one) != canonical(two)


@pytest.mark.slow
@settings(max_examples=50)
@given(values, values)
def test_the_texts_are_equal_exactly_if_jsonschema_says_so(one: object, two: object) -> None:
    is_equal = Draft202012Validator({"const": one}).is_valid(two)
    assert (canonical(one) == canonical(two)) == is_equal


def test_a_number_has_its_noun() -> None:
    assert (count(1, "item"), count(2_000, "item")) == ("1 item", "2,000 items")


def test_short_values_are_shown_as_json_writes_them() -> None:
    assert list(map(show, (True, None, 1.5, "é", {}, []))) == [
        "true",
        "null",
        "1.5",
        '"é"',
        "{}",
        "[]",
    ]


def test_containers_are_shown_by_their_size() -> None:
    assert show({"a": 1}) == "an object with 1 property"
    assert show(list(range(5_000))) == "an array of 5,000 items"


def test_an_integer_that_python_would_not_write_is_still_shown() -> None:
    assert show(10**5_000) == "a very large integer"


@given(st.text(max_size=5_000))
def test_a_long_text_is_shown_short(long: str) -> None:
    assert len(show(long)) <= 60 * 6 + 2


def test_lists_name_the_first_few_and_count_the_rest() -> None:
    assert names("abcdefgh") == '"a", "b", "c", "d", "e", "f", and 2 more'
    assert listing(["x", "y"], " or ") == "x or y"


def test_a_problem_is_cut_to_its_bounds() -> None:
    cut = problem("/" + "a" * 1_000, "b" * 1_000)
    assert (len(cut.path), len(cut.message)) == (300, 300)
    assert clip("abc", 3) == "abc"
    assert clip("abcd", 3) == "ab…"
