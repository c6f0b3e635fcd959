"""Every message in every state of a session and of an agent's record has an outcome.

A new message or status without a row here fails. What an agent may not say in a state is refused: nothing
but settlements, the end of a refused delegation, and the late judgement of a report.
"""

from collections.abc import Callable
from typing import NamedTuple, get_args

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
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
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
from callboard.actors.protocol.profiles import ModelSpec, ToolsChange
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import Settled
from tests.actors.harness import NEED, SCHEMA, SessionHarness, said
from tests.tables import table
from tools.supervisor_phases import AgentStatus, SessionStatus

PROMPT = text_json("go")
USED = Settled(Usage(5, 5), "thought")
GO = Delegate(1, 0, ("kid",), PROMPT)
SAMPLES: dict[type, SupervisorInput] = {
    SessionOpened: SessionOpened(1, "other", (), ModelSpec("m")),
    Resumed: Resumed(1, extend_ms=5),
    Forked: Forked("s", 1, "", Resumed(1, extend_ms=5)),
    Ask: Ask("r2", PROMPT),
    Cancel: Cancel("enough"),
    ToolsChanged: ToolsChanged(ToolsChange((), address="host")),
    ContextMade: ContextMade("host", 1, "kid"),
    RevokePermission: RevokePermission(7, "ann"),
    Tell: Tell("t1", "host.7", "hurry"),
    Close: Close(),
    TurnRequested: TurnRequested(2, 1, NEED, "d", settled=USED),
    TurnSettled: TurnSettled(USED.usage, USED.text),
    Delegate: Delegate(1, 0, ("kid",), PROMPT, settled=USED),
    CancelTask: CancelTask(1, 0),
    Wake: Wake(7, USED),
    ReportBack: ReportBack(1, 0, Json(b"1"), USED),
    Finished: Finished("answered", "done", settled=USED),
    Stopped: Stopped(USED),
    SchemaChecked: SchemaChecked(1, "ok"),
    CapacityGiven: CapacityGiven("host", 1, 1),
    BudgetGiven: BudgetGiven("host", 1, 1, "given"),
    TimerFired: TimerFired(1),
    DeciderFailed: DeciderFailed(1, "Boom"),
}


def test_there_is_a_sample_of_every_message_to_the_supervisor() -> None:
    assert set(SAMPLES) == set(get_args(SupervisorInput))


# --- the session ------------------------------------------------------------------


def new() -> SessionHarness:
    return SessionHarness()


def opened() -> SessionHarness:
    return SessionHarness().opens()


def checking() -> SessionHarness:
    head = opened()
    head.asks(SCHEMA, Limits(deadline_s=5))
    return head


def asking() -> SessionHarness:
    head = opened()
    head.asks(limits=Limits(deadline_s=5))
    return head


def ending() -> SessionHarness:
    head = opened()
    head.asks()
    head.hears("client", Cancel())
    return head


def straggling() -> SessionHarness:
    head = ending()
    head.hears("clock", TimerFired(1))
    return head


def closed() -> SessionHarness:
    head = opened()
    head.hears("client", Close())
    return head


SESSIONS: dict[SessionStatus, Callable[[], SessionHarness]] = {
    "new": new,
    "open": opened,
    "checking": checking,
    "asking": asking,
    "ending": ending,
    "straggling": straggling,
    "closed": closed,
}

Outcome = tuple[SessionStatus, list[str]]

REFUSED: dict[type, list[str]] = {
    Delegate: ["host.7:DelegationEnded"],
    ReportBack: ["host.7:ReportJudged"],
    Tell: ["client:TellEnded"],
}
"""Answers to and for an unknown agent; every other message gets none."""

