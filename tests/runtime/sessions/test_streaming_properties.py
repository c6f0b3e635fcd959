"""Readers that join anywhere, are cut anywhere and come back see every event once, and whole texts."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, event, given, settings

from callboard import Agent, Runtime
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.sessions import stream_reader, streaming
from callboard.runtime.sessions.session import Session
from tests.effort import effort
from tests.runtime.sessions.streaming_kit import BUSY, Client, SlowLog, Typed, TypingModel


class Visit(NamedTuple):
    """One connection: passes of the loop before it, items that are read, passes between two of them."""

    before: int
    items: int
    between: int


class Plan(NamedTuple):
    """A session and its readers. replies: of the models, by the number of their call, over and over."""

    replies: Sequence[tuple[Sequence[str], bool]]
    children: int
    asks: int
    passes: Sequence[int]
    queue_bytes: int
    page: int
    readers: Sequence[tuple[bool, Sequence[Visit]]]


WORDS = st.lists(st.sampled_from(["one ", "two ", "drei ", "четыре ", "🙂 ", "\n", "x"]), max_size=6)
VISITS = st.lists(
    st.builds(Visit, st.integers(0, 60), st.integers(0, 30), st.sampled_from([0, 0, 1, 5, 40])), max_size=5
)
PLANS = st.builds(
    Plan,
    st.lists(st.tuples(WORDS, st.booleans()), min_size=1, max_size=6),
    st.integers(0, 3),
    st.integers(1, 3),
    st.lists(st.integers(0, 12), min_size=1, max_size=4),
    st.sampled_from([200, 2_000, 20_000]),
    st.sampled_from([1, 3, 200]),
    st.lists(st.tuples(st.booleans(), VISITS), min_size=1, max_size=4),
)


def model_of(plan: Plan) -> TypingModel:
    calls = 0

    def reply(request: ModelRequest) -> Typed:
        nonlocal calls
        calls += 1
        pieces, is_failing = plan.replies[calls % len(plan.replies)]
        if is_failing and request.attempt == 1:
            return Typed(pieces, failure=BUSY)
        is_first = not any("tool_result" in str(one["content"]) for one in request.conversation)
        if request.address == "host" and is_first and plan.children:
            task: tuple[str, dict[str, object]] = ("task", {"agent": "kid", "prompt": "go"})
            return Typed(pieces, [task] * plan.children)
        return Typed(pieces)

    return TypingModel(reply)


async def visit(session: Session, client: Client, plan: Visit) -> None:
    for _ in range(plan.before):
        await asyncio.sleep(0)
    client.connect()
    stream = session.stream(client.last, of="*")
    for _ in range(plan.items):
        try:
            client.take(await anext(stream))
        except StopAsyncIteration:
            return
        if client.is_cut:
            event("cut")
        for _ in range(plan.between):
            await asyncio.sleep(0)
    await stream.aclose()


async def read(session: Session, client: Client, visits: Sequence[Visit]) -> None:
    """Make the visits, then stay until the end, coming back after each cut."""
    for one in visits:
        await visit(session, client, one)
    is_first = True
    while is_first or client.is_cut:
        is_first = False
        client.connect()
        async for item in session.stream(client.last, of="*"):
            client.take(item)


async def play(plan: Plan) -> list[Event]:
    """Play a plan, and check what each reader got. Return the events of the session."""
    clients = [Client(last=0 if has_all else None) for has_all, _ in plan.readers]
    async with Runtime(SlowLog(plan.passes), model=model_of(plan)) as runtime:
        session = await runtime.open(Agent("host", agents=[Agent("kid")]))
        reading = [
            asyncio.create_task(read(session, client, visits))
            for client, (_, visits) in zip(clients, plan.readers, strict=True)
        ]
        for _ in range(plan.asks):
            await session.ask("go")
        await session.close()
        await asyncio.gather(*reading)
        events = [one async for one in session.events()]
    assert not session._hub._readers
    assert not session._hub._replies
    for client in clients:
        client.check(events)
    return events


@pytest.mark.slow
@settings(max_examples=effort(25, 1_000), deadline=None, suppress_health_check=list(HealthCheck))
@given(PLANS)
def test_a_reader_that_joins_leaves_and_comes_back_sees_every_event_once_and_whole_texts(plan: Plan) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_reader, "QUEUE_BYTES_MAX", plan.queue_bytes)
        patch.setattr(stream_reader, "LARGE_BYTES", 600)
        patch.setattr(streaming, "_PAGE", plan.page)
        events = asyncio.run(play(plan))
    assert sum(isinstance(event.body, AskEnded) for event in events) == plan.asks
