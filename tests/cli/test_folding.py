"""Long output is cut, and the command says how much."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from callboard.cli.folding import Folding
from callboard.cli.terminal_escape import safe_line


@given(st.text(max_size=300), st.integers(1, 60))
def test_a_line_is_whole_or_cut_at_its_length(text: str, longest: int) -> None:
    whole = safe_line(text)
    folded = Folding(is_full=False).line(text, longest)
    assert folded == whole if len(whole) <= longest else folded == whole[: longest - 1] + "…"
    assert Folding(is_full=True).line(text, longest) == whole


@given(st.text("abé", max_size=300), st.text("cd", min_size=1, max_size=300), st.text("ef", max_size=300))
def test_two_long_texts_are_cut_where_they_differ(same: str, one: str, other: str) -> None:
    first, second = Folding(is_full=False).pair(same + one, same + other, 100)
    assert max(len(first), len(second)) <= 100
    assert first != second
    assert Folding(is_full=True).pair(same + one, same + other, 100) == (same + one, same + other)


@given(st.text(alphabet="ab\n", max_size=200).map(lambda text: text * 30))
def test_a_block_keeps_its_first_lines_and_says_how_much_is_left_out(text: str) -> None:
    fold = Folding(is_full=False)
    shown = fold.block(text)
    kept, _, said = shown.rpartition("\n… ")
    if said.endswith(" more characters") and shown != text:
        left = int(said.removesuffix(" more characters").replace(",", ""))
        assert text.startswith(kept)
        assert len(kept) + left == len(text)
        assert kept.count("\n") < 20
    else:
        assert shown == text
    assert Folding(is_full=True).block(text) == text


@given(st.lists(st.integers(), max_size=30), st.integers(0, 4), st.integers(0, 4))
def test_the_ends_of_a_list_and_the_number_between_are_the_whole_list(
    items: list[int], first: int, last: int
) -> None:
    head, left, tail = Folding(is_full=False).ends(items, first, last)
    assert [*head, *items[len(head) : len(head) + left], *tail] == items
    assert left != 1
    assert Folding(is_full=True).ends(items, first, last) == (items, 0, ())


def test_the_command_says_what_it_folded(capsys: pytest.CaptureFixture[str]) -> None:
    fold = Folding(is_full=False)
    fold.say()
    fold.line("a" * 50, 10)
    fold.lines([Text(str(number)) for number in range(30)], 5, 2)
    fold.say()
    assert capsys.readouterr().err == "folded: 1 long text, 23 lines; --full shows all of it\n"


def test_nothing_is_folded_with_full(capsys: pytest.CaptureFixture[str]) -> None:
    fold = Folding(is_full=True)
    assert len(fold.lines([Text("x")] * 30, 5, 2)) == 30
    fold.line("a" * 50, 10)
    fold.say()
    assert capsys.readouterr().err == ""
