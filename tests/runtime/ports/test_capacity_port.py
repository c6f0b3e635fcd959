"""Capacity over all sessions of a live runtime: counted calls in flight, turns, stops, resumes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from callboard import Agent, Capacity, Limits, Outcome, Runtime, ScriptedModel, Session, calls, say
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.client_messages import AskEnded, Cancel, Resumed, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Stop, Stopped
from callboard.actors.protocol.port_messages import CallModel, CapacityGiven, ModelReplied, RequestCapacity
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Need, Usage
from callboard.errors import SessionDetached
from callboard.log import MemoryLog
from callboard.replay import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.clock import monotonic_ms
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.models.finishes import tell_usage
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.scripted import Step, call
from callboard.runtime.ports.capacity_port import BudgetPort, CapacityPort, PlacedModelPort
from tests.tables import table

HOST = Agent("host")


class Service:
    """A model service that counts the calls in flight and answers when it is told to.

    waits: True if each call waits for `answer`. Else it gives up the loop a few times and answers.
    """

    def __init__(self, name: str = "m", *, waits: bool = False, max_tokens: int = 100) -> None:
        self.in_flight = self.most = self.made = 0
        self._waits = waits
        self._gates: list[asyncio.Event] = []
        self.asked: list[str] = []
        self.model = ScriptedModel(self._policy, name=name, max_tokens=max_tokens)

    async def _policy(self, request: ModelRequest) -> Step:
        self.in_flight += 1
        self.made += 1
        self.most = max(self.most, self.in_flight)
        self.asked.append(request.address)
        try:
            if self._waits:
                self._gates.append(gate := asyncio.Event())
                await gate.wait()
            else:
                for _ in range(5):
                    await asyncio.sleep(0)
        finally:
            self.in_flight -= 1
        if request.profile == "host" and request.tools and request.turn == 1:
            return calls(*[call("task", agent="kid", prompt="work")] * 3)
        return say("done")

    def answer(self, count: int = 1) -> None:
        """Let the oldest calls in flight answer."""
        for gate in self._gates[:count]:
            gate.set()
        del self._gates[:count]


async def settled(is_so: Callable[[], object]) -> None:
    """Let the loop run until something is so. Raises TimeoutError if it never is."""
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110  # the condition has no event
            await asyncio.sleep(0.001)


def checked(log: MemoryLog, names: Iterable[str]) -> dict[str, list[Event]]:
    """Verify the logs of sessions, and hold every rule against them."""
    found = {}
    for name in names:
        recording = Recording.open(MemoryReader(log), name)
        recording.verify().check()
        found[name] = list(recording.events)
        assert check_log(found[name]) == []
    return found


def run(
    body: Callable[[Runtime], Awaitable[None]], capacity: Mapping[str, Capacity], log: MemoryLog | None = None
) -> MemoryLog:
    log = log or MemoryLog()

    async def main() -> None:
        async with Runtime(log, model=ScriptedModel([]), capacity=capacity) as runtime:
            await body(runtime)
            assert all(not line.in_flight for line in runtime.capacity().lines)
            assert runtime.capacity().waiting == ()

    asyncio.run(main())
    return log


def host_of(service: Service, *, has_kids: bool = False) -> Agent:
    kid = Agent("kid", description="works", model=service.model)
    return Agent("host", model=service.model, agents=[kid] if has_kids else [])


# --- calls in flight ----------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_calls_of_a_model_are_in_flight_than_its_limit_over_all_sessions(limit: int) -> None:
    service, names = Service(), [f"s{n}" for n in range(6)]

    async def body(runtime: Runtime) -> None:
        host = host_of(service, has_kids=True)
        outcomes = await asyncio.gather(*(runtime.run(host, "go", session_id=name) for name in names))
        assert [outcome.status for outcome in outcomes] == ["ok"] * 6

    log = run(body, {"m": Capacity(calls=limit)})
    assert (service.most, service.made) == (limit, 6 * 5)
    for events in checked(log, names).values():
        bodies = [event.body for event in events]
        assert sum(isinstance(one, RequestCapacity) for one in bodies) == 5
        assert sum(isinstance(one, CapacityGiven) for one in bodies) == 5


def test_each_model_has_its_own_limit_and_others_have_none() -> None:
    slow, fast, free = Service("slow"), Service("fast"), Service("free")

    async def body(runtime: Runtime) -> None:
        hosts = [host_of(service) for service in (slow, fast, free) for _ in range(5)]
        await asyncio.gather(*(runtime.run(host, "go", session_id=f"s{n}") for n, host in enumerate(hosts)))

    log = run(body, {"slow": Capacity(calls=1), "fast": Capacity(calls=2), "other": Capacity(calls=1)})
    assert (slow.most, fast.most, free.most) == (1, 2, 5)
    logs = checked(log, ["s0", "s5", "s10"])
    bodies = [event.body for log in logs.values() for event in log]
    opened = [body.capacity for body in bodies if isinstance(body, SessionOpened)]
    assert opened == [("slow",), ("fast",), ()]
    assert not any(isinstance(event.body, RequestCapacity) for event in logs["s10"])


def test_sessions_take_turns_however_many_calls_one_of_them_wants() -> None:
    many, few = Service(waits=True), Service(waits=True)
    many.model = few.model = ScriptedModel(many._policy, name="m", max_tokens=100)

    async def body(runtime: Runtime) -> None:
        first = asyncio.create_task(runtime.run(host_of(many, has_kids=True), "go", session_id="many"))
        await settled(lambda: many.in_flight == 1)
        many.answer()
        await settled(lambda: len(runtime.capacity().waiting) == 2)  # three kids, one of them is called
        second = asyncio.create_task(runtime.run(host_of(many), "go", session_id="few"))
        await settled(lambda: len(runtime.capacity().waiting) == 3)
        order = [(one.session, one.agent, one.reason, one.ahead) for one in runtime.capacity().waiting]
        assert order == [
            ("many", "host.2", "calls", 0),
            ("few", "host", "line", 1),
            ("many", "host.3", "line", 2),
        ]
        while not (first.done() and second.done()):
            many.answer()
            await asyncio.sleep(0.001)
        assert first.result().status == second.result().status == "ok"

    checked(run(body, {"m": Capacity(calls=1)}), ["many", "few"])
    assert many.asked == ["host", "host.1", "host.2", "host", "host.3", "host"]


# --- tokens ---------------------------------------------------------------------------


def test_tokens_that_a_call_does_not_use_let_the_next_one_start_at_once() -> None:
    """The bucket has room for one need at a time, and a minute would have to pass for another."""
    service = Service(max_tokens=3_000)

    async def body(runtime: Runtime) -> None:
        host = host_of(service)
        outcomes = await asyncio.gather(*(runtime.run(host, "go", session_id=f"s{n}") for n in range(8)))
        assert [outcome.status for outcome in outcomes] == ["ok"] * 8

    checked(run(body, {"m": Capacity(tokens_per_minute=4_000)}), [f"s{n}" for n in range(8)])
    assert (service.most, service.made) == (1, 8)


def test_a_call_waits_until_the_bucket_has_its_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The large call leaves a debt of a seventh of a second. The bucket's clock stands until that is seen."""
    begun = monotonic_ms()
    passed_ms = [0]
    monkeypatch.setattr("callboard.runtime.budgets.monotonic_ms", lambda: begun + passed_ms[0])
    large, small = Service(max_tokens=2_000_000, waits=True), Service(max_tokens=600)

    async def body(runtime: Runtime) -> None:
        first = asyncio.create_task(runtime.run(host_of(large), "go", session_id="large"))
        await settled(lambda: large.in_flight)
        second = asyncio.create_task(runtime.run(host_of(small), "go", session_id="small"))
        await settled(lambda: runtime.capacity().waiting)
        report = runtime.capacity()
        (line,), (waiting,) = report.lines, report.waiting
        assert (line.in_flight, waiting.session, waiting.reason) == (1, "small", "tokens")
        assert line.tokens_left is not None
        assert line.tokens_left < 0
        assert small.made == 0
        passed_ms[0] = 1_000
        assert (await second).status == "ok"
        large.answer()
        assert (await first).status == "ok"

    checked(run(body, {"m": Capacity(tokens_per_minute=1_996_000)}), ["large", "small"])


