"""What a simulated world shows beyond its log: calls given up, claims of ports, what a resume leaves."""

from dataclasses import replace

from callboard.actors.messages import CallModel, CallTool, ModelReplied, ToolReturned, ToolStarted
from callboard.replay.testing.invariants_claims import CLAIMS, GIVEN_UP, RESUMED, Claims, GivenUp, Resumed
from callboard.replay.testing.session_faults import faults
from callboard.replay.testing.session_world import SessionWorld
from tests.replay.testing.casts import RICH, rich
from tests.replay.testing.doctor import edited, of_kind


def test_whoever_is_stopped_has_its_calls_given_up() -> None:
    world = SessionWorld(RICH)
    while not any(one.agent == "host.1.1" for one in world.of(CallModel)):
        world.make(next(move for move in world.moves() if not move.chain.startswith("tool host.1")))
    world.cancel()
    while not world.aborted:
        assert GivenUp().after(world, 1, 0) is None
        world.deliver("supervisor")
    assert GivenUp().after(world, 1, 0) is None
    world.aborted.clear()
    violation = GivenUp().after(world, 1, 0)
    assert violation is not None
    assert violation.rule == GIVEN_UP


def test_a_call_that_had_its_effect_is_not_told_as_one_that_did_not_start() -> None:
    world = rich()
    assert Claims().at_rest(world, 1) is None
    world.log = edited(world.log, of_kind(ToolReturned), status="cancelled")
    violation = Claims().at_rest(world, 1)
    assert violation is not None
    assert violation.rule == CLAIMS


def died_with_a_write_under_way() -> SessionWorld:
    """A process that ends when a write tool has started; another one has just gone on."""
    world = SessionWorld(replace(RICH, faults=faults("crash", weathers=0)))
    while not world.of(ToolStarted):
        world.make(world.moves()[0])
    for chain in ("fault crash", "resume"):
        world.make(next(move for move in world.moves() if move.chain == chain))
    return world


def test_what_a_crash_cut_off_is_interrupted_or_lost() -> None:
    world = died_with_a_write_under_way()
    returned = [one.status for one in world.of(ToolReturned)]
    assert returned == ["interrupted"]
    assert Resumed().after(world, 1, 0) is None


def test_a_write_that_had_started_is_not_told_as_if_it_had_not() -> None:
    world = died_with_a_write_under_way()
    world.log = edited(world.log, of_kind(ToolReturned), status="cancelled")
    violation = Resumed().after(world, 1, 0)
    assert violation is not None
    assert violation.rule == RESUMED


def test_what_was_asked_for_after_the_crash_is_not_lost_to_it() -> None:
    world = died_with_a_write_under_way()
    start = world.made[-1].start
    fresh = [one for one in world.log[start:] if isinstance(one.body, CallModel | CallTool)]
    assert fresh
    grant = next(one for one in fresh if isinstance(one.body, CallModel))
    assert isinstance(grant.body, CallModel)
    lost = ModelReplied(grant.body.turn, grant.body.attempt, "lost")
    world.log.append(type(grant)(len(world.log) + 1, grant.at, "model", grant.body.agent, grant.seq, lost))
    assert Resumed().after(world, 1, 0) is not None
