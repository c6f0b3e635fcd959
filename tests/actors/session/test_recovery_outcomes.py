"""After a crash a session ends as it could have ended without one: in an outcome that some schedule reaches.

The possible outcomes come from every schedule of a small session. They are compared with the outcomes of
every prefix of the logs of some schedules, resumed in several orders.
"""

from collections.abc import Callable
from random import Random

import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.monitors import at_rest
from callboard.replay.testing.sessions.resumes import go_on
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from callboard.replay.testing.sessions.world import SessionWorld

SCHEMA: dict[str, object] = {"type": "object", "required": ["n"]}
Outcome = tuple[str, bytes, str]


def heard(request: ModelRequest) -> Reply:
    """End a host with the text of its last result."""
    return Reply(str(request.conversation[-1]["content"]))


def race() -> Scenario:
    """Let two agents race to report; either may win."""

    def says(request: ModelRequest) -> Reply:
        if request.profile == "host":
            racers = ("task", {"agents": ["kid", "sibling"], "prompt": "go", "output_schema": SCHEMA})
            return calls(racers) if request.turn == 1 else heard(request)
        return report({"n": 1 if request.profile == "kid" else 2})

    profiles = [profile("host", ["kid", "sibling"]), profile("kid"), profile("sibling")]
    return Scenario(profiles, says, asks=[ask()])


def first_is_wrong() -> Scenario:
    """Let one racer never give a valid report, and the other use a tool before it does."""

    def says(request: ModelRequest) -> Reply:
        if request.profile == "host":
            racers = ("task", {"agents": ["kid", "sibling"], "prompt": "go", "output_schema": SCHEMA})
            return calls(racers) if request.turn == 1 else heard(request)
        if request.profile == "kid":
            return report({"m": request.turn})
        return calls(("look", {})) if request.turn == 1 else report({"n": 2})

    few = Limits(max_report_attempts=1)
    profiles = [
        profile("host", ["kid", "sibling"]),
        profile("kid", limits=few),
        profile("sibling", (), ["look"]),
    ]
    return Scenario(profiles, says, asks=[ask()])


def tight() -> Scenario:
    """Let two children share a budget that may not be enough for both, in either order."""

    def says(request: ModelRequest) -> Reply:
        if request.profile == "host":
            both = (task("kid"), task("sibling"))
            return calls(*both) if request.turn == 1 else heard(request)
        return calls(("look", {})) if request.turn == 1 else Reply(f"{request.profile} is done")

    profiles = [
        profile("host", ["kid", "sibling"]),
        profile("kid", (), ["look"]),
        profile("sibling", (), ["look"]),
    ]
    return Scenario(profiles, says, asks=[ask()], limits=Limits(tokens=9_000))


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "race": race,
    "first is wrong": first_is_wrong,
    "tight": tight,
}


def outcome_of(world: SessionWorld) -> Outcome:
    (end,) = world.of(AskEnded)
    return end.kind, bytes(end.value), end.text


def possible(scenario: Scenario) -> set[Outcome]:
    """Return the outcomes of the schedules without a crash: of all, or of enough to find no new ones."""
    found: set[Outcome] = set()

    def ends(world: SessionWorld) -> bool:
        found.add(outcome_of(world))
        return True

    for scheduler in ("exhaustive", "portfolio"):
        explored = explore(
            lambda: SessionWorld(scenario), [at_rest("It ends.", ends)], Plan(scheduler=scheduler, runs=300)
        )
        assert explored.is_ok
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_resumed_session_ends_as_some_schedule_would_have(name: str) -> None:
    scenario = SCENARIOS[name]()
    allowed = possible(scenario)
    seen: set[Outcome] = set()
    for seed in range(2):
        dice = Random(seed)
        log = SessionWorld(scenario).run(lambda n, dice=dice: dice.randrange(n)).log  # type: ignore[misc]  # mypy infers no type of a lambda with a default
        start = next(event.seq for event in log if event.kind == "Ask")
        for length in range(start, len(log) + 1):
            for order in range(2):
                after = Random(order)
                world = go_on(scenario, log[:length]).run(lambda n, after=after: after.randrange(n))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
                seen.add(outcome_of(world))
                assert outcome_of(world) in allowed, f"seed {seed}, cut after {length}, order {order}"
    if name == "race":
        assert len(seen) == 2, "both ends of the race come up, or this test shows nothing"
