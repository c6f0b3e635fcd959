"""The end of a session at the very moment at which something else happens. Nothing here sleeps.

A model call, a tool, a question and a timer are held by the test, and so is the disk: each is let go right
before the end begins, in the same pass of the loop, or right after it has begun.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from callboard.actors.protocol.addresses import CLIENT, SUPERVISOR
from callboard.actors.protocol.client_messages import Ask, AskEnded, Cancel, Close, SessionClosed
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import Diverged, SessionDetached, SessionEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import ApprovalGiven, TimerFired, ToolReturned, ToolStarted
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.agent import Agent
from callboard.runtime.approvals import Approval
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.ports.clock_port import ClockPort
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_life import SessionInputs
from callboard.runtime.sessions.session_types import SessionTypes, TypeName
from callboard.runtime.tools.tool import tool
from tests.runtime.log.slow_log import SlowLog, passes
from tests.waiting import until

DONE = ModelAnswer(Json(b'[{"type":"text","text":"done"}]'), "end_turn", Usage(1, 1))
TIMER_KINDS = {"answered", "cancelled", "deadline"}


class Held:
    """All that the test holds. ran: the calls of the tool that have begun."""

    def __init__(self) -> None:
        self.model: asyncio.Future[ModelAnswer] = asyncio.get_running_loop().create_future()
        self.tool = asyncio.Event()
        self.ran = 0
        self.stubborn = False
        self.fire: Callable[[], None] = lambda: None
        self.question: Approval | None = None

    def agent(self, approval: Any = "never") -> Agent:
        @tool(effect="write", approval=approval)
        async def work() -> str:
            """Work until the test says so."""
            self.ran += 1
            while True:
                try:
                    await self.tool.wait()
                    return "worked"
                except asyncio.CancelledError:
                    if not self.stubborn:
                        raise

        return Agent("host", tools=[work])


class HeldModel:
    """A model whose answer the test gives."""

    def __init__(self, held: Held) -> None:
        self.spec = ModelSpec("scripted", 1_024)
        self._held = held

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        return await asyncio.shield(self._held.model)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


Prepared = tuple[Any, Agent, Callable[[Session], Awaitable[None]], Callable[[], None]]
"""The model and the host of a case, the wait for its moment, and the thing that happens then."""


def model_answers(held: Held) -> Prepared:
    async def reached(session: Session) -> None:
        await until(lambda: session._board.running() != set())

    return HeldModel(held), held.agent(), reached, lambda: held.model.set_result(DONE)


def tool_returns(held: Held) -> Prepared:
    async def reached(session: Session) -> None:
        await until(lambda: held.ran == 1)

    return ScriptedModel([call("work"), say("done")]), held.agent(), reached, held.tool.set


def tool_outlives(held: Held) -> Prepared:
    """The tool takes no cancellation, and returns when the session has ended."""
    held.stubborn = True
    return tool_returns(held)


def person_answers(held: Held) -> Prepared:
    async def reached(session: Session) -> None:
        async for one in session.approvals():
            held.question = one
            break
        held.tool.set()

    def answer() -> None:
        assert held.question is not None
        held.question.approve()

    return ScriptedModel([call("work"), say("done")]), held.agent("before"), reached, answer


def timer_fires(held: Held) -> Prepared:
    async def reached(session: Session) -> None:
        await until(lambda: held.ran == 1)

    return ScriptedModel([call("work"), say("done")]), held.agent(), reached, lambda: held.fire()


def test_a_session_that_waits_for_its_code_names_itself_and_the_agent() -> None:
    async def scene() -> None:
        async with Runtime(MemoryLog(), model=HeldModel(Held())) as runtime:
            session = await runtime.open(Agent("host"), session_id="night")
            asking = asyncio.create_task(session.ask("go"))
            await until(lambda: session._board.running() != set())
            assert session._on_diverged("host.1", "step 2 differs")
            with pytest.raises(Diverged, match=r"^session night, host\.1: step 2 differs\. The"):
                await asking

    asyncio.run(scene())


CASES = {
    one.__name__: one for one in (model_answers, tool_returns, tool_outlives, person_answers, timer_fires)
}


async def close(session: Session) -> None:
    await session.close()


async def cancel(session: Session) -> None:
    await session.cancel("enough")
    await session.outcome
    await session.close()


async def detach(session: Session) -> None:
    await session.detach(0)


ENDS: dict[str, Callable[[Session], Awaitable[None]]] = {"close": close, "cancel": cancel, "detach": detach}


def events_of(log: SlowLog) -> list[Event]:
    """Return the events of the session, which must verify and break no rule."""
    recording = Recording.open(MemoryReader(log), "s")
    recording.verify().check()
    events = list(recording.events)
    assert check_log(events) == []
    return events


@pytest.fixture
def held_timers(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Hold the timers of every session: each fires when it is called, unless it was forgotten by then."""
    found: list[Callable[[], None]] = []
    set_now: set[tuple[ClockPort, int]] = set()

    def arm(self: ClockPort, timer: int, request: int, at: int, after_ms: int) -> None:
        def fire() -> None:
            if (self, timer) in set_now:
                self._board.time = lambda: at + after_ms
                self._fire(timer, request)

        set_now.add((self, timer))
        found.append(fire)

    monkeypatch.setattr(ClockPort, "arm", arm)
    monkeypatch.setattr(ClockPort, "disarm", lambda self, timer: set_now.discard((self, timer)))
    monkeypatch.setattr(ClockPort, "close", lambda self: set_now.clear())
    return found


