import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.tools import docstrings
from callboard.runtime.tools.docstrings import described

GOOGLE = """Find text
    in files.

    It reads every file.

    Args:
        pattern: What to look for.
        limit (int, optional): The most
            that is given.
        **options: More.

    Returns:
        matches: not a parameter
    """

NUMPY = """Find text.

    Parameters
    ----------
    pattern : str
        What to look for.
    limit
        The most
        that is given.

    Returns
    -------
    list
        Not a parameter.
    """

REST = """Find text.

    :param pattern: What to look for.
    :param int limit: The most
        that is given.
    :returns: a list
    """


def test_google_numpy_and_rest_say_the_same() -> None:
    expected = {"pattern": "What to look for.", "limit": "The most that is given."}
    google = described(GOOGLE)
    assert google.summary == "Find text in files."
    assert google.parameters == {**expected, "options": "More."}
    assert described(NUMPY) == ("Find text.", expected)
    assert described(REST) == ("Find text.", expected)


def test_a_section_ends_where_the_next_begins_or_the_indentation_does() -> None:
    text = "S.\n\nArgs:\n    a: One.\n\n    b: Two.\nRaises:\n    c: no\nArgs:\n    d: Three."
    assert described(text).parameters == {"a": "One.", "b": "Two.", "d": "Three."}


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        # Sections without indentation end at a heading, and at an underlined line, but at no other word.
        ("S.\n\nArgs:\na: One.\nReturns:\nb: no", {"a": "One."}),
        ("S.\n\nParameters\n----------\na\n    One.\nOthers\n------\nb\n    no", {"a": "One."}),
        ("S.\n\nArgs:\n    a: One.\n    Returns:\n    b: Two.", {"a": "One.", "b": "Two."}),
        # An underline stands on the next line, also in a section, and has three dashes.
        ("S.\n\nArgs:\n    a: One.\n    b: Two.\n    ---\n    c: no", {"a": "One."}),
        ("S.\n\nArgs:\n    a: One.\n    b: Two.\n    ---", {"a": "One."}),
        ("S.\n\nParameters\n--\na: One.\n", {"a": "One."}),
        # The text of a field goes on in the lines that are indented, if by one place.
        (":param a: One\n and more\nnot this", {"a": "One and more"}),
        (":param a: One\n\n    not this", {"a": "One"}),
    ],
)
def test_a_section_has_the_lines_up_to_its_end_and_no_others(text: str, parameters: dict[str, str]) -> None:
    assert described(text).parameters == parameters


def test_a_docstring_that_starts_with_its_parameters_has_no_summary() -> None:
    assert described("Args:\n    a: One.") == ("", {"a": "One."})
    assert described(":param a: One.") == ("", {"a": "One."})


def test_no_docstring_says_nothing() -> None:
    assert described(None) == ("", {})
    assert described("") == ("", {})


@given(st.text(st.sampled_from("ab :\n-\t*()Args:Parmets"), max_size=200))
def test_any_docstring_can_be_read(text: str) -> None:
    summary, parameters = described(text)
    assert {*summary} | {char for said in parameters.values() for char in said} <= {*text, " "}


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(docstrings).failed == 0
