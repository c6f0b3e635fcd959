"""A message of an agent outside the tree, or about an ended delegation, changes nothing."""

import msgspec
import pytest

from callboard.actors.protocol.addresses import CLIENT, CLOCK, HOST, SUPERVISOR
from callboard.actors.protocol.client_messages import RULES, AskEnded, Cancel, Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import DeciderFailed, Finished, Stop, TurnRequested
from callboard.actors.protocol.port_messages import (
    CallTool,
    ExtendTimer,
    ModelReplied,
    SetTimer,
    ToolReturned,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import NOTHING
from callboard.actors.session import core
from callboard.actors.session.port_actions import Arm
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recovery import recover
from callboard.actors.session.step import step
from callboard.actors.supervisor.asks import _undrained
from callboard.actors.supervisor.decider import _GO_ON
from callboard.actors.supervisor.ending import end_delegation, record_racer_end
from callboard.actors.supervisor.line import leave, serve
from callboard.actors.supervisor.state import Delegation, Record, SupervisorState, Wish
from callboard.actors.supervisor.turns import on_turn_timer
from callboard.actors.supervisor.unit_of_work import UnitOfWork
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from callboard.replay.testing.sessions.world import SessionWorld
from tests.actors.harness import SessionHarness, said

NOBODY = SupervisorState(phase="open")
OLD = Delegation(1, 1, 0, (1,))


def test_a_timer_that_is_gone_is_not_extended() -> None:
    gate = PortGate()
    gate.on_events([Event(1, 500, SUPERVISOR, CLOCK, 0, SetTimer(1, 100))])
    assert gate.on_events([Event(2, 600, SUPERVISOR, CLOCK, 0, ExtendTimer(2, 50))]) == []
    assert gate.on_events([Event(3, 600, SUPERVISOR, CLOCK, 0, ExtendTimer(1, 50))]) == [Arm(1, 500, 150, 1)]


def test_an_empty_tree_has_no_undrained_agent() -> None:
    assert _undrained(UnitOfWork(NOBODY, 1)) == []


def test_an_agent_outside_the_tree_has_no_place_in_the_queue_and_no_back_off() -> None:
    work = UnitOfWork(NOBODY, 1)
    leave(work, "host.1", Wish(TurnRequested(1, 1, NOTHING, ""), 1, 3))
    on_turn_timer(work, "host.1")
    assert (work.commit(), work.take_posts()) == (NOBODY, ())


def test_a_ticket_of_an_agent_outside_the_tree_is_dropped() -> None:
    work = UnitOfWork(msgspec.structs.replace(NOBODY, queue=IntMap[str]().put(3, "host.1")), 1)
    serve(work, _GO_ON)
    assert (work.commit(), work.take_posts()) == (NOBODY, ())


def test_a_delegation_of_a_parent_outside_the_tree_is_not_kept_and_its_end_is_still_posted() -> None:
    work = UnitOfWork(NOBODY, 7)
    work.put_delegation("host.1", OLD)
    end_delegation(work, "host.1", OLD, "cancelled")
    assert work.commit() == NOBODY
    assert said(list(work.take_posts())) == ["host.1:DelegationEnded"]


def test_the_end_of_a_copy_ends_no_delegation_that_is_over() -> None:
    head = SessionHarness().opens()
    head.asks()
    host = head.record(HOST)
    assert isinstance(host, Record)
    work = UnitOfWork(head.state, 9)
    record_racer_end(work, msgspec.structs.replace(host, delegation=99), "crashed")
    assert (work.commit(), work.take_posts()) == (head.state, ())


def test_an_answer_after_the_end_of_its_delegation_wins_nothing() -> None:
    head = SessionHarness().opens()
    head.asks()
    assert head.state.host is not None
    lost = msgspec.structs.replace(head.state.host, delegation=99)
    head.state = msgspec.structs.replace(head.state, host=lost)
    head.hears(HOST, Finished("answered", "too late"))
    assert head.state.ask is not None
    assert head.state.ask.outcome is None


# --- a resume that changes limits --------------------------------------------------------------------------


def test_new_limits_hold_for_the_next_ask_where_none_runs() -> None:
    head = SessionHarness().opens()
    assert head.hears(CLIENT, Resumed(RULES, limits=Limits(max_iterations=7))) == []
    head.asks()
    assert head.state.ask is not None
    assert head.state.ask.limits.max_iterations == 7


def test_new_limits_hold_for_an_ask_whose_schema_is_still_being_checked() -> None:
    head = SessionHarness().opens()
    head.asks(schema={"type": "object"})
    assert head.state.host is None
    head.hears(CLIENT, Resumed(RULES, limits=Limits(max_iterations=7)))
    head.accepts()
    record = head.record(HOST)
    assert record is not None
    assert record.limits.max_iterations == 7


# --- recovery ----------------------------------------------------------------------------------------------


def _looks(request: ModelRequest) -> Reply:
    return calls(("look", {})) if request.turn == 1 else Reply("done")


def _until(world: SessionWorld, kind: type) -> SessionWorld:
    """Go on until a message of this kind is posted and has not been handled."""
    while not world.of(kind):
        world.make(world.moves()[0])
    return world


def test_what_a_stopped_agent_asked_for_during_recovery_never_started() -> None:
    """Crash with the model's answer and a cancel in the log, both not handled."""
    world = _until(SessionWorld(Scenario([profile("host", tools=["look"])], _looks, [ask()])), ModelReplied)
    world.say(Cancel("enough"))
    found = recover(world.log, Resumed(RULES), world.now)
    (asked,) = [event for event in found.posted if isinstance(event.body, CallTool)]
    (answer,) = [event.body for event in found.posted if event.cause == asked.seq]
    assert isinstance(answer, ToolReturned)
    assert answer.status == "cancelled"
    assert not found.starts


def test_a_supervisor_that_raises_during_recovery_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    world = _until(SessionWorld(Scenario([profile("host", tools=["look"])], _looks, [ask()])), ModelReplied)
    real = step

    def falls(state, event):  # type: ignore[no-untyped-def]  # the types are those of the real one
        if isinstance(event.body, Resumed):
            raise MemoryError
        return real(state, event)

    monkeypatch.setattr(core, "step", falls)
    with pytest.raises(MemoryError):
        recover(world.log, Resumed(RULES), world.now)


def test_an_agent_that_raises_during_recovery_ends_as_crashed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = _until(SessionWorld(Scenario([profile("host", tools=["look"])], _looks, [ask()])), ModelReplied)
    real = step

    def falls(state, event):  # type: ignore[no-untyped-def]  # the types are those of the real one
        if isinstance(event.body, ModelReplied):
            raise RecursionError
        return real(state, event)

    monkeypatch.setattr(core, "step", falls)
    found = recover(world.log, Resumed(RULES), world.now)
    (failed,) = [event.body for event in found.posted if isinstance(event.body, DeciderFailed)]
    assert failed.error == "RecursionError"
    (ended,) = [event.body for event in found.posted if isinstance(event.body, AskEnded)]
    assert ended.kind == "crashed"


def test_a_request_of_an_agent_stopped_before_the_crash_is_refused_after_it() -> None:
    """End the log with the request of a stopped agent, without its refusal."""
    world = _until(SessionWorld(Scenario([profile("host", tools=["look"])], _looks, [ask()])), ModelReplied)
    world.say(Cancel("enough"))
    world.deliver(SUPERVISOR)
    assert world.of(Stop)
    world.deliver(HOST)
    (asked,) = world.events(CallTool)
    found = recover(world.log[: asked.seq], Resumed(RULES), world.now)
    (answer,) = [event.body for event in found.posted if event.cause == asked.seq]
    assert isinstance(answer, ToolReturned)
    assert answer.status == "cancelled"
    assert not found.starts