@pytest.mark.parametrize("is_parked", [False, True], ids=["disk", "no-disk"])
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("how", ENDS)
def test_what_happens_at_the_moment_of_the_end_is_recorded_once_or_not_at_all(
    how: str, case: str, order: str, is_parked: bool, held_timers: list[Callable[[], None]]
) -> None:
    async def work() -> SlowLog:
        log, held = SlowLog(), Held()
        held.fire = lambda: held_timers[0]()
        model, host, reached, happen = CASES[case](held)
        limits = Limits(deadline_s=60) if case == "timer_fires" else None
        async with Runtime(log, model=model, limits=limits) as runtime, asyncio.timeout(20):
            session = await runtime.open(host, session_id="s")
            asked = asyncio.ensure_future(session.ask("go"))
            await reached(session)
            if is_parked:  # from here on nothing reaches the disk
                log.gate.clear()
            if order == "before":
                happen()
            ending = asyncio.ensure_future(ENDS[how](session))
            await passes(2)
            if order == "after":
                happen()
            await passes(3)
            log.gate.set()
            if case == "tool_outlives":
                held.tool.set()
            await ending
            (ended,) = await asyncio.gather(asked, return_exceptions=True)
            if how == "detach" and isinstance(ended, BaseException):
                assert isinstance(ended, SessionDetached)
            else:
                assert getattr(ended, "kind", "") in TIMER_KINDS, ended
            written = len(await log.read("s"))
            await passes(5)
            assert len(await log.read("s")) == written, "something was written after the end"
        if how == "detach":
            await gone_on(log, held, host)
        return log

    events = events_of(asyncio.run(work()))
    assert sum(isinstance(one.body, AskEnded) for one in events) == 1
    starts = [(one.body.turn, one.body.call) for one in events if isinstance(one.body, ToolStarted)]
    repeats = sum(isinstance(one.body, ApprovalGiven) and one.body.is_repeat for one in events)
    assert len(starts) - len(set(starts)) <= repeats
    if how != "detach":
        assert [one.kind for one in events[-1:]] == ["SessionClosed"]
        assert sum(isinstance(one.body, Close) for one in events) == 1
        assert sum(isinstance(one.body, TimerFired) for one in events) <= 1


