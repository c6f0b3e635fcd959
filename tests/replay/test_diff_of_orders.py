"""Two runs of one session in another order of answers: where nothing is fought over, nothing differs."""

from random import Random

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.actors.session.fork_plan import calls_of
from callboard.actors.session.recorded_answers import OF_MODEL
from callboard.replay.recording import Recording
from callboard.replay.testing.agents.scenario_arguments import recording_of
from callboard.replay.testing.sessions.fork_world import Fork, ForkWorld
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, Use, calls, report, task
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.effort import effort
from tests.mutants.scripts import LOOK, OTHER, SCHEMA
from tests.session_plans import Plan, play
from tests.tables import table

BUSY = Reply(failure=ModelFailure("overloaded", is_retryable=True))
INVALID = report({"k": 0})
LOWER = {"lead": ("kid", "plain"), "host": ("lead", "kid", "plain")}


def delegated(dice: Random, agent: str) -> list[Use]:
    """Return delegations with schemas and prompts that some of them share."""
    return [
        task(
            dice.choice(LOWER[agent]),
            f"work {dice.randint(0, 2)}",
            output_schema=dice.choice([SCHEMA, OTHER]),
        )
        for _ in range(dice.randint(1, 5))
    ]


def calm_team(seed: int) -> Scenario:
    """Make siblings with schemas and contexts that report different values, some after errors of their model.

    What an agent does depends on its address alone. Nothing is fought over: no budget, no race, no deadline.
    """

    def says(request: ModelRequest) -> Reply:
        dice = Random(f"{seed} {request.address} {request.turn}")
        if request.attempt < dice.choice([1, 1, 1, 2]):
            return BUSY
        if request.turn == 1 and request.profile in LOWER:
            return calls(*delegated(dice, request.profile))
        if request.profile == "host":
            return Reply("done")
        steps = [calls(LOOK), INVALID, report({"n": dice.random(), "m": dice.random()})]
        return dice.choice(steps) if request.turn < 4 else steps[-1]

    people = [
        profile("host", LOWER["host"], ["look"]),
        profile("lead", LOWER["lead"], ["look"], context="c"),
        profile("kid", tools=["look"], context="c", context_in="system"),
        profile("plain", tools=["look"]),
    ]
    return Scenario(people, says, [ask()], Limits(max_report_attempts=9, max_model_attempts=3), closes=True)


def in_order(scenario: Scenario, order: int) -> Recording:
    return recording_of(SessionWorld(scenario).run(in_random_order(str(order))).log, "one")


@table("seed", range(effort(suite=12, campaign=300)))
def test_siblings_that_report_in_another_order_are_no_difference(seed: int) -> None:
    first = in_order(calm_team(seed), 0)
    for order in range(1, 4):
        found = first.diff(in_order(calm_team(seed), order))
        assert found.differences == ()
        assert found.profiles == ()


@table("seed", range(effort(suite=12, campaign=300)))
def test_random_plans_without_a_fight_do_not_differ_either(seed: int) -> None:
    plan = Plan(seed, is_calm=True)
    first = recording_of(play(plan).log, "one")
    for order in range(1, 4):
        assert first.diff(recording_of(play(plan, order).log, "one")).differences == ()


@table("seed", range(effort(suite=8, campaign=150)))
def test_a_fork_with_one_other_result_shows_that_result_and_nothing_else(seed: int) -> None:
    """What the agents do depends on no result, so nothing follows from it."""
    scenario = calm_team(seed)
    log = SessionWorld(scenario).run(in_random_order(str(seed))).log
    origin = recording_of(log, "one")
    results = [call for call in calls_of(log) if call[2] != OF_MODEL]
    for place in Random(seed).sample(results, min(3, len(results))):
        world = ForkWorld(Fork(scenario, log, changes={place: text_json("other")}))
        fork = recording_of(world.run(in_random_order(f"fork {seed}")).log, "fork")
        found = [(one.kind, one.agent, one.path) for one in origin.diff(fork).differences]
        assert found == [("ToolReturned", place[0], "body.output")]
