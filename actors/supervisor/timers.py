"""Timers, from the supervisor's side: the reaction when one fires.

    turn       the back-off of an agent is over: its request joins the line, or is granted
    deadline   its agent and all below it end; with the host the ask
    grace      the ask ends, though not all of its agents have drained
    wake       a program is told that its deadline has come

Rules
  - A timer that was cancelled, or has fired, is not in the books, and changes nothing.
  - A program has one deadline. A new `Wake` takes the place of the one before.
"""

from msgspec.structs import replace

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.messages import Wake, Woken
from callboard.actors.protocol.port_messages import TimerFired
from callboard.actors.supervisor import asks
from callboard.actors.supervisor.ending import end_agent
from callboard.actors.supervisor.state import NO_BOOKS, Timer
from callboard.actors.supervisor.turns import on_turn_timer
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def on_timer(work: UnitOfWork, fired: TimerFired) -> None:
    """Do what a timer was set for."""
    timer = work.state.timers.get(fired.timer)
    if timer is None:
        return
    work.update_session(timers=work.state.timers.drop(fired.timer))
    if timer.purpose == "turn":
        on_turn_timer(work, timer.address)
    elif timer.purpose == "wake":
        _wake(work, timer)
    elif timer.purpose == "deadline":
        end_agent(work, timer.address, "deadline")
        if timer.address == HOST:
            asks.on_deadline(work)
    else:
        asks.conclude(work, is_grace_over=True)


def on_wake(work: UnitOfWork, sender: str, wake: Wake) -> None:
    """Set the timer of a program's deadline, in place of the one before."""
    record = work.record(sender)
    if record is None or not record.is_running:
        return
    books = record.program or NO_BOOKS
    work.cancel_timer(books.wake_timer)
    timer = 0 if wake.until is None else work.set_timer(Timer("wake", sender, wake.until))
    work.update_record(sender, program=replace(books, wake_timer=timer))


def _wake(work: UnitOfWork, timer: Timer) -> None:
    assert timer.until is not None
    work.post(timer.address, Woken(timer.until))