async def gone_on(log: SlowLog, held: Held, host: Agent) -> None:
    """Resume the session in another runtime, and let everything in it come to its end."""
    held.tool.set()
    model = ScriptedModel(lambda request: call("work") if is_first(request) else say("done"))
    async with Runtime(log, model=model, approve=lambda one: True) as runtime, asyncio.timeout(20):
        session = await runtime.resume("s", host)
        if session._running:
            assert (await session.outcome).kind in TIMER_KINDS
        await session.close()


def is_first(request: ModelRequest) -> bool:
    return request.turn == 1 and bool(request.tools)


# --- closing -------------------------------------------------------------------------------------------


def test_callers_that_close_at_once_get_one_end() -> None:
    async def work() -> SlowLog:
        log = SlowLog()
        async with Runtime(log, model=ScriptedModel([say("hi")])) as runtime:
            session = await runtime.open(Agent("host"), session_id="s")
            heads = await asyncio.gather(*(session.close() for _ in range(3)))
            assert len(set(heads)) == 1
            assert await session.close() == heads[0]
        return log

    events = events_of(asyncio.run(work()))
    assert sum(isinstance(one.body, SessionClosed) for one in events) == 1


def test_a_caller_that_is_cancelled_while_it_closes_leaves_the_session_closed() -> None:
    async def work() -> SlowLog:
        log = SlowLog()
        async with Runtime(log, model=ScriptedModel([say("hi")])) as runtime, asyncio.timeout(20):
            session = await runtime.open(Agent("host"), session_id="s")
            log.gate.clear()
            closing = asyncio.ensure_future(session.close())
            await passes(3)
            closing.cancel()
            await passes(1)
            log.gate.set()
            assert (await session.close()).seq == (await log.head("s")).seq
            with pytest.raises(SessionEnded):
                await session.ask("go")
        return log

    assert events_of(asyncio.run(work()))[-1].kind == "SessionClosed"


def test_a_close_while_the_session_detaches_says_so() -> None:
    async def work() -> None:
        log = SlowLog()
        async with Runtime(log, model=ScriptedModel([say("hi")])) as runtime, asyncio.timeout(20):
            session = await runtime.open(Agent("host"), session_id="s")
            log.gate.clear()
            detaching = asyncio.ensure_future(session.detach(0))
            await passes(2)
            with pytest.raises(SessionDetached):
                await session.close()
            log.gate.set()
            head = await detaching
            assert head == await log.head("s")
            assert await session.detach(0) == head

    asyncio.run(work())


def test_a_session_that_an_exception_leaves_is_closed_after_the_delay_only() -> None:
    async def work() -> SlowLog:
        log = SlowLog()
        async with Runtime(log, model=ScriptedModel([say("hi")])) as runtime, asyncio.timeout(20):
            with pytest.raises(ValueError, match="mine"):
                async with await runtime.open(Agent("host"), session_id="s") as session:
                    raise ValueError("mine")
            assert session._lingering is not None
            assert session._closing is None
            session._stay()
            assert session._lingering is None
            session._close_unwanted()  # the delay is over
            await session.close()
        return log

    assert events_of(asyncio.run(work()))[-1].kind == "SessionClosed"


def test_a_session_whose_runtime_ends_in_the_delay_is_not_closed() -> None:
    async def work() -> SlowLog:
        log = SlowLog()
        async with Runtime(log, model=ScriptedModel([say("hi")])) as runtime, asyncio.timeout(20):
            session = await runtime.open(Agent("host"), session_id="s")
            runtime.stopping()
            session._close_unwanted()
            assert session._closing is None
        return log

    assert "SessionClosed" not in [one.kind for one in events_of(asyncio.run(work()))]


def test_a_store_that_fails_while_the_session_closes_gives_the_closer_and_the_asker_an_error() -> None:
    async def work() -> None:
        log, held = SlowLog(), Held()
        async with Runtime(log, model=HeldModel(held)) as runtime, asyncio.timeout(20):
            session = await runtime.open(held.agent(), session_id="s")
            asked = asyncio.ensure_future(session.ask("go"))
            await until(lambda: session._board.running() != set())
            log.gate.clear()
            closing = asyncio.ensure_future(session.close())
            await passes(3)
            log.error = OSError("the disk is full")
            held.model.set_result(DONE)
            log.gate.set()
            found = await asyncio.gather(asked, closing, return_exceptions=True)
            assert "the disk is full" in str(found[0])
            assert session._has_failed

    asyncio.run(work())