# --- ends -----------------------------------------------------------------------------


def test_an_ask_that_is_cancelled_while_its_call_waits_ends_and_frees_its_turn() -> None:
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        host = host_of(service)
        first = asyncio.create_task(runtime.run(host, "go", session_id="first"))
        await settled(lambda: service.in_flight)
        session = await runtime.open(host, session_id="second")
        waiting = asyncio.create_task(session.ask("go"))
        await settled(lambda: runtime.capacity().waiting)
        outcome = await session.cancel("enough")
        assert outcome is not None
        assert (outcome.kind, outcome.usage.calls) == ("cancelled", 0)
        assert await waiting == outcome
        assert runtime.capacity().waiting == ()
        await session.close()
        service.answer()
        assert (await first).status == "ok"

    events = checked(run(body, {"m": Capacity(calls=1)}), ["first", "second"])["second"]
    assert [event.body.status for event in events if isinstance(event.body, CapacityGiven)] == ["cancelled"]
    assert not any(isinstance(event.body, CallModel) for event in events)
    assert service.made == 1


def test_an_ask_that_waits_too_long_ends_by_its_deadline() -> None:
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        host = host_of(service)
        first = asyncio.create_task(runtime.run(host, "go", session_id="first"))
        await settled(lambda: service.in_flight)
        late = await runtime.run(host, "go", session_id="second", limits=Limits(deadline_s=0.02))
        assert (late.kind, late.usage.calls) == ("deadline", 0)
        service.answer()
        assert (await first).status == "ok"

    checked(run(body, {"m": Capacity(calls=1)}), ["first", "second"])


