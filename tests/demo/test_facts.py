"""The schema of reports in `test_agents.py`; here, text that is printable, short and on one line."""

from callboard.demo.facts import one_line, printable


def test_nothing_printable_moves_a_cursor() -> None:
    assert printable("größe") == "größe"
    assert printable("a\x1b[2J\n\u202eb\udcff") == "a\\x1b[2J\\n\\u202eb\\udcff"


def test_one_line_is_short_and_says_where_it_was_cut() -> None:
    assert one_line("a\n  b\tc") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert len(one_line("x\x1b" * 10**6)) == 160
