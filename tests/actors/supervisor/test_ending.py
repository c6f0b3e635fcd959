"""How agents and delegations end: once, completely, deepest first, and with all that is known of them."""

import inspect
import sys
from collections.abc import Iterator

import pytest

from callboard.actors.protocol.client_messages import AskEnded, Cancel
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    Begin,
    CancelTask,
    DeciderFailed,
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    ReportJudged,
    Stop,
    Stopped,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CancelTimer,
    SchemaChecked,
    SetTimer,
    TimerFired,
)
from callboard.actors.protocol.prompts import NO_SUMMARY
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.protocol.value_types import CallMetadata, Reason, Settled
from callboard.actors.supervisor.ending import end_answered
from callboard.actors.supervisor.unit_of_work import UnitOfWork
from callboard.replay.testing.sessions.scenario import NO_LIMITS, profile
from tests.actors.harness import SCHEMA, SessionHarness, raw, said
from tests.tables import table

PROMPT = text_json("go")
BOOM = DeciderFailed(1, "Boom")


def session(limits: Limits = NO_LIMITS, kid: Limits = NO_LIMITS) -> SessionHarness:
    head = SessionHarness(
        profile("host", ["kid"]), profile("kid", ["kid"], limits=kid), limits=limits
    ).opens()
    head.asks()
    return head


def delegate(
    head: SessionHarness, who: str = "host", copies: int = 1, schema: object = None, call: int = 0
) -> list[Post]:
    return head.hears(who, Delegate(1, call, ("kid",) * copies, PROMPT, raw(schema)))


def race(copies: int, schema: object = None) -> SessionHarness:
    head = session()
    delegate(head, copies=copies, schema=schema)
    if schema is not None:
        head.accepts()
    return head


def ends(posts: list[Post]) -> list[DelegationEnded]:
    return [post.body for post in posts if isinstance(post.body, DelegationEnded)]


def stops(posts: list[Post]) -> dict[str, str]:
    return {post.recipient: post.body.reason for post in posts if isinstance(post.body, Stop)}


# --- one agent --------------------------------------------------------------------


@table(
    ("kind", "detail"),
    [
        ("iteration_cap", ""),
        ("no_report", "its answer was cut at max_tokens"),
        ("invalid_report", ""),
        ("model_error", "overloaded: try later"),
        ("model_refused", ""),
        ("context_full", ""),
    ],
)
def test_an_agents_own_end_is_its_delegations_end(kind: OutcomeKind, detail: str) -> None:
    head = session()
    delegate(head)
    head.wants("host.1", 50)
    (post,) = head.hears("host.1", Finished(kind, "half of it", detail, Settled(Usage(9))))
    assert post.recipient == "host"
    assert post.body == DelegationEnded(
        1,
        0,
        kind,
        "host.1",
        NULL,
        "half of it",
        detail,
        Usage(9, calls=1),
        by=head.seq,
        metadata=CallMetadata("kid", "host", "error"),
    )
    assert head.status("host.1") == "gone"


def test_an_answer_keeps_the_note_that_it_was_cut() -> None:
    head = session()
    delegate(head)
    (end,) = ends(head.hears("host.1", Finished("answered", "Par", "its answer was cut at max_tokens")))
    assert (end.kind, end.text, end.detail) == ("answered", "Par", "its answer was cut at max_tokens")


def test_an_end_carries_the_usage_of_the_whole_subtree_and_open_reservations() -> None:
    head = session()
    delegate(head)
    delegate(head, "host.1")
    head.wants("host.1.1", 40)
    head.hears("host.1.1", TurnSettled(Usage(10), "thought of the grandkid"))
    head.wants("host.1.1", 70, turn=2)
    below, end = ends(head.hears("host.1", BOOM))
    assert (below.usage, below.unsettled) == (Usage(10, calls=1), Need(70))
    assert (end.usage, end.unsettled) == (Usage(10, calls=1), Need(70))
    assert (below.kind, below.text, below.detail) == (
        "cancelled",
        "thought of the grandkid",
        "the agent that delegated was stopped",
    )
    assert (end.kind, end.detail, end.by) == ("crashed", "Boom while it handled event 1", head.seq)


