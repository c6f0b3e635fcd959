"""The states of a session, of an agent's record and of a delegation, and the messages between them: tables.

    session     new          not opened
                open         waits for an ask
                checking     an ask's schema is with the schema port; the host has not begun
                asking       the host works
                ending       the outcome is decided; agents drain
                straggling   the grace period ended before all had drained; no ask starts until they have
                closed       the end
    agent       acting       it is alive and does not ask for a turn: it has begun, runs calls, or is judged
                backing off  it waits before it asks a model again
                waiting      it waits for a model call
                thinking     it has been granted a model call
                draining     it has ended, and ports may still owe it answers
                holding      it has drained, but an agent below it has not
                gone         it is no longer in the tree
    delegation  checking     the schema port or the context port has not answered; no agent has begun
                working      an agent works on it
                judging      a report is being checked, and others may be waiting
                ended        its one end has been posted

The supervisor does not read these tables: a decision often moves many agents at once. Tests compare them
with its states in every explored world, in both directions.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from callboard.actors.protocol.client_messages import Ask, Cancel, Close, Forked, Resumed, SessionOpened
from callboard.actors.protocol.messages import (
    DeciderFailed,
    Delegate,
    Finished,
    ReportBack,
    Stopped,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CapacityGiven,
    ContextMade,
    SchemaChecked,
    TimerFired,
)
from callboard.actors.supervisor.state import Delegation, Record, SupervisorState

SessionStatus: TypeAlias = Literal["new", "open", "checking", "asking", "ending", "straggling", "closed"]
AgentStatus: TypeAlias = Literal[
    "acting", "backing off", "waiting", "thinking", "draining", "holding", "gone"
]
DelegationStatus: TypeAlias = Literal["checking", "working", "judging", "ended"]


def session_status(state: SupervisorState) -> SessionStatus:
    """Return the state of a session."""
    if state.phase == "open":
        return "straggling" if state.live else "open"
    if state.phase != "asking" or state.ask is None:
        return "closed" if state.phase == "closed" else "new"
    if state.ask.outcome is not None:
        return "ending"
    return "checking" if state.ask.delegation.is_checking else "asking"


def agent_status(record: Record | None) -> AgentStatus:
    """Return the state of an agent, as the supervisor sees it. record: None if it is not in the tree."""
    if record is None:
        return "gone"
    if not record.is_running:
        return "holding" if record.is_drained else "draining"
    if record.grant is not None:
        return "thinking"
    if record.wanted is None:
        return "acting"
    return "waiting" if record.wanted.ticket or record.held is not None else "backing off"


def delegation_status(delegation: Delegation | None) -> DelegationStatus:
    """Return the state of a delegation. delegation: None if it is not open."""
    if delegation is None:
        return "ended"
    if delegation.is_checking:
        return "checking"
    return "judging" if delegation.pending.size else "working"


# --- moves ----------------------------------------------------

Moves: TypeAlias = Mapping[tuple[str, str], frozenset[type]]
"""A move from a status to another, and the messages to the supervisor that can lead there."""

SETTLING: Final = frozenset({TurnRequested, TurnSettled, Delegate, ReportBack, Finished, Stopped})
"""They can end a grant: then a waiting agent has room for its call, or is refused because it never will."""

ENDING: Final = SETTLING | {Cancel, Close, TimerFired, DeciderFailed, SchemaChecked, BudgetGiven}
"""They can end an agent: the sender, an agent above it, one that races with it, or one that waits."""

_GONE: Final = frozenset({Finished, Stopped, CapacityGiven, BudgetGiven})
"""They can take an agent out of the tree: one that had stopped while its request waited for a port."""

SESSION_MOVES: Final[Moves] = MappingProxyType(
    {
        ("new", "open"): frozenset({SessionOpened}),
        ("open", "checking"): frozenset({Ask}),
        ("open", "asking"): frozenset({Ask}),
        ("open", "closed"): frozenset({Close}),
        ("checking", "asking"): frozenset({SchemaChecked}),
        ("checking", "open"): frozenset({SchemaChecked, Cancel, TimerFired}),
        ("checking", "closed"): frozenset({Close}),
        ("asking", "ending"): ENDING,
        ("asking", "open"): frozenset({Finished, SchemaChecked}),
        ("asking", "closed"): frozenset({Close}),
        ("ending", "open"): _GONE,
        ("ending", "closed"): _GONE | {TimerFired},
        ("ending", "straggling"): frozenset({TimerFired}),
        ("straggling", "open"): _GONE,
        ("straggling", "closed"): frozenset({Close}),
        ("closed", "open"): frozenset({Resumed, Forked}),
        ("closed", "straggling"): frozenset({Resumed, Forked}),
    }
)

AGENT_MOVES: Final[Moves] = MappingProxyType(
    {
        ("gone", "acting"): frozenset({Ask, Delegate, SchemaChecked, ContextMade}),
        ("holding", "acting"): frozenset({Ask, SchemaChecked}),
        ("acting", "thinking"): frozenset({TurnRequested}),
        ("acting", "waiting"): frozenset({TurnRequested}),
        ("thinking", "acting"): frozenset({TurnSettled, Delegate, ReportBack}),
        ("thinking", "waiting"): frozenset({TurnRequested}),
        ("thinking", "backing off"): frozenset({TurnRequested}),
        ("backing off", "thinking"): frozenset({TimerFired}),
        ("backing off", "waiting"): frozenset({TimerFired}),
        ("waiting", "thinking"): ENDING | {CapacityGiven, BudgetGiven},
        ("acting", "draining"): ENDING,
        ("thinking", "draining"): ENDING,
        ("backing off", "draining"): ENDING,
        ("waiting", "draining"): ENDING,
        ("acting", "gone"): frozenset({Finished}),
        ("acting", "holding"): frozenset({Finished}),
        ("thinking", "gone"): frozenset({Finished}),
        ("thinking", "holding"): frozenset({Finished}),
        ("draining", "gone"): _GONE,
        ("draining", "holding"): _GONE,
        ("holding", "gone"): _GONE,
    }
)
"""The host is never gone: between two asks it holds the session's account and its own conversation."""

DELEGATION_MOVES: Final[Moves] = MappingProxyType(
    {
        ("new", "checking"): frozenset({Delegate}),
        ("new", "working"): frozenset({Delegate}),
        ("checking", "working"): frozenset({SchemaChecked, ContextMade}),
        ("checking", "ended"): ENDING | {ContextMade},
        ("working", "judging"): frozenset({ReportBack}),
        ("working", "ended"): ENDING,
        ("judging", "working"): frozenset({SchemaChecked}),
        ("judging", "ended"): ENDING,
    }
)
"""A denied delegation ends in the decision that would have begun it, and is never open."""
