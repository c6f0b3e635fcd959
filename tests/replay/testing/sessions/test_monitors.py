"""The rules that need more than a log: each holds of good sessions, and fails where it is broken."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    ModelReplied,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.requests import check_requests, requests_of
from callboard.replay.testing.run import Bounds, replay
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.monitors import (
    EFFECTS,
    FAILS_BY_FAULT,
    GIVEN_UP,
    NO_RESCUE,
    NOTHING_LEFT,
    RESUMES,
    STAYS_CLOSED,
    LogRules,
    Replays,
    Requests,
    breaches_of,
    session_monitors,
)
from callboard.replay.testing.sessions.scenario import START_MS, Scenario, ask, profile, program_profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from callboard.replay.testing.sessions.scripted_session import Effect
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from tests import golden
from tests.grants import granted_by
from tests.replay.testing.edited_logs import edited, of_kind
from tests.replay.testing.scenarios import RICH, TWO, cancelled, closed, rich
from tests.tables import table


@pytest.mark.parametrize("make", [rich, cancelled, closed], ids=lambda make: make.__name__)
def test_good_sessions_break_nothing(make: Callable[[], SessionWorld]) -> None:
    world = make()
    assert breaches_of(world) == []
    for monitor in session_monitors(1):
        monitor.begin(100)
        assert monitor.after(world, 5, 0) is None
        assert monitor.at_rest(world, len(world.made)) is None


def test_the_remaining_work_is_named() -> None:
    world = rich()
    world.timers[7] = "timer grace"
    assert NOTHING_LEFT.breach(world) == "1 timers"
    (breach,) = NOTHING_LEFT.found(world)
    assert (breach.name, breach.seq) == ("nothing-left", len(world.log))
    unfinished = SessionWorld(TWO)
    while not unfinished.of(CallModel):
        unfinished.make(unfinished.moves()[0])
    left = NOTHING_LEFT.breach(unfinished)
    assert all(
        what in left for what in ("port requests", "1 agents", "1 model calls", "reservations", "host")
    )


def test_a_deadline_that_had_to_help_is_a_violation_at_once() -> None:
    world = rich()
    world.rescued = "timer deadline host"
    violation = NO_RESCUE.after(world, 9, 0)
    assert violation is not None
    assert violation.at == 9
    assert "timer deadline host" in NO_RESCUE.breach(world)


def test_a_write_that_ran_twice_or_unannounced_or_against_the_log_is_found() -> None:
    world = rich()
    (saved,) = [effect for effect in world.effects if effect.tool == "save"]
    assert EFFECTS.breach(world) == ""
    world.effects.append(saved)
    assert "ran 2 times" in EFFECTS.breach(world)
    world = rich()
    world.effects.append(Effect("host", 9, 9, "save", "write"))
    assert "the log does not know" in EFFECTS.breach(world)
    world = rich()
    index = next(
        n
        for n, event in enumerate(world.log)
        if event.sender == "tools"
        and event.cause
        and b"did save" in bytes(getattr(event.body, "output", b""))
    )
    event = world.log[index]
    denied = msgspec.structs.replace(event.body, status="cancelled")
    assert isinstance(denied, ToolReturned)
    world.log[index] = msgspec.structs.replace(event, body=denied)
    assert "told as not started" in EFFECTS.breach(world)


def test_a_session_that_fails_by_itself_is_found() -> None:
    world = rich()
    world.fail(ValueError("oh"))
    assert FAILS_BY_FAULT.breach(world) == "ValueError: oh"


def test_a_log_that_does_not_replay_is_found() -> None:
    world = rich()
    index = next(n for n, event in enumerate(world.log) if isinstance(event.body, AskEnded))
    event = world.log[index]
    world.log[index] = msgspec.structs.replace(
        event, body=msgspec.structs.replace(event.body, usage=Usage(1))
    )
    assert "diverged at seq" in Replays().breach(world)
    violation = LogRules().at_rest(world, 99)
    assert violation is not None
    assert violation.at == world.posters[event.seq - 1], "the step that posted it"


def test_replaying_now_and_then_looks_at_one_run_in_so_many() -> None:
    monitor, world = Replays(every=3), rich()
    world.log[-1] = msgspec.structs.replace(world.log[-1], recipient="nobody")
    found = []
    for _ in range(6):
        monitor.begin(100)
        found.append(monitor.at_rest(world, 1) is not None)
    assert found == [False, False, True, False, False, True]


# --- requests -------------------------------------------------------------------------


def changed(world: SessionWorld, seq: int, **fields: object) -> dict[int, ModelRequest]:
    """Change one of the requests of a session."""
    asked = world.asked[seq]
    parts = {
        name: getattr(asked, name)
        for name in (
            "address",
            "profile",
            "model",
            "turn",
            "attempt",
            "system",
            "tools",
            "force_tool",
            "digest",
        )
    }
    made = ModelRequest(**{**parts, "history": asked._history, **fields})
    return {**world.asked, seq: made}


def last_of(world: SessionWorld, address: str) -> int:
    return max(seq for seq, asked in world.asked.items() if asked.address == address)


def test_requests_worked_out_from_the_log_are_those_that_were_made() -> None:
    world = rich()
    again = requests_of(world.log)
    assert again.keys() == world.asked.keys()
    assert all(again[seq].body() == asked.body() for seq, asked in world.asked.items())
    assert check_requests(world.log) == []


@table("name", golden.SESSIONS)
def test_recorded_requests_break_no_rule(name: str) -> None:
    assert check_requests(golden.golden(name)) == []


def named(log: list[Event], nth: int, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> list[Event]:
    """Let the nth turn request of the host name other events."""
    wishes = [event for event in log if isinstance(event.body, TurnRequested) and event.sender == "host"]
    wanted = wishes[nth]
    assert isinstance(wanted.body, TurnRequested)
    body = msgspec.structs.replace(wanted.body, new=change(wanted.body.new))
    return [msgspec.structs.replace(event, body=body) if event is wanted else event for event in log]


@table(
    "change",
    [
        lambda new: new[1:],
        lambda new: new[:-1],
        lambda new: new[::-1],
        lambda new: (*new, new[-1]),
        lambda new: (*new, 1),
    ],
    ids=["not the first", "not the last", "not in order", "one twice", "one that brings nothing"],
)
def test_a_request_that_names_other_events_than_it_adds_is_found(
    change: Callable[[tuple[int, ...]], tuple[int, ...]],
) -> None:
    world = rich()
    log = named(world.log, -1, change)
    assert {breach.name for breach in check_requests(log, world.asked)} == {"new"}


def test_an_event_that_two_requests_name_is_found() -> None:
    world = rich()
    (first,) = [
        event.body.new
        for event in world.log
        if isinstance(event.body, TurnRequested) and event.sender == "host" and event.body.turn == 1
    ]
    log = named(world.log, -1, lambda new: (*first, *new))
    assert {breach.name for breach in check_requests(log, world.asked)} == {"new"}


@pytest.mark.parametrize(
    ("rules", "fields"),
    [
        ({"granted"}, {"digest": "0"}),
        ({"append-only", "system"}, {"system": msgspec.Raw(b'"You are somebody else."')}),
    ],
)
def test_a_request_that_is_not_the_granted_one_or_begins_otherwise_is_found(
    rules: set[str], fields: dict[str, object]
) -> None:
    world = rich()
    found = check_requests(world.log, changed(world, last_of(world, "host.1"), **fields))
    assert {breach.name for breach in found} == rules


def test_a_conversation_with_something_of_the_parents_in_it_is_found() -> None:
    world = rich()
    seq = last_of(world, "host.1.1")
    history = world.asked[seq]._history
    stolen = world.asked[last_of(world, "host")].messages[0]
    leaked = history.put(len(history), stolen)
    found = check_requests(world.log, changed(world, seq, history=leaked))
    assert {breach.name for breach in found} == {"bound", "provenance"}


def test_a_conversation_that_no_service_would_take_is_found() -> None:
    world = rich()
    seq = last_of(world, "host.1")
    history = world.asked[seq]._history
    found = check_requests(world.log, changed(world, seq, history=history.drop(len(history) - 1)))
    assert "sendable" in {breach.name for breach in found}


# --- campaigns ------------------------------------------------------------------------


def test_a_campaign_of_a_good_session_finds_nothing() -> None:
    explored = explore(Worlds(TWO), session_monitors(), Plan(runs=60, seed=1))
    assert explored.is_ok
    assert explored.figures.ends == 1, "every order comes to the same end"


@pytest.mark.slow
def test_a_campaign_finds_a_planted_bug_and_makes_it_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug: the supervisor forgets the last copy of a race when another one wins."""
    from callboard.actors.supervisor import ending as supervisor_ending

    stop_one = supervisor_ending.stop_one

    def forgets(work: object, address: str, kind: str) -> None:
        if not (kind == "lost_race" and address.endswith(".3")):
            stop_one(work, address, kind)  # type: ignore[arg-type]  # a kind of stop

    monkeypatch.setattr(supervisor_ending, "stop_one", forgets)
    explored = explore(Worlds(RICH), session_monitors(), Plan(runs=200, seed=1))
    assert not explored.is_ok
    found = explored.counterexamples[0]
    assert len(found.schedule.strands) <= len(found.found.strands)


