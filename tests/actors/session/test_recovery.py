"""Recovery: from every prefix of every log a session goes on, and comes to an end that was possible."""

from collections.abc import Sequence
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.addresses import CLIENT, MODEL, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import Ask, AskEnded, Cancel, Close, Resumed, SessionClosed
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Stop, Stopped, TurnSettled
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    CapacityGiven,
    CheckSchema,
    ExtendTimer,
    ModelReplied,
    RequestCapacity,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO
from callboard.actors.session.port_actions import Start
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recovery import Recovered, recover
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.resumes import check_resumes, go_on
from callboard.replay.testing.sessions.scenario import NO_LIMITS, START_MS, Scenario, ask, profile, tool_spec
from callboard.replay.testing.sessions.scripted_replies import NOMINAL, Reply, calls, report
from callboard.replay.testing.sessions.world import SessionWorld
from tests.effort import effort
from tests.grants import granted_by
from tests.session_plans import Plan, play

LATER = 1_800_000_000_000


def cut(world: SessionWorld, seq: int) -> Recovered:
    """Recover a world from its first events."""
    return recover(world.log[:seq], Resumed(1), LATER)


def resumed(world: SessionWorld, seq: int) -> SessionWorld:
    """Continue a world from its first events, and run it to its end."""
    return go_on(world.scenario, world.log[:seq]).run()


def told(events: Sequence[Event]) -> list[tuple[str, str]]:
    return [(event.sender, event.kind) for event in events]


def ends(world: SessionWorld) -> list[tuple[str, str, bytes, str]]:
    return [(end.request_id, end.kind, bytes(end.value), end.text) for end in world.of(AskEnded)]


def place(world: SessionWorld, kind: type, nth: int = 0) -> int:
    """Return the seq of the nth message of a kind."""
    return world.events(kind)[nth].seq


# --- every prefix -----------------------------------------------------------------


class Steady(Plan):
    """A plan whose models say the same however often they are asked."""

    def chance(self, *about: object) -> Random:
        return super().chance(*(about[:3] if about[0] == "says" else about))

    def says(self, request: ModelRequest) -> Reply:
        return msgspec.structs.replace(super().says(request), is_lost=False)  # or it would be lost forever


@pytest.mark.slow
@settings(max_examples=effort(suite=6, campaign=50), deadline=None)
@given(seed=st.integers(0, 10_000))
def test_without_contention_every_prefix_resumes_to_the_same_outcome(seed: int) -> None:
    world = play(Steady(seed, is_calm=True, asks=1))
    for seq in range(2, len(world.log) + 1):
        later = resumed(world, seq)
        assert breaches_of(later) == []
        if not any(r.status == "interrupted" for r in later.of(ToolReturned)):
            assert ends(later) == ends(world), f"cut after {seq}"


@pytest.mark.slow
@settings(max_examples=effort(suite=5, campaign=50), deadline=None)
@given(seed=st.integers(0, 10_000), schedule=st.integers(0, 3))
def test_every_prefix_of_any_session_goes_on_replays_and_comes_to_rest(seed: int, schedule: int) -> None:
    world = play(Plan(seed), schedule)
    assert check_resumes(world.scenario, world.log) == []


@pytest.mark.slow
@settings(max_examples=effort(suite=6, campaign=50), deadline=None)
@given(seed=st.integers(0, 10_000), data=st.data())
def test_a_session_that_dies_again_and_again_still_comes_to_rest(seed: int, data: st.DataObject) -> None:
    world = play(Plan(seed))
    for _ in range(4):
        seq = data.draw(st.integers(0, len(world.log)))
        world = resumed(world, seq)
        assert breaches_of(world) == []


# --- the torn decision ------------------------------------------------------------


