"""Programs, from the supervisor's side: the line of their delegations, and deadlines.

Rules
  - A program's max_children bounds its copies that have not left the tree, whatever their turn. What is over
    stands in line, and starts in the order of the asks, as soon as it fits.
  - A delegation in line is open: a `CancelTask` ends it, and so does the end of the program.
  - A program has one deadline. A new `Wake` takes the place of the one before.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from callboard.actors.protocol.messages import Wake, Woken
from callboard.actors.supervisor.delegating import has_place, start
from callboard.actors.supervisor.state import NO_BOOKS, Timer
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def serve_lines(work: UnitOfWork, addresses: Iterable[str]) -> None:
    """Start the delegations that have a place now, of each of these programs."""
    for address in addresses:
        while (found := _next_in_line(work, address)) is not None:
            key, seq = found
            record, delegation = work.record(address), work.delegation(address, key)
            assert record is not None
            books = record.program or NO_BOOKS
            work.update_record(address, program=replace(books, line=books.line.drop(key)))
            if delegation is not None:
                start(work, address, delegation, seq)


def _next_in_line(work: UnitOfWork, address: str) -> tuple[int, int] | None:
    """Return the first delegation in line, if the program runs and it has a place: its key and its seq."""
    record = work.record(address)
    if record is None or record.program is None or not record.is_running:
        return None
    first = record.program.line.first()
    delegation = work.delegation(address, first[0]) if first else None
    if delegation is None or not has_place(record, len(delegation.racers), is_first=True):
        return None
    return first


def on_wake(work: UnitOfWork, sender: str, wake: Wake) -> None:
    """Set the timer of a program's deadline, in place of the one before."""
    record = work.record(sender)
    if record is None or not record.is_running:
        return
    books = record.program or NO_BOOKS
    work.cancel_timer(books.wake_timer)
    timer = 0 if wake.until is None else work.set_timer(Timer("wake", sender, wake.until))
    work.update_record(sender, program=replace(books, wake_timer=timer))


def on_deadline_of_program(work: UnitOfWork, timer: Timer) -> None:
    """Wake the program whose deadline has come."""
    record = work.record(timer.address)
    if record is None or record.program is None or timer.until is None or not record.is_running:
        return
    work.update_record(timer.address, program=replace(record.program, wake_timer=0))
    work.post(timer.address, Woken(timer.until))
