"""Words for running agents, as callers use them: heard, refused, named, and refused at the boundary."""

import asyncio

import pytest

from callboard import Agent, Limits, Runtime, ScriptedModel, call, calls, say, tool
from callboard.actors.protocol.client_messages import Cancel, Tell, TellEnded
from callboard.actors.protocol.errors import (
    CallboardError,
    InvalidPrompt,
    MisuseError,
    SessionDetached,
    TellRefused,
)
from callboard.actors.protocol.messages import Delegated, DelegationEnded, TurnRequested
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import SessionEnded, SessionFailed
from callboard.replay.recording import Recording
from callboard.runtime.control.server import carry_out
from callboard.runtime.control.wire import CancelAsk
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.session_tells import (
    TELL_CHARS_MAX,
)
from tests.runtime.sessions.kit import run
from tests.waiting import until


class Slow:
    """A model that answers each turn of the host once it is allowed to. read: the requests, as text."""

    def __init__(self, *steps: Step) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.read: list[str] = []
        self._steps = list(steps)

    async def __call__(self, request: ModelRequest) -> Step:
        self.read.append(b"".join(bytes(one) for one in request.messages).decode())
        self.asked.set()
        await self.may_answer.wait()
        return self._steps.pop(0)


def test_words_are_read_in_the_next_turn_and_named_by_their_request_id() -> None:
    model = Slow(say("first"), say("second"))

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"), session_id="one")
        asking = asyncio.create_task(session.ask("go"))
        await model.asked.wait()
        telling = asyncio.create_task(session.tell("host", "look at the tests", request_id="t1"))
        await asyncio.sleep(0)
        model.may_answer.set()
        assert await telling == 2
        assert (await asking).text == "second"
        assert await session.tell("host", "something else", request_id="t1") == 2

    run(body, ScriptedModel(model))
    assert "look at the tests" not in model.read[0]
    assert model.read[1].count("look at the tests") == 1
    assert "something else" not in model.read[1]


def test_words_for_no_running_agent_are_refused_and_say_why() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"), session_id="one")
        with pytest.raises(TellRefused, match="use ask"):
            await session.tell("host", "hurry")
        await session.ask("go")
        with pytest.raises(TellRefused, match="use ask"):
            await session.tell("host", "hurry", request_id="again")
        with pytest.raises(TellRefused, match="use ask"):
            await session.tell("host", "hurry", request_id="again")
        for address in ("host.1", "host.01", "host,host.1", "", "supervisor", "host" + ".1" * 500):
            with pytest.raises(TellRefused, match="no running agent"):
                await session.tell(address, "hurry")
        await session.close()
        with pytest.raises(SessionEnded):
            await session.tell("host", "hurry")

    log = run(body, ScriptedModel(lambda request: say("done")))
    events = Recording.open(MemoryReader(log), "one").events
    names = [event.body.request_id for event in events if isinstance(event.body, Tell)]
    assert names.count("again") == 1


def test_words_that_cannot_be_words_are_refused_before_they_are_posted() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"), session_id="one")
        for text in ("", "  ", "x" * (TELL_CHARS_MAX + 1), "x" * 1_000_000, None, b"x"):
            with pytest.raises(InvalidPrompt):
                await session.tell("host", text)  # type: ignore[arg-type]  # a wrong value, on purpose
        with pytest.raises(MisuseError, match="one agent at a time"):
            await session.tell(["host", "host.1"], "hurry")  # type: ignore[arg-type]  # a wrong value, on purpose

    log = run(body, ScriptedModel([]))
    assert not [one for one in Recording.open(MemoryReader(log), "one").events if isinstance(one.body, Tell)]


def test_an_agent_that_is_cancelled_refuses_what_it_has_not_read() -> None:
    model = Slow(say("never"))

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"), session_id="one")
        asking = asyncio.create_task(session.ask("go"))
        await model.asked.wait()
        telling = asyncio.create_task(session.tell("host", "hurry"))
        await asyncio.sleep(0)
        await session.cancel()
        with pytest.raises(TellRefused, match="ended before"):
            await telling
        await asking

    run(body, ScriptedModel(model))


