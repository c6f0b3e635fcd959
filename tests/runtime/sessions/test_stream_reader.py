"""The queue of one reader: its bound, its cut, and its cost."""

import asyncio
import tracemalloc
from collections.abc import Callable

import pytest

from callboard import Agent, Runtime, ToolContext, call, calls, say, tool
from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Stop
from callboard.actors.protocol.port_messages import CallModel
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import MisuseError
from callboard.log import MemoryLog
from callboard.runtime.models.scripted import Call, Reply, ScriptedModel
from callboard.runtime.scheduling.rounds import Rounds
from callboard.runtime.sessions import stream_reader
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.stream_items import (
    AnyStreamItem,
    Snapshot,
    StreamCut,
    StreamEvent,
    TextDelta,
    TextReset,
    ToolProgress,
)
from callboard.runtime.sessions.stream_reader import (
    LARGE_BYTES,
    QUEUE_BYTES_MAX,
    Reader,
    StreamChoice,
    choice_of,
    keep_alive_of,
)
from tests.runtime.sessions.streaming_kit import Typed, TypingModel
from tests.tables import table

MIB = 1_024 * 1_024
EVERYTHING = StreamChoice("*")


def event(seq: int, size: int) -> StreamEvent:
    return StreamEvent(Event(seq, 0, "client", "supervisor", 0, Ask("r", Json(b'"%b"' % (b"x" * size)))))


def test_items_come_in_their_order_and_the_last_id_is_noted() -> None:
    reader = Reader(None, EVERYTHING)
    text = TextDelta("host", 1, 1, 0, "hi")
    for item in (event(4, 1), text, event(5, 1)):
        reader.put(item)
    assert reader.take() == event(4, 1)
    assert reader.last == 4
    assert reader.take() == text
    assert reader.last == 4
    assert reader.take() == event(5, 1)
    assert (reader.last, reader.take(), reader._bytes) == (5, None, 0)


def test_a_queue_takes_what_fits_and_the_next_byte_cuts_it() -> None:
    def filled(rest: int) -> Reader:
        reader = Reader(3, EVERYTHING)
        seq = 4
        while reader._bytes + 50_500 < QUEUE_BYTES_MAX:
            reader.put(event(seq, 50_000))
            seq += 1
        around = len(event(seq, 0).to_sse()) + 64
        reader.put(event(seq, QUEUE_BYTES_MAX - reader._bytes - around + rest))
        return reader

    assert not filled(0).is_cut
    cut = filled(1)
    assert cut.is_cut
    started = Reader(3, EVERYTHING)
    started.start(lambda: TextDelta("host", 1, 1, 0, "so far"))
    for seq in range(4, 40):
        started.put(event(seq, 50_000))
    assert (started.is_cut, started.take()) == (True, None)
    assert cut.is_over
    assert cut.take() is None
    cut.put(event(99, 1))
    assert cut.take() is None
    assert cut.last == 3


def test_a_reader_that_reads_nothing_costs_less_than_1_mib() -> None:
    tracemalloc.start()
    try:
        reader = Reader(0, EVERYTHING)
        for seq in range(1, 100_000):
            reader.put(event(seq, seq % 200))
            assert reader._bytes <= QUEUE_BYTES_MAX
            if reader.is_cut:
                break
            if seq == 2_000:
                assert tracemalloc.get_traced_memory()[0] < 2 * MIB  # text and bytes of shared items included
        assert reader.is_cut
        assert tracemalloc.get_traced_memory()[0] < MIB // 4
    finally:
        tracemalloc.stop()


def test_an_event_of_64_kib_waits_whole_and_one_byte_more_waits_as_its_seq() -> None:
    more = 65_536 - len(event(1, 0).to_sse())
    for size, is_large in ((more, False), (more + 1, True)):
        reader = Reader(0, EVERYTHING)
        reader.put(event(1, size))
        assert (reader.take_large() == 1) is is_large


