"""Reports: judged in the order of the log; the first valid one wins, every other is late or invalid."""

import pytest

from callboard.actors.protocol.client_messages import Ask, AskEnded, Cancel
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    DeciderFailed,
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    ReportJudged,
    Stop,
    Stopped,
)
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked, TimerFired
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.replay.testing.sessions.scenario import NO_LIMITS, profile
from tests.actors.harness import SCHEMA, SessionHarness, raw, said

PROMPT = text_json("go")
ONE, TWO = Json(b"1"), Json(b"2")


def race(copies: int = 1, kid: Limits = NO_LIMITS, schema: object = SCHEMA) -> SessionHarness:
    """Start an ask with one delegation whose schema is accepted; the next check is number 2."""
    head = SessionHarness(profile("host", ["kid"]), profile("kid", ["kid"], limits=kid)).opens()
    head.asks()
    head.hears("host", Delegate(1, 0, ("kid",) * copies, PROMPT, raw(schema)))
    head.accepts()
    return head


def reports(head: SessionHarness, who: str, value: Json = ONE, call: int = 0, turn: int = 1) -> list[Post]:
    return head.hears(who, ReportBack(turn, call, value))


def checked(head: SessionHarness, check: int, status: str, *problems: SchemaProblem) -> list[Post]:
    return head.hears("schema", SchemaChecked(check, status, problems))  # type: ignore[arg-type]  # a status


def verdicts(posts: list[Post]) -> list[tuple[str, int, str]]:
    return [(p.recipient, p.body.call, p.body.verdict) for p in posts if isinstance(p.body, ReportJudged)]


def end(posts: list[Post]) -> DelegationEnded | None:
    return next((post.body for post in posts if isinstance(post.body, DelegationEnded)), None)


def test_a_report_is_checked_against_the_delegations_schema_within_the_agents_time() -> None:
    head = race(kid=Limits(schema_timeout_s=2))
    (post,) = reports(head, "host.1")
    assert post == Post("schema", CheckSchema(2, "report", raw(SCHEMA), ONE, 2_000))
    host = SessionHarness(profile("host", ["kid"]), profile("kid"), limits=Limits(schema_timeout_s=2)).opens()
    (accept,) = host.asks(SCHEMA)
    assert accept.body == CheckSchema(1, "accept", raw(SCHEMA), timeout_ms=2_000)


def test_a_report_without_a_schema_ends_its_delegation_at_once() -> None:
    head = SessionHarness(profile("host", ["kid"]), profile("kid")).opens()
    head.asks()
    head.hears("host", Delegate(1, 0, ("kid",), PROMPT))
    posts = reports(head, "host.1")
    assert verdicts(posts) == [("host.1", 0, "accepted")]
    ended, host = end(posts), head.record("host")
    assert ended is not None
    assert host is not None
    assert (ended.kind, ended.value, host.delegations.size) == ("reported", ONE, 0)


def test_the_check_of_a_report_names_the_type_that_its_schema_was_made_of() -> None:
    typed = [profile(name, ["kid"], schema=SCHEMA, output_type=f"app.{name}") for name in ("host", "kid")]
    head = SessionHarness(*typed).opens()
    head.hears("client", Ask("r1", PROMPT, raw(SCHEMA), output_type="app.Asked"))
    head.hears("schema", SchemaChecked(1, "ok"))
    names = {}
    head.hears("host", Delegate(1, 0, ("kid",), PROMPT))
    head.hears("host", Delegate(1, 1, ("kid",), PROMPT, raw(SCHEMA)))
    for who in ("host", "host.1", "host.2"):
        (post,) = reports(head, who)
        assert isinstance(post.body, CheckSchema)
        names[who] = post.body.output_type
    assert names == {"host": "app.Asked", "host.1": "app.kid", "host.2": ""}


def test_a_valid_report_ends_the_delegation_and_stops_all_but_its_sender() -> None:
    head = race(3)
    reports(head, "host.2")
    posts = checked(head, 2, "ok")
    assert said(posts) == [
        "host.2:ReportJudged",
        "host:DelegationEnded",
        "host.1:Stop",
        "host.3:Stop",
    ]
    found = end(posts)
    assert found is not None
    assert (found.kind, found.value) == ("reported", ONE)
    assert head.status("host.2") == "draining"
    head.hears("host.2", Finished("reported"))
    assert head.status("host.2") == "gone"