def test_words_of_a_session_that_is_left_are_heard_by_the_process_that_resumes_it() -> None:
    async def inside() -> None:
        log, model = MemoryLog(), Slow(say("late"))
        runtime = Runtime(log, model=ScriptedModel(model))
        await runtime.__aenter__()
        session = await runtime.open(Agent("host"), session_id="one")
        asking = asyncio.create_task(session.ask("go"))
        await model.asked.wait()
        telling = asyncio.create_task(session.tell("host", "hurry", request_id="t1"))
        await asyncio.sleep(0)
        await session.detach(0)
        with pytest.raises(SessionDetached):
            await telling
        with pytest.raises(SessionDetached):
            await asking
        again = Runtime(log, model=ScriptedModel(lambda request: say("done")))
        async with again:
            resumed = await again.resume("one", Agent("host"))
            assert await resumed.tell("host", "hurry", request_id="t1") == 2
            assert (await resumed.outcome).text == "done"
            await resumed.close()
        assert Recording.open(MemoryReader(log), "one").verify().is_ok

    asyncio.run(inside())


def test_a_thousand_background_children_end_and_are_heard_in_one_turn() -> None:
    count = 1_000
    parked = asyncio.Event()

    async def policy(request: ModelRequest) -> Step:
        if request.address != "host":
            await parked.wait()
            return say(f"I am {request.address}")
        if request.turn == 1:
            return calls(*[call("task", prompt="work", background=True) for _ in range(count)])
        parked.set()
        return say("so far" if request.turn == 2 else "all heard")

    async def body(runtime: Runtime) -> None:
        limits = Limits(
            max_children=count, max_agents=count + 1, max_tool_calls=count, max_parallel_calls=count
        )
        host = Agent("host", agents=[Agent("kid")], background=True)
        outcome = await runtime.run(host, "go", session_id="one", limits=limits)
        assert outcome.text == "all heard"

    log = run(body, ScriptedModel(policy))
    events = Recording.open(MemoryReader(log), "one").events
    assert sum(isinstance(event.body, Delegated) for event in events) == count
    ends = {
        one.seq for one in events if isinstance(one.body, DelegationEnded) and one.body.kind == "answered"
    }
    turns = [one.body for one in events if isinstance(one.body, TurnRequested) and one.sender == "host"]
    assert [len(ends.intersection(turn.new)) for turn in turns] == [0, 0, count]


def test_a_session_does_not_sleep_while_a_tell_waits_for_its_end() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"))
        assert session._may_sleep()
        waiting = session._tells["t"] = asyncio.get_running_loop().create_future()
        assert not session._may_sleep()
        waiting.cancel()
        assert session._may_sleep()

    run(body, ScriptedModel([]))


# --- where nothing is told ------------------------------------------------------------


def test_words_are_refused_on_another_loop_with_a_secret_name_and_after_the_end() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"), session_id="one")

        async def elsewhere() -> None:
            await session.tell("host", "hurry")

        with pytest.raises(MisuseError, match="loop"):
            await asyncio.to_thread(asyncio.run, elsewhere())
        with pytest.raises(CallboardError, match="request_id"):
            await session.tell("host", "hurry", request_id="hunter2hunter2")
        assert session._tells == {}, "it may be said again under another name, and the session may sleep"
        with pytest.raises(TellRefused):
            await session.tell("host", "x" * TELL_CHARS_MAX)
        await session.close()
        for late in (session.tell("host", "hurry"), session.cancel_agent("host.1")):
            with pytest.raises(SessionEnded):
                await late

    log = run(body, ScriptedModel([]), secrets={"KEY": "hunter2hunter2"})
    bodies = [event.body for event in Recording.open(MemoryReader(log), "one").events]
    assert sum(isinstance(one, Tell) for one in bodies) == 1


def test_the_first_end_of_some_words_counts() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"), session_id="one")
        session._tells["t1"] = asyncio.get_running_loop().create_future()
        for turn in (2, 3):
            session._end_tell(TellEnded("t1", "heard", turn))
        session._end_tell(TellEnded("other", "heard", 4))
        assert await session.tell("host", "hurry", request_id="t1") == 2
        await session.close()
        for name in ("t2", "t1"):
            session._remember_tells({name: TellEnded(name, "heard", 5)})
        assert [session._tells[name].result().turn for name in ("t1", "t2")] == [2, 5]

    run(body, ScriptedModel([]))