IN_SESSION: dict[SessionStatus, dict[type, Outcome]] = {
    "new": {
        SessionOpened: ("open", []),
        Ask: ("new", ["client:AskEnded"]),
    },
    "open": {
        Ask: ("asking", ["host:Begin"]),
        Close: ("closed", ["client:SessionClosed"]),
    },
    "checking": {
        Ask: ("checking", ["client:AskEnded"]),
        Resumed: ("checking", ["clock:ExtendTimer"]),
        Forked: ("checking", ["clock:ExtendTimer"]),
        SchemaChecked: ("asking", ["host:Begin"]),
        TimerFired: ("open", ["client:AskEnded"]),
        Cancel: ("open", ["clock:CancelTimer", "client:AskEnded"]),
        Close: ("closed", ["clock:CancelTimer", "client:AskEnded", "client:SessionClosed"]),
    },
    "asking": {
        Ask: ("asking", ["client:AskEnded"]),
        Resumed: ("asking", ["clock:ExtendTimer"]),
        Forked: ("asking", ["clock:ExtendTimer"]),
        TimerFired: ("ending", ["host:Stop", "clock:SetTimer"]),
        Cancel: ("ending", ["host:Stop", "clock:CancelTimer", "clock:SetTimer"]),
        Close: ("ending", ["host:Stop", "clock:CancelTimer", "clock:SetTimer"]),
    },
    "ending": {
        Ask: ("ending", ["client:AskEnded"]),
        TimerFired: ("straggling", ["client:AskEnded"]),
    },
    "straggling": {
        Ask: ("straggling", ["client:AskEnded"]),
        Close: ("closed", ["client:SessionClosed"]),
    },
    "closed": {
        Ask: ("closed", ["client:AskEnded"]),
        Tell: ("closed", ["client:TellEnded"]),
    },
}
"""A message without a row changes nothing. Its answer is as in REFUSED, except after a session's end."""


@table("kind", SAMPLES, ids=lambda kind: kind.__name__)
@table("status", get_args(SessionStatus))
def test_a_message_from_outside_or_from_an_unknown_agent(status: SessionStatus, kind: type) -> None:
    head = SESSIONS[status]()
    assert head.session == status
    told = said(head.hears("host.7", SAMPLES[kind]))
    usual = [] if status == "closed" else REFUSED.get(kind, [])
    assert (head.session, told) == IN_SESSION[status].get(kind, (status, usual))


def test_every_status_of_a_session_has_its_rows() -> None:
    assert set(IN_SESSION) == set(SESSIONS) == set(get_args(SessionStatus))


# --- an agent ---------------------------------------------------------------------


def two_agents() -> SessionHarness:
    """Let the host delegate to host.1, with one call at a time."""
    head = SessionHarness(limits=Limits(max_parallel_calls=1)).opens()
    head.asks()
    head.wants("host")
    head.hears("host", Delegate(1, 0, ("kid",), PROMPT, settled=USED))
    return head


def acting() -> SessionHarness:
    return two_agents()


def backing_off() -> SessionHarness:
    head = two_agents()
    head.wants("host.1", attempt=2, after_ms=9)
    return head


def waiting() -> SessionHarness:
    head = two_agents()
    head.hears("host", Delegate(1, 1, ("kid",), PROMPT))
    head.wants("host.2")
    head.wants("host.1")
    return head


def at_work() -> SessionHarness:
    head = two_agents()
    head.wants("host.1")
    return head


def draining() -> SessionHarness:
    head = at_work()
    head.hears("host.1", DeciderFailed(9, "Boom"))
    return head


def holding() -> SessionHarness:
    """Let an agent finish while one below it has not drained."""
    head = two_agents()
    head.hears("host.1", Delegate(1, 0, ("kid",), PROMPT))
    head.wants("host.1.1")
    head.hears("host.1.1", DeciderFailed(9, "Boom"))
    head.ends("host.1")
    return head


def gone() -> SessionHarness:
    head = two_agents()
    head.ends("host.1")
    return head


AGENTS: dict[AgentStatus, Callable[[], SessionHarness]] = {
    "acting": acting,
    "backing off": backing_off,
    "waiting": waiting,
    "thinking": at_work,
    "draining": draining,
    "holding": holding,
    "gone": gone,
}
FROM_AGENTS = (
    TurnRequested,
    TurnSettled,
    Delegate,
    CancelTask,
    ReportBack,
    Finished,
    Stopped,
    DeciderFailed,
)


class Then(NamedTuple):
    """The next status, the posts, and the number of calls in flight afterwards."""

    status: AgentStatus
    says: list[str]
    in_flight: int = 0