def test_a_large_event_waits_as_its_seq() -> None:
    reader = Reader(0, EVERYTHING)
    reader.put(event(1, LARGE_BYTES))
    reader.put(event(2, 1))
    assert reader._bytes < 1_000
    assert reader.take() is None
    assert reader.take_large() == 1
    assert reader.last == 1
    assert reader.take_large() is None
    assert reader.take() == event(2, 1)
    assert (reader.last, reader._bytes) == (2, 0)


def test_text_so_far_comes_first_and_is_made_in_its_turn() -> None:
    reader, made = Reader(0, EVERYTHING), []

    def so_far() -> TextDelta:
        made.append(1)
        return TextDelta("host", 1, 1, 0, "so far")

    reader.start(so_far)
    reader.put(event(1, 1))
    assert not made
    assert reader.take() == TextDelta("host", 1, 1, 0, "so far")
    assert reader.take() == event(1, 1)
    for items in ([], [event(2, LARGE_BYTES)]):
        reader.start(so_far)
        for item in items:
            reader.put(item)
        assert reader.take() == TextDelta("host", 1, 1, 0, "so far")
    assert reader.take_large() == 2


async def asleep(reader: Reader) -> "asyncio.Task[bool]":
    """Return a task that waits on this reader, and sleeps."""
    waiting = asyncio.create_task(reader.wait())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    return waiting


@pytest.mark.parametrize("wake", [lambda one: one.put(event(1, 1)), Reader.end])
def test_a_reader_sleeps_until_there_is_an_item_or_the_end(wake: Callable[[Reader], None]) -> None:
    async def main() -> None:
        reader = Reader(0, EVERYTHING)
        waiting = await asleep(reader)
        wake(reader)
        assert not await asyncio.wait_for(waiting, 1)
        assert not await asyncio.wait_for(reader.wait(), 1)  # nothing was taken

    asyncio.run(main())


def test_a_sign_of_life_wakes_a_reader_once() -> None:
    async def main() -> None:
        reader = Reader(0, EVERYTHING)
        waiting = await asleep(reader)
        reader.give_sign()
        assert await asyncio.wait_for(waiting, 1)
        waiting = await asleep(reader)
        reader.end()
        assert not await asyncio.wait_for(waiting, 1)

    asyncio.run(main())


def test_a_sign_of_life_that_finds_a_reader_awake_waits_for_it() -> None:
    async def main() -> None:
        reader = Reader(0, EVERYTHING)
        reader.give_sign()
        assert await asyncio.wait_for(reader.wait(), 1)
        (await asleep(reader)).cancel()

    asyncio.run(main())


def test_a_reader_that_is_sent_away_is_done_at_once_and_one_that_ends_once_it_has_all() -> None:
    reader = Reader(0, EVERYTHING)
    assert not reader.is_done
    reader.put(event(1, 1))
    reader.start(lambda: TextDelta("host", 1, 1, 0, "so far"))
    reader.end()
    assert not reader.is_done
    assert reader.take() == TextDelta("host", 1, 1, 0, "so far")
    assert not reader.is_done
    assert reader.take() == event(1, 1)
    assert reader.is_done
    late = Reader(0, EVERYTHING)
    late.start(lambda: TextDelta("host", 1, 1, 0, "so far"))
    late.end()
    assert not late.is_done, "the text is still to come"
    away = Reader(0, EVERYTHING)
    away.put(event(1, 1))
    away.leave()
    assert (away.is_left, away.is_done, away.is_over) == (True, True, False)


def test_a_reader_that_is_sent_away_while_it_waits_wakes_and_does_not_wait_again() -> None:
    async def main() -> None:
        reader = Reader(0, EVERYTHING)
        waiting = await asleep(reader)
        reader.leave()
        assert await asyncio.wait_for(waiting, 1) is False
        assert await asyncio.wait_for(reader.wait(), 1) is False
        assert reader._waiter is None

    asyncio.run(main())