def test_words_wake_a_sleeping_session_and_two_callers_with_one_name_say_them_once() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"), session_id="one")
        await until(lambda: session.activity == "asleep")
        both = [session.tell("host", "hurry", request_id="t1") for _ in range(2)]
        told = await asyncio.gather(*both, return_exceptions=True)
        assert [type(one) for one in told] == [TellRefused] * 2
        await session.close()

    log = run(body, ScriptedModel([]), idle_s=0.01)
    bodies = [event.body for event in Recording.open(MemoryReader(log), "one").events]
    assert sum(isinstance(one, Tell) for one in bodies) == 1


def test_words_that_cannot_be_handed_over_fail_at_once() -> None:
    def stage(*_: object) -> None:
        raise OSError("no writer")

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"), session_id="one")
        session._board.stage = stage
        async with asyncio.timeout(20):
            with pytest.raises(SessionFailed, match="no writer"):
                await session.tell("host", "hurry")

    run(body, ScriptedModel([]))


def test_words_that_wake_a_session_keep_it_open_although_an_exception_has_left_it() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"), session_id="one")
        await until(lambda: session.activity == "asleep")
        await session.__aexit__(ValueError, ValueError("mine"), None)
        with pytest.raises(TellRefused):
            await session.tell("host", "hurry")
        await asyncio.sleep(0.01)
        assert (await session.ask("go")).is_ok

    run(body, ScriptedModel([say("done")]), idle_s=0.01, cancel_delay_s=0)


def test_a_sleeping_session_has_no_agent_to_cancel_and_takes_the_next_ask() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"), session_id="one")
        await until(lambda: session.activity == "asleep")
        assert not await session.cancel_agent("host.1")
        assert (await session.ask("go")).is_ok
        await session.close()

    run(body, ScriptedModel([say("done")]), idle_s=0.01)


def test_words_of_an_earlier_process_keep_their_turn_and_those_without_an_end_get_one() -> None:
    model = Slow(say("first"), say("second"))

    async def main() -> None:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(model)) as runtime:
            session = await runtime.open(Agent("host"), session_id="one")
            await session.submit("go")
            await model.asked.wait()
            telling = asyncio.create_task(session.tell("host", "hurry", request_id="t1"))
            await asyncio.sleep(0.01)
            await session.detach(0)
            with pytest.raises(SessionDetached):
                await telling
        model.may_answer.set()
        for _ in range(2):  # the second process finds its end in the log
            async with Runtime(log, model=ScriptedModel(model)) as runtime:
                session = await runtime.resume("one", Agent("host"))
                assert await session.tell("host", "other", request_id="t1") == 2
                assert (await session.outcome).text == "second"
                await session.detach(0)

    asyncio.run(main())
    assert "other" not in "".join(model.read)


class Digging:
    """A host whose sub-agent works in a tool that hangs until it is ended."""

    def __init__(self) -> None:
        self.at_work = asyncio.Event()

        @tool(effect="read")
        async def dig() -> str:
            """Dig."""
            self.at_work.set()
            await asyncio.Event().wait()
            return ""

        def policy(request: ModelRequest) -> Step:
            if request.address != "host":
                return call("dig")
            last = str(request.conversation[-1]["content"])
            return call("task", agent="digger", prompt="Dig.") if request.turn == 1 else say(last)

        digger = Agent("digger", description="Digs.", instructions="Dig.", tools=[dig])
        self.host = Agent("host", agents=[digger], model=ScriptedModel(policy))


def test_one_agent_is_cancelled_and_its_parent_goes_on() -> None:
    async def scene() -> None:
        slow = Digging()
        async with Runtime(":memory:") as runtime:
            session = await runtime.open(slow.host, session_id="one")
            seen: list[object] = []
            session._board.watchers.append(lambda event: seen.append(event.body))
            asking = asyncio.create_task(session.ask("Go."))
            await slow.at_work.wait()
            assert not await session.cancel_agent("host.2")
            assert await session.cancel_agent("host.1", "it went astray")
            rows = await runtime.log.read("one")
            assert any(b"it went astray" in row.body for row in rows), "it is durable"
            outcome = await asking
            assert outcome.kind == "answered"
            assert "cancelled" in outcome.text
            assert "it went astray" in outcome.text
            assert not await session.cancel_agent("host.1")
            assert await carry_out(runtime, CancelAsk("one", address="host.1")) == ""
            with pytest.raises(MisuseError, match="one agent at a time"):
                await session.cancel_agent(None)  # type: ignore[arg-type]  # a wrong value
            cancels = [one.address for one in seen if isinstance(one, Cancel)]
            assert cancels == ["host.1"], "no other agent was there"

    asyncio.run(scene())