def test_what_its_sender_still_has_below_it_is_stopped_too() -> None:
    head = race()
    head.hears("host.1", Delegate(1, 0, ("kid",), PROMPT))
    reports(head, "host.1")
    posts = checked(head, 2, "ok")
    assert [post.recipient for post in posts if isinstance(post.body, Stop)] == ["host.1.1"]


def test_an_invalid_report_goes_back_with_its_problems_and_ends_nothing() -> None:
    head = race()
    reports(head, "host.1")
    problem = SchemaProblem("/n", "is missing")
    posts = checked(head, 2, "invalid", problem)
    assert posts == [Post("host.1", ReportJudged(1, 0, "invalid", (problem,)))]
    assert head.status("host.1") == "acting"


def test_a_check_that_could_not_answer_counts_as_invalid_and_says_so() -> None:
    head = race()
    reports(head, "host.1")
    (post,) = checked(head, 2, "failed")
    assert post.body == ReportJudged(1, 0, "invalid", (SchemaProblem("", "it could not be checked"),))


def test_one_report_of_a_delegation_is_checked_at_a_time_in_the_order_of_the_log() -> None:
    head = race(2)
    assert len(reports(head, "host.2", ONE)) == 1
    assert reports(head, "host.1", TWO) == []
    posts = checked(head, 2, "invalid")
    assert verdicts(posts) == [("host.2", 0, "invalid")]
    assert posts[-1].body == CheckSchema(3, "report", raw(SCHEMA), TWO)
    posts = checked(head, 3, "ok")
    assert verdicts(posts) == [("host.1", 0, "accepted")]


def test_a_later_report_cannot_win_while_an_earlier_one_is_being_checked() -> None:
    head = race(2)
    reports(head, "host.2", ONE)
    reports(head, "host.1", TWO)
    posts = checked(head, 2, "ok")
    assert verdicts(posts) == [("host.2", 0, "accepted"), ("host.1", 0, "late")]
    found = end(posts)
    assert found is not None
    assert found.value == ONE


@pytest.mark.parametrize("count", [2, 5])
def test_of_many_reports_of_one_turn_the_first_valid_one_wins_and_each_is_judged_once(count: int) -> None:
    head = race()
    for call in range(count):
        reports(head, "host.1", call=call)
    assert verdicts(checked(head, 2, "invalid")) == [("host.1", 0, "invalid")]
    late = [("host.1", call, "late") for call in range(2, count)]
    assert verdicts(checked(head, 3, "ok")) == [("host.1", 1, "accepted"), *late]


def test_delegations_are_judged_independently_of_each_other() -> None:
    head = race()
    head.hears("host", Delegate(1, 1, ("kid",), PROMPT, raw(SCHEMA)))
    reports(head, "host.1", ONE)
    (post,) = reports(head, "host.2", TWO)
    assert post.body == CheckSchema(3, "report", raw(SCHEMA), TWO)
    assert verdicts(checked(head, 3, "ok")) == [("host.2", 0, "accepted")]
    assert verdicts(checked(head, 2, "ok")) == [("host.1", 0, "accepted")]


def test_a_report_of_a_delegation_without_schema_is_accepted_as_it_is() -> None:
    head = race(schema=None)
    posts = reports(head, "host.1")
    assert verdicts(posts) == [("host.1", 0, "accepted")]


# --- who has ended ----------------------------------------------------------------


@pytest.mark.parametrize("how", ["deadline", "crashed", "budget"])
def test_a_report_that_came_before_its_senders_end_can_still_win(how: str) -> None:
    head = race(kid=Limits(deadline_s=5, tokens=100))
    reports(head, "host.1")
    if how == "deadline":
        posts = head.hears("clock", TimerFired(1))
    elif how == "crashed":
        posts = head.hears("host.1", DeciderFailed(1, "Boom"))
    else:
        posts = head.wants("host.1", 101)
    assert end(posts) is None, "the report waits for its judgement"
    head.hears("host.1", Stopped())
    assert head.status("host.1") == "gone"
    posts = checked(head, 2, "ok")
    assert verdicts(posts) == [("host.1", 0, "accepted")]
    found = end(posts)
    assert found is not None
    assert found.kind == "reported"


