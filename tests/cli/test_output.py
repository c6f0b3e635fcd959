"""Text for a terminal is broken at words, and text for a pipe is whole."""

import pytest

from callboard.cli import output
from callboard.cli.output import WIDE, broken, fields

ANSWER = "The refund of order A-17 is 419.00 euros.\n\n    and it comes on Monday, says the clerk"


def test_a_terminal_gets_the_whole_value_of_a_field_within_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "width_of_stdout", lambda: 30)
    lines = [line.plain for line in fields({"ask 1": "Go", "result": ANSWER, "none": ""})]
    assert max(map(len, lines)) <= 30
    assert " ".join(" ".join(lines).split()) == " ".join(f"ask 1 Go result {ANSWER}".split())
    assert lines[0].startswith("ask 1   Go")
    assert {line[:8] for line in lines[2:]} == {" " * 8}


def test_a_pipe_gets_long_lines_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "width_of_stdout", lambda: WIDE)
    value = "word " * WIDE
    assert broken(value) == value
    assert [line.plain for line in fields({"result": value})] == [f"result  {value}"]
