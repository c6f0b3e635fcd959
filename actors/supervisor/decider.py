"""The supervisor's decider: it begins, pays for, judges and ends every delegation of a session.

A delegation passes through the supervisor as these messages. `HANDLERS` has a function for each:

    Delegate        check depth, fan-out and budgets; deny, or begin the sub-agents   (delegating)
    SchemaChecked   begin a delegation whose schema is accepted; judge a report       (reports)
    ToolsChanged    keep other tools for later agents, pass them to living ones      (tool_changes)
    ContextMade     begin a delegation whose contexts are made                        (contexts)
    TurnRequested   reserve budget and a slot, then grant the turn                    (turns, line)
    BudgetGiven     grant a turn that budgets above the session have room for         (turns)
    CapacityGiven   grant a turn whose model the runtime limits                       (turns)
    TurnSettled     replace the reservation by the usage                              (turns)
    CancelTask      end one delegation of the sender as cancelled                     (ending)
    Tell            pass words on to a running agent, or refuse them                  (telling)
    Wake            set the timer of a program's deadline                             (timers)
    ReportBack      queue the report for its judgement; the first valid one wins      (reports)
    Finished        end the agent; end its delegation if no other racer is left       (ending)
    Stopped         take a drained agent out of the tree                              (ending)
    TimerFired      retry a model call, or end what its deadline has reached          (timers)

Rules
  - A message may carry the settlement of its sender's model call. The settlement is booked first, even if
    the sender has ended.
  - Competing ends are decided by the order of the supervisor's mailbox: the first one handled wins.
  - After each message the line is served, and an ask that is over is concluded.
  - No decision scans all agents. A decision costs the work that its message causes, times the depth of the
    tree.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from callboard.actors.protocol.addresses import HOST, parent_of
from callboard.actors.protocol.client_messages import (
    Ask,
    Cancel,
    Close,
    Forked,
    Resumed,
    RevokePermission,
    SessionOpened,
    Tell,
    ToolsChanged,
)
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import (
    CancelTask,
    DeciderFailed,
    Delegate,
    Finished,
    ReportBack,
    Stopped,
    SupervisorInput,
    TurnRequested,
    TurnSettled,
    Wake,
)
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CapacityGiven,
    ContextMade,
    SchemaChecked,
    TimerFired,
)
from callboard.actors.protocol.value_types import Settled
from callboard.actors.supervisor import asks
from callboard.actors.supervisor.contexts import on_context_made
from callboard.actors.supervisor.delegating import on_delegate, start_from_line
from callboard.actors.supervisor.ending import (
    cancel_delegation,
    end_agent,
    end_crashed,
    leave_tree,
    record_racer_end,
    retire,
    stop_below,
    win,
)
from callboard.actors.supervisor.line import GoOn, serve
from callboard.actors.supervisor.reports import on_report, on_schema_checked
from callboard.actors.supervisor.resuming import on_forked, on_resumed
from callboard.actors.supervisor.state import SupervisorState
from callboard.actors.supervisor.telling import on_tell
from callboard.actors.supervisor.timers import on_timer, on_wake
from callboard.actors.supervisor.tool_changes import on_tools_changed
from callboard.actors.supervisor.turns import (
    keep_turn,
    on_given,
    on_turn_requested,
    serve_turn,
    settle,
)
from callboard.actors.supervisor.unit_of_work import UnitOfWork

Decision: TypeAlias = tuple[SupervisorState, tuple[Post, ...]]
Decisions: TypeAlias = tuple[SupervisorState, list[tuple[Post, ...]]]

_AFTER_THE_END: Final = frozenset(
    {Ask, Tell, Resumed, Forked, Finished, Stopped, SchemaChecked, CapacityGiven, BudgetGiven}
)
"""The messages that a closed session still handles: asks and words are refused, and a resume opens it again.
For a session that is opened again, agents that had not drained leave the books, and answers of ports are
taken: they come only once. Of all other messages only the settlement counts."""

_GO_ON: Final = GoOn(turn=serve_turn, delegation=start_from_line)

_UNKNOWN = Settled()
"""The settlement of an agent that leaves without one: its call is charged as reserved."""


def initial_supervisor() -> SupervisorState:
    """Return a session's state before its first event."""
    return SupervisorState()


def decide_supervisor(state: SupervisorState, seq: int, sender: str, body: SupervisorInput) -> Decision:
    """Decide on one message. Return the next state and the posts, in order."""
    work = UnitOfWork(state)
    posts = _decide(work, seq, sender, body)
    return work.commit(), posts