def test_the_memory_of_a_campaign_changes_nothing() -> None:
    worlds = Worlds(TWO)
    for seed in range(30):
        one, other = worlds().run(in_random_order(seed)), SessionWorld(TWO).run(in_random_order(seed))
        assert one.log == other.log
        assert one.digest() == other.digest()
    assert worlds().log[0].at == START_MS
    assert Requests().found(worlds().run()) == []


class NoTools(Invariant):
    name = "no-tools"
    rule = "No tool is asked for."

    def on_CallTool(self, event: Event, body: object) -> None:
        self.broken(event.seq, "here one is")


ENDLESS = Scenario([profile("host", tools=["look"])], lambda request: calls(("look", {})), [ask()])


def test_a_log_is_looked_at_even_if_its_session_never_comes_to_rest() -> None:
    rules = [LogRules([NoTools]), NOTHING_LEFT]
    (one,) = explore(Worlds(ENDLESS), rules, Plan(runs=3, bounds=Bounds(6))).counterexamples
    assert one.violation.rule == NoTools.rule
    assert one.is_minimal
    assert len(one.found.strands) == 60
    assert one.steps[-1].seq == one.violation.at < 10
    assert replay(Worlds(ENDLESS), one.schedule, rules).violation == one.violation


def test_open_work_in_an_unfinished_session_is_no_breach() -> None:
    found = explore(Worlds(ENDLESS), session_monitors(1), Plan(runs=5, bounds=Bounds(6)))
    assert found.counterexamples == ()
    assert (found.figures.unfinished, found.is_ok) == (5, False)
    world = SessionWorld(RICH)
    while moves := world.moves():
        assert LogRules().found(world) == []
        world.make(moves[0])