def test_what_an_agent_used_that_has_left_the_tree_is_still_counted() -> None:
    head = race(2)
    head.wants("host.1", 50)
    head.ends("host.1", "model_error", used=20)
    assert head.status("host.1") == "gone"
    head.wants("host.2", 50)
    (end,) = ends(head.ends("host.2", used=5))
    assert end.usage == Usage(25, calls=2)


def test_an_agent_that_finishes_before_those_it_delegated_to_ends_them() -> None:
    head = session()
    delegate(head)
    delegate(head, "host.1")
    posts = head.ends("host.1")
    assert said(posts) == ["host.1.1:Stop", "host.1:DelegationEnded", "host:DelegationEnded"]
    assert (head.status("host.1"), head.status("host.1.1")) == ("holding", "draining")


def test_an_agent_ends_once() -> None:
    head = session()
    delegate(head)
    assert len(ends(head.hears("host.1", BOOM))) == 1
    assert head.hears("host.1", Finished("answered", "after all")) == []
    assert head.hears("host.1", Stopped()) == []


def test_an_end_takes_the_deadline_back() -> None:
    head = session(kid=Limits(deadline_s=5))
    delegate(head)
    posts = head.hears("host.1", Finished("answered", "done"))
    assert [post.body for post in posts[:1]] == [CancelTimer(1)]
    assert head.hears("clock", TimerFired(1)) == []


# --- everything below -------------------------------------------------------------


def test_ending_an_agent_ends_all_below_it_deepest_first_and_no_other() -> None:
    head = session(Limits(max_depth=9))
    for who in ("host", "host.1", "host.1.1", "host.1"):
        delegate(head, who)
    delegate(head, call=1)
    posts = head.hears("host.1", BOOM)
    assert said(posts) == [
        "host.1.1.1:Stop",
        "host.1.1:DelegationEnded",
        "host.1.1:Stop",
        "host.1.2:Stop",
        "host.1:DelegationEnded",
        "host.1:DelegationEnded",
        "host.1:Stop",
        "host:DelegationEnded",
    ]
    assert set(stops(posts)) == {"host.1", "host.1.1", "host.1.1.1", "host.1.2"}
    assert head.status("host.2") == "acting"


def test_a_stop_names_the_grant_that_is_in_flight() -> None:
    head = session()
    delegate(head)
    head.wants("host.1", turn=4, attempt=2)
    posts = head.hears("client", Cancel())
    assert [post.body for post in posts if isinstance(post.body, Stop)] == [
        Stop("cancelled", (4, 2)),
        Stop("cancelled"),
    ]


def test_an_ended_agent_stays_in_the_tree_until_all_below_it_have_drained() -> None:
    head = session()
    delegate(head)
    delegate(head, "host.1")
    head.wants("host.1.1", 30)
    head.hears("host.1", BOOM)
    head.hears("host.1", Stopped())
    assert (head.status("host.1"), head.state.live) == ("holding", 2)
    head.hears("host.1.1", Stopped(Settled(Usage(11))))
    assert (head.status("host.1"), head.status("host.1.1"), head.state.live) == ("gone", "gone", 1)
    record = head.record("host")
    assert record is not None
    assert record.spent == Usage(11, calls=1)


def test_a_delegation_does_not_wait_for_stragglers() -> None:
    head = race(2)
    head.wants("host.1", 30)
    (end,) = ends(head.ends("host.2", text="won"))
    assert (end.kind, end.unsettled, head.status("host.1")) == ("answered", Need(30), "draining")


