"""Admission: the queue for model calls, and the requests that wait for a budget.

`ancestry` is a list of records, from the host down to the agent.

Rules
  - A request takes a ticket. Requests are served in the order of their tickets.
  - `queue` holds the requests to serve as soon as a slot is free. A request for which a budget has no room
    yet is parked at the topmost exhausted scope, and leaves the queue.
  - No request passes a scope at which one with an earlier ticket is parked. So a request overtakes another
    only if they share no exhausted scope, and every request is served in the end.
  - A settlement puts the first parked request of each scope to which it gave room back into the queue. So
    does an agent that gives up its place. A decision costs the requests that it wakes, not those that wait.
"""

from msgspec.structs import replace

from callboard.actors.protocol.addresses import depth_of
from callboard.actors.supervisor.state import Record
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def enqueue(work: UnitOfWork, ancestry: list[Record]) -> None:
    """Give the request of an agent a ticket and put it into the queue."""
    ticket = work.state.next_ticket
    agent = ancestry[-1] = replace(ancestry[-1], ticket=ticket)
    work.put_record(agent)
    work.update_session(queue=work.state.queue.put(ticket, agent.address), next_ticket=ticket + 1)


def blocked_at(ancestry: list[Record]) -> str:
    """Return the topmost scope at which a request with an earlier ticket is parked, or ''."""
    ticket = ancestry[-1].ticket
    for record in ancestry:
        first = record.waiting.first()
        if first is not None and first[0] < ticket:
            return record.address
    return ""


def wait_for_budget(work: UnitOfWork, ancestry: list[Record], scope: str) -> None:
    """Park the request of an agent at a scope until the scope has room."""
    left = ancestry[-1].parked
    agent = ancestry[-1] = replace(ancestry[-1], parked=scope)
    place = depth_of(scope)
    ancestry[place] = replace(
        ancestry[place], waiting=ancestry[place].waiting.put(agent.ticket, agent.address)
    )
    work.put_records((ancestry[place], ancestry[-1]))
    # A request that moves up to a wider scope wakes no other: those behind it may not pass that scope.
    if left and depth_of(left) < place:
        wake_next(work, left)


def is_waited_for(ancestry: list[Record]) -> bool:
    """Return True if a request is parked at a scope of this ancestry."""
    for record in ancestry:  # noqa: SIM110  # `any` would make a generator for each turn
        if record.waiting.size:
            return True
    return False


def wake_next(work: UnitOfWork, scope: str) -> None:
    """Put the first request that is parked at a scope back into the queue."""
    record = work.record(scope)
    first = record.waiting.first() if record else None
    if record is not None and first is not None:
        work.update_record(scope, waiting=record.waiting.drop(first[0]))
        work.update_session(queue=work.state.queue.put(*first))


def wake_along(work: UnitOfWork, ancestry: list[Record]) -> None:
    """Put the first request that is parked at each scope of an ancestry back into the queue."""
    for record in ancestry:
        if record.waiting.size:
            wake_next(work, record.address)


def dequeue(work: UnitOfWork, address: str) -> None:
    """Take the request of an agent out of the queue, or from the scope at which it is parked."""
    agent = work.record(address)
    if agent is None or not agent.ticket:
        return
    work.update_session(queue=work.state.queue.drop(agent.ticket))
    scope = work.record(agent.parked)
    if scope is not None:
        work.update_record(scope.address, waiting=scope.waiting.drop(agent.ticket))
    work.update_record(address, ticket=0, parked="")
    wake_along(work, work.ancestry(address) or [])