DENIED = ["host.1:DelegationEnded"]
LATE = ["host.1:ReportJudged"]
CRASHED = ["host.1:Stop", "host:DelegationEnded"]
WON = ["host.1:ReportJudged", "host:DelegationEnded"]
OF_AGENT: dict[AgentStatus, dict[type, Then]] = {
    "acting": {
        TurnRequested: Then("thinking", ["model:CallModel"], 1),
        TurnSettled: Then("acting", []),
        Delegate: Then("acting", ["host.1.1:Begin"]),
        CancelTask: Then("acting", []),
        ReportBack: Then("draining", WON),
        Finished: Then("gone", ["host:DelegationEnded"]),
        Stopped: Then("gone", CRASHED),
        DeciderFailed: Then("draining", CRASHED),
    },
    "backing off": {
        TurnRequested: Then("backing off", []),
        TurnSettled: Then("backing off", []),
        Delegate: Then("backing off", ["host.1.1:Begin"]),
        CancelTask: Then("backing off", []),
        ReportBack: Then("draining", [WON[0], WON[1], "clock:CancelTimer"]),
        Finished: Then("gone", ["clock:CancelTimer", "host:DelegationEnded"]),
        Stopped: Then("gone", ["host.1:Stop", "clock:CancelTimer", "host:DelegationEnded"]),
        DeciderFailed: Then("draining", ["host.1:Stop", "clock:CancelTimer", "host:DelegationEnded"]),
    },
    "waiting": {
        TurnRequested: Then("waiting", [], 1),
        TurnSettled: Then("waiting", [], 1),
        Delegate: Then("waiting", ["host.1.1:Begin"], 1),
        CancelTask: Then("waiting", [], 1),
        ReportBack: Then("draining", WON, 1),
        Finished: Then("gone", ["host:DelegationEnded"], 1),
        Stopped: Then("gone", CRASHED, 1),
        DeciderFailed: Then("draining", CRASHED, 1),
    },
    "thinking": {
        TurnRequested: Then("thinking", ["model:CallModel"], 1),
        TurnSettled: Then("acting", []),
        Delegate: Then("acting", ["host.1.1:Begin"]),
        CancelTask: Then("thinking", [], 1),
        ReportBack: Then("draining", WON),
        Finished: Then("gone", ["host:DelegationEnded"]),
        Stopped: Then("gone", CRASHED),
        DeciderFailed: Then("draining", CRASHED, 1),
    },
    "draining": {
        TurnRequested: Then("draining", []),
        TurnSettled: Then("draining", []),
        Delegate: Then("draining", DENIED),
        CancelTask: Then("draining", [], 1),
        ReportBack: Then("draining", LATE),
        Finished: Then("gone", []),
        Stopped: Then("gone", []),
        DeciderFailed: Then("draining", [], 1),
    },
    "holding": {
        TurnRequested: Then("holding", [], 1),
        TurnSettled: Then("holding", [], 1),
        Delegate: Then("holding", DENIED, 1),
        CancelTask: Then("holding", [], 1),
        ReportBack: Then("holding", LATE, 1),
        Finished: Then("holding", [], 1),
        Stopped: Then("holding", [], 1),
        DeciderFailed: Then("holding", [], 1),
    },
    "gone": {
        TurnRequested: Then("gone", []),
        TurnSettled: Then("gone", []),
        Delegate: Then("gone", DENIED),
        CancelTask: Then("gone", []),
        ReportBack: Then("gone", LATE),
        Finished: Then("gone", []),
        Stopped: Then("gone", []),
        DeciderFailed: Then("gone", []),
    },
}


@table("kind", FROM_AGENTS, ids=lambda kind: kind.__name__)
@table("status", get_args(AgentStatus))
def test_a_message_from_an_agent(status: AgentStatus, kind: type) -> None:
    head = AGENTS[status]()
    assert head.status("host.1") == status
    told = said(head.hears("host.1", SAMPLES[kind]))
    assert Then(head.status("host.1"), told, head.state.in_flight) == OF_AGENT[status][kind]


def test_every_status_of_an_agent_has_a_row_for_all_that_agents_say() -> None:
    assert set(OF_AGENT) == set(AGENTS) == set(get_args(AgentStatus))
    assert all(set(rows) == set(FROM_AGENTS) for rows in OF_AGENT.values())
