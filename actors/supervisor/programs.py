"""Programs, from the supervisor's side: the line of their delegations, and deadlines.

Rules
  - A program's max_children bounds its copies in the tree, of all its turns. Further delegations stand in
    line, and start in the order of the asks, as soon as they fit.
  - A delegation in line is open: a `CancelTask` ends it, and so does the end of the program.
  - A program has one deadline. A new `Wake` takes the place of the one before.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from callboard.actors.protocol.messages import Wake, Woken
from callboard.actors.supervisor.delegating import has_place, start
from callboard.actors.supervisor.ending import end_delegation
from callboard.actors.supervisor.resolving import Denial, resolve_again
from callboard.actors.supervisor.state import NO_BOOKS, Record, Timer
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def serve_lines(work: UnitOfWork, addresses: Iterable[str]) -> None:
    """Start the delegations that have a place now, of each of these programs."""
    for address in addresses:
        while (found := _next_in_line(work, address)) is not None:
            key, seq = found
            ancestry, delegation = work.ancestry(address), work.delegation(address, key)
            assert ancestry is not None
            assert delegation is not None
            profiles = resolve_again(work.state, ancestry, delegation)
            if isinstance(profiles, Denial):
                end_delegation(work, address, delegation, profiles.kind, detail=profiles.detail)
                continue
            books = ancestry[-1].program or NO_BOOKS
            work.update_record(address, program=replace(books, line=books.line.drop(key)))
            start(work, address, delegation, profiles, seq)


def _next_in_line(work: UnitOfWork, address: str) -> tuple[int, int] | None:
    """Return the first delegation in line, if the program runs and it has a place: its key and its seq."""
    record = _running(work, address)
    if record is None or record.program is None:
        return None
    first = record.program.line.first()
    return first if first is not None and _has_place(work, record, first[0]) else None


def _has_place(work: UnitOfWork, record: Record, key: int) -> bool:
    delegation = work.delegation(record.address, key)
    return delegation is not None and has_place(record, len(delegation.racers), is_first=True)


def _running(work: UnitOfWork, address: str) -> Record | None:
    """Return the record of an agent that runs."""
    record = work.record(address)
    return record if record is not None and record.is_running else None


def on_wake(work: UnitOfWork, sender: str, wake: Wake) -> None:
    """Set the timer of a program's deadline, in place of the one before."""
    record = _running(work, sender)
    if record is None:
        return
    books = record.program or NO_BOOKS
    work.cancel_timer(books.wake_timer)
    timer = 0 if wake.until is None else work.set_timer(Timer("wake", sender, wake.until))
    work.update_record(sender, program=replace(books, wake_timer=timer))


def on_deadline_of_program(work: UnitOfWork, timer: Timer) -> None:
    """Wake the program whose deadline has come."""
    record = _running(work, timer.address)
    if record is None or record.program is None or timer.until is None:
        return
    work.update_record(timer.address, program=replace(record.program, wake_timer=0))
    work.post(timer.address, Woken(timer.until))