def test_a_cancelled_call_ends_at_once_and_frees_its_place() -> None:
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        host = host_of(service)
        session = await runtime.open(host, session_id="first")
        asking = asyncio.create_task(session.ask("go"))
        await settled(lambda: service.in_flight)
        second = asyncio.create_task(runtime.run(host, "go", session_id="second"))
        await settled(lambda: runtime.capacity().waiting)
        await session.cancel()
        assert (await asking).kind == "cancelled"
        await settled(lambda: service.made == 2)
        assert service.in_flight == 1, "the service works for nobody"
        service._gates[-1].set()
        assert (await second).status == "ok"
        await session.close()

    checked(run(body, {"m": Capacity(calls=1)}), ["first", "second"])


def test_a_call_that_outlives_its_cancel_frees_its_place_when_its_session_closes() -> None:
    gate = asyncio.Event()

    async def stubborn(request: ModelRequest) -> Step:
        while not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
        return say("late")

    async def body(runtime: Runtime) -> None:
        host = Agent("host", model=ScriptedModel(stubborn, name="m"))
        session = await runtime.open(host, limits=Limits(deadline_s=0.01, cancel_grace_s=0.01))
        await session.ask("go")
        closing = asyncio.create_task(session.close())
        await settled(lambda: not runtime.capacity().lines[0].in_flight)
        gate.set()
        await closing
        assert not runtime.capacity().waiting

    run(body, {"m": Capacity(calls=1)})


