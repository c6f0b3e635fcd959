"""The supervisor's table of messages: one by one or together, and the messages that change nothing."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import (
    RULES,
    Ask,
    Cancel,
    Close,
    Forked,
    Resumed,
    SessionClosed,
    Tell,
    ToolsChanged,
)
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    CancelTask,
    DeciderFailed,
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    Stopped,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CancelTimer,
    CapacityGiven,
    SchemaChecked,
    TimerFired,
    ToolReturned,
)
from callboard.actors.protocol.profiles import ToolsChange
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.step import step
from callboard.actors.supervisor.decider import decide_supervisor, decide_together, initial_supervisor
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld
from tests.actors.harness import SessionHarness, raw, said
from tests.mutants.scenarios_background import BACKGROUND
from tests.mutants.scenarios_later import LATER
from tests.mutants.scenarios_rights import RIGHTS
from tests.tables import table

SESSIONS = {
    "background": BACKGROUND["two_tasks"],
    "budgets": LATER["tight_tasks"],
    "rights": next(iter(RIGHTS.values())),
}


@table("name", SESSIONS)
@table("size", [2, 7, 1_000])
def test_decisions_made_together_are_those_made_one_by_one(name: str, size: int) -> None:
    scenario = SESSIONS[name]
    assert isinstance(scenario, Scenario)
    inbox = [one for one in SessionWorld(scenario).run().log if one.recipient == "supervisor"]
    state = together = initial_supervisor()
    for batch in (inbox[at : at + size] for at in range(0, len(inbox), size)):
        together, posts = decide_together(together, batch)
        state, wanted = one_by_one(state, batch)
        assert (together, posts) == (state, wanted)
    assert state.host is not None
    assert len(inbox) > 10


def one_by_one(
    state: SupervisorState, batch: Sequence[Event]
) -> tuple[SupervisorState, list[tuple[Post, ...]]]:
    found = []
    for event in batch:
        next_state, posts = step(state, event)
        assert isinstance(next_state, SupervisorState)
        state = next_state
        found.append(posts)
    return state, found


def busy() -> SessionHarness:
    """Return a session whose host waits for two children."""
    head = SessionHarness(limits=Limits(deadline_s=60)).opens()
    head.asks()
    for call in (0, 1):
        head.hears("host", Delegate(1, call, ("kid",), text_json("help")))
    return head


@table(
    ("sender", "body"),
    [
        ("tools", ToolReturned(1, 0, "ok", NULL)),
        ("clock", TimerFired(99)),
        ("host.9", TurnSettled(Usage(3))),
        ("host.9", Finished("answered", "done")),
        ("host.9", Stopped()),
    ],
)
def test_a_message_without_a_meaning_or_of_an_unknown_agent_changes_nothing(sender: str, body: Any) -> None:
    head = busy()
    assert decide_supervisor(head.state, 99, sender, body) == (head.state, ())


def test_after_the_end_of_a_session_nothing_but_a_resume_and_a_settlement_counts() -> None:
    head = SessionHarness().opens()
    (closed,) = head.hears("client", Close())
    assert closed.body == SessionClosed()
    before = head.state
    for sender, body in (("client", Close()), ("host", Delegate(1, 0, ("kid",), NULL))):
        assert head.hears(sender, body) == []
    (refused,) = head.hears("client", Ask("r9", text_json("go")))
    assert getattr(refused.body, "detail", "") == "the session is closed"
    assert head.state == before


PLACE = Limits(schema_timeout_s=3)
AFTER_THE_END: list[tuple[str, Any, list[str], int]] = [
    ("client", Ask("r9", text_json("go")), ["client:AskEnded"], 0),
    ("client", Tell("t1", "host.9", "psst"), ["client:TellEnded"], 0),
    ("client", Resumed(RULES, limits=PLACE), [], 0),
    ("client", Forked("s", 3, "d", Resumed(RULES, limits=PLACE)), [], 0),
    ("host.2", Finished("answered", "done"), ["host:DelegationEnded"], -1),
    ("host.2", Stopped(), ["host.2:Stop", "host:DelegationEnded"], -1),
    ("budgets", BudgetGiven("host.1", 1, 1, "given"), ["capacity:RequestCapacity"], 0),
    ("capacity", CapacityGiven("host.1", 1, 1), ["model:CallModel"], 0),
    ("schema", SchemaChecked(1, "ok"), ["host.3:Begin"], 1),
]
"""Messages that a closed session handles, with its posts, and the change in the number of its agents."""

IGNORED: list[tuple[str, Any]] = [
    ("client", Cancel()),
    ("client", Close()),
    ("client", ToolsChanged(ToolsChange((), address="host"))),
    ("host", Delegate(1, 5, ("kid",), text_json("go"))),
    ("host", CancelTask(1, 0)),
    ("host.2", TurnRequested(1, 1, Need(5), "d")),
    ("host.2", DeciderFailed(1, "Boom")),
    ("host.2", ReportBack(1, 0, text_json("x"))),
    ("clock", TimerFired(1)),
]


def closed_in_the_middle() -> SessionHarness:
    """Return a closed session in which one agent waits for a place and one for the check of its schema."""
    head = SessionHarness(limits=Limits(deadline_s=60), capacity=("scripted",)).opens()
    head.asks()
    for call in (0, 1):
        head.hears("host", Delegate(1, call, ("kid",), text_json("help")))
    head.wants("host.1")
    head.hears("host", Delegate(1, 2, ("kid",), text_json("help"), raw({"type": "object"})))
    head.state = replace(head.state, phase="closed")
    return head


def test_a_closed_session_refuses_what_is_new_and_takes_what_was_on_its_way() -> None:
    for sender, body, posts, leaves in AFTER_THE_END:
        head = closed_in_the_middle()
        before = head.state
        assert (said(head.hears(sender, body)), head.state.live - before.live) == (posts, leaves), body
        limits = PLACE if isinstance(body, Resumed | Forked) else before.limits
        assert head.state.limits.schema_timeout_s == limits.schema_timeout_s, body
    for sender, body in IGNORED:
        head = closed_in_the_middle()
        assert (head.hears(sender, body), head.state) == ([], closed_in_the_middle().state), body


def test_an_answer_ends_its_delegation_with_all_that_it_says() -> None:
    head = busy()
    answer = Finished("answered", "in words", "of its own accord", value=raw({"n": 1}))
    (ended,) = head.hears("host.1", answer)
    assert isinstance(ended.body, DelegationEnded)
    said_in_it = (ended.body.text, ended.body.value, ended.body.detail)
    assert said_in_it == (answer.text, answer.value, answer.detail)


def test_an_agent_that_stops_or_fails_by_itself_ends_its_delegation_in_words() -> None:
    for body, why in (
        (Stopped(), "it stopped without having been told to"),
        (DeciderFailed(7, "Boom"), "Boom while it handled event 7"),
    ):
        ends = [one.body for one in busy().hears("host.1", body) if isinstance(one.body, DelegationEnded)]
        assert [(one.kind, one.detail) for one in ends] == [("crashed", why)]


def test_an_agent_that_leaves_without_a_settlement_is_charged_its_reservation() -> None:
    for body in (Finished("answered", "done"), Stopped()):
        head = busy()
        head.wants("host.1", 40)
        head.hears("host.1", body)
        host = head.record("host")
        assert host is not None
        assert (host.spent.charged_tokens, host.reserved) == (40, Need(0))


def test_an_agent_that_was_stopped_ends_no_delegation_when_it_finishes() -> None:
    head = busy()
    ended = head.hears("host.1", Finished("answered", "first"))
    assert [one.body.text for one in ended if isinstance(one.body, DelegationEnded)] == ["first"]
    head.hears("host", Finished("answered", "done"))
    late = head.hears("host.2", Finished("answered", "late"))
    assert not any(isinstance(one.body, DelegationEnded) for one in late)
    assert head.state.live == 0


@pytest.mark.parametrize(("words", "text"), [("last", "last"), ("", "so far")])
def test_a_failed_agent_is_quoted_with_its_last_words(words: str, text: str) -> None:
    head = busy()
    head.wants("host.1")
    head.hears("host.1", TurnSettled(Usage(1), text="so far"))
    (post, *_) = head.hears("host.1", Finished("iteration_cap", words))
    assert isinstance(post.body, DelegationEnded)
    assert (post.body.kind, post.body.text) == ("iteration_cap", text)


def test_a_call_that_a_fork_does_not_run_ends_the_whole_ask() -> None:
    head = busy()
    posts = head.hears("host.2", Finished("needs_effect", detail="pay"))
    assert {"host:Stop", "host.1:Stop"} <= set(said(posts))
    kinds = {one.body.address: one.body.kind for one in posts if isinstance(one.body, DelegationEnded)}
    assert kinds == {"host.1": "cancelled", "host.2": "needs_effect"}
    head.hears("host.1", Stopped())
    (*_, last) = head.hears("host", Stopped())
    assert (last.recipient, getattr(last.body, "kind", ""), getattr(last.body, "detail", "")) == (
        "client",
        "needs_effect",
        "pay",
    )


def test_a_deadline_that_has_passed_is_not_cancelled_again() -> None:
    head = SessionHarness().opens()
    head.asks()
    head.hears("host", Delegate(1, 0, ("kid",), NULL, limits=Limits(deadline_s=1)))
    ((number, _),) = head.state.timers.items()
    ended = head.hears("clock", TimerFired(number))
    assert "host.1:Stop" in said(ended)
    assert not any(isinstance(one.body, CancelTimer) for one in ended)
    assert head.state.timers.size == 0
