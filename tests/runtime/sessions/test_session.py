"""Sessions as callers use them: asking, watching, cancelling, closing."""

import asyncio
from pathlib import Path

import pytest

from callboard import Agent, Limits, Runtime, ScriptedModel, ToolContext, call, calls, fail, say, tool
from callboard.actors.protocol.errors import InvalidPrompt, InvalidSchema, MisuseError, StoreFailed
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import OutcomeError, SessionBusy, SessionEnded, SessionFailed
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import event_of
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.session import Session
from tests.runtime.sessions.kit import run
from tests.tables import table
from tests.waiting import until

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_an_ask_returns_an_outcome_that_the_log_contains() -> None:
    async def body(runtime: Runtime) -> None:
        outcome = await runtime.run(Agent("host"), "hello", session_id="one")
        assert (outcome.status, outcome.kind, outcome.text) == ("ok", "answered", "hi")
        assert outcome.unwrap() == "hi"
        assert outcome.usage.calls == 1
        head = await runtime.log.head("one")
        assert outcome.head == (head.seq, head.digest.hex())

    run(body, ScriptedModel([say("hi")]))


def test_a_schema_gives_a_structured_output() -> None:
    async def body(runtime: Runtime) -> None:
        outcome = await runtime.run(Agent("host"), "count", output_schema=SCHEMA)
        assert outcome.kind == "reported"
        assert outcome.structured_output == {"n": 3}
        assert outcome.unwrap() == {"n": 3}

    run(body, ScriptedModel([call("report_back", n="three"), call("report_back", n=3)]))


def test_a_schema_of_another_type_than_object_is_wrapped_and_unwrapped() -> None:
    async def body(runtime: Runtime) -> None:
        schema = {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}
        outcome = await runtime.run(Agent("host"), "count", output_schema=schema)
        assert outcome.structured_output == [1, 2]

    run(body, ScriptedModel([call("report_back", value=[1, 2])]))


def test_an_invalid_schema_is_refused_with_the_place_of_its_fault_before_anything_is_recorded() -> None:
    broken = {"type": "integr"}

    async def body(runtime: Runtime) -> None:
        with pytest.raises(InvalidSchema, match="/type: must be one of"):
            await runtime.run(Agent("host"), "count", output_schema=broken)
        with pytest.raises(InvalidSchema, match="/type: must be one of"):
            await runtime.run(Agent("host", output_schema=broken), "count")
        assert await runtime.log.sessions() == []
        session = await runtime.open(Agent("host"))
        with pytest.raises(InvalidSchema, match="/type: must be one of"):
            await session.ask("count", output_schema=broken)
        head = await session.close()
        assert head.seq == 3, "SessionOpened, Close, SessionClosed"

    run(body, ScriptedModel([]), loop=asyncio.run)


def test_an_outcome_that_failed_raises_when_it_is_unwrapped() -> None:
    async def body(runtime: Runtime) -> None:
        outcome = await runtime.run(Agent("host"), "hello", session_id="s")
        assert outcome.kind == "model_error"
        with pytest.raises(OutcomeError, match=r"session s: .* failed \(model_error\)"):
            outcome.unwrap()

    run(body, ScriptedModel([fail("permission_error")]))


def test_the_host_keeps_its_conversation_from_ask_to_ask() -> None:
    seen: list[int] = []

    def policy(request: ModelRequest) -> Step:
        seen.append(request.length)
        return say(f"answer {len(seen)}")

    async def body(runtime: Runtime) -> None:
        async with await runtime.open(Agent("host")) as session:
            assert (await session.ask("one")).text == "answer 1"
            assert (await session.ask("two")).text == "answer 2"

    run(body, ScriptedModel(policy))
    assert seen == [1, 3]


def test_a_second_ask_while_one_runs_is_refused() -> None:
    gate = asyncio.Event()

    async def policy(request: ModelRequest) -> Step:
        await gate.wait()
        return say("done")

    async def body(runtime: Runtime) -> None:
        async with await runtime.open(Agent("host")) as session:
            first = asyncio.create_task(session.ask("one"))
            await asyncio.sleep(0)
            with pytest.raises(SessionBusy, match="await that, cancel it"):
                await session.ask("two")
            gate.set()
            assert (await first).text == "done"

    run(body, ScriptedModel(policy))


def test_the_same_request_id_gets_the_same_outcome_without_a_second_call() -> None:
    async def body(runtime: Runtime) -> None:
        async with await runtime.open(Agent("host")) as session:
            one, again = await asyncio.gather(
                session.ask("hello", request_id="r1"), session.ask("hello", request_id="r1")
            )
            assert one == again == await session.ask("hello", request_id="r1")

    model = ScriptedModel([say("once")])
    run(body, model)
    model.assert_done()


