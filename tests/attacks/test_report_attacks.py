"""Attack cases G3 to G5: reports that come twice, too late, or wrong before they are right."""

import pytest

from callboard import Limits
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import ReportBack, ReportJudged
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from tests.attacks.orders import (
    SCHEMA,
    every_moment,
    every_order,
    faults,
    finished,
    reporting,
    results,
    scenario,
    verdicts,
)

# --- G3: two reports in one reply ------------------------------------------------------------------------


@pytest.mark.slow
def test_g3_of_two_reports_in_one_reply_the_first_wins_and_the_second_is_late() -> None:
    for world in every_order(scenario(reporting({"n": 1}, {"n": 2}))):
        assert len(world.of(ReportBack)) == 2
        assert verdicts(world) == ["accepted", "late"]
        assert results(world) == [("reported", b'{"n":1}')]


# --- G4: a report after the end --------------------------------------------------------------------------


def _late(request: ModelRequest) -> Reply:
    if request.address == "host":
        return calls(task("kid", output_schema=SCHEMA)) if request.turn == 1 else Reply("done")
    return report({"n": request.turn})


ENDS = [("cancel",), ("close",), ("jump",), ("cancel", "close"), ("cancel", "jump")]


@pytest.mark.slow
@pytest.mark.parametrize("kinds", ENDS, ids="+".join)
def test_g4_a_report_and_an_end_in_every_order(kinds: tuple[str, ...]) -> None:
    made = scenario(
        _late,
        kid_limits=Limits(deadline_s=5.0),
        limits=Limits(deadline_s=20.0),
        may_fail=faults(*kinds, most=len(kinds)),
    )
    ends: set[tuple[str, tuple[str, ...]]] = set()
    for world in every_order(made, runs=600):
        assert len(verdicts(world)) == len(world.of(ReportBack))
        reported = [end for end, _ in results(world) if end == "reported"]
        assert verdicts(world).count("accepted") == len(reported)
        ends |= {(end, tuple(verdicts(world))) for end, _ in results(world)}
    assert ("reported", ("accepted",)) in ends
    assert len(ends) > 1


@pytest.mark.slow
def test_g4_a_racer_that_was_ended_cannot_win_while_the_other_still_runs() -> None:
    def says(request: ModelRequest) -> Reply:
        if request.address == "host":
            kids = task("kid", copies=2, output_schema=SCHEMA)
            return calls(kids) if request.turn == 1 else Reply("done")
        return report({"by": request.address, "n": 1})

    made = scenario(says, kid_limits=Limits(deadline_s=5.0), may_fail=faults("jump"))
    verdicts_seen = set()
    for world in every_order(made, runs=500):
        verdicts_seen.add(tuple(verdicts(world)))
    assert {("accepted",), ("accepted", "late"), ("late", "accepted"), ("late", "late")} <= verdicts_seen


@pytest.mark.parametrize("kinds", ENDS[:3], ids="+".join)
def test_g4_an_end_at_every_moment_of_the_usual_run(kinds: tuple[str, ...]) -> None:
    made = scenario(_late, kid_limits=Limits(deadline_s=5.0), may_fail=faults(*kinds))
    ended = {world.ended.kind for world in every_moment(made)}
    assert ended == ({"answered", "cancelled"} if kinds != ("jump",) else {"answered"})


def test_g4_a_child_without_budget_cannot_correct_its_invalid_report() -> None:
    # The first turn uses up the budget of the child: its invalid report is judged, and no further turn comes.

    def says(request: ModelRequest) -> Reply:
        if request.address == "host":
            return calls(task("kid", output_schema=SCHEMA)) if request.turn == 1 else Reply("done")
        value = {"n": 1} if request.turn == 2 else {"m": 1}
        return Reply("", (("report_back", value),), "tool_use", usage=Usage(5_000, 100))

    for world in every_order(scenario(says, kid_limits=Limits(tokens=6_000))):
        assert verdicts(world) == ["invalid"]
        assert [end for end, _ in results(world)] == ["budget"]


@pytest.mark.parametrize("kinds", ENDS[:3], ids="+".join)
def test_g4_a_forged_report_long_after_the_end_changes_nothing(kinds: tuple[str, ...]) -> None:
    for world in every_moment(scenario(_late, kid_limits=Limits(deadline_s=5.0), may_fail=faults(*kinds))):
        ended, count = list(world.of(AskEnded)), len(world.log)
        before = world.supervisor
        for sender in ("host", "host.1", "host.7", "host.1.1"):
            world.post(sender, 0, (Post(SUPERVISOR, ReportBack(1, 0, Json(b'{"n":9}'))),))
            finished(world)
        assert world.of(AskEnded) == ended
        assert world.supervisor == before
        assert {type(event.body) for event in world.log[count:]} <= {ReportBack, ReportJudged}
        judged = [event.body for event in world.log[count:] if isinstance(event.body, ReportJudged)]
        assert {one.verdict for one in judged} <= {"late"}


# --- G5: invalid, valid, valid ---------------------------------------------------------------------------


@pytest.mark.slow
def test_g5_of_an_invalid_and_two_valid_reports_the_first_valid_one_wins() -> None:
    for world in every_order(scenario(reporting({"m": 1}, {"n": 2}, {"n": 3}))):
        assert verdicts(world) == ["invalid", "accepted", "late"]
        assert results(world) == [("reported", b'{"n":2}')]


@pytest.mark.slow
def test_g5_the_first_valid_report_wins_over_several_turns() -> None:
    def says(request: ModelRequest) -> Reply:
        if request.address == "host":
            return calls(task("kid", output_schema=SCHEMA)) if request.turn == 1 else Reply("done")
        return report({"m": 1}) if request.turn == 1 else reporting({"n": 2}, {"n": 3})(request)

    for world in every_order(scenario(says)):
        assert verdicts(world) == ["invalid", "accepted", "late"]
        assert results(world) == [("reported", b'{"n":2}')]
