"""The rule of repair levels: it holds of good logs, and fails on logs that break it."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from callboard.actors.protocol.messages import Finished, TurnRequested
from callboard.actors.protocol.repair_levels import Repair
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.repeated_requests import RepairLevels
from callboard.replay.testing.rules.requests import check_requests
from callboard.replay.testing.sessions.resumes import check_resumes
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.verify import Verifier
from tests.mutants.scripts import DONE, LOOK
from tests.replay.testing.edited_logs import Log
from tests.tables import table

REFUSED = Reply(failure=ModelFailure("invalid_request_error", "messages.1: no"))


def policy(request: ModelRequest) -> Reply:
    """Look, be refused at each level but the last, and answer."""
    if request.turn == 1:
        return calls(LOOK)
    return DONE if request.repair.level == 2 else REFUSED


SCENARIO = Scenario([profile("host", [], ["look"])], policy, asks=[ask("one"), ask("two")])
LOG = SessionWorld(SCENARIO).run().log
WISHES = [at for at, event in enumerate(LOG) if isinstance(event.body, TurnRequested)]


def wished(nth: int, **changes: Any) -> Log:
    """Change the nth request for a turn."""
    at = WISHES[nth]
    return [*LOG[:at], replace(LOG[at], body=replace(LOG[at].body, **changes)), *LOG[at + 1 :]]


def given_up() -> Log:
    """Let the host end where it asks at the next level."""
    at, end = WISHES[2], next(event for event in LOG if isinstance(event.body, Finished))
    return [*LOG[:at], replace(end, seq=LOG[at].seq, cause=LOG[at].cause)]


DOCTORED: dict[str, Callable[[], Log]] = {
    "no level after a refusal": lambda: wished(2, repair=None),
    "two levels at once": lambda: wished(2, repair=Repair(2, 1)),
    "a level without a refusal": lambda: wished(0, repair=Repair(1, 1)),
    "a level that falls": lambda: wished(3, repair=None),
    "a cache that is not broken": lambda: wished(2, breaks_cache=False),
    "no attempt at the next level": given_up,
}


def test_the_levels_are_raised_and_the_second_ask_succeeds() -> None:
    wishes = [event.body for event in LOG if isinstance(event.body, TurnRequested)]
    assert [(one.turn, one.attempt, one.repair) for one in wishes] == [
        (1, 1, None),
        (2, 1, None),
        (2, 2, Repair(1, 1)),
        (3, 1, Repair(2, 1)),
    ]


def test_a_good_log_breaks_no_rule_and_goes_on_from_a_crash_at_every_event() -> None:
    assert check_log(LOG, is_at_rest=True) == []
    assert check_requests(LOG) == []
    assert Verifier(LOG).run() is None
    assert check_resumes(SCENARIO, LOG) == []


@table("name", DOCTORED)
def test_a_log_that_breaks_the_rule_is_found(name: str) -> None:
    found = check_log(DOCTORED[name](), is_at_rest=True, kinds=(RepairLevels,))
    assert {breach.rule for breach in found} == {RepairLevels.rule}