def talkative(*, runs: bool = True) -> SessionWorld:
    """Make a host that calls three tools at once: a decision with four outputs."""

    def says(request: ModelRequest) -> Reply:
        return calls(("look", {}), ("look", {}), ("save", {})) if request.turn == 1 else Reply("done")

    world = SessionWorld(Scenario([profile("host", tools=["look"], writes=["save"])], says, [ask()]))
    return world.run() if runs else world


def test_a_fork_gives_no_recorded_result_to_a_write_that_was_stopped_before_its_start() -> None:
    world = talkative()
    reply = place(world, ModelReplied)
    log = [*world.log[:reply], Event(reply + 1, LATER, CLIENT, SUPERVISOR, 0, Cancel("no"))]
    log += recover(log, Resumed(1), LATER).posted
    stop = next(event.seq for event in log if isinstance(event.body, Stop))
    looked, saved = (
        next(event.seq for event in log if isinstance(event.body, CallTool) and event.body.tool == name)
        for name in ("look", "save")
    )
    found = recover(log[:stop], Resumed(1), LATER, recorded={looked, saved})
    answers = {event.cause: event.body for event in found.posted if isinstance(event.body, ToolReturned)}
    assert answers[saved].status == "cancelled"
    assert looked not in answers, "a read keeps its recorded answer"


def test_a_fork_gives_no_recorded_answer_to_a_request_that_came_after_the_stop() -> None:
    world = talkative(runs=False)
    while not world.of(ModelReplied):
        world.make(world.moves()[0])
    world.cancel()
    for strand in ("inbox supervisor", "inbox host"):  # the reply is handled after the Stop was posted
        world.make(next(move for move in world.moves() if move.strand == strand))
    requests = {event.seq for event in world.events(CallTool)}
    found = recover(world.log[: place(world, TurnSettled)], Resumed(1), LATER, recorded=requests)
    answers = {event.cause: event.body for event in found.posted if isinstance(event.body, ToolReturned)}
    assert {seq: body.status for seq, body in answers.items()} == dict.fromkeys(requests, "cancelled")


def test_the_rest_of_a_torn_decision_is_posted_before_anything_else() -> None:
    world = talkative()
    reply = place(world, ModelReplied)
    outputs = [event for event in world.log if event.cause == reply]
    assert told(outputs) == [("host", "CallTool")] * 3 + [("host", "TurnSettled")]
    for seq in range(outputs[0].seq, outputs[-1].seq):
        found = cut(world, seq)
        rest = [event for event in outputs if event.seq > seq]
        assert [(e.recipient, e.cause, e.body) for e in found.posted[: len(rest)]] == [
            (e.recipient, e.cause, e.body) for e in rest
        ]
        assert found.posted[len(rest)].body == Resumed(1)


def test_an_event_whose_decision_left_nothing_in_the_log_is_handled_again() -> None:
    world = talkative()
    found = cut(world, place(world, ModelReplied))
    assert told(found.posted)[:2] == [(CLIENT, "Resumed"), ("host", "CallTool")]


def test_an_empty_log_begins_with_its_first_event() -> None:
    world = talkative()
    first = world.log[0].body
    found = recover((), first, LATER)
    assert told(found.posted) == [(CLIENT, "SessionOpened")]
    state = found.states[SUPERVISOR]
    assert isinstance(state, SupervisorState)
    assert state.phase == "open"


def test_new_events_go_on_in_number_and_time() -> None:
    world = talkative()
    found = recover(world.log[:5], Resumed(1), LATER)
    assert [event.seq for event in found.posted] == list(range(6, 6 + len(found.posted)))
    assert {event.at for event in found.posted} == {LATER}


def test_the_clock_of_the_log_never_goes_back() -> None:
    log = talkative().log
    events = [Event(e.seq, LATER + e.seq, e.sender, e.recipient, e.cause, e.body) for e in log[:4]]
    assert {event.at for event in recover(events, Resumed(1), LATER).posted} == {LATER + 4}
    assert {event.at for event in recover((), log[0].body, 0).posted} == {0}