def test_answers_after_the_end_are_those_of_the_log() -> None:
    """A tool that takes no cancellation returns when its session is closed: nothing of it is recorded."""

    async def work() -> SlowLog:
        log, held = SlowLog(), Held()
        model, host, reached, happen = tool_outlives(held)
        async with Runtime(log, model=model) as runtime, asyncio.timeout(20):
            session = await runtime.open(host, session_id="s")
            asked = asyncio.ensure_future(session.ask("go"))
            await reached(session)
            closing = asyncio.ensure_future(session.close())
            await until(lambda: asked.done())
            happen()
            await closing
        return log

    events = events_of(asyncio.run(work()))
    (returned,) = [one.body for one in events if isinstance(one.body, ToolReturned)]
    assert returned.status in ("interrupted", "ok")


class Inputs(SessionInputs):
    """The inputs of a session without the rest of it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._running, self._is_closing = "", False
        self._last = self._loop.create_future()
        self._types = SessionTypes({}, "host", ())
        self.posted: list[Any] = []
        self.noted = 0

    @property
    def _board(self) -> Any:
        return self

    def _check_open(self) -> None:
        """Do nothing: it is open."""

    def submit_for_client(self, body: object) -> None:
        self.posted.append(body)

    def _note_busy(self) -> None:
        self.noted += 1


def given(body: Any) -> Event:
    return Event(9, 0, CLIENT, SUPERVISOR, 0, body)


def with_inputs(work: Any) -> None:
    async def inside() -> None:
        work(Inputs())

    asyncio.run(inside())


def test_an_ask_runs_from_the_moment_at_which_it_is_posted() -> None:
    def work(inputs: Inputs) -> None:
        first = inputs._last
        ask = Ask("r", text_json("go"))
        assert not inputs._runs_ask()
        inputs._repost(given(ask))
        assert inputs.posted == [ask]
        assert inputs._runs_ask()
        assert inputs._running == "r"
        assert inputs._last is first
        assert inputs.noted == 1
        first.set_result(None)  # type: ignore[arg-type]  # an outcome
        inputs._repost(given(Ask("r2", text_json("go"))))
        assert inputs._last is not first
        assert not inputs._last.done()

    with_inputs(work)


@pytest.mark.parametrize(
    ("schema", "name", "kind"),
    [
        (NULL, "", TypeName("", NULL)),
        (Json(b'{"type":"array"}'), "m.T", TypeName("m.T", Json(b'{"type":"array"}'))),
    ],
)
def test_an_ask_has_the_type_that_it_was_recorded_with(schema: Json, name: str, kind: TypeName) -> None:
    def work(inputs: Inputs) -> None:
        inputs._repost(given(Ask("r", text_json("go"), schema, output_type=name)))
        assert inputs._asking == kind

    with_inputs(work)


def test_a_close_closes_and_other_inputs_only_pass() -> None:
    def work(inputs: Inputs) -> None:
        inputs._repost(given(Cancel("x")))
        assert (inputs._is_closing, inputs.noted, inputs._runs_ask()) == (False, 0, False)
        inputs._repost(given(Close()))
        assert (inputs._is_closing, inputs.noted) == (True, 1)
        assert inputs.posted == [Cancel("x"), Close()]

    with_inputs(work)


def test_a_fork_has_asks_while_one_runs_or_is_left() -> None:
    def work(inputs: Inputs) -> None:
        left = [1]
        assert not inputs._has_asks
        inputs._expect(lambda: left[0])
        assert inputs._has_asks
        left[0] = 0
        assert not inputs._has_asks
        inputs._running = "r"
        assert inputs._has_asks

    with_inputs(work)
