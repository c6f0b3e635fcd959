"""Sessions at their edges: wrong calls, callers that leave, failures, resumes, and what watchers see."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from callboard import Agent, Limits, Runtime, ScriptedModel, call, calls, say, tool
from callboard.actors.protocol.client_messages import Cancel, Close
from callboard.actors.protocol.errors import CallboardError, MisuseError, TellRefused
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import MissingType, SessionDetached, SessionEnded, SessionFailed
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.session import Session
from tests.runtime.sessions.kit import run
from tests.waiting import until

HOST = Agent("host")


@dataclass
class Report:
    """A report."""

    n: int


class Gate:
    """A model that answers once it may."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def __call__(self, request: ModelRequest) -> Step:
        self.asked.set()
        await self.may_answer.wait()
        return self.steps.pop(0)


def kinds(log: MemoryLog, name: str) -> list[type]:
    return [type(event.body) for event in Recording.open(MemoryReader(log), name).events]


# --- wrong calls ----------------------------------------------------------------------


def test_calls_on_another_event_loop_are_refused() -> None:
    uses: tuple[Callable[[Session], Awaitable[object]], ...] = (
        lambda session: session.ask("go"),
        lambda session: session.submit("go"),
        lambda session: session.cancel(),
        lambda session: session.close(),
        lambda session: session.detach(),
        lambda session: anext(session.stream()),
    )

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        for use in uses:

            async def elsewhere(use: Callable[[Session], Awaitable[object]] = use) -> None:
                await use(session)

            with pytest.raises(MisuseError, match="loop"):
                await asyncio.to_thread(asyncio.run, elsewhere())
        assert (await session.ask("go")).text == "hi"

    run(body, ScriptedModel([say("hi")]))


def test_wrong_arguments_are_refused_before_anything_is_posted() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        with pytest.raises(MisuseError, match="nothing was asked yet"):
            _ = session.outcome
        with pytest.raises(MisuseError, match="on_cancel"):
            await session.ask("go", on_cancel=cast("Any", "stop"))
        with pytest.raises(CallboardError, match="request_id"):
            await session.ask("go", request_id="a hunter2hunter2 b")
        with pytest.raises(MisuseError):
            session.stream(after=99)
        head = await session.close()
        assert head.seq == 3, "SessionOpened, Close, SessionClosed"

    run(body, ScriptedModel([]), secrets={"KEY": "hunter2hunter2"})


# --- asks -----------------------------------------------------------------------------


def test_an_earlier_request_id_gets_its_own_outcome_and_each_ask_has_its_own_type() -> None:
    async def body(runtime: Runtime) -> None:
        async with runtime.open(HOST) as session:
            first = await session.ask("one", request_id="r1", output_schema=Report)
            second = await session.ask("two")
            assert (first.structured_output, second.structured_output) == (Report(1), None)
            assert await session.ask("again", request_id="r1") is first
            rows = await runtime.log.read(session.id, first.by, 1)
            assert rows[0].seq == first.by
            seq, digest = first.head
            assert (await runtime.log.read(session.id, seq, 1))[0].digest.hex() == digest
            await session.submit("three", output_schema=Report, limits=Limits(max_iterations=1))
            assert (await session.outcome).kind == "iteration_cap"

    run(body, ScriptedModel([call("report_back", n=1), say("two"), call("nothing")]))


def test_a_session_shows_its_activity_and_the_ports_of_its_open_requests() -> None:
    model = Gate(say("done"))

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host", state={"stage": "start"}))
        assert session.activity == "idle"
        await session.submit("go")
        await model.asked.wait()
        assert (session.activity, [*session._open_requests()]) == ("running", ["model"])
        assert session.state == {"stage": "start"}
        model.may_answer.set()
        await session.outcome
        assert (session.activity, [*session._open_requests()]) == ("idle", [])
        await until(lambda: session.activity == "asleep")
        assert ([*session._open_requests()], session.state) == ([], {"stage": "start"})

    run(body, ScriptedModel(model), idle_s=0.05)


def test_an_ask_after_an_exception_keeps_the_session_open() -> None:
    model = Gate(say("done"))

    async def body(runtime: Runtime) -> None:
        session = runtime.open(HOST)
        with pytest.raises(ValueError, match="mine"):
            async with session as live:
                raise ValueError("mine")
        asking = asyncio.create_task(live.ask("go"))
        await model.asked.wait()
        await asyncio.sleep(0.03)
        model.may_answer.set()
        assert (await asking).text == "done"

    run(body, ScriptedModel(model), cancel_delay_s=0.01)


def test_a_caller_that_left_cancels_no_later_ask() -> None:
    model = Gate(say("one"), say("two"))

    async def body(runtime: Runtime) -> None:
        async with runtime.open(HOST) as session:
            first = asyncio.create_task(session.ask("one"))
            await model.asked.wait()
            first.cancel()
            model.may_answer.set()
            assert (await session.outcome).text == "one"
            model.may_answer.clear()
            second = asyncio.create_task(session.ask("two"))
            await asyncio.sleep(0.03)
            model.may_answer.set()
            assert (await second).text == "two"

    run(body, ScriptedModel(model), cancel_delay_s=0.02)