def test_a_closed_session_takes_a_resume_calmly() -> None:
    world = talkative().close().run()
    assert isinstance(world.log[-1].body, SessionClosed)
    assert told(cut(world, len(world.log)).posted) == [(CLIENT, "Resumed")]


# --- what becomes of requests without an answer -----------------------------------


def test_a_model_call_is_lost_charged_as_reserved_and_made_again() -> None:
    world = talkative()
    grant = place(world, CallModel)
    found = cut(world, grant)
    (answer,) = [e for e in found.posted if isinstance(e.body, ModelReplied)]
    assert (answer.sender, answer.cause, answer.body) == (MODEL, grant, ModelReplied(1, 1, "lost"))
    (again,) = [e for e in found.posted if isinstance(e.body, CallModel)]
    before = world.log[grant - 1].body
    assert isinstance(before, CallModel)
    assert isinstance(again.body, CallModel)
    first = granted_by(world.log, before)
    second = granted_by([*world.log[:grant], *found.posted], again.body)
    assert (second.turn, second.attempt, second.digest) == (1, 2, first.digest)
    assert [start.request for start in found.starts] == [again]
    later = resumed(world, grant)
    (end,) = later.of(AskEnded)
    assert end.usage.unknown_calls == 1
    assert end.usage.charged_tokens == first.need.tokens


def test_a_model_call_that_no_process_has_made_is_not_lost() -> None:
    world = until(thinking(), CallModel)
    for has_run in (True, False):
        found = recover(world.log, Resumed(1), LATER, has_run=has_run)
        lost = [e for e in found.posted if isinstance(e.body, ModelReplied)]
        assert [e.body.status for e in lost if isinstance(e.body, ModelReplied)] == ["lost"] * has_run
        assert [start.request.seq for start in found.starts if start.request.seq <= len(world.log)] == [
            seq for seq in (place(world, CallModel),) if not has_run
        ]


def using(effect: Effect) -> SessionWorld:
    def says(request: ModelRequest) -> Reply:
        return calls(("act", {})) if request.turn == 1 else Reply("done")

    who = profile("host")
    who = Profile(who.name, "", who.instructions, (tool_spec("act", effect),), model=who.model)
    return SessionWorld(Scenario([who], says, [ask()])).run()


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_tool_that_may_be_repeated_runs_again(effect: Effect) -> None:
    world = using(effect)
    request = world.events(CallTool)[0]
    found = cut(world, request.seq)
    assert found.starts == (Start(request, waits=effect == "idempotent"),)
    assert not [e for e in found.posted if isinstance(e.body, ToolReturned)]


def test_a_write_tool_that_had_not_started_runs() -> None:
    world = using("write")
    request = world.events(CallTool)[0]
    (start,) = cut(world, place(world, ToolStarted) - 1).starts
    assert start.request == request
    assert start.announcement is not None


def test_a_write_tool_that_had_started_is_interrupted_and_shown_to_the_model() -> None:
    world = using("write")
    started = place(world, ToolStarted)
    for seq in (started, place(world, ToolReturned) - 1):
        found = cut(world, seq)
        (answer,) = [e for e in found.posted if isinstance(e.body, ToolReturned)]
        assert isinstance(answer.body, ToolReturned)
        assert (answer.sender, answer.body.status) == (TOOLS, "interrupted")
        later = resumed(world, seq)
        last = max(later.asked)
        assert b"Interrupted" in b"".join(later.asked[last].messages)


def test_a_check_is_asked_again() -> None:
    asked = ask(schema={"type": "object", "required": ["n"]})
    world = SessionWorld(Scenario([profile("host")], lambda request: report({"n": 1}), [asked])).run()
    request = world.events(CheckSchema)[0]
    assert [start.request for start in cut(world, request.seq).starts] == [request]


def until(world: SessionWorld, kind: type) -> SessionWorld:
    """Go on until a message of a kind is posted, first come, first served."""
    while not world.events(kind):
        world.make(world.moves()[0])
    return world


