"""What becomes of calls when their agent is stopped, or their process dies."""

from dataclasses import replace

from callboard.actors.protocol.events import granted_by
from callboard.actors.protocol.messages import CallModel, CallTool, ModelReplied, ToolReturned, ToolStarted
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.monitors import GIVEN_UP, RESUMES
from callboard.replay.testing.sessions.world import SessionWorld
from tests.replay.testing.edited_logs import edited, of_kind
from tests.replay.testing.scenarios import RICH


def test_a_stopped_agent_has_its_calls_given_up() -> None:
    world = SessionWorld(RICH)
    while not any(one.agent == "host.1.1" for one in world.of(CallModel)):
        world.make(next(move for move in world.moves() if not move.strand.startswith("tool host.1")))
    world.cancel()
    while not world.aborted:
        assert GIVEN_UP.after(world, 1, 0) is None
        world.deliver("supervisor")
    assert GIVEN_UP.after(world, 1, 0) is None
    world.aborted.clear()
    violation = GIVEN_UP.after(world, 1, 0)
    assert violation is not None
    assert violation.rule == GIVEN_UP.rule


def died_with_a_write_under_way() -> SessionWorld:
    """Crash a process when a write tool has started, and resume the session in another one."""
    world = SessionWorld(replace(RICH, faults=faults("crash", fault_mixes=0)))
    while not world.of(ToolStarted):
        world.make(world.moves()[0])
    for strand in ("fault crash", "resume"):
        world.make(next(move for move in world.moves() if move.strand == strand))
    return world


def test_what_a_crash_cut_off_is_interrupted_or_lost() -> None:
    world = died_with_a_write_under_way()
    returned = [one.status for one in world.of(ToolReturned)]
    assert returned == ["interrupted"]
    assert RESUMES.after(world, 1, 0) is None


def test_a_write_that_had_started_is_not_told_as_if_it_had_not() -> None:
    world = died_with_a_write_under_way()
    world.log = edited(world.log, of_kind(ToolReturned), status="cancelled")
    violation = RESUMES.after(world, 1, 0)
    assert violation is not None
    assert violation.rule == RESUMES.rule


def test_a_call_made_after_the_crash_is_not_lost_to_it() -> None:
    world = died_with_a_write_under_way()
    start = world.made[-1].start
    fresh = [one for one in world.log[start:] if isinstance(one.body, CallModel | CallTool)]
    assert fresh
    grant = next(one for one in fresh if isinstance(one.body, CallModel))
    assert isinstance(grant.body, CallModel)
    asked = granted_by(world.log, grant.body)
    lost = ModelReplied(asked.turn, asked.attempt, "lost")
    world.log.append(type(grant)(len(world.log) + 1, grant.at, "model", grant.body.agent, grant.seq, lost))
    assert RESUMES.after(world, 1, 0) is not None
