"""Brains: programs of a model service. Their turns are eager, paid, stand in line, and are counted."""

from collections.abc import Generator

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Delegate, TurnRequested
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.sessions.faults import NO_FAULTS, Faults, faults
from callboard.replay.testing.sessions.monitors import breaches_of, session_monitors
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Answers, Reply, Step, delegate, tool
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from callboard.replay.verify import Verifier
from tests.effort import effort
from tests.mutants.scenarios_programs import cast
from tests.mutants.scripts import PRICES, greedy

NO_LIMITS = Limits()


def thinking(prompt: object) -> Generator[Step, Answers, object]:
    """Ask for three things at once, then wait for each, and say how many turns that took."""
    waiting, turns = {"a", "kid", "b"}, 1
    answers = yield Step((tool("a", "look"), delegate("kid", "kid"), tool("b", "look")))
    while True:
        turns += 1
        if not (waiting := waiting - answers.keys()):
            return f"{turns} turns"
        answers = yield Step()


def brain(
    limits: Limits = NO_LIMITS, own: Limits = NO_LIMITS, percent: int = 50, wrong: Faults = NO_FAULTS
) -> Scenario:
    """Build a brain with two tools to call and a kid to ask. own: its own limits."""
    host = replace(profile("host", ["kid"], ["look"], prices=PRICES, limits=own), turns="any")
    kid = profile("kid", prices=PRICES)
    policy = cast({"host": thinking}, kid=[Reply("done")])
    return Scenario([host, kid], greedy(policy, percent), [ask()], limits, faults=wrong)


def host_turns(world: SessionWorld) -> list[TurnRequested]:
    return [event.body for event in world.events(TurnRequested) if event.sender == "host"]  # type: ignore[misc]  # by kind


def test_a_brain_goes_on_with_its_first_answer_and_pays_for_each_turn() -> None:
    world = SessionWorld(brain()).run()
    turns = host_turns(world)
    assert world.ended.kind == "answered"
    assert world.ended.text == f"{len(turns)} turns"
    assert len(turns) > 2
    assert all(turn.need.tokens > 0 for turn in turns)
    paid = sum(one.usage.tokens for one in world.of(ModelReplied) if one.usage)
    assert world.ended.usage.tokens == paid > 0
    (asked,) = world.events(Delegate)
    second = world.events(CallModel)[1]
    assert second.seq > asked.seq, "the second grant comes after the delegation"


def test_its_turns_count_as_iterations() -> None:
    world = SessionWorld(brain(own=Limits(max_iterations=2))).run()
    assert world.ended.kind == "iteration_cap"
    assert len(host_turns(world)) == 2


def test_its_turns_stand_in_line_with_those_of_its_child() -> None:
    for seed in range(10):
        world = SessionWorld(brain(Limits(max_parallel_calls=1))).run(in_random_order(seed))
        assert world.ended.kind == "answered"
        open_calls = 0
        for event in world.log:
            open_calls += isinstance(event.body, CallModel) - isinstance(event.body, ModelReplied)
            assert open_calls <= 1


@pytest.mark.parametrize("tokens", [200, 600, 1_200, 2_400])
def test_its_turns_are_refused_by_a_budget_that_is_too_small(tokens: int) -> None:
    for seed in range(5):
        world = SessionWorld(brain(Limits(tokens=tokens), percent=100)).run(in_random_order(seed))
        assert world.ended.usage.tokens <= tokens
        assert world.ended.kind in ("budget", "answered")
        assert not breaches_of(world)
    assert SessionWorld(brain(Limits(tokens=200), percent=100)).run().ended.kind == "budget"


@pytest.mark.slow
def test_every_schedule_and_fault_keeps_the_rules_of_brains() -> None:
    for wrong in (NO_FAULTS, faults("crash", "cancel", "overloaded", "detach", most=2, fault_mixes=7)):
        found = explore(
            Worlds(brain(wrong=wrong)), session_monitors(10), Plan(runs=effort(150, 2_000), seed=3)
        )
        assert found.is_ok, found


def test_every_prefix_of_a_brain_resumes_to_a_good_end() -> None:
    log = SessionWorld(brain()).run(in_random_order(1)).log
    for length in range(1, len(log) + 1):
        world = SessionWorld(brain())
        world.resume(log[:length])
        assert not breaches_of(world.run()), f"after event {length}"
        assert Verifier(world.log).run() is None