def decide_together(state: SupervisorState, events: Iterable[Event]) -> Decisions:
    """Decide on events one after the other. Return the state after all of them and the posts of each."""
    work = UnitOfWork(state)  # shared, so that records that several decisions change are stored once
    posts = [_decide(work, event.seq, event.sender, event.body) for event in events]
    return work.commit(), posts


def _decide(work: UnitOfWork, seq: int, sender: str, body: Any) -> tuple[Post, ...]:
    row = HANDLERS.get(type(body))
    if row is None:
        return ()
    work.seq = seq
    if row.settles:
        stated = body.settled  # read once: a `TurnSettled` makes it of its fields
        settled = stated or row.unaccounted
        if settled is not None:
            settle(work, sender, settled, is_stated=stated is not None)
    if work.state.phase == "closed" and type(body) not in _AFTER_THE_END:
        return work.take_posts()
    row.handle(work, sender, body)
    if work.freed or work.state.queue.size:
        serve(work, _GO_ON)
    ask = work.state.ask
    if ask is not None and ask.outcome is not None:  # asked here, too, for fewer steps in each decision
        asks.conclude(work)
    return work.take_posts()


def _on_finished(work: UnitOfWork, sender: str, finished: Finished) -> None:
    record = work.record(sender)
    if record is None:
        return
    if record.is_running:
        stop_below(work, sender)
        retire(work, record)
    # An agent that finishes has no open requests, so it drains with the same message.
    leave_tree(work, sender)
    if not record.is_running:
        return
    if finished.kind == "answered":
        delegation = work.delegation_of(record)
        if delegation is not None:
            win(
                work,
                parent_of(sender),
                delegation,
                sender,
                "answered",
                value=finished.value,
                text=finished.text,
                detail=finished.detail,
                labels=record.labels,
            )
    else:
        record = replace(record, text=finished.text or record.text)
        record_racer_end(work, record, finished.kind, finished.detail)
        if finished.kind == "needs_effect":  # nothing below the ask goes on, so that no call is paid in vain
            end_agent(work, HOST, "needs_effect", finished.detail)


def _on_stopped(work: UnitOfWork, sender: str, stopped: Stopped) -> None:
    end_crashed(work, sender, "it stopped without having been told to")
    leave_tree(work, sender)


def _on_decider_failed(work: UnitOfWork, sender: str, failure: DeciderFailed) -> None:
    end_crashed(work, sender, f"{failure.error} while it handled event {failure.event}")


class Handler(NamedTuple):
    """The handling of one kind of message.

    handle: called with the unit of work, the sender and the message.
    settles: True if the message may carry the settlement of its sender's grant.
    unaccounted: the settlement to book if the message carries none.
    """

    handle: Callable[[UnitOfWork, str, Any], None]
    settles: bool = False
    unaccounted: Settled | None = None


HANDLERS: Final[Mapping[type, Handler]] = {
    SessionOpened: Handler(lambda work, sender, body: asks.on_opened(work, body)),
    Resumed: Handler(lambda work, sender, body: on_resumed(work, body)),
    Forked: Handler(lambda work, sender, body: on_forked(work, body)),
    Ask: Handler(lambda work, sender, body: asks.on_ask(work, body)),
    Tell: Handler(lambda work, sender, body: on_tell(work, body)),
    Cancel: Handler(lambda work, sender, body: asks.on_cancel(work, body)),
    Close: Handler(lambda work, sender, body: asks.on_close(work)),
    RevokePermission: Handler(lambda work, sender, body: None),  # the port gate keeps the permissions
    ToolsChanged: Handler(on_tools_changed),
    TurnRequested: Handler(on_turn_requested, settles=True),
    TurnSettled: Handler(keep_turn, settles=True),
    Delegate: Handler(on_delegate, settles=True),
    CancelTask: Handler(lambda work, sender, body: cancel_delegation(work, sender, body.turn, body.call)),
    Wake: Handler(on_wake, settles=True),
    ReportBack: Handler(on_report, settles=True),
    Finished: Handler(_on_finished, settles=True, unaccounted=_UNKNOWN),
    Stopped: Handler(_on_stopped, settles=True, unaccounted=_UNKNOWN),
    SchemaChecked: Handler(lambda work, sender, body: on_schema_checked(work, body)),
    ContextMade: Handler(lambda work, sender, body: on_context_made(work, body)),
    CapacityGiven: Handler(lambda work, sender, body: on_given(work, body)),
    BudgetGiven: Handler(lambda work, sender, body: on_given(work, body)),
    TimerFired: Handler(lambda work, sender, body: on_timer(work, body)),
    DeciderFailed: Handler(_on_decider_failed),
}
"""The handling of each kind of message to the supervisor. All other kinds change nothing."""
