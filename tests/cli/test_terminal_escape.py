import json
import re

from callboard.cli.terminal_escape import indented, safe_json, safe_line, safe_text
from tests.tables import table

DANGEROUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def test_plain_text_in_any_script_is_left_as_it_is() -> None:
    for text in ("", "plain", "two\nlines\tand a tab", "日本語 and עברית", "👩‍👩‍👧 🏳️‍🌈", "café"):
        assert safe_text(text) == text


def test_colours_are_dropped_without_a_trace() -> None:
    assert safe_text("\x1b[1;31mred\x1b[0m and \x9b38;5;200mpink\x1b[m") == "red and pink"


def test_every_other_sequence_loses_its_power_and_stays_visible() -> None:
    assert safe_text("\x1b[2J") == "␛[2J"
    assert safe_text("\x1b]52;c;aGk=\x07") == "␛]52;c;aGk=␇"
    assert safe_text("\x9b2J\x90q\x9c") == "�2J�q�"


def test_dropping_a_colour_leaves_no_sequence_behind() -> None:
    assert safe_text("\x1b\x1b[0m[2J") == "␛[2J"
    assert safe_text("\x1b[3\x1b[0m1m") == "␛[31m"


def test_an_endless_sequence_hides_nothing_that_follows() -> None:
    assert safe_text("\x1b]0;title and then the rest of the answer").endswith("the rest of the answer")


def test_a_lone_carriage_return_overwrites_nothing() -> None:
    assert safe_text("all is lost\rall is well") == "all is lost␍all is well"
    assert safe_text("one\r\ntwo") == "one\ntwo"


def test_text_cannot_be_turned_around_or_hidden() -> None:
    assert safe_text("\u202egnp.exe") == "�gnp.exe"
    assert safe_text("a\U000e0041b") == "a�b"
    assert safe_text("\u200f\u05e9\u05dc") == "\u05e9\u05dc"


def test_every_text_becomes_one_line() -> None:
    line = safe_line("a\r\nb\u2028c\x0bd\x0ce\x85f\tg")
    assert len(line.splitlines()) == 1


def test_a_line_is_cut_with_a_mark() -> None:
    assert safe_line("abcdefgh", 5) == "abcd…"
    assert safe_line("abcde", 5) == "abcde"


def test_foreign_lines_stand_behind_a_margin() -> None:
    assert indented("one\r\nerror: two") == "  | one\n  | error: two"


def test_safe_json_means_the_same_value() -> None:
    value = {"text": "\x9b2J\u202e\x7f\u2028\U000e0041 日本語 \x1b"}
    raw = json.dumps(value, ensure_ascii=False).encode()
    safe = safe_json(raw)
    assert json.loads(safe) == value
    assert not DANGEROUS.search(safe.decode())
    assert "日本語" in safe.decode()


@table("code", [*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0xD800, 0x2028])
def test_no_control_character_gets_through(code: int) -> None:
    assert not DANGEROUS.search(safe_text(f"a{chr(code)}b").replace("\n", "").replace("\t", ""))