# --- calls


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


def refused_without_its_answer() -> SessionWorld:
    """Stop a program before it asks for its first step, lose the refusal of that step, and resume."""
    host = program_profile("host")
    chosen = faults("cancel", "crash", fault_mixes=0)
    world = SessionWorld(Scenario([host], lambda request: Reply("done"), [ask()], faults=chosen))
    begun = ("inbox supervisor", "fault cancel", "inbox supervisor", "inbox host")
    for strand in (*begun, "fault crash", "fault lose one", "resume"):
        world.make(next(move for move in world.moves() if move.strand == strand))
    return world


def test_a_request_behind_the_stop_of_its_agent_has_not_started() -> None:
    world = refused_without_its_answer()
    assert [(one.status, one.usage) for one in world.of(ModelReplied)] == [("cancelled", ZERO)]
    assert RESUMES.after(world, 1, 0) is None


@table("changed", [{"usage": None}, {"status": "lost"}])
def test_a_request_behind_the_stop_of_its_agent_that_is_charged_is_found(changed: dict[str, Any]) -> None:
    world = refused_without_its_answer()
    world.log = edited(world.log, of_kind(ModelReplied), **changed)
    assert RESUMES.after(world, 1, 0) is not None


def test_a_closed_session_that_is_open_is_found() -> None:
    world = closed()
    assert STAYS_CLOSED.breach(world) == ""
    world.core.states[SUPERVISOR] = msgspec.structs.replace(world.supervisor, phase="open")
    assert "its supervisor is open" in STAYS_CLOSED.breach(world)
