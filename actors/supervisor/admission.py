"""The line for model calls: who is looked at next, and who waits for which budget.

Rules
  - A request takes a ticket; requests are looked at in the order of their tickets.
  - `queue` holds those to look at as soon as a slot is free. A request that a budget has no room for yet is
    parked at the topmost scope that is exhausted, and leaves the queue.
  - A scope at which somebody is parked lets nobody with a later ticket pass: so one request overtakes
    another only if they share no exhausted scope, and none is overtaken for ever.
  - A settlement puts the first who is parked at each scope it gave room to back into the queue, and so does
    everyone who leaves the line. Who has to move up to a wider scope leaves those behind where they are,
    since they may not pass anyway. So a decision costs what it sets going, however many wait.
"""

from msgspec.structs import replace

from callboard.actors.protocol.addresses import depth_of
from callboard.actors.supervisor.state import Record
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def enqueue(work: UnitOfWork, chain: list[Record]) -> None:
    """Take a ticket."""
    ticket = work.state.next_ticket
    agent = chain[-1] = replace(chain[-1], ticket=ticket)
    work.put_records((agent,))
    work.update_session(queue=work.state.queue.put(ticket, agent.address), next_ticket=ticket + 1)


def blocked_at(chain: list[Record]) -> str:
    """The topmost scope at which somebody with an earlier ticket is parked, or nothing."""
    ticket = chain[-1].ticket
    for record in chain:
        first = record.waiting.first()
        if first is not None and first[0] < ticket:
            return record.address
    return ""


def wait_for_budget(work: UnitOfWork, chain: list[Record], scope: str) -> None:
    """Wait at a scope until it has room."""
    left = chain[-1].parked
    agent = chain[-1] = replace(chain[-1], parked=scope)
    place = depth_of(scope)
    chain[place] = replace(chain[place], waiting=chain[place].waiting.put(agent.ticket, agent.address))
    work.put_records((chain[place], chain[-1]))
    if left and depth_of(left) < place:
        wake_next(work, left)


def is_waited_for(chain: list[Record]) -> bool:
    """Whether somebody is parked at any of these scopes."""
    for record in chain:  # noqa: SIM110  (`any` would make a generator for each turn)
        if record.waiting.size:
            return True
    return False


def wake_next(work: UnitOfWork, scope: str) -> None:
    """Let the first who is parked at this scope be looked at."""
    record = work.record(scope)
    first = record.waiting.first() if record else None
    if record is not None and first is not None:
        work.update_record(scope, waiting=record.waiting.drop(first[0]))
        work.update_session(queue=work.state.queue.put(*first))


def wake_along(work: UnitOfWork, chain: list[Record]) -> None:
    """Let the first who is parked at each scope of a chain be looked at."""
    for record in chain:
        if record.waiting.size:
            wake_next(work, record.address)


def dequeue(work: UnitOfWork, address: str) -> None:
    """Give up one's place, wherever that is."""
    agent = work.record(address)
    if agent is None or not agent.ticket:
        return
    work.update_session(queue=work.state.queue.drop(agent.ticket))
    scope = work.record(agent.parked) if agent.parked else None
    if scope is not None:
        work.update_record(scope.address, waiting=scope.waiting.drop(agent.ticket))
    work.update_record(address, ticket=0, parked="")
    wake_along(work, work.chain(address) or [])
