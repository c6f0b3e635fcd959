"""Sessions whose conversations become shorter: random orders, and a crash at every prefix, keep all rules."""

from dataclasses import replace

import pytest

from callboard.actors.protocol.compaction_messages import Compacted, SummaryRefused
from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.port_messages import CallModel
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.sessions.faults import NO_FAULTS
from callboard.replay.testing.sessions.monitors import breaches_of, session_monitors
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from callboard.replay.verify import Verifier
from tests.effort import effort
from tests.mutants.scenarios_compaction import COMPACTED


@pytest.mark.parametrize("name", COMPACTED)
def test_orders_keep_all_rules(name: str) -> None:
    found = explore(Worlds(COMPACTED[name]), session_monitors(10), Plan("portfolio", runs=effort(4, 400)))
    assert found.is_ok, "\n".join(lines(found))


@pytest.mark.parametrize("name", ["summarised", "cleared", "within-a-budget"])
def test_a_crash_at_any_point_of_a_compaction_loses_nothing_and_asks_nothing_twice(name: str) -> None:
    scenario = replace(COMPACTED[name], faults=NO_FAULTS)
    log = SessionWorld(scenario).run(in_random_order(0)).log
    (first, *_) = [event.seq for event in log if isinstance(event.body, Compacted)]
    for length in range(first - 6, first + 5, effort(2, 1)):
        world = SessionWorld(scenario)
        world.now = log[length - 1].at  # the clock of a process that resumes goes on
        world.resume(log[:length])
        assert not breaches_of(world.run(in_random_order(0))), f"after event {length}"
        assert Verifier(world.log).run() is None
        asked = [event.body.request for event in world.log if isinstance(event.body, CallModel)]
        assert len(asked) == len(set(asked))


def test_the_sessions_clear_summarise_and_are_refused() -> None:
    worlds = [SessionWorld(one).run(in_random_order(1)) for one in COMPACTED.values()]
    bodies = [event.body for world in worlds for event in world.log]
    assert {one.by for one in bodies if isinstance(one, Compacted)} == {"clear", "summary"}
    assert any(isinstance(one, SummaryRefused) for one in bodies)
    assert any(isinstance(one, TurnRequested) and one.purpose and one.model for one in bodies)


def test_a_compaction_stays_although_the_turn_after_it_was_not_granted() -> None:
    world = SessionWorld(COMPACTED["stopped"])
    while not any(isinstance(one.body, TurnRequested) and one.body.purpose for one in world.log):
        world.make(next(one for one in world.moves() if one.kind != "fault"))
    world.make(next(one for one in world.moves() if one.strand.startswith("fault cancel")))
    while not any(isinstance(one.body, Compacted) for one in world.log):
        _make(world, "inbox supervisor", "model ")
        _make(world, "inbox host")
    _make(world, "inbox host")  # it is heard before the supervisor hears that the ask is cancelled
    assert not breaches_of(world.run())
    (compacted, *_), (again, *_) = world.events(Compacted), world.events(Begin)[1:]
    wishes = [one for one in world.events(TurnRequested) if compacted.seq in getattr(one.body, "new", ())]
    assert [one.seq < again.seq for one in wishes] == [True, False]


def _make(world: SessionWorld, *strands: str) -> None:
    """Make the first move of each of these strands."""
    for strand in strands:
        world.make(next(one for one in world.moves() if one.strand.startswith(strand)))
