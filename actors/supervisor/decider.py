"""The supervisor: keeps the rules of a session. Every agent's wishes pass through it.

Rules
  - A settlement is booked before anything else in the message that carries it, also from an agent that
    has ended: it is the only thing an ended agent may still say, besides that it has drained.
  - Competing ends are decided by the order of this inbox: the first one handled wins.
  - Nothing is scanned. Each decision costs what is new in it, times the depth of the tree.
"""

from collections.abc import Iterable
from typing import TypeAlias, assert_never

from msgspec.structs import replace

from callboard.actors.protocol.addresses import HOST, parent_of
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.messages import (
    Ask,
    Cancel,
    Close,
    DeciderFailed,
    Delegate,
    Finished,
    ReportBack,
    Resumed,
    SchemaChecked,
    SessionOpened,
    Stopped,
    SupervisorInput,
    TimerFired,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.value_types import Settled
from callboard.actors.supervisor import asks
from callboard.actors.supervisor.delegating import on_delegate
from callboard.actors.supervisor.ending import (
    agent_crashed,
    drained,
    end_agent,
    racer_ended,
    retire,
    stop_below,
    win,
)
from callboard.actors.supervisor.reports import on_report, on_schema_checked
from callboard.actors.supervisor.resuming import on_resumed
from callboard.actors.supervisor.state import SupervisorState
from callboard.actors.supervisor.turns import on_turn_requested, on_turn_timer, serve_queue, settle
from callboard.actors.supervisor.unit_of_work import UnitOfWork

Decision: TypeAlias = tuple[SupervisorState, tuple[Post, ...]]
Decisions: TypeAlias = tuple[SupervisorState, list[tuple[Post, ...]]]

Heard: TypeAlias = tuple[int, str, SupervisorInput]
"""A message with its seq and sender."""

_UNKNOWN = Settled()
"""Whoever leaves holds nothing any more: what it does not account for is charged as reserved."""


def initial_supervisor() -> SupervisorState:
    """A session before its first event."""
    return SupervisorState()


def decide_supervisor(state: SupervisorState, seq: int, sender: str, body: SupervisorInput) -> Decision:
    """The supervisor's next state and what it posts, for one message with its seq and sender."""
    work = UnitOfWork(state)
    posts = _decide(work, seq, sender, body)
    return work.commit(), posts


def decide_in_turn(state: SupervisorState, messages: Iterable[Heard]) -> Decisions:
    """`decide_supervisor` for one message after the other: what it posts for each, and the state behind all.

    What the decisions share, such as the records that they change, is put into the state once.
    """
    work = UnitOfWork(state)
    posts = [_decide(work, seq, sender, body) for seq, sender, body in messages]
    return work.commit(), posts


def _decide(work: UnitOfWork, seq: int, sender: str, body: SupervisorInput) -> tuple[Post, ...]:
    if work.state.phase == "closed" and type(body) is not Ask:
        return ()
    work.seq = seq
    _handle(work, sender, body)
    serve_queue(work)
    asks.conclude(work)
    return work.take_posts()


def _handle(work: UnitOfWork, sender: str, body: SupervisorInput) -> None:
    """Each kind of message; the frequent ones first. Settlements go before anything else."""
    if type(body) is TurnRequested:
        settle(work, sender, body.settled)
        on_turn_requested(work, sender, body)
    elif type(body) is TurnSettled:
        settle(work, sender, body.settled)
    elif type(body) is SchemaChecked:
        on_schema_checked(work, body)
    elif type(body) is ReportBack:
        settle(work, sender, body.settled)
        on_report(work, sender, body)
    elif type(body) is Delegate:
        settle(work, sender, body.settled)
        on_delegate(work, sender, body)
    elif type(body) is Finished:
        settle(work, sender, body.settled or _UNKNOWN)
        _on_finished(work, sender, body)
    elif type(body) is Stopped:
        settle(work, sender, body.settled or _UNKNOWN)
        agent_crashed(work, sender, "it stopped without having been told to")
        drained(work, sender)
    elif type(body) is TimerFired:
        _on_timer(work, body)
    elif type(body) is SessionOpened:
        asks.on_opened(work, body)
    elif type(body) is Resumed:
        on_resumed(work, body)
    elif type(body) is Ask:
        asks.on_ask(work, body)
    elif type(body) is Cancel:
        asks.on_cancel(work, body.reason)
    elif type(body) is Close:
        asks.on_close(work)
    elif type(body) is DeciderFailed:
        agent_crashed(work, sender, f"{body.error} while it handled event {body.event}")
    else:
        assert_never(body)


def _on_finished(work: UnitOfWork, sender: str, finished: Finished) -> None:
    record = work.record(sender)
    if record is None:
        return
    if record.is_running:
        stop_below(work, sender)
        retire(work, record)
    drained(work, sender)
    if not record.is_running:
        return
    if finished.kind == "answered":
        delegation = work.delegation_of(record)
        if delegation is not None:
            text, detail = finished.text, finished.detail
            win(work, parent_of(sender), delegation, sender, "answered", text=text, detail=detail)
    else:
        record = replace(record, text=finished.text or record.text)
        racer_ended(work, record, finished.kind, finished.detail)


def _on_timer(work: UnitOfWork, fired: TimerFired) -> None:
    timer = work.state.timers.get(fired.timer)
    if timer is None:
        return
    work.update_session(timers=work.state.timers.drop(fired.timer))
    if timer.purpose == "turn":
        on_turn_timer(work, timer.address)
    elif timer.purpose == "deadline":
        work.update_record(timer.address, deadline_timer=0)
        end_agent(work, timer.address, "deadline")
        if timer.address == HOST:
            asks.on_deadline(work)
    else:
        asks.conclude(work, is_grace_over=True)