def test_a_submitted_ask_is_durable_and_goes_on_without_a_caller() -> None:
    gate = asyncio.Event()

    async def policy(request: ModelRequest) -> Step:
        await gate.wait()
        return say(f"answer {request.turn}")

    async def body(runtime: Runtime) -> None:
        async with runtime.open(Agent("host")) as session:
            assert await session.submit("hello", request_id="r1") == "r1"
            recorded = await runtime.log.read(session.id, 1, 10)
            assert "Ask" in [event_of(session.id, row).kind for row in recorded]
            assert await session.submit("hello", request_id="r1") == "r1"
            with pytest.raises(SessionBusy):
                await session.submit("another")
            gate.set()
            outcome = await session.outcome
            assert (outcome.request_id, outcome.text) == ("r1", "answer 1")
            assert await session.submit("hello", request_id="r1") == "r1"
            assert await session.outcome is outcome
            named = await session.submit("another")
            assert named not in ("", "r1")
            assert (await session.outcome).request_id == named

    run(body, ScriptedModel(policy))


def test_a_closed_session_takes_no_ask() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"))
        assert await session.close() == await session.close()
        with pytest.raises(SessionEnded, match="open a new one"):
            await session.ask("hello")

    run(body, ScriptedModel([]))


def test_cancel_ends_the_ask_and_everything_under_it() -> None:
    cleaned: list[str] = []
    started = asyncio.Event()

    @tool(effect="read")
    async def wait_forever() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("tool")
        return "never"

    def policy(request: ModelRequest) -> Step:
        if request.profile == "kid":
            return call("wait_forever")
        return call("task", agent="kid", prompt="wait")

    async def body(runtime: Runtime) -> None:
        host = Agent("host", agents=[Agent("kid", tools=[wait_forever])])
        async with await runtime.open(host) as session:
            ask = asyncio.create_task(session.ask("go"))
            await started.wait()
            cancelled = await session.cancel("that is enough")
            outcome = await ask
            assert outcome == cancelled
            assert (outcome.status, outcome.kind) == ("cancelled", "cancelled")
            assert outcome.detail == "that is enough"
            assert outcome.usage.calls == 2
            assert cleaned == ["tool"]
            assert await session.cancel() is None

    run(body, ScriptedModel(policy))