def test_a_reader_gets_only_items_of_its_choice_and_none_after_its_end() -> None:
    reader = Reader(0, StreamChoice("host.1"))
    reader.put(TextDelta("host", 1, 1, 0, "no"))
    assert (reader.take(), reader._bytes) == (None, 0)
    reader.end()
    reader.put(TextDelta("host.1", 1, 1, 0, "late"))
    assert (reader.take(), reader._bytes) == (None, 0)


def test_an_event_of_just_so_many_bytes_waits_in_memory() -> None:
    size = LARGE_BYTES - len(event(1, 0).to_sse())
    for more in (0, 1):
        reader = Reader(0, EVERYTHING)
        reader.put(event(1, size + more))
        assert (reader.take_large() is None) == (more == 0)


def event_of_stream_choice(sender: str, recipient: str, body: object) -> StreamEvent:
    return StreamEvent(Event(7, 0, sender, recipient, 1, body))  # type: ignore[arg-type]  # a message


ITEMS: dict[str, AnyStreamItem] = {
    "snapshot": Snapshot("s", 1),
    "cut": StreamCut(4),
    "prompt": event_of_stream_choice("client", "supervisor", Ask("r", Json(b'"go"'))),
    "stop": event_of_stream_choice("supervisor", "host.2", Stop("cancelled")),
    "grant": event_of_stream_choice("supervisor", "model", CallModel("host.2", 5)),
    "grant of the host": event_of_stream_choice("supervisor", "model", CallModel("host", 5)),
    "stop below": event_of_stream_choice("supervisor", "host.2.1", Stop("cancelled")),
    "text of the host": TextDelta("host", 1, 1, 0, "a"),
    "text": TextDelta("host.2", 1, 1, 0, "a"),
    "reset": TextReset("host.2", 1, 1),
    "progress": ToolProgress("host.2", 1, 0, "half"),
    "progress below": ToolProgress("host.2.1", 1, 0, "half"),
}
EVENTS = {"prompt", "stop", "grant", "grant of the host", "stop below"}


@table(
    ("of", "shown"),
    [
        (None, {*EVENTS, "text of the host"}),
        ("*", ITEMS.keys()),
        ("host.2", {"stop", "grant", "text", "reset", "progress"}),
        ("host", {"grant of the host", "text of the host"}),
        ("host.20", set()),
    ],
)
def test_a_choice_shows_the_items_of_its_agent(of: str | None, shown: set[str]) -> None:
    choice = choice_of(of)
    assert {name for name, item in ITEMS.items() if choice.shows(item)} == {*shown, "snapshot", "cut"}


@table("of", ["", "reader", "host.0", "host.", "tools", "host.1 ", 7])
def test_a_text_that_is_no_address_is_refused_at_once(of: object) -> None:
    with pytest.raises(MisuseError, match=r"the address of an agent, such as 'host\.2'"):
        choice_of(of)  # type: ignore[arg-type]  # what it refuses
    assert choice_of(None) == StreamChoice()


@tool(effect="read")
def look(ctx: ToolContext) -> str:
    """Look."""
    ctx.progress("half")
    return "seen"


def reply(request: ModelRequest) -> Typed:
    if request.address != "host":
        if request.turn == 1:
            return Typed([f"I look, {request.address}. "], [("look", {})])
        return Typed([f"Done, {request.address}. "])
    tasks: list[tuple[str, dict[str, object]]] = [("task", {"agent": "kid", "prompt": "go"})] * 2
    return Typed(["I delegate. "], tasks) if request.turn == 1 else Typed(["All done. "])


KID = Agent("kid", tools=[look])


async def read(session: Session, of: str | None, after: int | None = None) -> list[AnyStreamItem]:
    return [item async for item in session.stream(after, of=of)]


def streamed(*of: str | None) -> list[list[AnyStreamItem]]:
    """Run a host with two sub-agents. Return the items of each reader."""

    async def main() -> list[list[AnyStreamItem]]:
        async with Runtime(MemoryLog(), model=TypingModel(reply)) as runtime:
            session = await runtime.open(Agent("host", agents=[KID]), session_id="s")
            reading = [asyncio.create_task(read(session, one, 0)) for one in of]
            await asyncio.sleep(0)
            await session.ask("go")
            await session.close()
            return [await one for one in reading]

    return asyncio.run(main())