def test_if_it_is_invalid_the_delegation_ends_as_its_last_agent_did() -> None:
    head = race(kid=Limits(deadline_s=5))
    reports(head, "host.1")
    head.hears("clock", TimerFired(1))
    posts = checked(head, 2, "invalid")
    assert verdicts(posts) == [("host.1", 0, "invalid")]
    found = end(posts)
    assert found is not None
    assert found.kind == "deadline"


def test_a_report_that_came_after_its_senders_end_is_late() -> None:
    head = race(2)
    head.hears("host.1", DeciderFailed(1, "Boom"))
    assert verdicts(reports(head, "host.1")) == [("host.1", 0, "late")]
    head.hears("host.1", Stopped())
    assert verdicts(reports(head, "host.1", call=1)) == [("host.1", 1, "late")]


def test_a_loser_that_reports_after_the_race_is_late() -> None:
    head = race(2)
    reports(head, "host.1")
    checked(head, 2, "ok")
    assert verdicts(reports(head, "host.2")) == [("host.2", 0, "late")]
    assert verdicts(reports(head, "host.1", call=1)) == [("host.1", 1, "late")]


def test_a_report_of_an_unknown_agent_is_late() -> None:
    assert verdicts(reports(race(), "host.77")) == [("host.77", 0, "late")]
    assert verdicts(reports(race(), "client")) == [("client", 0, "late")]


def test_others_may_win_while_a_report_of_one_that_has_ended_waits_behind_theirs() -> None:
    head = race(2)
    reports(head, "host.2", TWO)
    reports(head, "host.1", ONE)
    head.hears("host.1", DeciderFailed(1, "Boom"))
    posts = checked(head, 2, "ok")
    assert verdicts(posts) == [("host.2", 0, "accepted"), ("host.1", 0, "late")]


# --- a cancel ---------------------------------------------------------------------


def test_a_cancel_ends_at_once_and_pending_reports_are_late() -> None:
    head = race(2)
    reports(head, "host.1")
    reports(head, "host.2")
    posts = head.hears("client", Cancel())
    assert verdicts(posts) == [("host.1", 0, "late"), ("host.2", 0, "late")]
    found = end(posts)
    assert found is not None
    assert found.kind == "cancelled"
    assert verdicts(checked(head, 2, "ok")) == []


def test_so_does_the_end_of_the_agent_that_delegated() -> None:
    head = race()
    head.hears("host.1", Delegate(1, 0, ("kid",), PROMPT, raw(SCHEMA)))
    reports(head, "host.1.1")
    posts = head.hears("host.1", DeciderFailed(1, "Boom"))
    assert verdicts(posts) == [("host.1.1", 0, "late")]
    assert checked(head, 2, "ok") == []


def test_the_answer_to_a_cancelled_asks_check_says_nothing_about_the_next_ask() -> None:
    head = SessionHarness().opens()
    head.asks(SCHEMA)
    head.hears("client", Cancel())
    head.asks({"type": "array"}, name="r2")
    assert checked(head, 1, "invalid") == [], "it was about the first ask's schema"
    assert head.session == "checking"
    assert said(checked(head, 2, "ok")) == ["host:Begin"]


def test_the_judgement_of_a_cancelled_asks_report_says_nothing_about_the_next_asks() -> None:
    head = SessionHarness().opens()
    head.asks(SCHEMA)
    head.accepts()
    reports(head, "host")
    head.hears("client", Cancel())
    head.hears("host", Stopped())
    head.asks(SCHEMA, name="r2")
    assert checked(head, 2, "ok") == [], "nothing of this ask is being checked"
    reports(head, "host", TWO, turn=2)
    posts = checked(head, 3, "ok")
    assert verdicts(posts) == [("host", 0, "accepted")]
    (ended,) = [p.body for p in head.hears("host", Finished("reported")) if isinstance(p.body, AskEnded)]
    assert (ended.request_id, ended.value) == ("r2", TWO)


def test_a_check_is_answered_once() -> None:
    head = race()
    reports(head, "host.1")
    checked(head, 2, "invalid")
    assert checked(head, 2, "ok") == []
    assert checked(head, 99, "ok") == []
