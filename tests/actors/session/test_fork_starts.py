"""The starts of tools in a fork, and what a later process of it makes of them."""

import pytest

from callboard.actors.protocol.addresses import TOOLS
from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import CallTool, ToolReturned, ToolStarted
from callboard.actors.protocol.value_types import Effects
from callboard.actors.session.fork_starts import begun_in, has_effect, held_start, start_of_missed
from callboard.actors.session.playback import Asked, Playback, Work
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recorded_answers import RecordedAnswers, Reusable
from callboard.actors.session.recovery import Recovered, recover
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.stops import Started
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from callboard.replay.testing.sessions.world import SessionWorld
from tests.actors.session.hand_written import Log
from tests.tables import table

RUNS = ToolStarted(1, 0)
WAITS = ToolStarted(1, 0, reused=9)


def asked(effect: Effect) -> tuple[Event, PortGate]:
    call, gate = Log().calls("send", 1, effect=effect), PortGate()
    gate.on_events([call])
    return call, gate


@table(
    ("effect", "held", "missed"), [("read", None, None), ("idempotent", None, RUNS), ("write", WAITS, RUNS)]
)
def test_a_write_announces_that_it_waits_and_every_effect_that_it_runs_after_all(
    effect: Effect, held: ToolStarted | None, missed: ToolStarted | None
) -> None:
    call, gate = asked(effect)
    waiting = held_start(gate.start_of(call), Reusable(9, 0, ToolReturned(1, 0)))
    runs = start_of_missed(call, gate)
    assert waiting.announcement == (held and Post("host", held))
    assert runs.announcement == (missed and Post("host", missed))
    assert waiting.waits is runs.waits is (effect != "read")


def test_a_call_has_begun_once_a_start_names_no_recorded_answer() -> None:
    starts = [Event(seq, 0, TOOLS, "host", cause, body) for seq, cause, body in ((3, 1, WAITS), (4, 2, RUNS))]
    assert begun_in(starts) == {2}
    assert not has_effect(starts[:1], "live", ())
    assert has_effect(starts, "recorded", {2})


@table(
    ("effect", "start", "answer", "effects", "has_run"),
    [
        ("write", RUNS, ToolReturned(1, 0), "recorded", True),
        ("write", RUNS, ToolReturned(1, 0, "cancelled"), "live", False),
        ("write", RUNS, ToolReturned(1, 0, reused=9), "live", False),
        ("write", WAITS, ToolReturned(1, 0), "live", False),
        ("idempotent", WAITS, ToolReturned(1, 0), "live", True),
        ("idempotent", WAITS, ToolReturned(1, 0), "recorded", False),
    ],
)
def test_an_answer_tells_if_its_call_may_have_had_its_effect(
    effect: Effect, start: ToolStarted, answer: ToolReturned, effects: Effects, has_run: bool
) -> None:
    call, _ = asked(effect)
    events = [call, Event(2, 0, TOOLS, "host", call.seq, start), Event(3, 0, TOOLS, "host", call.seq, answer)]
    assert has_effect(events, effects, {call.seq}) is has_run


@pytest.mark.parametrize("effect", ["write", "idempotent"])
def test_a_later_process_gives_no_recorded_answer_to_a_call_that_has_begun(effect: Effect) -> None:
    origin = Log()
    result = origin.returns(origin.calls("send", 1, effect=effect)).seq
    for body, is_given in ((WAITS, True), (RUNS, False)):
        call, gate = asked(effect)
        playback = Playback(RecordedAnswers(origin.events, 0), "live")
        playback.note([call])
        playback.note_own([Event(2, 0, TOOLS, "host", call.seq, body)])
        assert playback.has_answer(call, gate) is is_given
        found = playback.find(call, gate)
        assert (found and found.seq) == (result if is_given else None)


