"""The use of tools in a session."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from callboard import Agent, ModelRequest, Reply, Runtime, ScriptedModel, Session, calls, say, tool
from callboard import call as use
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.port_messages import CallTool, ToolReturned, ToolStatus
from callboard.actors.protocol.telemetry import Metric, Telemetry
from callboard.actors.protocol.token_estimates import estimated_tokens
from callboard.replay.tool_figures import Latency, ToolCollector, ToolUsage, tool_usage


def call(seq: int, tool: str = "look", who: str = "host", at: int = 0) -> Event:
    return Event(seq, at, who, "tools", 0, CallTool(1, seq, tool, "read", NULL))


def answer(
    seq: int, cause: int, at: int, status: ToolStatus = "ok", told: Telemetry | None = None, said: str = ""
) -> Event:
    return Event(
        seq, at, "tools", "host", cause, ToolReturned(1, cause, status, text_json(said), telemetry=told)
    )


def test_a_log_without_tools_has_empty_figures() -> None:
    found = tool_usage([])
    assert (found.at, found.total.calls, found.total.latency) == (0, 0, None)
    assert found.by_tool == found.by_agent == {}
    assert (found.total.error_rate, found.total.cache_hit_rate) == (None, None)


def test_a_log_without_telemetry_has_what_its_events_hold() -> None:
    found = tool_usage([call(1), call(2), answer(3, 1, 30, said="x" * 334), answer(4, 2, 50, "error")]).total
    assert (found.calls, found.running, found.errors) == (2, 0, 1)
    assert found.latency == Latency(40.0, 30, 50)
    read = (f'"{"x" * 334}"', '""')
    assert found.tokens_out_estimated == sum(map(estimated_tokens, read))
    assert (found.error_rate, found.cache_hit_rate, found.duration_us, found.metrics) == (0.5, None, 0, {})


def test_percentiles_are_of_the_nearest_rank() -> None:
    events = [call(seq) for seq in range(1, 101)]
    events += [answer(100 + number, number, number) for number in range(1, 101)]
    assert tool_usage(events).total.latency == Latency(50.5, 50, 95)


def test_each_tool_and_agent_has_figures_of_its_own() -> None:
    events = [call(1), call(2, "save", "host.1"), call(3), answer(4, 2, 7, "interrupted")]
    events.append(answer(5, 1, 9, "cancelled"))
    found = tool_usage(events)
    assert (found.at, found.total.calls, found.total.running, found.total.cancelled) == (5, 3, 1, 1)
    assert list(found.by_tool) == ["look", "save"]
    assert found.by_tool["save"] == found.by_agent["host.1"]
    assert found.by_tool["save"].error_rate == 1
    assert found.by_tool["look"].error_rate == 0


def test_telemetry_is_summed() -> None:
    told = Telemetry(
        duration_us=5, cpu_us=3, retries=1, tokens_out_estimated=11, metrics=(Metric("rows", 2),)
    )
    hit = Telemetry(cache="hit", metrics=(Metric("rows", 0.5),))
    found = tool_usage([call(1), call(2), answer(3, 1, 1, told=told), answer(4, 2, 1, told=hit)]).total
    assert (found.duration_us, found.cpu_us, found.retries, found.metrics) == (5, 3, 1, {"rows": 2.5})
    assert (found.cache_hits, found.cache_misses, found.cache_hit_rate) == (1, 0, 1.0)
    assert found.tokens_out_estimated == 11 + 1


def test_an_answer_without_its_call_counts_for_nothing() -> None:
    assert tool_usage([answer(2, 1, 5)]).total.calls == 0


# --- live sessions ----------------------------------------------------------------------


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


def looks(request: ModelRequest) -> Reply:
    """Look once for each prompt."""
    last = request.conversation[-1]["content"]
    return calls(use("look")) if isinstance(last, str) else say("done")


HOST = Agent("host", tools=[look], model=ScriptedModel(looks))


def test_a_live_session_is_followed_ask_by_ask_to_its_end() -> None:
    async def body() -> None:
        collector = ToolCollector()

        async def follow(session: Session) -> ToolUsage:
            head = (await session.ask("go")).head
            return await collector.follow(session.events(collector.seen() + 1), head[0])

        async with Runtime(":memory:") as runtime:
            async with runtime.open(HOST) as session:
                first, second = await follow(session), await follow(session)
                assert (first.total.calls, second.total.calls, second.total.running) == (1, 2, 0)
                assert await collector.follow(session.events(collector.seen() + 1), second.at) == second
                rest = asyncio.create_task(collector.follow(session.events(collector.seen() + 1)))
            assert (await rest).total == second.total, "the task ends with the session"

    asyncio.run(body())


def test_several_sessions_have_figures_of_their_own_and_in_all() -> None:
    async def body() -> None:
        collector = ToolCollector()
        async with Runtime(":memory:") as runtime:
            async with runtime.open(HOST, session_id="a") as one, runtime.open(HOST, session_id="b") as two:
                follows = [collector.follow(each.events(), session=each.session_id) for each in (one, two)]
                tasks = [asyncio.create_task(each) for each in follows]
                await asyncio.gather(one.ask("go"), two.ask("go"))
                await one.ask("go")
            await asyncio.gather(*tasks)
        usage = collector.report()
        assert {name: each.calls for name, each in usage.by_session.items()} == {"a": 2, "b": 1}
        assert (usage.total.calls, usage.total.running, usage.by_tool["look"].calls) == (3, 0, 3)

    asyncio.run(body())


def test_a_session_that_is_followed_no_more_is_not_watched() -> None:
    closed = []

    async def events() -> AsyncIterator[Event]:
        try:
            yield call(1)
            yield answer(2, 1, 5)
            raise OSError("the log is gone")
        finally:
            closed.append(True)

    async def body() -> None:
        collector = ToolCollector()
        assert (await collector.follow(events(), 2)).total.calls == 1
        assert closed == [True]
        with pytest.raises(OSError, match="gone"):
            await collector.follow(events())
        assert closed == [True, True]

    asyncio.run(body())
