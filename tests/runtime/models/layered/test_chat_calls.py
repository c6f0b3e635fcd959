"""Pieces of Chat calls, joined by every key that they have."""

from typing import Any

import pytest

from callboard.runtime.models.call_arguments import CONTRADICTED, DOUBLED, LOST, NAMELESS, NO_NAME, UNCLEAR
from callboard.runtime.models.layered.chat_calls import Piece, joined, piece_of
from tests.tables import table

TOOLS = frozenset({"look", "write"})
A, B = '{"path":"A"}', '{"path":"B"}'


def piece(place: int | None, call_id: str = "", name: str = "", text: str | None = None) -> Piece:
    return Piece(place, call_id, name, text, {})


def calls_of(*pieces: Piece, closing: tuple[Piece, ...] = ()) -> list[tuple[str, str, str]]:
    """Return name, arguments and the reason not to run each call."""
    return [(one.name, *one.arguments) for one in joined(pieces, closing, TOOLS)]


@table(
    "pieces",
    [
        [piece(0, "a", "look", ""), piece(0, "", "", A), piece(1, "b", "look", B)],
        [piece(0, "a", "look", A), piece(0, "b", "look", B)],  # one index for all
        [piece(None, "a", "look", ""), piece(None, "", "", A), piece(None, "b", "look", B)],
        [piece(0, "", "look", A), piece(0, "", "look", B)],  # neither tells them apart
        [piece(0, "x", "look", A), piece(1, "x", "look", B)],  # one id for all
        [piece(1, "b", "look", B), piece(0, "a", "look", A)],  # in another order
        [piece(0, "a", "look", '{"path"'), piece(1, "b", "look", B), piece(5, "a", "", ':"A"}')],
        [piece(0, "a", "lo", ""), piece(0, "", "ok", A), piece(1, "b", "look", B)],
        [piece(0, "a", "look", '{"path"'), piece(0, "a", "look", ':"A"}'), piece(1, "b", "look", B)],
        [piece(0, "a", "look", ""), piece(1, text=A), piece(2, "b", "lo", ""), piece(3, "", "ok", B)],
        [piece(0, "1", "lo", ""), piece(0, "2", "ok", A), piece(0, "3", "look", ""), piece(0, "4", "", B)],
        [piece(0, "a", "look", '{"path"'), piece(1, "a", "look", ':"A"}'), piece(2, "b", "look", B)],
    ],
)
def test_two_calls_come_out_however_they_are_named(pieces: list[Piece]) -> None:
    assert calls_of(*pieces) == [("look", A, ""), ("look", B, "")]


def test_ids_that_change_from_piece_to_piece_make_one_call() -> None:
    found = joined([piece(0, "1", "look", '{"path"'), piece(0, "2", "", ':"A"}')], (), TOOLS)
    assert [(one.id, one.arguments) for one in found] == [("1", (A, ""))]


def test_pieces_that_two_calls_may_own_are_refused() -> None:
    woven = [
        piece(0, "a", "look", ""),
        piece(0, "b", "look", ""),
        piece(0, text='{"a":{"b":2'),
        piece(0, text="1}}"),
    ]
    assert [why for *_, why in calls_of(*woven)] == [LOST, UNCLEAR]


def test_other_arguments_under_the_same_keys_are_not_a_second_call() -> None:
    (found,) = calls_of(piece(0, "a", "look", A), piece(0, "a", "look", B))
    assert found == ("look", A + B, "")


def test_an_equal_call_without_keys_does_not_run_twice() -> None:
    found = calls_of(piece(0, "", "look", A), piece(0, "", "look", B), piece(0, "", "look", A))
    assert [why for *_, why in found] == ["", "", DOUBLED]


def test_an_equal_call_under_the_id_of_another_does_not_run_twice() -> None:
    found = calls_of(piece(0, "a", "look", A), piece(1, "a", "look", A), piece(2, "a", "look", B))
    assert [why for *_, why in found] == ["", DOUBLED, ""]


@pytest.mark.parametrize(
    "pieces",
    [
        [piece(0, "a", "look", ""), piece(1, "b", "", A)],  # the name of another call is lost
        [piece(0, "1", "look", ""), piece(0, "2", "write", A), piece(0, "3", "", "{}")],
    ],
)
def test_pieces_in_order_are_no_calls_if_one_of_them_does_not_fit(pieces: list[Piece]) -> None:
    assert all(why for *_, why in calls_of(*pieces))


@pytest.mark.parametrize("again", ["", "look"])
def test_a_piece_with_the_id_of_an_earlier_call_gives_a_later_one_no_arguments(again: str) -> None:
    found = calls_of(piece(None, "a", "look", A), piece(None, "b", "write", ""), piece(None, "a", again, A))
    assert [(name, text) for name, text, why in found if not why] in ([], [("look", A)])
    assert "write" in [name for name, _, why in found if why]


def test_arguments_that_a_named_piece_may_bring_to_the_next_id_do_not_run_twice() -> None:
    pieces = (piece(0, "a", "look", ""), piece(0, "", "look", A), piece(0, "b", "look", A))
    assert [why for *_, why in calls_of(*pieces)] == ["", DOUBLED]


def test_a_cut_call_leaves_the_others_as_they_are() -> None:
    found = calls_of(piece(0, "a", "look", A), piece(1, "b", "look", '{"pa'))
    assert found == [("look", A, ""), ("look", '{"pa', "")]


def test_a_call_without_arguments_has_none_only_beside_whole_ones() -> None:
    assert calls_of(piece(0, "a", "look", "")) == [("look", "{}", "")]
    assert calls_of(piece(0, "a", "look")) == [("look", "", LOST)]
    found = calls_of(piece(0, "a", "look", ""), piece(1, "b", "", A))
    assert found == [("look", "", LOST), (NO_NAME, A, NAMELESS)]


def test_a_closing_message_confirms_fills_in_or_contradicts() -> None:
    last = (piece(None, "", "look", A), piece(None, "", "look", B))
    assert calls_of(closing=last) == [("look", A, ""), ("look", B, "")]
    begun = (piece(0, "", "look", "{"), piece(1, "", "look", B))
    assert calls_of(*begun, closing=last) == [("look", A, ""), ("look", B, "")]
    other = (piece(0, "", "look", '{"path":"C"}'), piece(1, "", "look", B))
    assert [why for *_, why in calls_of(*other, closing=last)] == [CONTRADICTED, ""]
    assert [why for *_, why in calls_of(*other, closing=last[1:])] == [CONTRADICTED, ""]


def test_a_closing_message_fills_in_no_call_whose_pieces_may_have_gone_to_another_one() -> None:
    pieces = (piece(0, "a", "look", A), piece(0, "", "look", A), piece(0, "b", "look", ""))
    last = (piece(None, "a", "look", A), piece(None, "b", "look", B))
    assert [why for *_, why in calls_of(*pieces, closing=last)] == ["", LOST]
    names = (piece(0, "a", "look", ""), piece(0, "b", "look", ""))
    assert calls_of(*names, closing=last) == [("look", A, ""), ("look", B, "")]


def test_arguments_may_come_as_an_object_and_further_keys_stay() -> None:
    found = piece_of({"id": "a", "extra": 1, "function": {"name": "look", "arguments": {"path": "A"}}}, 3)
    assert found == Piece(3, "a", "look", '{"path": "A"}', {"extra": 1})
    wrong: Any = {"function": {"name": 5}}
    with pytest.raises(TypeError):
        piece_of(wrong, None)
