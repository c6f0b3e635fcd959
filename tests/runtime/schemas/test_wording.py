import doctest

from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.schemas import wording
from callboard.runtime.schemas.wording import clip, listing, names, problem, show


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(wording).failed == 0


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