def thinking(limits: Limits = NO_LIMITS, asked: Ask | None = None) -> SessionWorld:
    """Return a session whose host has a model call in flight."""
    who = profile("host", tools=["look"])
    scenario = Scenario([who], lambda request: Reply("hello"), [asked or ask()], limits)
    return until(SessionWorld(scenario), CallModel)


def cancelled_while(effect: Effect) -> SessionWorld:
    """Return a session whose host was cancelled while its tool ran."""
    running = until(SessionWorld(using(effect).scenario), CallTool).cancel()
    return until(running, Stop)


@pytest.mark.parametrize(
    ("effect", "status"), [("read", "cancelled"), ("idempotent", "interrupted"), ("write", "interrupted")]
)
def test_a_tool_of_a_stopped_agent_is_answered_and_never_run(effect: Effect, status: str) -> None:
    world = cancelled_while(effect)
    found = cut(world, len(world.log))
    (answer,) = [e.body for e in found.posted if isinstance(e.body, ToolReturned)]
    assert answer.status == status
    assert found.starts == ()
    assert [e.sender for e in found.posted if isinstance(e.body, Stopped)] == ["host"]
    assert [e for e in found.posted if isinstance(e.body, AskEnded)]


def test_a_model_call_of_a_stopped_agent_is_cancelled_and_charged_since_it_may_have_started() -> None:
    world = thinking().cancel()
    found = cut(world, len(world.log))
    (answer,) = [e.body for e in found.posted if isinstance(e.body, ModelReplied)]
    assert (answer.status, answer.usage) == ("cancelled", None)
    assert found.starts == ()


def test_a_model_call_that_was_regenerated_and_stopped_costs_nothing() -> None:
    """Lose the grant with the tail, and cancel the session before any port can act."""
    world = thinking()
    seq = place(world, CallModel)
    prefix = [*world.log[: seq - 1]]
    prefix.append(Event(seq, 0, CLIENT, SUPERVISOR, 0, Cancel("enough")))
    found = recover(prefix, Resumed(1), LATER)
    replies = [e.body for e in found.posted if isinstance(e.body, ModelReplied)]
    assert [(reply.status, reply.usage) for reply in replies] == [("cancelled", ZERO)]


def test_what_a_stopped_agent_still_asks_for_is_refused() -> None:
    """Stop an agent before it handles the reply that makes it call a tool."""
    acting = until(SessionWorld(using("read").scenario), CallModel)
    grant = acting.events(CallModel)[0]
    reply = next(e for e in SessionWorld(acting.scenario).run().events(ModelReplied))
    seq = len(acting.log)
    prefix = [*acting.log, Event(seq + 1, 0, MODEL, "host", grant.seq, reply.body)]
    prefix.append(Event(seq + 2, 0, CLIENT, SUPERVISOR, 0, Cancel("enough")))
    stop = next(e for e in recover(prefix, Resumed(1), LATER).posted if isinstance(e.body, Stop))
    prefix.append(Event(seq + 3, 0, SUPERVISOR, "host", seq + 2, stop.body))
    found = recover(prefix, Resumed(1), LATER)
    (call,) = [e for e in found.posted if isinstance(e.body, CallTool)]
    (answer,) = [e for e in found.posted if isinstance(e.body, ToolReturned)]
    assert answer.cause == call.seq
    assert isinstance(answer.body, ToolReturned)
    assert answer.body.status == "cancelled"
    assert found.starts == ()