@table("effects", ["ask", "live"])
def test_a_later_process_asks_no_person_about_a_call_that_has_begun(effects: Effects) -> None:
    for starts in ((), (RUNS,)):
        call, gate = asked("idempotent")
        playback = Playback(RecordedAnswers((), 0), effects)
        playback.note([call])
        playback.note_own([Event(2, 0, TOOLS, "host", call.seq, body) for body in starts])
        is_asked = effects == "ask" and not starts
        assert type(playback.admit(call, gate)) is (Asked if is_asked else Work)


def test_the_result_that_did_not_fit_is_used_up_in_later_processes_too() -> None:
    origin = Log()
    result = origin.returns(origin.calls("send", 1)).seq
    call, gate = asked("write")
    later = Log().calls("send", 2)
    playback = Playback(RecordedAnswers(origin.events, 0), "live")
    playback.note([call])
    starts = (ToolStarted(1, 0, reused=result), RUNS)
    playback.note_own([Event(seq, 0, TOOLS, "host", call.seq, body) for seq, body in enumerate(starts, 2)])
    gate.on_events([later])
    assert playback.recorded.same_call(later, playback._reader) is None


# --- after a crash ------------------------------------------------------------------------


def using(effect: Effect, *starts: ToolStarted) -> list[Event]:
    """Return the log of a session that ends with the call of a tool, and its starts."""
    who = profile("host", writes=["act"]) if effect == "write" else profile("host", repeats=["act"])
    says = Scenario(
        [who], lambda request: calls(("act", {})) if request.turn == 1 else Reply("done"), [ask()]
    )
    log = SessionWorld(says).run().log
    call = next(event for event in log if isinstance(event.body, CallTool))
    log = log[: max(event.seq for event in log if event.cause == call.cause)]
    last = log[-1]
    return log + [
        Event(seq, last.at, TOOLS, "host", call.seq, one) for seq, one in enumerate(starts, last.seq + 1)
    ]


def after(log: list[Event], recorded: frozenset[int] = frozenset()) -> tuple[list[int], list[str]]:
    """Return the calls that start after a crash, and the statuses of those that are answered."""
    found: Recovered = recover(log, Resumed(2), log[-1].at, None, recorded)
    answers: list[str] = [one.body.status for one in found.posted if isinstance(one.body, ToolReturned)]
    starts = [one.request for one in found.starts if isinstance(one.request.body, CallTool)]
    return [one.seq for one in starts], answers


@table(
    ("effect", "starts", "is_recorded", "is_answered", "is_started"),
    [
        ("write", [], True, False, True),
        ("write", [WAITS], True, False, False),  # its driver holds the recorded answer again
        ("write", [WAITS], False, False, True),  # its origin was deleted: it has not run
        ("write", [WAITS, RUNS], False, True, False),
        ("write", [RUNS], False, True, False),
        ("idempotent", [RUNS], False, False, True),
    ],
)
def test_after_a_crash_only_a_write_that_has_begun_is_interrupted(
    effect: Effect, starts: list[ToolStarted], is_recorded: bool, is_answered: bool, is_started: bool
) -> None:
    log = using(effect, *starts)
    call = next(event.seq for event in log if isinstance(event.body, CallTool))
    started, answers = after(log, frozenset({call} if is_recorded else ()))
    assert answers == ["interrupted"] * is_answered
    assert started == [call] * is_started


@table(
    ("starts", "reused", "is_kept"),
    [([WAITS], 9, True), ([WAITS], 0, False), ([WAITS, RUNS], 0, True), ([RUNS], 0, True)],
)
def test_a_write_that_only_waited_has_no_result_of_its_own(
    starts: list[ToolStarted], reused: int, is_kept: bool
) -> None:
    log = using("write", *starts)
    call = next(event.seq for event in log if isinstance(event.body, CallTool))
    body = ToolReturned(1, 0, reused=reused)
    told = Event(len(log) + 1, log[-1].at, TOOLS, "host", call, body)
    assert [one.name for one in check_log([*log, told], kinds=(Started,))] == ([] if is_kept else ["started"])
