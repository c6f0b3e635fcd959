"""Names that cannot be printed, shown and taken back."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.demo.names import clipped, printable, raw, shown

NAMES = st.binary(max_size=12).map(os.fsdecode) | st.text(max_size=12).filter(
    lambda text: not any(0xD800 <= ord(char) <= 0xDFFF for char in text)
)


@given(NAMES)
def test_every_name_can_be_printed_and_taken_back(name: str) -> None:
    assert shown(name).isprintable()
    assert raw(shown(name)) == name


@given(NAMES, NAMES)
def test_two_names_are_never_shown_alike(one: str, other: str) -> None:
    assert (shown(one) == shown(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain name.py", "plain name.py"),
        ("größe", "größe"),
        ("a\nb", "a\\nb"),
        ("a\\nb", "a\\\\nb"),
        ("\x1b[2J", "\\x1b[2J"),
        (os.fsdecode(b"\xff"), "\\xff"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\x85", "\\u0085"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_names_are_shown_with_the_escapes_of_the_table(name: str, expected: str) -> None:
    assert shown(name) == expected


@pytest.mark.parametrize("name", ["a\\qb", "tail\\", "\\xZZ", "\\UFFFFFFFF", "\\Uffffffff"])
def test_a_backslash_that_starts_no_escape_stands_for_itself(name: str) -> None:
    assert raw(name) == name


def test_printable_text_keeps_only_the_controls_it_is_told_to_keep() -> None:
    assert printable("a\tb\n\x1b[0m", keep="\n\t") == "a\tb\n\\x1b[0m"
    assert printable("a\tb\n") == "a b\\x0a"


def test_a_clipped_text_says_that_it_is() -> None:
    assert clipped("abc", 3) == "abc"
    assert clipped("abcd", 3) == "ab…"
