"""Rooms: the part of a budget that is kept for the results of delegations.

A parent reads a result for each of its delegations in its next turn. So its sub-agents have to leave the need
of that turn and a room for each result: otherwise the parent ends as `budget` with all its answers at hand.

Rules
  - The room of a delegation is fixed when it begins: `max_result_chars`, at most a quarter of the parent's
    budget divided by the delegations of that reply, and at least 500 bytes. A token has at least one byte.
  - Without a limit of tokens or cost nothing is reserved.
  - A result that may be longer than its room, a report or a denial, counts as it is once it is known.
  - The parent's own tools have no room: their results come as they are.
  - The room of a background delegation is given back as it was kept, also if a resume has added limits since
    then, or lifted them.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from callboard.actors.protocol import prompts
from callboard.actors.protocol.conversation import text_block
from callboard.actors.protocol.folded_results import json_bytes
from callboard.actors.protocol.messages import Delegate, DelegationEnded, TurnRequested
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import NOTHING, Need, bound_of_any, dearest_input
from callboard.actors.supervisor.budgets import add, is_limited, kept_above, subtract
from callboard.actors.supervisor.state import Budget, Delegation, Record

ROOM_BYTES_MIN: Final = 500
GIVEN_BACK_SINCE: Final = 2
"""The first rules under which the room of a background delegation is given back as it was kept."""

PARTS: Final = 4
"""The results of one reply get at most one part of so many of the budget that is left."""


def room_for(ancestry: list[Record], request: Delegate) -> int:
    """Return the bytes of a delegation's result that its parent's model reads; 0 for all of it.

    ancestry: from the host down to the parent.
    """
    left = _left(ancestry)
    if left is None or not request.room:
        return request.room
    return min(request.room, max(ROOM_BYTES_MIN, left // (PARTS * request.delegations)))


def _left(ancestry: list[Record]) -> int | None:
    """Return the bytes that the parent's budget and those above it have left; None without a limit."""
    if not is_limited(ancestry):
        return None
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


def need_of_room(ancestry: list[Record], room: int) -> Need:
    """Return the need of a room in the parent's next turn; nothing if no budget bounds the parent."""
    if not room or not is_limited(ancestry):
        return NOTHING
    return bound_of_any(room, ancestry[-1].model.all_specs, has_reply=False)


def with_closing(budget: Budget, closing: Need, room: Need) -> Budget:
    """Return the budget of a parent with the need of its next turn, and with one more room."""
    rooms = add(budget.rooms, room)
    return replace(budget, closing=add(closing, rooms), rooms=rooms)


def with_result(ancestry: list[Record], end: DelegationEnded) -> Budget:
    """Return the budget of a parent once the result of a delegation is known: it may exceed its room."""
    budget = ancestry[-1].budget
    if (end.room and end.kind != "reported") or not is_limited(ancestry):
        return budget
    over = json_bytes(prompts.delegation_result(end)[0]) - end.room
    more = need_of_room(ancestry, max(0, over))
    if more == NOTHING:
        return budget
    return replace(budget, closing=add(budget.closing, more), rooms=add(budget.rooms, more))


# --- background delegations -------------------------------------------------------


def with_task(ancestry: list[Record], budget: Budget, room: int, address: str) -> tuple[Budget, Need]:
    """Return the budget of a parent with the room of one more background delegation, and that room's need.

    budget: with the room of its result already. address: of its first agent.
    """
    # The next turn reads the answer to the call, and a later one the end, in a block of its own.
    started = need_of_room(ancestry, json_bytes(prompts.started(address)))
    task = need_of_room(ancestry, room + task_frame(address))
    more = add(started, subtract(task, need_of_room(ancestry, room)))
    closing, rooms = add(budget.closing, more), add(budget.rooms, more)
    return replace(budget, closing=closing, rooms=rooms, tasks=add(budget.tasks, task)), task


def task_frame(address: str) -> int:
    """Return the bytes of the block around the result of a background delegation."""
    return len(text_block(prompts.task_ended_with(address, "")))


def ended_task(
    ancestry: list[Record], delegation: Delegation, end: DelegationEnded, rules: int
) -> dict[str, Any]:
    """Return the fields of a parent's record that change with the end of a background delegation.

    Its room is kept until a request of the parent holds the end. rules: of the session.
    """
    parent, budget = ancestry[-1], with_result(ancestry, end)
    over = subtract(budget.rooms, parent.budget.rooms)
    room = add(_kept(ancestry, delegation, end, rules), over)
    number = parent.ends + 1
    return {
        "budget": replace(budget, tasks=add(budget.tasks, over)),
        "ends": number,
        "ended": parent.ended.put(number, room),
    }


def without_task(
    ancestry: list[Record], budget: Budget, delegation: Delegation, end: DelegationEnded, rules: int
) -> Budget:
    """Return the budget of a parent after a delegation that has never run in the background."""
    if not delegation.is_background:
        return budget
    return replace(budget, tasks=subtract(budget.tasks, _kept(ancestry, delegation, end, rules)))


def _kept(ancestry: list[Record], delegation: Delegation, end: DelegationEnded, rules: int) -> Need:
    """Return the need that a parent keeps for a background delegation."""
    if rules >= GIVEN_BACK_SINCE:
        return delegation.kept
    # The limits may be others by now, and then more is given back than was kept, or less.
    return need_of_room(ancestry, delegation.room + task_frame(end.address))


def at_new_turn(record: Record, request: TurnRequested) -> Record:
    """Return the record of an agent that asks for a new turn, for which its delegations have left room.

    Those in the background still run, so they leave room for the turn after this one.
    """
    tasks, ended = record.budget.tasks, record.ended
    for _ in range(request.ends):
        first = ended.first()
        if first is not None:
            tasks, ended = subtract(tasks, first[1]), ended.drop(first[0])
    closing = NOTHING
    if record.background:
        # The reply to this turn is part of the next one, and may have as many tokens as it wants.
        closing = add(bound_of_any(request.need.tokens, record.model.all_specs), tasks)
    budget = replace(record.budget, closing=closing, rooms=tasks, tasks=tasks)
    return replace(record, turn_children=record.background, ended=ended, budget=budget)


def with_stated(budget: Budget, closing: Need) -> Budget:
    """Return the budget of a parent that states the need of its next turn, without results."""
    return replace(budget, closing=add(closing, budget.rooms))