def test_a_caller_that_left_cancels_nothing_in_a_session_that_this_process_leaves() -> None:
    model = Gate(say("one"))

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST, session_id="s")
        asking = asyncio.create_task(session.ask("one"))
        await model.asked.wait()
        asking.cancel()
        await session.detach(0.04)
        with pytest.raises(SessionDetached):
            await session.ask("two")
        assert await session.cancel() is None

    log = run(body, ScriptedModel(model), cancel_delay_s=0.01)
    assert Cancel not in kinds(log, "s")


# --- ends -----------------------------------------------------------------------------


def test_a_session_that_closes_takes_no_ask() -> None:
    model = Gate(say("one"))

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        asking = asyncio.create_task(session.ask("one"))
        await model.asked.wait()
        closing = asyncio.create_task(session.close())
        await until(lambda: session._is_closing)
        with pytest.raises(SessionEnded):
            await session.ask("two")
        await closing
        assert (await asking).kind == "cancelled"

    run(body, ScriptedModel(model))


def test_a_session_that_failed_says_so_to_all_and_has_nothing_to_cancel() -> None:
    async def main() -> None:
        model = Gate(say("never"))
        async with Runtime(":memory:", model=ScriptedModel(model)) as runtime:
            session = await runtime.open(HOST)
            await session.submit("one")
            await model.asked.wait()
            session._board.fail(RuntimeError("the disk is gone"))
            assert session.activity == "failed"
            assert await session.cancel() is None
            with pytest.raises(SessionFailed, match="the disk is gone"):
                await session.outcome
            async with asyncio.timeout(10):
                with pytest.raises(SessionFailed, match="the disk is gone"):
                    _ = [event async for event in session.events()]
                assert [one async for one in session.approvals()] == []
            model.may_answer.set()

    asyncio.run(main())


def test_an_ask_that_cannot_be_handed_over_fails_at_once() -> None:
    def stage(*_: object) -> None:
        raise OSError("no writer")

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        session._board.stage = stage
        async with asyncio.timeout(20):
            with pytest.raises(SessionFailed, match="no writer"):
                await session.ask("go")

    run(body, ScriptedModel([]))


def test_an_ask_that_wakes_a_session_keeps_it_open_although_an_exception_has_left_it() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        await until(lambda: session.activity == "asleep")
        await session.__aexit__(ValueError, ValueError("mine"), None)
        assert (await session.ask("go")).is_ok
        await asyncio.sleep(0.01)
        assert (await session.ask("again")).is_ok

    run(body, ScriptedModel(lambda request: say("done")), idle_s=0.01, cancel_delay_s=0)


def test_a_watcher_of_a_session_that_fails_meanwhile_is_told() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        events = session.events()
        assert (await anext(events)).seq == 1
        session._board.fail(RuntimeError("the disk is gone"))
        async with asyncio.timeout(20):
            with pytest.raises(SessionFailed, match="the disk is gone"):
                await anext(events)

    run(body, ScriptedModel([]))


# --- resumes --------------------------------------------------------------------------


def test_an_outcome_of_an_earlier_process_has_the_type_that_is_named_with_its_id() -> None:
    async def main() -> None:
        log = MemoryLog()
        async with runtime_on(log, [call("report_back", n=1)]) as runtime:
            session = await runtime.open(HOST, session_id="s")
            await session.ask("one", request_id="r1", output_schema=Report)
            await session.detach(0)
        async with runtime_on(log, []) as runtime:
            session = await runtime.resume("s", HOST)
            again = await session.ask("one", request_id="r1", output_schema=Report)
            assert again.structured_output == Report(1)

    asyncio.run(main())


async def cut(log: MemoryLog, end: Callable[[Event], bool]) -> MemoryLog:
    """Return the log of a process that was killed after an event of session `s`."""
    events = Recording.open(MemoryReader(log), "s").events
    seq = next(event.seq for event in events if end(event))
    left = MemoryLog()
    await left.open()
    epoch = await left.create("s", 0, "")
    await left.append([Append("s", 0, epoch, list(events[:seq]))])
    return left


def runtime_on(log: MemoryLog, model: Any, **settings: Any) -> Runtime:
    return Runtime(log, model=ScriptedModel(model), **settings)


def test_a_resumed_session_has_the_outcomes_and_words_of_before() -> None:
    model = Gate(call("report_back", n=1), say("two"), say("told"))

    async def main() -> None:
        log = MemoryLog()
        async with runtime_on(log, model) as runtime:
            session = await runtime.open(HOST, session_id="s")
            model.may_answer.set()
            first = await session.ask("one", request_id="r1", output_schema=Report)
            model.may_answer.clear()
            model.asked.clear()
            asking = asyncio.create_task(session.ask("two", request_id="r2"))
            await model.asked.wait()
            telling = asyncio.create_task(session.tell("host", "hurry", request_id="t1"))
            await asyncio.sleep(0)
            model.may_answer.set()
            turn, last = await telling, await asking
            assert last.text == "told"
            await session.detach()
        async with runtime_on(log, [], types=[Report]) as runtime:
            session = await runtime.resume("s", HOST)
            assert await session.outcome == last
            assert await session.ask("again", request_id="r1") == first
            assert await session.tell("host", "other", request_id="t1") == turn
            with pytest.raises(TellRefused):
                await session.tell("host", "other", request_id="t2")
            await session.detach()

    asyncio.run(main())


