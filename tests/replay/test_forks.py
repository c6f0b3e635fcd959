"""The sessions that a session is a fork of, and its forks."""

import asyncio
from pathlib import Path

from callboard import (
    Agent,
    Limits,
    ModelRequest,
    ProgramContext,
    Runtime,
    ScriptedModel,
    call,
    calls,
    program,
    say,
    tool,
)
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.actors.protocol.profiles import Prices
from callboard.actors.protocol.step_messages import RunStep
from callboard.replay.forks import Branch, ForkCost, Lineage, billing, fork_cost, lineage
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.session_rows import SessionRow
from callboard.runtime.models.scripted import Step
from tests.tables import table

ROWS = [
    SessionRow("third", 1, 30, 4, "", parent="second", base=20),
    SessionRow("other", 1, 30, 3, "", parent="first", base=12),
    SessionRow("second", 1, 25, 2, "", parent="first", base=10),
    SessionRow("first", 1, 15, 1, ""),
]


def test_the_origins_go_back_to_a_session_that_is_no_fork() -> None:
    assert lineage(ROWS, "third") == Lineage((Branch("second", 20), Branch("first", 10)), ())


def test_the_forks_of_a_session_are_its_own_and_not_theirs() -> None:
    assert lineage(ROWS, "first") == Lineage((), (Branch("other", 12), Branch("second", 10)))
    assert lineage(ROWS, "second").forks == (Branch("third", 20),)


def test_an_origin_that_is_gone_still_has_its_name() -> None:
    assert lineage(ROWS[:1], "third") == Lineage((Branch("second", 20),), ())
    assert lineage([], "none") == Lineage()


TOKENS = 500_000


@tool(effect="read")
def measure(place: int) -> str:
    """Measure a place."""
    return f"{place * 10} degrees"


def policy(request: ModelRequest) -> Step:
    told = str(request.conversation)
    if request.address == "host" and request.turn == 1:
        return calls(*(call("task", agent="child", prompt=f"Place {at}.") for at in (1, 2, 3)))
    if request.address != "host" and request.turn == 1:
        return call("measure", place=int(request.address.rpartition(".")[2]))
    return say("hot" if "99" in told or "hot" in told else "mild")


CHILD = Agent("child", description="Measures.", instructions="Measure.", tools=[measure])
HOST = Agent("host", agents=[CHILD])


async def recorded(runtime: Runtime) -> list[Event]:
    async with runtime.open(HOST, session_id="one") as session:
        await session.ask("How warm?")
    return [event async for event in session.events()]


async def forked(runtime: Runtime, seq: int) -> list[Event]:
    session = await runtime.fork("one", HOST, changes={seq: "99"}, limits=Limits(tokens=TOKENS))
    await session.outcome
    await session.close()
    return [event async for event in session.events()]


def test_a_fork_asks_again_what_was_stated_and_pays_at_most_what_was_stated(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Runtime(tmp_path / "a.db", model=ScriptedModel(policy, prices=Prices(2, 8))) as runtime:
            events = await recorded(runtime)
            for kind in ("ToolReturned", "ModelReplied"):
                seq = max(one.seq for one in events if one.kind == kind and one.recipient == "host.2")
                cost = fork_cost(events, seq - 1, [seq], [], TOKENS)
                paid = billing(await forked(runtime, seq))
                assert (cost.calls, cost.base) == (paid.called, seq - 1)
                assert set(cost.agents) == {"host.2", "host"}
                assert cost.tokens_max is not None
                assert cost.micro_usd_max is not None
                assert paid.billed.tokens <= cost.tokens_max < TOKENS
                assert paid.billed.micro_usd <= cost.micro_usd_max

    asyncio.run(scene())


def cost_of(prices: Prices | None, tokens: int | None, cost_usd: float | None) -> ForkCost:
    """Return the cost of a fork at the first reply of a child."""
    found: list[ForkCost] = []

    async def scene() -> None:
        async with Runtime(":memory:", model=ScriptedModel(policy, prices=prices)) as runtime:
            events = await recorded(runtime)
            seq = next(one.seq for one in events if isinstance(one.body, ModelReplied))
            found.append(fork_cost(events, seq, [], ["child"], tokens, cost_usd))

    asyncio.run(scene())
    return found[0]


@table(
    ("prices", "tokens", "cost_usd", "is_known"),
    [
        (None, 10_000, None, False),
        (None, None, None, False),
        (Prices(2, 8), None, None, False),
        (Prices(2, 8), 10_000, None, True),
        (Prices(2, 8), None, 0.5, True),
        (Prices(2, 8), 10**9, 0.5, True),
    ],
)
def test_the_most_that_a_fork_costs_is_a_bound_or_unknown(
    prices: Prices | None, tokens: int | None, cost_usd: float | None, is_known: bool
) -> None:
    cost = cost_of(prices, tokens, cost_usd)
    assert (cost.micro_usd_max is not None) == is_known
    assert cost.tokens_max == (None if tokens is None else tokens - cost.used.tokens)
    if cost_usd is not None:
        assert cost.micro_usd_max == 500_000 - cost.used.micro_usd
    assert cost.calls == 7  # two of each child, and the answer of the host


def test_a_limit_that_is_used_up_leaves_nothing() -> None:
    cost = cost_of(Prices(2, 8), 1, 0.0)
    assert (cost.tokens_max, cost.micro_usd_max) == (0, 0)


def test_the_steps_of_a_program_are_no_model_calls() -> None:
    @program(agents=[CHILD])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        await ctx.delegate(CHILD, "Place 1.")
        return await ctx.ask_model("How is it?")

    async def main() -> None:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(lambda request: say("mild"))) as runtime:
            assert (await runtime.run(host, "Go.", session_id="one")).text == "mild"
        events = Recording.open(MemoryReader(log), "one").events
        asked = sum(isinstance(event.body, CallModel) for event in events)
        steps = [event.seq for event in events if isinstance(event.body, RunStep)]
        assert (billing(events).called, billing(events, since=steps[-1]).called) == (asked, 0)
        begun = next(event.seq for event in events if isinstance(event.body, Begin))
        assert fork_cost(events, begun - 1, [], ["host"]).calls == asked == 2

    asyncio.run(main())
