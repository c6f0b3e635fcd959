import re

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from callboard.cli.word_wrap import WordWrap, wrapped
from tests.tables import table

PARTS = ["stage", "to", " ", "\n", "e\u0301", "x" * 30]
FAMILY = "👨\u200d👩\u200d👧"
TEXT = st.lists(
    st.sampled_from([*PARTS, "  ", "\t", "日本", "」", "「", "👍🏽", FAMILY]),
    max_size=30,
).map("".join)
WIDTH = st.integers(10, 40)


def in_pieces(text: str, width: int, length: int) -> str:
    wrap = WordWrap()
    pieces = [wrap.add(text[start : start + length], width) for start in range(0, len(text), length)]
    return "".join(pieces) + wrap.flush(width)


@given(TEXT, WIDTH)
def test_only_white_space_is_changed(text: str, width: int) -> None:
    assert "".join(wrapped(text, width).split()) == "".join(text.split())


UNBROKEN = re.compile("「*(?:[!-~\u0301]+|[^「」\\s])?」*")
"""A word, or a wide character, with the signs that cannot stand without it."""


@example("stage" * 3, 10)
@example("stagestage」", 10)
@example("「" * 6 + "日本", 10)
@example(" stagestage", 10)
@given(TEXT, WIDTH)
def test_only_a_word_that_is_longer_than_a_line_is_left_to_the_terminal(text: str, width: int) -> None:
    for line in wrapped(text.replace("\t", " "), width).split("\n"):
        assert cell_len(line) <= width or any(cell_len(part) > width for part in UNBROKEN.findall(line))


@given(st.lists(st.sampled_from(PARTS), max_size=30), WIDTH)
def test_no_word_of_narrow_characters_is_broken(parts: list[str], width: int) -> None:
    text = "".join(parts)
    assert wrapped(text, width).split() == text.split()


@example("x" * 30 + "日本", 10, 1)
@example("x" * 30 + "日」y」", 10, 1)
@given(TEXT, WIDTH, st.integers(1, 9))
def test_a_text_in_pieces_is_broken_as_the_whole(text: str, width: int, length: int) -> None:
    assert in_pieces(text, width, length) == wrapped(text, width)


@table(
    ("text", "expected"),
    [
        ("Where is the stage?", "Where is\nthe\nstage?"),
        ("12345678 9", "12345678\n9"),
        ("12345678\n9", "12345678\n9"),
        ("  a bcdefg", "  a\nbcdefg"),
        ("舞台はどこですか", "舞台はど\nこですか"),
        ("舞台は左。右", "舞台は\n左。右"),
        ("は「左」だ", "は「左」\nだ"),
        ("ab\tcdefg", "ab\ncdefg"),
        ("see " + "x" * 20 + " or ask", "see " + "x" * 20 + "\nor ask"),
    ],
)
def test_lines_break_between_words_and_between_wide_characters(text: str, expected: str) -> None:
    assert wrapped(text, 8) == expected


def test_a_family_of_one_picture_is_not_torn() -> None:
    assert FAMILY in wrapped(f"abcdefg{FAMILY}", 8).split("\n")


def test_a_word_is_written_when_its_end_is_known() -> None:
    wrap = WordWrap()
    assert wrap.add("The sta", 8) == "The"
    assert wrap.add("ge is", 8) == "\nstage"
    assert wrap.flush(8) == " is"


def test_a_word_whose_end_does_not_come_is_shown_and_goes_on_in_its_place() -> None:
    wrap = WordWrap()
    assert wrap.add("The st", 8) == "The"
    assert wrap.release(8) == " st"
    assert wrap.release(8) == ""
    assert wrap.add("age is", 8) == "age"
    assert wrap.flush(8) == " is"  # the terminal broke the word: the line holds "e is"


def test_a_line_is_open_until_its_break() -> None:
    wrap = WordWrap()
    assert not wrap.is_line_open
    wrap.add("a", 8)
    assert wrap.is_line_open
    wrap.add("\n", 8)
    assert not wrap.is_line_open