def test_an_outcome_whose_type_is_gone_is_missing_for_its_reader_only() -> None:
    async def main() -> None:
        log = MemoryLog()
        async with runtime_on(log, [call("report_back", n=1)]) as runtime:
            session = await runtime.open(HOST, session_id="s")
            await session.ask("one", output_schema=Report)
            await session.detach()
        async with runtime_on(log, lambda request: say("two")) as runtime:
            session = await runtime.resume("s", HOST)
            with pytest.raises(MissingType, match="Report"):
                await session.outcome
            assert (await session.ask("two")).text == "two"

    asyncio.run(main())


def test_a_resumed_ask_tells_the_delegations_of_before_too() -> None:
    async def policy(request: ModelRequest) -> Step:
        if request.profile == "kid":
            return say("from the kid")
        return call("task", agent="kid", prompt="p") if request.turn == 1 else say("done")

    async def main() -> None:
        log, host = MemoryLog(), Agent("host", agents=[Agent("kid")])
        async with runtime_on(log, policy) as runtime:
            whole = await runtime.run(host, "go", session_id="s")
        left = await cut(log, lambda event: event.kind == "DelegationEnded")
        async with runtime_on(left, policy) as runtime:
            session = await runtime.resume("s", host)
            outcome = await session.outcome
            assert outcome.delegations == whole.delegations != ()
            assert await session.ask("again", request_id=outcome.request_id) is outcome

    asyncio.run(main())


def test_a_session_whose_close_was_cut_off_closes_when_it_is_resumed() -> None:
    model = Gate()

    async def main() -> None:
        log = MemoryLog()
        async with runtime_on(log, model) as runtime:
            session = await runtime.open(HOST, session_id="s")
            await session.submit("one")
            await model.asked.wait()
            await session.close()
        left = await cut(log, lambda event: isinstance(event.body, Close))
        async with runtime_on(left, []) as runtime:
            session = await runtime.resume("s", HOST)
            with pytest.raises(SessionEnded):
                await session.ask("two")
            assert (await session.outcome).kind == "cancelled"
            await session.close()
        assert kinds(left, "s").count(Close) == 1

    asyncio.run(main())


# --- watchers -------------------------------------------------------------------------


def test_a_watcher_that_starts_later_sees_no_event_before_and_none_twice() -> None:
    model = Gate(say("done"))

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        asking = asyncio.create_task(session.ask("go"))
        await model.asked.wait()
        start = session._board.seq + 3
        watching = [
            asyncio.create_task(collected(session.events())),
            asyncio.create_task(collected(session.events(start))),
        ]
        await asyncio.sleep(0)
        model.may_answer.set()
        await asking
        head = await session.close()
        all_, later = [[event.seq for event in await one] for one in watching]
        assert all_ == [*range(1, head.seq + 1)]
        assert later == [*range(start, head.seq + 1)]
        assert not session._board.watchers

    run(body, ScriptedModel(model))


async def collected(items: Any) -> list[Any]:
    return [item async for item in items]


def test_texts_are_those_of_the_host_unless_others_are_asked_for() -> None:
    def policy(request: ModelRequest) -> Step:
        if request.profile == "kid":
            return say("of the kid")
        return call("task", agent="kid", prompt="p") if request.turn == 1 else say("of the host")

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host", agents=[Agent("kid")]))
        readers = [asyncio.create_task(collected(session.text(of=of))) for of in (None, "*", "host.1")]
        await asyncio.sleep(0)
        await session.ask("go")
        await session.close()
        texts = ["".join(one.text for one in await reader) for reader in readers]
        assert texts == ["of the host", "of the kidof the host", "of the kid"]

    run(body, ScriptedModel(policy))


def test_questions_that_wait_come_first_then_new_ones_and_none_that_was_answered() -> None:
    @tool(approval="before")
    def send(to: str) -> str:
        """Send."""
        return f"sent to {to}"

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host", tools=[send]))
        asking = asyncio.create_task(session.ask("go"))
        await until(lambda: len(session.open_approvals) == 2)
        first, second = session.open_approvals
        early = session.approvals()
        assert (await anext(early)).seq == first.seq
        await session.approve(first.seq)
        late = session.approvals()
        assert (await anext(late)).seq == second.seq
        await session.approve(second.seq)
        third = await anext(late)
        assert third.seq not in (first.seq, second.seq)
        assert (await anext(early)).seq == third.seq, "the second was answered"
        with contextlib.suppress(StopAsyncIteration):
            await session.deny(third.seq)
        assert (await asking).text == "done"
        await session.close()
        assert [one async for one in late] == []

    both = calls(call("send", to="a"), call("send", to="b"))
    run(body, ScriptedModel([both, call("send", to="c"), say("done")]))