def test_after_a_cancel_the_conversation_goes_on_with_every_call_answered() -> None:
    started = asyncio.Event()
    messages: list[list[dict[str, object]]] = []

    @tool
    async def hang() -> str:
        """Wait without end."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    def policy(request: ModelRequest) -> Step:
        messages.append(request.conversation)
        return call("hang") if request.turn == 1 else say("fine")

    async def body(runtime: Runtime) -> None:
        async with await runtime.open(Agent("host", tools=[hang])) as session:
            ask = asyncio.create_task(session.ask("one"))
            await started.wait()
            await session.cancel()
            assert (await ask).kind == "cancelled"
            assert (await session.ask("two")).text == "fine"

    run(body, ScriptedModel(policy))
    last = messages[-1][-1]["content"]
    assert isinstance(last, list)
    assert [block["type"] for block in last] == ["tool_result", "text"]
    assert last[0]["is_error"] is True


def test_cancelling_the_caller_cancels_the_ask() -> None:
    async def policy(request: ModelRequest) -> Step:
        await asyncio.Event().wait()
        return say("never")

    async def body(runtime: Runtime) -> None:
        async with await runtime.open(Agent("host")) as session:
            ask = asyncio.create_task(session.ask("go"))
            await asyncio.sleep(0.01)
            ask.cancel()
            with pytest.raises(asyncio.CancelledError):
                await ask
            assert (await session.outcome).kind == "cancelled"
            assert await session.cancel() is None

    run(body, ScriptedModel(policy), cancel_delay_s=0.05)


def test_closing_the_runtime_cancels_running_asks_if_it_is_told_to() -> None:
    async def policy(request: ModelRequest) -> Step:
        await asyncio.Event().wait()
        return say("never")

    asks: list[asyncio.Task[object]] = []

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"))
        asks.append(asyncio.create_task(session.ask("go")))
        await asyncio.sleep(0.01)
        await runtime.aclose(cancel=True)

    log = run(body, ScriptedModel(policy))
    (row,) = MemoryReader(log).sessions()
    kinds = [event.kind for event in Recording.open(MemoryReader(log), row.session_id).events]
    assert kinds[-2:] == ["AskEnded", "SessionClosed"]


def test_a_deadline_ends_the_ask_with_its_partial_text() -> None:
    async def policy(request: ModelRequest) -> Step:
        if request.turn == 2:
            await asyncio.Event().wait()
        return calls(call("task", agent="kid", prompt="x"), text="thinking aloud")

    async def body(runtime: Runtime) -> None:
        kid = Agent("kid", model=ScriptedModel(lambda request: say("ok"), name="kid"))
        outcome = await runtime.run(Agent("host", agents=[kid], limits=Limits(deadline_s=0.05)), "go")
        assert (outcome.kind, outcome.text) == ("deadline", "thinking aloud")
        assert outcome.usage.unknown_calls == 1

    run(body, ScriptedModel(policy))


def test_events_come_in_order_without_gaps_and_end_with_the_session() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"))
        early: list[int] = []

        async def watch(into: list[int], session: Session) -> None:
            async for event in session.events():
                into.append(event.seq)

        watching = asyncio.create_task(watch(early, session))
        await session.ask("hello")
        late: list[int] = []
        watching_late = asyncio.create_task(watch(late, session))
        await asyncio.sleep(0)
        head = await session.close()
        await asyncio.gather(watching, watching_late)
        assert early == late == list(range(1, head.seq + 1))

    run(body, ScriptedModel([say("hi")]))


def test_a_watcher_that_is_slow_misses_nothing_when_the_session_closes() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"))
        seen: list[int] = []

        async def watch() -> None:
            async for event in session.events():
                await asyncio.sleep(0.002)
                seen.append(event.seq)

        watching = asyncio.create_task(watch())
        await session.ask("hello")
        head = await session.close()
        await watching
        assert seen == list(range(1, head.seq + 1))
        assert [event.seq async for event in session.events()] == seen

    run(body, ScriptedModel([say("hi")]))


def test_progress_of_a_tool_is_shown_live() -> None:
    @tool(effect="read")
    def work(ctx: ToolContext) -> str:
        """Work."""
        ctx.progress("half way")
        return "done"

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host", tools=[work]))
        seen = []

        async def watch() -> None:
            async for item in session.progress():
                seen.append((item.address, item.turn, item.call, item.text))

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        await session.ask("go")
        await session.close()
        await watching
        assert seen == [("host", 1, 0, "half way")]

    run(body, ScriptedModel([call("work"), say("done")]))


def test_a_prompt_that_no_log_could_hold_is_refused_before_the_first_post() -> None:
    async def body(runtime: Runtime) -> None:
        async with await runtime.open(Agent("host")) as session:
            with pytest.raises(InvalidPrompt):
                await session.ask([{"type": "text", "text": float("nan")}])
            assert (await session.ask("a \ud800 surrogate")).text == "fine"

    run(body, ScriptedModel([say("fine")]))


def test_a_cost_limit_without_known_prices_is_refused() -> None:
    async def body(runtime: Runtime) -> None:
        with pytest.raises(MisuseError, match="prices of model 'scripted' are not known"):
            await runtime.open(Agent("host"), limits=Limits(cost_usd=1.0))
        async with await runtime.open(Agent("host")) as session:
            with pytest.raises(MisuseError, match="prices"):
                await session.ask("go", limits=Limits(cost_usd=1.0))

    run(body, ScriptedModel([]))


def test_many_sessions_run_at_once_in_one_runtime() -> None:
    def policy(request: ModelRequest) -> Step:
        if request.profile == "kid":
            return say(f"kid of {request.address}")
        if request.turn == 1:
            return calls(*(call("task", agent="kid", prompt="x") for _ in range(3)))
        return say("done")

    async def body(runtime: Runtime) -> None:
        host = Agent("host", agents=[Agent("kid")])
        outcomes = await asyncio.gather(*(runtime.run(host, f"ask {n}") for n in range(40)))
        assert {outcome.text for outcome in outcomes} == {"done"}
        assert len({outcome.session_id for outcome in outcomes}) == 40
        assert {outcome.usage.calls for outcome in outcomes} == {5}

    run(body, ScriptedModel(policy))


def test_a_write_tool_runs_only_after_its_start_is_durable(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    seen: list[list[str]] = []

    @tool
    async def save() -> str:
        """Save."""
        seen.append([event.kind for event in Recording.open(path).events])
        return "saved"

    async def inside() -> None:
        async with Runtime(path, model=ScriptedModel([call("save"), say("done")])) as runtime:
            await runtime.run(Agent("host", tools=[save]), "go")

    asyncio.run(inside())
    assert "ToolStarted" in seen[0]
    assert "ToolReturned" not in seen[0]


class FailingLog(MemoryLog):
    """A store that fails from some append on."""

    def __init__(self, good: int) -> None:
        super().__init__()
        self.good = good

    async def append(self, batch):  # type: ignore[no-untyped-def]  # the types are those of the real one
        self.good -= 1
        if self.good < 0:
            raise StoreFailed("the disk is full")
        return await super().append(batch)


async def ask_forever(session: Session) -> None:
    while True:
        await session.ask("hello")


@table("good", range(6))
def test_a_store_that_fails_gives_every_waiter_a_typed_error(good: int) -> None:
    async def inside() -> None:
        log = FailingLog(good)
        async with Runtime(log, model=ScriptedModel(lambda request: say("hi"))) as runtime:
            session = await runtime.open(Agent("host"))
            with pytest.raises(SessionFailed, match="the disk is full"):
                await ask_forever(session)
            with pytest.raises(SessionFailed):
                await session.ask("again")

    asyncio.run(inside())


def test_a_session_that_is_opened_and_never_used_falls_asleep() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host"))
        await until(lambda: session.activity == "asleep")
        assert (await session.ask("Wake up.")).text == "here"

    run(body, ScriptedModel([say("here")]), idle_s=0.01)