def live_of(items: list[AnyStreamItem]) -> set[tuple[str, str]]:
    return {(item.kind, item.address) for item in items if isinstance(item, TextDelta | ToolProgress)}


def test_sub_agents_are_silent_until_a_reader_subscribes_to_one() -> None:
    usual, second, every, never = streamed(None, "host.2", "*", "host.9")
    assert live_of(usual) == {("text", "host")}
    assert live_of(second) == {("text", "host.2"), ("progress", "host.2")}
    assert live_of(every) >= {("text", "host"), ("text", "host.1"), ("progress", "host.2")}
    assert never == []  # an agent that never begins

    durable = [item for item in usual if isinstance(item, StreamEvent)]
    assert durable == [item for item in every if isinstance(item, StreamEvent)]
    about = [item for item in durable if StreamChoice("host.2").shows(item)]
    assert [item for item in second if isinstance(item, StreamEvent)] == about
    assert {"Begin", "CallModel", "Finished"} <= {item.event.kind for item in about}
    said = "".join(item.text for item in second if isinstance(item, TextDelta))
    assert said == "I look, host.2. Done, host.2. "


def test_the_past_and_the_live_text_of_an_agent_are_chosen_by_their_reader_alone() -> None:
    async def main() -> None:
        async with Runtime(MemoryLog(), model=TypingModel(reply)) as runtime:
            session = await runtime.open(Agent("host", agents=[KID]))
            await session.ask("go")
            past = asyncio.create_task(read(session, "host.1", 0))
            texts = [asyncio.create_task(texts_of(session, of)) for of in (None, "host.4")]
            await asyncio.sleep(0)
            await session.ask("go again")
            await session.close()
            choice = StreamChoice("host.1")
            events = [item for item in await past if isinstance(item, StreamEvent)]
            assert events
            assert all(choice.shows(item) for item in events)
            host, later = [await one for one in texts]
            assert host == {"host"}
            assert later <= {"host.4"}

    asyncio.run(main())


async def texts_of(session: Session, of: str | None) -> set[str]:
    return {item.address async for item in session.text(of=of)}


def test_the_same_agent_is_a_sub_agent_and_an_ordinary_host() -> None:
    def policy(request: ModelRequest) -> Reply | Call:
        if request.profile == "kid":
            return call("look") if request.turn == 1 else say(f"Seen by {request.address}.")
        return call("task", agent="kid", prompt="go") if request.turn == 1 else say("The kid has looked.")

    async def main() -> None:
        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            below, direct = await asyncio.gather(
                runtime.run(Agent("host", agents=[KID]), "go"), runtime.run(KID, "go")
            )
        assert (below.text, below.delegations[0].kind) == ("The kid has looked.", "answered")
        assert direct.text == "Seen by host."
        assert direct.delegations == ()

    asyncio.run(main())


def test_an_agent_with_contracts_of_a_sub_agent_runs_directly_with_a_schema_and_without_its_context() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    kid = Agent("kid", output_schema=schema, context=lambda view: "of the parent")
    seen: list[ModelRequest] = []

    def policy(request: ModelRequest) -> Reply | Call:
        seen.append(request)
        return calls(call("report_back", n=1))

    outcome = Runtime(":memory:", model=ScriptedModel(policy)).run_sync(kid, "go")
    assert outcome.structured_output == {"n": 1}
    assert "of the parent" not in str(seen[0].conversation)


def test_a_loop_has_one_timer_and_closed_loops_are_forgotten() -> None:
    async def main() -> Rounds:
        loop = asyncio.get_running_loop()
        assert keep_alive_of(loop) is keep_alive_of(loop)
        found = keep_alive_of(loop)
        assert (found._loop, found._every_s) == (loop, 15.0)
        assert [known for known in stream_reader._known if known.is_closed()] == []
        return found

    first = asyncio.run(main())
    assert asyncio.run(main()) is not first