def test_a_session_that_detaches_leaves_the_line_and_records_what_its_call_has_used() -> None:
    log = MemoryLog()

    class Streams:
        spec = ModelSpec("m")

        async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
            tell_usage(on_text, Usage(7, 5))
            await asyncio.Event().wait()
            return ModelAnswer()

        async def aclose(self) -> None: ...

    async def body(runtime: Runtime) -> None:
        host = Agent("host", model=Streams())
        session = await runtime.open(host, session_id="one")
        other = await runtime.open(host, session_id="two")
        asks = [asyncio.create_task(session.ask("go"))]
        await settled(lambda: runtime.capacity().lines[0].in_flight)
        asks.append(asyncio.create_task(other.ask("go")))
        await settled(lambda: runtime.capacity().waiting)
        other._board.cut_off()
        assert not runtime.capacity().waiting
        for each in (other, session):
            await each.detach(0)
        for ask in asks:
            with pytest.raises(SessionDetached):
                await ask

    events = checked(run(body, {"m": Capacity(calls=1)}, log), ["one", "two"])
    replies = [e.body for e in events["one"] if isinstance(e.body, ModelReplied)]
    assert [(one.status, one.usage) for one in replies] == [("detached", Usage(7, 5))]


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_session_that_fails_leaves_the_line(is_waiting: bool) -> None:
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        host = host_of(service)
        sessions = [await runtime.open(host, session_id=name) for name in ("one", "two")]
        asks = [asyncio.create_task(session.ask("go")) for session in sessions]
        await settled(lambda: runtime.capacity().waiting)
        sessions[is_waiting]._board.fail(RuntimeError("the disk is gone"))
        with pytest.raises(Exception, match="the disk is gone"):
            await asks[is_waiting]
        await settled(lambda: not runtime.capacity().waiting)
        if not is_waiting:
            await settled(lambda: service.made == 2)
        await sessions[is_waiting].close()
        assert service.in_flight == 1
        for gate in service._gates:
            gate.set()
        assert (await asks[not is_waiting]).status == "ok"

    run(body, {"m": Capacity(calls=1)})


# --- resumes --------------------------------------------------------------------------


async def cut(events: list[Event], end: int, name: str) -> MemoryLog:
    log = MemoryLog()
    await log.open()
    epoch = await log.create(name, 0, "go")
    (answer,) = await log.append([Append(name, 0, epoch, events[:end])])
    assert not isinstance(answer, Exception)
    await log.close()
    return log


def recorded(service: Service) -> list[Event]:
    async def body(runtime: Runtime) -> None:
        await runtime.run(host_of(service), "go", session_id="s")

    return checked(run(body, {"m": Capacity(calls=1)}), ["s"])["s"]


def recorded_up_to(last: type) -> MemoryLog:
    """Record an ask, and return the log of a process that was killed after the first event of this kind."""
    events = recorded(Service())
    end = next(event.seq for event in events if type(event.body) is last)
    return asyncio.run(cut(events, end, "s"))


async def resumed_behind_another(
    runtime: Runtime, service: Service
) -> tuple["asyncio.Task[Outcome]", Session]:
    """Start session `other`, which takes the only place, then resume session `s`."""
    host = host_of(service)
    other = asyncio.create_task(runtime.run(host, "go", session_id="other"))
    await settled(lambda: service.in_flight)
    return other, await runtime.resume("s", host)


async def answer_all(service: Service, other: "asyncio.Task[Outcome]", session: Session) -> None:
    """Let the service answer until both sessions have an outcome."""
    while not (other.done() and session.outcome.done()):
        service.answer()
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("last", [RequestCapacity, CapacityGiven, CallModel, ModelReplied])
def test_a_resumed_call_first_takes_a_place_of_the_new_process(last: type) -> None:
    log = recorded_up_to(last)
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        other, session = await resumed_behind_another(runtime, service)
        if last is not ModelReplied:
            await settled(lambda: runtime.capacity().waiting)
            assert [one.session for one in runtime.capacity().waiting] == ["s"]
        await answer_all(service, other, session)
        assert (await session.outcome).status == "ok"
        await session.close()

    checked(run(body, {"m": Capacity(calls=1)}, log), ["s", "other"])
    assert service.most == 1


def test_a_resumed_call_that_is_cancelled_before_its_new_place_never_starts() -> None:
    log = recorded_up_to(CapacityGiven)
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        other, session = await resumed_behind_another(runtime, service)
        outcome = await session.cancel()
        assert outcome is not None
        assert (outcome.kind, outcome.usage.tokens) == ("cancelled", 0)
        assert runtime.capacity().waiting == ()
        await session.close()
        service.answer()
        assert (await other).status == "ok"

    checked(run(body, {"m": Capacity(calls=1)}, log), ["s", "other"])
    assert service.made == 1


