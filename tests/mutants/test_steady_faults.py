"""No rule is broken by a fault that comes at a chosen moment, in every scenario.

A fault by chance seldom meets the one moment at which it matters. Here the oldest move comes first, so that
each run is the same up to the fault:

    crash      when a request of a new kind is open, other than a call of a model or of a `read` tool; where a
               delegation waits for a port, the next process has lower limits as well
    garbage    instead of the first reply to each profile, and instead of the reply to the same call again
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import pytest
from msgspec.structs import replace as with_values

from callboard.actors.agent.state import prefix_of
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    CheckSchema,
    MakeContext,
    RequestApproval,
)
from callboard.actors.session.port_table import owner_of
from callboard.replay.testing.run import perform
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.fork_world import Fork
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Move
from tests.effort import IS_CAMPAIGN
from tests.mutants.campaign import BOUNDS, calm, hunted
from tests.mutants.test_false_alarms import GROUPS, OTHER_LIMITS, scenarios, with_faults

Alone: TypeAlias = Scenario | Fork

STEPS_MAX: Final = 400
OF_DELEGATIONS: Final = ("CheckSchema", "MakeContext")
GARBLED: Final = GROUPS if IS_CAMPAIGN else ["features", "programs"]


def alone(group: str) -> Iterator[tuple[str, Alone]]:
    """Yield the scenarios of a group in which a session runs alone."""
    for name, scenario in scenarios(group).items():
        if isinstance(scenario, Scenario | Fork):
            yield name, scenario


def moments(
    scenario: Alone, look: Callable[[SessionWorld], Mapping[str, str]]
) -> Iterator[tuple[int, str, str]]:
    """Yield the moves made before each new thing, the thing and its strand, with the oldest move first.

    look: returns the things of a moment with their strands.
    """
    worlds, _ = hunted(calm(scenario))
    world, seen = worlds(), set[str]()
    for made in range(STEPS_MAX):
        found = look(world)
        yield from ((made, one, strand) for one, strand in found.items() if one not in seen)
        seen.update(found)
        moves = world.moves()
        if not moves:
            return
        world.make(moves[0])


def requests(world: SessionWorld) -> dict[str, str]:
    """Return the kinds of open requests, apart from calls of models and of `read` tools."""
    found: dict[str, str] = {}
    for strand, request in world.requests.items():
        body = request.event.body
        if isinstance(body, CallTool) and body.effect != "read":
            found[f"{body.effect} tool"] = strand
        elif isinstance(body, RequestApproval | CheckSchema | MakeContext):
            found[type(body).__name__] = strand
    return found


def profiles(world: SessionWorld) -> dict[str, str]:
    """Return the profiles whose models are called."""
    calls = [(one.event, strand) for strand, one in world.requests.items()]
    return {
        prefix_of(world.agent(owner_of(event))).profile.name: strand
        for event, strand in calls
        if isinstance(event.body, CallModel)
    }


def broken(scenario: Alone, wanted: Callable[[int, Move], bool]) -> str:
    """Return the rule that a run breaks, or ''. wanted: returns True for a fault that comes after n moves."""
    worlds, rules = hunted(scenario)
    made = 0

    def choose(offered: Sequence[Move]) -> Move:
        nonlocal made
        made += 1
        return next((one for one in offered if wanted(made - 1, one)), offered[0])

    run = perform(worlds(), rules, choose, lambda offered: offered[0], BOUNDS)
    return "" if run.violation is None else run.violation.rule


def rough(scenario: Alone, kind: str, most: int) -> Alone:
    """Return the scenario with faults of one kind."""
    made = with_faults(scenario, faults(kind, most=most))
    assert isinstance(made, Scenario | Fork)
    return made


def crashing(scenario: Alone, what: str) -> Iterator[Alone]:
    """Yield the scenario with a crash, and perhaps with lower limits in later processes."""
    one = rough(scenario, "crash", 1)
    yield one
    if isinstance(one, Scenario) and (IS_CAMPAIGN or what in OF_DELEGATIONS):
        # Under other limits it may end otherwise.
        resumed = with_values(one.resumed, limits=OTHER_LIMITS["less"])
        yield replace(one, resumed=resumed, is_uncontended=False, expects=())


def crashed(scenario: Alone, moment: int) -> str:
    """Return the rule that a crash at a moment breaks, or ''."""
    strands = {moment: "fault crash", moment + 1: "resume"}
    return broken(scenario, lambda made, move: move.strand == strands.get(made))


def garbled(scenario: Alone, strand: str) -> str:
    """Return the rule that two replies break which cannot be read, or ''."""
    strands = (f"fault garbage {strand}", f"fault garbage {strand} attempt 2")
    return broken(rough(scenario, "garbage", 2), lambda made, move: move.strand in strands)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_a_crash_while_a_port_works_breaks_no_rule(group: str) -> None:
    found = {
        (name, what, moment): rule
        for name, scenario in alone(group)
        for moment, what, _ in moments(scenario, requests)
        for one in crashing(scenario, what)
        if (rule := crashed(one, moment))
    }
    assert found == {}


@pytest.mark.slow
@pytest.mark.parametrize("group", GARBLED)
def test_two_replies_that_cannot_be_read_break_no_rule(group: str) -> None:
    found = {}
    for name, scenario in alone(group):
        for _, what, strand in moments(scenario, profiles):
            if rule := garbled(scenario, strand):
                found[name, what] = rule
    assert found == {}
