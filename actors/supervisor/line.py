"""The line: all that cannot go on yet, and the one rule by which it goes on.

Three things of a session run out. Each has places at which its next takers wait, in the order of arrival:

    a slot        `SupervisorState.queue`   requests for a turn, within max_parallel_calls
    budget        `Record.waiting`          requests for a turn that do not fit in this scope yet
    a child       `ProgramBooks.line`       delegations of a program over its max_children

Rules
  - The first at a place goes on as soon as it fits. None passes an earlier one at a place that both need. So
    one overtakes another only if they share no place without room, and each goes on in the end.
  - A request without room in a budget waits at the topmost scope that has none, with the ticket that it has.
  - Room that is given back wakes the first at its place, and so does the end of one that has waited there. A
    decision costs those that it wakes, not those that wait.
  - The places of a program are served first: a delegation that starts takes no slot.
  - A request that waits for budgets above the session or for capacity (`Record.held`) stands in the lines of
    those ports. It keeps its slot and its reservation.

Going on may end agents, and an end leaves the line. So `serve` is given the steps by which each goes on.

`ancestry` is a list of records, from the host down to the agent.
"""

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from callboard.actors.protocol.addresses import HOST, depth_of
from callboard.actors.supervisor.state import NO_BOOKS, Delegation, Record, Wish
from callboard.actors.supervisor.unit_of_work import UnitOfWork


class GoOn(NamedTuple):
    """The steps of those that have waited.

    turn: takes the ancestry of an agent and its request, which has left the line.
    delegation: takes the ancestry of a program, its delegation, and the seq of its `Delegate`. The delegation
        leaves the line in this step.
    """

    turn: Callable[[UnitOfWork, list[Record], Wish], None]
    delegation: Callable[[UnitOfWork, list[Record], Delegation, int], None]


def serve(work: UnitOfWork, go_on: GoOn) -> None:
    """Let all go on that have room now: delegations of programs, then requests until no slot is free."""
    for address in work.take_freed():
        while (first := _first_delegation(work, address)) is not None:
            go_on.delegation(work, *first)
    while has_slot(work) and (entry := work.state.queue.first()) is not None:
        work.update_session(queue=work.state.queue.drop(entry[0]))
        ancestry = work.ancestry(entry[1])
        if ancestry is not None and ancestry[-1].wanted is not None:
            go_on.turn(work, ancestry, ancestry[-1].wanted)


# --- slots and budgets: requests for a turn -------------------------------------------


def has_slot(work: UnitOfWork) -> bool:
    """Return True if one more model call may be in flight."""
    host = work.record(HOST)
    return work.in_flight < ((host.limits.max_parallel_calls if host else None) or 1)


def join(work: UnitOfWork, ancestry: list[Record], wish: Wish) -> None:
    """Give the request of an agent a ticket and put it into the queue."""
    ticket, address = work.state.next_ticket, ancestry[-1].address
    ancestry[-1] = replace(ancestry[-1], wanted=Wish(wish.request, wish.seq, ticket))
    work.put_record(ancestry[-1])
    work.update_session(queue=work.state.queue.put(ticket, address), next_ticket=ticket + 1)


def blocked_at(ancestry: list[Record], wish: Wish) -> str:
    """Return the topmost scope at which a request with an earlier ticket waits, or ''."""
    for record in ancestry:
        first = record.waiting.first()
        if first is not None and first[0] < wish.ticket:
            return record.address
    return ""


def wait_for_budget(work: UnitOfWork, ancestry: list[Record], wish: Wish, scope: str) -> None:
    """Let the request of an agent wait at a scope until the scope has room."""
    agent = ancestry[-1] = replace(ancestry[-1], wanted=replace(wish, scope=scope))
    place = depth_of(scope)
    ancestry[place] = replace(
        ancestry[place], waiting=ancestry[place].waiting.put(wish.ticket, agent.address)
    )
    work.put_records((ancestry[place], ancestry[-1]))
    # A request that moves up to a wider scope wakes no other: those behind it may not pass that scope.
    if wish.scope and depth_of(wish.scope) < place:
        _wake_next(work, wish.scope)


def is_waited_for(ancestry: list[Record]) -> bool:
    """Return True if a request waits at a scope of this ancestry."""
    for record in ancestry:  # noqa: SIM110  # `any` would make a generator for each turn
        if record.waiting.size:
            return True
    return False


def wake_along(work: UnitOfWork, ancestry: list[Record]) -> None:
    """Put the first request that waits at each scope of an ancestry back into the queue."""
    for record in ancestry:
        if record.waiting.size:
            _wake_next(work, record.address)


def _wake_next(work: UnitOfWork, scope: str) -> None:
    record = work.record(scope)
    first = record.waiting.first() if record else None
    if record is not None and first is not None:
        work.update_record(scope, waiting=record.waiting.drop(first[0]))
        work.update_session(queue=work.state.queue.put(*first))


def leave(work: UnitOfWork, address: str, wish: Wish) -> None:
    """Take the request of an agent out of the line, wherever it waits."""
    work.update_record(address, wanted=None)
    if not wish.ticket:
        return
    work.update_session(queue=work.state.queue.drop(wish.ticket))
    scope = work.record(wish.scope)
    if scope is not None:
        work.update_record(scope.address, waiting=scope.waiting.drop(wish.ticket))
    wake_along(work, work.ancestry(address) or [])


# --- children: delegations of programs ------------------------------------------------


def has_place(parent: Record, count: int, *, is_first: bool = False) -> bool:
    """Return True if a delegation fits and is the next in line. Only those of programs may have to wait.

    count: its copies. is_first: True for the first in line.
    """
    if not is_first and parent.program is not None and parent.program.line.size:
        return False
    return parent.turn_children + count <= (parent.limits.max_children or 0)


def join_children(work: UnitOfWork, parent: Record, delegation: Delegation) -> None:
    """Let a delegation of a program wait for places."""
    books = parent.program or NO_BOOKS
    line = books.line.put(delegation.key, work.seq)
    work.update_record(parent.address, program=replace(books, line=line))
    work.put_delegation(parent.address, delegation)


def _first_delegation(work: UnitOfWork, address: str) -> tuple[list[Record], Delegation, int] | None:
    """Return the first delegation in line, if the program runs and it has a place."""
    ancestry = work.ancestry(address)
    if ancestry is None or not ancestry[-1].is_running or ancestry[-1].program is None:
        return None
    first = ancestry[-1].program.line.first()
    delegation = work.delegation(address, first[0]) if first is not None else None
    if first is None or delegation is None:
        return None
    is_next = has_place(ancestry[-1], len(delegation.racers), is_first=True)
    return (ancestry, delegation, first[1]) if is_next else None


def leave_children(work: UnitOfWork, parent: str, delegation: Delegation) -> None:
    """Let a program's delegation that has not begun leave the line, or the places that it has taken."""
    if not out_of_line(work, parent, delegation):
        work.free_places(parent, len(delegation.racers))


def out_of_line(work: UnitOfWork, parent: str, delegation: Delegation) -> bool:
    """Take a delegation out of the line of its program. Return False if it did not stand there."""
    record = work.record(parent)
    books = record.program if record else None
    if books is None or books.line.get(delegation.key) is None:
        return False
    work.update_record(parent, program=replace(books, line=books.line.drop(delegation.key)))
    return True