def test_a_resumed_call_with_its_new_place_can_be_cancelled_and_gives_that_back() -> None:
    log = recorded_up_to(CapacityGiven)
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        other, session = await resumed_behind_another(runtime, service)
        await settled(lambda: runtime.capacity().waiting)
        service.answer()
        assert (await other).status == "ok"
        await settled(lambda: service.made == 2)
        assert runtime.capacity().lines[0].in_flight == 1
        await session.cancel()
        await settled(lambda: not service.in_flight)
        assert runtime.capacity().lines[0].in_flight == 0
        await session.close()

    checked(run(body, {"m": Capacity(calls=1)}, log), ["s", "other"])


def test_a_resumed_call_of_a_model_without_a_limit_takes_no_place() -> None:
    log = recorded_up_to(CallModel)

    async def body(runtime: Runtime) -> None:
        session = await runtime.resume("s", host_of(Service()))
        assert (await session.outcome).status == "ok"
        await session.close()

    checked(run(body, {"other": Capacity(calls=1)}, log), ["s"])


async def cancelled_while_it_waits(last: type) -> MemoryLog:
    """Cancel an ask whose call waits, and return its log up to the first event of this kind."""
    service, log = Service(waits=True), MemoryLog()
    async with Runtime(log, model=ScriptedModel([]), capacity={"m": Capacity(calls=1)}) as runtime:
        first = asyncio.create_task(runtime.run(host_of(service), "go", session_id="first"))
        await settled(lambda: service.in_flight)
        session = await runtime.open(host_of(service), session_id="s")
        waiting = asyncio.create_task(session.ask("go"))
        await settled(lambda: runtime.capacity().waiting)
        await session.cancel("enough")
        await waiting
        service.answer()
        await first
    events = checked(log, ["s"])["s"]
    return await cut(events, next(event.seq for event in events if type(event.body) is last), "s")


@pytest.mark.parametrize("last", [Cancel, Stop, Stopped])
def test_a_resume_takes_no_place_for_an_agent_that_was_stopped_while_it_waited(last: type) -> None:
    log = asyncio.run(cancelled_while_it_waits(last))
    service = Service()

    async def body(runtime: Runtime) -> None:
        session = await runtime.resume("s", host_of(service))
        assert (await session.outcome).kind == "cancelled"
        assert [line.in_flight for line in runtime.capacity().lines] == [0]
        assert (await session.ask("again")).status == "ok"
        await session.close()

    checked(run(body, {"m": Capacity(calls=1)}, log), ["s"])
    assert service.made == 1


def test_a_place_that_comes_when_no_port_may_start_any_more_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = monotonic_ms()
    monkeypatch.setattr("callboard.runtime.budgets.monotonic_ms", lambda: now)
    log = recorded_up_to(CapacityGiven)
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        full = runtime.capacity().lines[0].tokens_left
        other, session = await resumed_behind_another(runtime, service)
        await settled(lambda: runtime.capacity().waiting)
        session._board.gate.is_closed = True
        service.answer()
        used = (await other).usage.tokens
        (line,) = runtime.capacity().lines
        assert full is not None
        assert (runtime.capacity().waiting, line.in_flight, line.tokens_left) == ((), 0, full - used)
        session._board.gate.is_closed = False
        await session.cancel()
        await session.close()

    run(body, {"m": Capacity(calls=1, tokens_per_minute=100_000)}, log)
    assert service.made == 1