@pytest.mark.parametrize("last", [Cancel, Stop, Stopped])
def test_a_request_for_a_place_of_an_agent_that_has_drained_is_cancelled_and_not_made_again(
    last: type,
) -> None:
    scenario = Scenario([profile("host")], lambda request: Reply("hello"), [ask()], capacity=["scripted"])
    world = until(SessionWorld(scenario), RequestCapacity).cancel()
    while not world.of(Stopped):  # the place does not come
        world.make(next(move for move in world.moves() if move.strand.startswith("inbox")))
    found = cut(world, place(world, last))
    (given,) = [e for e in found.posted if isinstance(e.body, CapacityGiven)]
    assert (given.cause, given.body.status) == (place(world, RequestCapacity), "cancelled")  # type: ignore[union-attr]  # a CapacityGiven
    assert found.starts == ()
    assert [e.body.kind for e in found.posted if isinstance(e.body, AskEnded)] == ["cancelled"]


# --- other agents -----------------------------------------------------------------


def test_a_resume_changes_the_host_the_profiles_and_the_model() -> None:
    world = SessionWorld(Scenario([profile("host")], lambda request: Reply("hello"), [ask()])).run()
    other = profile("guest")
    resume = Resumed(1, "guest", (Json(encode(other)),), ModelSpec("other", 50))
    found = recover(world.log, resume, LATER)
    state = found.states[SUPERVISOR]
    assert isinstance(state, SupervisorState)
    assert (state.host_name, list(state.profiles), state.model.name) == ("guest", ["guest"], "other")


# --- time -------------------------------------------------------------------------


def deadline() -> SessionWorld:
    return thinking(asked=ask(limits=Limits(deadline_s=5)))


def test_a_timer_runs_from_when_it_was_set() -> None:
    world = deadline()
    (arm,) = cut(world, len(world.log)).timers
    assert (arm.at, arm.after_ms) == (START_MS, 5_000)


def test_extending_puts_every_deadline_off() -> None:
    world = deadline()
    found = recover(world.log, Resumed(1, extend_ms=60_000), LATER)
    assert [e.body for e in found.posted if isinstance(e.body, ExtendTimer)] == [ExtendTimer(1, 60_000)]
    (arm,) = found.timers
    assert (arm.at, arm.after_ms) == (START_MS, 65_000)


def test_new_limits_hold_for_the_running_ask_too() -> None:
    world = thinking(Limits(tokens=9_000))
    found = recover(world.log, Resumed(1, limits=Limits(tokens=90_000)), LATER)
    state = found.states[SUPERVISOR]
    assert isinstance(state, SupervisorState)
    assert state.host is not None
    assert state.host.budget.tokens == 90_000
    assert state.host.spent.charged_tokens > 0, "the lost call stays charged"


# --- what cannot go on ------------------------------------------------------------


@pytest.mark.parametrize("what", ["changed", "missing", "extra"])
def test_a_log_that_the_code_contradicts_is_refused(what: str) -> None:
    log = list(talkative().log)
    at = next(e.seq for e in log if isinstance(e.body, TurnSettled))
    event = log[at - 1]
    if what == "changed":
        log[at - 1] = Event(at, 0, event.sender, event.recipient, event.cause, Stopped())
    elif what == "missing":
        log[at - 1] = Event(at, 0, CLIENT, SUPERVISOR, 0, Close())
    else:
        log.insert(at, Event(at + 1, 0, event.sender, event.recipient, event.cause, Stopped()))
        log = [Event(n, e.at, e.sender, e.recipient, e.cause, e.body) for n, e in enumerate(log[: at + 1], 1)]
    with pytest.raises(Diverged, match=f"event {event.cause}"):
        recover(log, Resumed(1), LATER)


def test_with_strict_spending_a_repeated_call_waits_for_the_disk() -> None:
    world = talkative()
    found = recover(world.log[: place(world, CallModel)], Resumed(1), LATER, PortGate(is_strict=True))
    assert [start.waits for start in found.starts] == [True]


def test_the_usage_of_a_session_is_known_after_it_was_resumed() -> None:
    world = talkative()
    later = resumed(world, place(world, ToolReturned))
    (end,) = later.of(AskEnded)
    assert (end.usage.input_tokens, end.usage.output_tokens) == (
        2 * NOMINAL.input_tokens,
        2 * NOMINAL.output_tokens,
    )