@pytest.fixture
def _shallow_stack() -> Iterator[None]:
    """Leaves room for a hundred more frames only."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("_shallow_stack")
def test_trees_can_be_deeper_than_the_stack() -> None:
    depth = 200
    head = session(Limits(max_depth=depth, max_agents=depth + 1))
    who = "host"
    for _ in range(depth):
        delegate(head, who)
        who += ".1"
    posts = head.hears("client", Cancel())
    assert len(stops(posts)) == depth + 1
    assert next(iter(stops(posts))) == who


# --- races ------------------------------------------------------------------------


def test_the_first_answer_wins_and_all_others_have_lost() -> None:
    head = race(3)
    posts = head.ends("host.2", text="fast")
    (end,) = ends(posts)
    assert (end.kind, end.text, end.address, end.reasons) == ("answered", "fast", "host.1", ())
    assert stops(posts) == {"host.1": "lost_race", "host.3": "lost_race"}


def test_agents_below_a_loser_are_stopped_with_it() -> None:
    head = race(2)
    delegate(head, "host.1")
    posts = head.ends("host.2")
    assert stops(posts) == {"host.1.1": "cancelled", "host.1": "lost_race"}


def test_losing_a_race_never_ends_a_delegation() -> None:
    head = race(2)
    head.ends("host.1")
    assert ends(head.hears("host.2", Stopped())) == []


def test_a_race_goes_on_as_long_as_one_is_left() -> None:
    head = race(3)
    assert head.ends("host.1", "model_error", "") == []
    assert stops(head.hears("host.3", BOOM)) == {"host.3": "crashed"}
    (end,) = ends(head.ends("host.2", text="last one standing"))
    assert (end.kind, end.text) == ("answered", "last one standing")


def test_a_race_that_all_lose_ends_as_the_last_of_them_with_all_their_reasons() -> None:
    head = race(3)
    head.ends("host.3", "model_refused", "I will not")
    head.hears("host.1", BOOM)
    (end,) = ends(head.ends("host.2", "iteration_cap", ""))
    assert (end.kind, end.text) == ("iteration_cap", "I will not")
    assert end.reasons == (
        Reason("host.3", "model_refused"),
        Reason("host.1", "crashed", "Boom while it handled event 1"),
        Reason("host.2", "iteration_cap"),
    )


def test_a_cancelled_race_names_the_racers_that_had_ended_before() -> None:
    head = race(2)
    head.ends("host.1", "model_error", "half")
    (end,) = ends(head.hears("client", Cancel()))
    assert (end.kind, end.text, end.reasons) == ("cancelled", "half", (Reason("host.1", "model_error"),))


def test_the_words_of_one_racer_are_not_put_into_anothers_mouth() -> None:
    head = race(2, SCHEMA)
    head.ends("host.1", "model_error", "words of the first")
    head.wants("host.2")
    head.hears("host.2", ReportBack(1, 0, Json(b"1"), Settled(Usage(1), "words of the second")))
    (end,) = ends(head.hears("schema", SchemaChecked(2, "ok")))
    assert (end.kind, end.value, end.text) == ("reported", Json(b"1"), "words of the second")


def test_a_winner_without_text_gives_no_text() -> None:
    head = race(2, SCHEMA)
    head.ends("host.1", "model_error", "words of the first")
    head.hears("host.2", ReportBack(1, 0, Json(b"1")))
    (end,) = ends(head.hears("schema", SchemaChecked(2, "ok")))
    assert (end.kind, end.text) == ("reported", "")


def test_a_reported_null_is_a_value_and_lists_no_reasons() -> None:
    head = race(2, {"type": "null"})
    head.ends("host.1", "model_error", "")
    head.hears("host.2", ReportBack(1, 0, Json(b"null")))
    (end,) = ends(head.hears("schema", SchemaChecked(2, "ok")))
    assert (end.kind, end.value, end.reasons) == ("reported", NULL, ())


# --- deciders that raise ----------------------------------------------------------


def test_a_failed_decider_ends_its_agent_as_crashed() -> None:
    head = session()
    delegate(head)
    head.wants("host.1", 30)
    stop, post = head.hears("host.1", DeciderFailed(17, "ZeroDivisionError"))
    assert stop == Post("host.1", Stop("crashed", (1, 1)))
    assert isinstance(post.body, DelegationEnded)
    assert (post.body.kind, post.body.detail) == ("crashed", "ZeroDivisionError while it handled event 17")
    head.hears("host.1", Stopped(Settled(Usage(3))))
    assert (head.status("host.1"), head.state.in_flight) == ("gone", 0)


def test_a_second_failure_changes_nothing_and_the_drain_is_still_waited_for() -> None:
    head = session()
    delegate(head)
    head.hears("host.1", BOOM)
    assert head.hears("host.1", BOOM) == []
    assert head.status("host.1") == "draining"


def test_a_winner_whose_decider_fails_gets_a_stop_and_still_wins() -> None:
    head = race(1, SCHEMA)
    head.hears("host.1", ReportBack(1, 0, Json(b"1")))
    head.hears("schema", SchemaChecked(2, "ok"))
    assert head.hears("host.1", BOOM) == [Post("host.1", Stop("crashed"))]
    assert head.hears("host.1", BOOM) == []
    head.hears("host.1", Stopped())
    assert head.status("host.1") == "gone"


def test_a_host_whose_decider_fails_ends_its_ask_as_crashed_and_can_be_asked_again() -> None:
    head = session()
    head.hears("host", BOOM)
    (post,) = [post for post in head.hears("host", Stopped()) if isinstance(post.body, AskEnded)]
    assert isinstance(post.body, AskEnded)
    assert post.body.kind == "crashed"
    (begin,) = head.asks(name="r2")
    assert isinstance(begin.body, Begin)


def test_a_failure_of_an_unknown_agent_changes_nothing() -> None:
    assert session().hears("host.9", BOOM) == []


def test_a_report_that_waits_is_still_judged_after_its_senders_decider_failed() -> None:
    head = race(1, SCHEMA)
    head.hears("host.1", ReportBack(1, 0, Json(b"1")))
    assert ends(head.hears("host.1", BOOM)) == []
    posts = head.hears("schema", SchemaChecked(2, "ok"))
    assert posts[0] == Post("host.1", ReportJudged(1, 0, "accepted"))
    assert ends(posts)[0].kind == "reported"


def test_a_cancelled_delegation_ends_with_its_whole_subtree_and_no_other_does() -> None:
    head = SessionHarness().opens()
    head.asks()
    for call in (0, 1):
        head.hears("host", Delegate(1, call, ("kid", "kid"), text_json("go")))
    head.hears("host.1", Delegate(1, 0, ("kid",), text_json("go")))
    posts = head.hears("host", CancelTask(1, 0))
    (*_, last) = ends(posts)
    assert last.detail == "the agent that delegated has cancelled it"
    assert said(posts) == [
        "host.1.1:Stop",
        "host.1:DelegationEnded",
        "host.1:Stop",
        "host.2:Stop",
        "host:DelegationEnded",
    ]
    assert head.hears("host", CancelTask(1, 0)) == []
    assert head.hears("host", CancelTask(9, 9)) == []
    assert head.hears("host.7", CancelTask(1, 1)) == []
    assert said(head.hears("host", CancelTask(1, 1)))[-1] == "host:DelegationEnded"


def test_a_delegation_that_is_cancelled_while_its_schema_is_checked_never_begins() -> None:
    head = SessionHarness().opens()
    head.asks()
    head.hears("host", Delegate(1, 0, ("kid",), text_json("go"), raw(SCHEMA)))
    assert said(head.hears("host", CancelTask(1, 0))) == ["host:DelegationEnded"]
    assert head.accepts() == []


@pytest.mark.parametrize("text", ["so far", ""])
def test_an_agent_that_ends_with_its_last_answer_stops_those_below_and_hands_its_labels_up(text: str) -> None:
    head = session()
    delegate(head)
    delegate(head, "host.1")
    work = UnitOfWork(head.state, 9)
    work.update_record("host.1", text=text, labels=("secret",))
    record = work.record("host.1")
    assert record is not None
    end_answered(work, record)
    posts = list(work.take_posts())
    assert said(posts) == ["host.1.1:Stop", "host.1:DelegationEnded", "host.1:Stop", "host:DelegationEnded"]
    below, end = ends(posts)
    assert below.metadata == CallMetadata("kid", "kid", "error", "")
    assert (end.kind, end.text, end.labels) == ("answered", text or NO_SUMMARY, ("secret",))


def test_a_cancelled_delegation_has_the_labels_of_its_racers() -> None:
    head = session()
    delegate(head)
    head.hears("host.1", TurnRequested(1, 1, Need(5), "d", labels=("secret",)))
    (end,) = ends(head.hears("host", CancelTask(1, 0)))
    assert end.labels == ("secret",)


def test_an_agent_drains_once_and_leaves_after_all_below_it() -> None:
    head = session()
    delegate(head)
    delegate(head, "host.1")
    head.hears("host", CancelTask(1, 0))
    for _ in range(2):
        head.hears("host.1.1", Stopped())
        assert (head.record("host.1.1"), head.state.live) == (None, 2)
    assert head.status("host.1") != "gone"
    head.hears("host.1", Stopped())
    assert (head.status("host.1"), head.state.live) == ("gone", 1)
    head.ends("host")
    head.ends("host")
    assert head.state.live == 0


def test_an_agent_that_drains_while_its_request_waits_above_leaves_once_with_the_answer() -> None:
    head = SessionHarness(profile("host", ["kid"]), profile("kid"), scopes=("*",)).opens()
    head.asks()
    delegate(head)
    head.wants("host.1")
    head.hears("host", CancelTask(1, 0))
    head.hears("host.1", Stopped())
    assert (head.status("host.1"), head.state.live) == ("draining", 2)
    head.hears("budgets", BudgetGiven("host.1", 1, 1, "cancelled"))
    assert (head.status("host.1"), head.state.live) == ("gone", 1)


def test_an_agent_whose_delegation_has_ended_ends_without_a_second_end() -> None:
    for body in (Finished("answered", "late"), Finished("budget", "late"), DeciderFailed(1, "Boom")):
        head = SessionHarness().opens()
        head.asks()
        head.hears("host", Delegate(1, 0, ("kid",), PROMPT))
        head.hears("host.1", Delegate(1, 0, ("kid",), PROMPT))
        work = UnitOfWork(head.state)
        work.update_record("host", delegations=IntMap())
        head.state = work.commit()
        posts = head.hears("host.1", body)
        assert not any(post.recipient == "host" for post in posts)
        record = head.record("host.1")
        assert record is None or not record.is_running


def test_the_ends_of_background_tasks_are_numbered_one_by_one() -> None:
    head = session(Limits(tokens=10_000))
    for call in (0, 1):
        head.hears("host", Delegate(1, call, ("kid",), PROMPT, mode="background", room=100))
    for kid in ("host.1", "host.2"):
        head.ends(kid)
    record = head.record("host")
    assert record is not None
    assert (record.ends, [number for number, _ in record.ended.items()]) == (2, [1, 2])


def test_an_agent_that_finishes_stops_those_below_it_before_its_timer_and_its_delegation_end() -> None:
    head = session(kid=Limits(deadline_s=9))
    delegate(head)
    delegate(head, "host.1")
    posts = head.hears("host.1", Finished("model_error", "", "overloaded"))
    assert [post.recipient for post in posts] == ["host.1.1", "clock", "host.1", "clock", "host"]
    assert [post.body.timer for post in posts if isinstance(post.body, CancelTimer)] == [2, 1]


def test_a_cancelled_ask_stops_its_host_before_the_report_of_the_host_is_late() -> None:
    head = SessionHarness(profile("host")).opens()
    head.asks(SCHEMA)
    head.accepts()
    head.hears("host", ReportBack(1, 0, Json(b"{}")))
    posts = head.hears("client", Cancel("no more"))
    assert [type(post.body) for post in posts] == [Stop, ReportJudged, SetTimer]
