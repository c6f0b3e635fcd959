"""Reserving: the part of its budget that a parent keeps for its delegations, and when it gives that back.

A parent reads the results of its delegations in its next turn. So its sub-agents leave the need of that turn
and of each result: otherwise the parent ends as `budget` with all its answers at hand.

    it delegates              its next turn as it states it, and the result; in the background the end, and
                              the answer that tells of the start     (for_delegation)
    a delegation ends         its result as it is                    (at_end)
    it requests a turn        what still runs, and the turn after    (at_new_turn)
    it settles, and waits     its next turn as it states it          (keep_turn)

Rules
  - The bytes of a result are fixed when its delegation begins: `max_result_chars`, at most a quarter of the
    parent's budget divided by the delegations of that reply, and at least 500. A token has at least one byte.
  - Without a limit of tokens or cost nothing is kept.
  - A result that may be longer, a report or a denial, counts as it is once it is known.
  - Nothing is kept for the results of the parent's own tools: they come as they are. A program keeps nothing.
  - What was kept for an end is given back as it was kept, also if a resume has added limits since then, or
    lifted them.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol import prompts
from callboard.actors.protocol.conversation import text_block
from callboard.actors.protocol.folded_results import json_bytes
from callboard.actors.protocol.messages import Delegate, DelegationEnded, TurnRequested
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import NOTHING, Need, bound_of_any, dearest_input
from callboard.actors.supervisor.budgets import is_limited, kept_above
from callboard.actors.supervisor.reserve import NO_RESERVE, Reserve, add
from callboard.actors.supervisor.state import Delegation, Record

RESULT_BYTES_MIN: Final = 500
GIVEN_BACK_SINCE: Final = 2
"""The first rules under which the need kept for an end is given back unchanged."""

PARTS: Final = 4
"""The results of one reply get at most one part of so many of the budget that is left."""


def bytes_of_result(ancestry: list[Record], request: Delegate) -> int:
    """Return the bytes of a delegation's result that its parent's model reads; 0 for all of it.

    ancestry: from the host down to the parent.
    """
    left = _left(ancestry)
    if left is None:
        return request.room
    return min(request.room, max(RESULT_BYTES_MIN, left // (PARTS * request.delegations)))


def _left(ancestry: list[Record]) -> int | None:
    """Return the bytes that the parent's budget and those above it have left; None without a limit."""
    # Without the reservations of calls in flight: they say more about the order of answers than about room.
    specs = ancestry[-1].model.all_specs
    left: list[int] = []
    for record, above in kept_above(ancestry):
        budget, spent = record.budget, record.spent
        if budget.tokens is not None:
            left.append(budget.tokens - spent.tokens - above.tokens)
        if budget.micro_usd is not None:
            left += _bytes_for(budget.micro_usd - spent.micro_usd - above.micro_usd, specs)
    return max(0, min(left)) if left else None


def _bytes_for(micro_usd: int, specs: Iterable[ModelSpec]) -> list[int]:
    """Return the bytes of input that an amount pays for, of each model whose input is not free."""
    prices = [dearest_input(one.prices) for one in specs if one.prices is not None]
    return [micro_usd * 1_000_000 // price for price in prices if price]


def need_of(ancestry: list[Record], size: int) -> Need:
    """Return the need of so many bytes in the parent's next turn; nothing if no budget bounds the parent."""
    if not size or not is_limited(ancestry):
        return NOTHING
    return bound_of_any(size, ancestry[-1].model.all_specs, has_reply=False)


def for_delegation(
    ancestry: list[Record], request: Delegate, address: str, size: int, result: Need
) -> tuple[Reserve, Need]:
    """Return what a parent keeps once it has delegated, and the part of it for an end in the background.

    address: of the first agent. size: the bytes of the result. result: the need of these.
    """
    kept = replace(ancestry[-1].kept, turn=request.closing)
    if request.mode == "await":
        return kept.plus("results", result), NOTHING
    # The next turn reads the answer to the call, and a later one the end, in a block of its own.
    started = need_of(ancestry, json_bytes(prompts.started(address)))
    end = need_of(ancestry, size + _frame(address))
    return kept.plus("results", started).plus("ends", end), end


def _frame(address: str) -> int:
    """Return the bytes of the block around the result of a background delegation."""
    return len(text_block(prompts.task_ended_with(address, "")))


def excess(ancestry: list[Record], end: DelegationEnded) -> Need:
    """Return the need of a known result beyond the bytes that were kept for it."""
    if (end.room and end.kind != "reported") or not is_limited(ancestry):
        return NOTHING
    return need_of(ancestry, max(0, json_bytes(prompts.delegation_result(end)[0]) - end.room))


def at_end(
    ancestry: list[Record], delegation: Delegation, end: DelegationEnded, *, is_last: bool, rules: int
) -> tuple[Reserve, Need | None]:
    """Return what a parent keeps once a delegation has ended, and the part for an end in the background.

    That part is None for a result that the next turn reads. is_last: True if the parent waits for no other
    delegation. rules: of the session.
    """
    kept = ancestry[-1].kept
    for_end = _kept_for_end(ancestry, delegation, end, rules) if delegation.is_background else NOTHING
    if delegation.is_background and not delegation.is_checking:
        over = excess(ancestry, end)
        return kept.plus("ends", over), add(for_end, over)
    if delegation.room and not is_last:  # else no agent below has to leave room for it
        kept = kept.plus("results", excess(ancestry, end))
    if delegation.is_background:  # it has never begun, so its end is a result like any other
        kept = kept.less("ends", for_end).plus("results", for_end)
    return kept, None


def _kept_for_end(ancestry: list[Record], delegation: Delegation, end: DelegationEnded, rules: int) -> Need:
    """Return the need that a parent gives back for the end of a background delegation."""
    if rules >= GIVEN_BACK_SINCE:
        return delegation.kept
    # The limits may be others by now, and then more is given back than was kept, or less.
    return need_of(ancestry, delegation.room + _frame(end.address))


def at_new_turn(record: Record, request: TurnRequested) -> Record:
    """Return the record of an agent that asks for a new turn, for which its delegations have left room.

    Those in the background still run, so they leave room for the turn after this one.
    """
    kept, ended = record.kept.at_new_turn(), record.ended
    for _ in range(request.ends):
        first = ended.first()
        if first is not None:
            kept, ended = kept.less("ends", first[1]), ended.drop(first[0])
    if record.background:
        # The reply to this turn is part of the next one, and may have as many tokens as it wants.
        kept = replace(kept, turn=bound_of_any(request.need.tokens, record.model.all_specs))
    kept = kept if kept != NO_RESERVE else NO_RESERVE
    return replace(record, turn_children=record.background, ended=ended, kept=kept)
