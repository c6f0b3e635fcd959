"""The account of what an agent keeps: disjoint parts, of which nothing is lost and nothing counted twice."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.supervisor.reserve import LASTS, NO_RESERVE, Purpose, Reserve, add, subtract

NEEDS = st.builds(Need, st.integers(0, 50), st.integers(0, 50))
STEPS = st.tuples(st.sampled_from(["plus", "less", "new turn"]), st.sampled_from(list(LASTS)), NEEDS)


def test_each_purpose_is_a_part_with_a_life() -> None:
    parts = Reserve.__struct_fields__
    assert parts == tuple(LASTS) == get_args(Purpose)
    assert NO_RESERVE.total == NOTHING


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(STEPS, max_size=40))
def test_what_is_kept_is_what_was_put_in_and_is_not_given_back(
    steps: list[tuple[str, Purpose, Need]],
) -> None:
    reserve, books = NO_RESERVE, dict.fromkeys(LASTS, (0, 0))
    for step, purpose, need in steps:
        tokens, micro_usd = books[purpose]
        if step == "plus":
            reserve = reserve.plus(purpose, need)
            books[purpose] = tokens + need.tokens, micro_usd + need.micro_usd
        elif step == "less":
            reserve = reserve.less(purpose, need)
            books[purpose] = tokens - need.tokens, micro_usd - need.micro_usd
        else:
            reserve = reserve.at_new_turn()
            books = {name: (0, 0) if LASTS[name] == "turn" else kept for name, kept in books.items()}
        assert {name: msgspec.structs.astuple(getattr(reserve, name)) for name in LASTS} == books
        assert msgspec.structs.astuple(reserve.total) == tuple(map(sum, zip(*books.values(), strict=True)))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(NEEDS, NEEDS, NEEDS)
def test_an_amount_that_moves_to_another_purpose_stays_in_the_total(
    turn: Need, ends: Need, moved: Need
) -> None:
    reserve = Reserve(turn=turn, ends=ends)
    after = reserve.less("ends", moved).plus("results", moved)
    assert after.total == reserve.total
    assert (after.turn, after.results) == (turn, moved)


def test_nothing_changes_no_account() -> None:
    reserve = Reserve(turn=Need(3))
    assert reserve.plus("ends", NOTHING) is reserve
    assert reserve.less("ends", NOTHING) == reserve


@pytest.mark.parametrize(("one", "other"), [(Need(5, 6), Need(1, 2)), (NOTHING, NOTHING)])
def test_adding_and_subtracting_needs_undo_each_other(one: Need, other: Need) -> None:
    assert subtract(add(one, other), other) == one