@table("last", [SessionOpened, RequestCapacity, CapacityGiven])
@table(("capacity", "told"), [({}, ()), ({"m": Capacity(calls=2)}, None)])
def test_a_resume_records_only_other_limited_models(
    last: type, capacity: Mapping[str, Capacity], told: tuple[str, ...] | None
) -> None:
    log = recorded_up_to(last)
    service = Service()

    async def body(runtime: Runtime) -> None:
        session = await runtime.resume("s", host_of(service))
        outcome = await (session.ask("go") if last is SessionOpened else session.outcome)
        assert outcome.status == "ok"
        await session.close()

    found = checked(run(body, capacity, log), ["s"])["s"]
    assert [event.body.capacity for event in found if isinstance(event.body, Resumed)] == [told]
    assert [event.body.kind for event in found if isinstance(event.body, AskEnded)] == ["answered"]


def test_a_call_that_was_granted_without_a_place_takes_one_in_a_runtime_with_limits() -> None:
    first = Service()

    async def plain(runtime: Runtime) -> None:
        await runtime.run(host_of(first), "go", session_id="s")

    events = checked(run(plain, {}), ["s"])["s"]
    wish = next(event.seq for event in events if event.kind == "TurnRequested")
    log = asyncio.run(cut(events, wish, "s"))  # the call is granted again before the limits are known
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        other, session = await resumed_behind_another(runtime, service)
        await settled(lambda: runtime.capacity().waiting)
        await answer_all(service, other, session)
        await session.close()

    checked(run(body, {"m": Capacity(calls=1)}, log), ["other"])
    assert service.most == 1


# --- without a session ----------------------------------------------------------------


def test_a_call_under_way_keeps_its_place_when_it_is_given_up() -> None:
    done: list[str] = []

    class Models:
        def start(self, request: Event) -> None:
            assert "host" in gate.places, "no call of a limited model starts without a place"
            done.append("start")

        def abort(self, request: Event) -> bool:
            done.append("abort")
            return True

    gate = SimpleNamespace(
        places={"host"},
        wish_of=lambda request: SimpleNamespace(need=Need(5)),
        may_start=lambda request: True,
    )
    board: Any = SimpleNamespace(gate=gate, core=SimpleNamespace(states={"host": AgentState("host")}))
    capacity: Any = SimpleNamespace(
        is_limited=lambda model: True,
        take=lambda *of: done.append("take"),
        free=lambda agent: done.append(f"free {agent}"),
    )
    models: Any = Models()
    port = PlacedModelPort(board, models, capacity)
    request = Event(9, 0, "supervisor", "model", 8, CallModel("host", 7))
    port.start(request)
    assert port.abort(request)
    gate.places.clear()
    port.start(request)
    assert not port.abort(request)
    assert done == ["start", "abort", "take", "free host"]
    taken: list[Callable[[], None]] = []
    capacity.take = lambda agent, model, tokens, then: taken.append(then)
    port.start(request)
    done.clear()
    starts, models.start = models.start, lambda request: (starts(request), port.abort(request))
    taken[0]()
    assert done == ["start", "abort"], "one that is given up while it starts is under way"


@table("kind", [CapacityPort, BudgetPort])
def test_a_session_that_fails_has_left_the_line_before_it_tells_of_that(kind: Any) -> None:
    done: list[str] = []
    shared: Any = SimpleNamespace(leave=lambda session_id: done.append(f"{session_id} left"))
    board: Any = SimpleNamespace(session_id="s", stage=None, on_failure=lambda error: done.append("told"))
    kind(board, shared, *([None, ()] if kind is BudgetPort else []))
    board.on_failure(OSError())
    assert done == ["s left", "told"]


def test_nothing_is_settled_before_the_events_that_settle_it_are_handed_to_the_writer() -> None:
    done: list[str] = []

    def stage(events: object, changes: list[str]) -> None:
        done.append(f"stage {changes}")
        if "lost" in changes:
            raise OSError

    shared: Any = SimpleNamespace(settle=lambda changes: done.append("settle"))
    keys: Any = SimpleNamespace(take=lambda events: events)
    for changes in (["one"], [], ["lost"]):
        board: Any = SimpleNamespace(stage=stage, on_failure=None)
        BudgetPort(board, shared, keys, ())
        with contextlib.suppress(OSError):
            board.stage(changes)
    assert done == ["stage ['one']", "settle", "stage []", "stage ['lost']"]
