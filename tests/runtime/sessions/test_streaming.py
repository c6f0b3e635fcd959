"""The stream of a session: its items, their order, and the end of its readers."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from callboard import Agent, Runtime, ScriptedModel, ToolContext, call, calls, say, tool
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import MisuseError, SessionFailed
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.models.protocol import Model, ModelAnswer, OnText
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
from callboard.runtime.sessions.streaming import (
    SessionStream,
)
from tests.runtime.sessions.streaming_kit import BUSY, Client, SlowLog, Typed, TypingModel
from tests.tables import table
from tests.waiting import until

HELLO = Typed(["Good ", "day. "])  # a word is shown once a space follows: till then it could be a key


def play(
    body: Callable[[Session], Awaitable[None]],
    model: Model,
    *,
    host: Agent | None = None,
    log: MemoryLog | None = None,
) -> None:
    """Run a test's body with a session, and see that nothing is left of its readers."""

    async def main() -> None:
        async with Runtime(log or MemoryLog(), model=model) as runtime:
            session = await runtime.open(host or Agent("host"), session_id="s")
            await body(session)
            await session.close()
        await asyncio.sleep(0)
        assert_nothing_left(session)

    asyncio.run(main())


def assert_nothing_left(session: Session) -> None:
    hub = session._hub
    assert not hub._readers
    assert not hub._held
    assert not hub._replies
    assert hub._builder is None
    assert not session._board.watchers


async def follow(client: Client, stream: SessionStream) -> None:
    client.connect()
    async for item in stream:
        client.take(item)


async def read_until(stream: SessionStream, is_last: Callable[[AnyStreamItem], bool]) -> list[AnyStreamItem]:
    """Read up to an item."""
    found = []
    async for item in stream:
        found.append(item)
        if is_last(item):
            return found
    raise AssertionError(f"the stream ended after {found}")


def has_ended(item: AnyStreamItem) -> bool:
    return isinstance(item, StreamEvent) and isinstance(item.event.body, AskEnded)


def is_text(item: AnyStreamItem) -> bool:
    return isinstance(item, TextDelta)


@pytest.mark.parametrize("passes", [0, 1, 7, 30])
def test_a_reader_from_the_start_sees_all_events_and_the_text_of_every_reply(passes: int) -> None:
    log, client = SlowLog([passes]), Client(last=0)

    async def body(session: Session) -> None:
        reading = asyncio.create_task(follow(client, session.stream(after=0)))
        await session.ask("hi")
        await session.ask("again")
        await session.close()
        await reading
        client.check([event async for event in session.events()])

    play(body, TypingModel(lambda request: HELLO), log=log)
    assert client.finished == {("host", 1, 1): "Good day. ", ("host", 2, 1): "Good day. "}


def test_a_failed_attempt_is_reset_and_the_right_answer_stands_alone() -> None:
    def reply(request: ModelRequest) -> Typed:
        return Typed(["Wrong ", "start "], failure=BUSY) if request.attempt == 1 else Typed(["Right answer"])

    client = Client(last=0)

    async def body(session: Session) -> None:
        reading = asyncio.create_task(follow(client, session.stream(after=0)))
        outcome = await session.ask("hi")
        assert outcome.text == "Right answer"
        await session.close()
        await reading
        client.check([event async for event in session.events()])

    play(body, TypingModel(reply))
    assert client.finished == {("host", 1, 2): "Right answer"}
    assert client.resets == [("host", 1, 1)]
    assert ("host", 1, 1) in {name for _, name in client.shown}


def test_a_cancelled_reply_is_reset() -> None:
    client = Client(last=0)

    async def body(session: Session) -> None:
        reading = asyncio.create_task(follow(client, session.stream(after=0)))
        asking = asyncio.create_task(session.ask("hi"))
        await read_until(session.stream(), is_text)
        await session.cancel()
        await asking
        await session.close()
        await reading
        client.check([event async for event in session.events()])

    play(body, TypingModel(lambda request: HELLO, asyncio.Event()))
    assert client.resets == [("host", 1, 1)]
    assert client.finished == {}


def test_a_reader_that_joins_gets_a_snapshot_and_the_text_so_far_from_offset_0() -> None:
    gate = asyncio.Event()

    async def body(session: Session) -> None:
        asking = asyncio.create_task(session.ask("hi"))
        await read_until(session.stream(after=0), lambda item: is_text(item) and "day. " in item.to_json())
        late = await read_until(session.stream(), is_text)
        snapshot, text = late
        assert isinstance(snapshot, Snapshot)
        assert [(one.prompt, one.kind, one.replies) for one in snapshot.asks] == [("hi", "", ())]
        assert [(one.address, one.state, one.status) for one in snapshot.agents] == [
            ("host", "thinking", "running")
        ]
        assert text == TextDelta("host", 1, 1, 0, "Good day. ")
        gate.set()
        await asking

    play(body, TypingModel(lambda request: HELLO, gate))


def test_text_waits_until_the_grant_of_its_call_is_durable() -> None:
    class Held(MemoryLog):
        """A log that commits nothing more once it is told to."""

        def __init__(self) -> None:
            super().__init__()
            self.may_commit = asyncio.Event()
            self.may_commit.set()

        async def append(self, batch):  # type: ignore[no-untyped-def]  # the types are those of the real one
            await self.may_commit.wait()
            return await super().append(batch)

    log, gate, seen = Held(), asyncio.Event(), []

    async def body(session: Session) -> None:
        async def read() -> None:
            async for item in session.stream():
                seen.append(item)

        reading = asyncio.create_task(read())
        await until(lambda: bool(seen))
        log.may_commit.clear()
        asking = asyncio.create_task(session.ask("hi"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(session._hub._replies) == 1
        assert [item.kind for item in seen] == ["snapshot"]
        log.may_commit.set()
        await until(lambda: any(map(is_text, seen)))
        kinds = [item.event.kind if isinstance(item, StreamEvent) else item.kind for item in seen]
        assert kinds[-3:] == ["CallModel", "text", "text"]
        gate.set()
        await asking
        await session.close()
        await reading

    play(body, TypingModel(lambda request: HELLO, gate), log=log)


def test_without_a_reader_each_piece_is_told_with_its_grant_and_the_text_so_far_can_be_asked_for() -> None:
    told: list[tuple[int, TextDelta]] = []
    gate = asyncio.Event()

    async def body(session: Session) -> None:
        hub = session._hub

        def on_live(grant: int, item: TextDelta | ToolProgress) -> None:
            assert isinstance(item, TextDelta)
            told.append((grant, item))

        hub.on_live = on_live
        asking = asyncio.create_task(session.ask("hi"))
        await until(lambda: told)
        ((grant, so_far),) = hub.so_far()
        assert {one for one, _ in told} == {grant}
        assert so_far == TextDelta("host", 1, 1, 0, "".join(delta.text for _, delta in told))
        gate.set()
        await asking
        assert hub.so_far() == []
        assert "".join(delta.text for _, delta in told) == "Good day. "

    play(body, TypingModel(lambda request: HELLO, gate))


def test_the_snapshot_has_the_conversation_the_tree_and_the_open_approvals() -> None:
    @tool(approval="before")
    async def pay(euros: int) -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel(
        {
            "host": [
                say("Welcome."),
                calls(call("task", agent="kid", prompt="pay it"), text="I shall ask."),
                say("Done."),
            ],
            "kid": [call("pay", euros=5), say("paid it")],
        }
    )
    kid = Agent("kid", tools=[pay])

    async def body(session: Session) -> None:
        await session.ask("hello")
        asking = asyncio.create_task(session.ask([{"type": "text", "text": "pay"}], request_id="second"))
        question = await anext(session.approvals())
        (item,) = await read_until(session.stream(), lambda item: True)
        assert isinstance(item, Snapshot)
        first, second = item.asks
        assert (first.prompt, first.kind, first.text) == ("hello", "answered", "Welcome.")
        assert [one.text for one in first.replies] == ["Welcome."]
        assert (second.request_id, second.prompt) == ("second", [{"type": "text", "text": "pay"}])
        assert [one.text for one in second.replies] == ["I shall ask."]
        assert [(one.address, one.parent, one.profile) for one in item.agents] == [
            ("host", "", "host"),
            ("host.1", "host", "kid"),
        ]
        (open_one,) = item.approvals
        assert (open_one.seq, open_one.tool, open_one.arguments) == (question.seq, "pay", {"euros": 5})
        assert not item.is_closed
        question.approve()
        await asking
        (item,) = await read_until(session.stream(), lambda item: True)
        assert isinstance(item, Snapshot)
        assert item.approvals == ()
        assert [one.status for one in item.agents] == ["ok", "ok"]

    play(body, model, host=Agent("host", agents=[kid]))


def test_an_ended_session_is_streamed_from_its_log_and_ends() -> None:
    async def body(session: Session) -> None:
        await session.ask("hi")
        head = await session.close()
        items = [item async for item in session.stream()]
        assert [(item.kind, item.id) for item in items] == [("snapshot", head.seq)]
        assert isinstance(items[0], Snapshot)
        assert items[0].is_closed
        events = [item async for item in session.stream(after=3)]
        assert [item.id for item in events] == list(range(4, head.seq + 1))
        assert [item async for item in session.stream(after=head.seq)] == []

    play(body, TypingModel(lambda request: HELLO))


def test_the_reset_of_a_failed_reply_is_sent_from_the_log_too() -> None:
    def reply(request: ModelRequest) -> Typed:
        return Typed(["Wrong"], failure=BUSY) if request.attempt == 1 else HELLO

    async def body(session: Session) -> None:
        await session.ask("hi")
        kinds = [(item.kind, item.id) for item in await read_until(session.stream(after=0), has_ended)]
        assert kinds.count(("reset", None)) == 1
        _, seq = kinds[kinds.index(("reset", None)) + 1]
        events = [event async for event in _first(session, seq or 0)]
        assert isinstance(events[-1].body, ModelReplied)
        assert events[-1].body.status == "error"

    play(body, TypingModel(reply))


async def _first(session: Session, number: int) -> AsyncIterator[Event]:
    async for event in session.events():
        yield event
        if event.seq == number:
            return


@table("after", [-1, 1.0, "7", True, 10_000])
def test_an_after_that_is_no_event_of_the_session_is_refused_at_once(after: object) -> None:
    async def body(session: Session) -> None:
        await session.ask("hi")
        with pytest.raises(MisuseError, match="after="):
            session.stream(after=after)  # type: ignore[arg-type]  # a wrong value on purpose

    play(body, ScriptedModel([say("hi")]))


@table("how", ["aclose", "dropped", "cancelled", "not started", "sse dropped"])
def test_a_client_that_disconnects_leaves_nothing_behind(how: str) -> None:
    gate = asyncio.Event()

    async def leave(session: Session) -> None:
        stream = session.stream()
        if how == "not started":
            return
        if how == "sse dropped":
            async for _ in stream.sse():
                return
        assert (await anext(stream)).kind == "snapshot"
        if how == "aclose":
            await stream.aclose()
        elif how == "cancelled":

            async def more() -> None:
                async for _ in stream:
                    pass

            reading = asyncio.create_task(more())
            await asyncio.sleep(0.01)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def body(session: Session) -> None:
        asking = asyncio.create_task(session.ask("hi"))
        await read_until(session.stream(), is_text)
        gc.disable()  # it must not need the collector
        try:
            await leave(session)
            await asyncio.sleep(0.01)
            assert not session._hub._readers
            assert not session._board.watchers
        finally:
            gc.enable()
        gate.set()
        await asking

    play(body, TypingModel(lambda request: HELLO, gate))


def test_a_slow_reader_is_cut_and_goes_on_from_there_and_others_notice_nothing() -> None:
    big = "x" * 60_000

    async def body(session: Session) -> None:
        fast, slow = Client(last=0), Client()
        following = asyncio.create_task(follow(fast, session.stream(after=0)))
        stream = session.stream()
        slow.connect()
        slow.take(await anext(stream))
        for _ in range(25):
            await session.ask("more")
            (reader,) = [one for one in session._hub._readers if one is stream._reader]
            assert reader._bytes <= 1_024 * 1_024
        items = [item async for item in stream]
        assert [type(item) for item in items] == [StreamCut]
        slow.take(items[0])
        assert slow.snapshot is not None
        slow.connect()
        again = asyncio.create_task(follow(slow, session.stream(after=slow.last)))
        await session.close()
        await asyncio.gather(following, again)
        events = [event async for event in session.events()]
        slow.check(events)
        fast.check(events)

    play(body, ScriptedModel(lambda request: say(big)))


def test_large_events_cut_nobody_and_wait_in_the_log() -> None:
    async def body(session: Session) -> None:
        client, stream = Client(), session.stream()
        client.connect()
        client.take(await anext(stream))
        await session.ask("y" * 3_000_000)
        assert stream._reader._bytes < 10_000
        following = asyncio.create_task(follow(client, stream))
        await session.close()
        await following
        client.check([event async for event in session.events()])

    play(body, ScriptedModel([say("hi")]))


def test_all_readers_are_sent_the_same_item_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    framed = StreamEvent._framed

    def count(self: StreamEvent) -> bytes:
        made.append(self.event.seq)
        return framed(self)

    monkeypatch.setattr(StreamEvent, "_framed", count)

    async def body(session: Session) -> None:
        await read_until(session.stream(), lambda item: True)
        streams = [session.stream() for _ in range(20)]
        for stream in streams:
            await anext(stream)
        await session.ask("hi")
        found = [await read_until(stream, has_ended) for stream in streams]
        for items in found:
            assert all(one is other for one, other in zip(items, found[0], strict=True))
            assert [item.to_sse() for item in items]
        assert sorted(made) == sorted(set(made))

    play(body, ScriptedModel([say("hi")]))


def test_ready_items_are_joined_to_chunks_of_bounded_size() -> None:
    async def body(session: Session) -> None:
        served = session.stream(after=0).sse()
        chunks = [await anext(served)]
        for n in range(40):  # 200 KB in all, ready together
            session._hub._send(TextDelta("host", 1, 1, 5_000 * n, "x" * 5_000))
        while sum(map(len, chunks)) < 200_000:
            chunks.append(await anext(served))
        await served.aclose()
        assert len(chunks) < 10
        assert max(map(len, chunks)) < 64 * 1_024 + 6_000

    play(body, ScriptedModel([say("hi")]))


def test_progress_comes_after_the_event_of_its_call() -> None:
    @tool(effect="read")
    async def work(ctx: ToolContext) -> str:
        """Work."""
        ctx.progress("half way")
        return "done"

    async def body(session: Session) -> None:
        items: list[AnyStreamItem] = []

        async def read() -> None:
            items.extend(await read_until(session.stream(), has_ended))

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.01)
        await session.ask("hi")
        await reading
        kinds = [item.event.kind if isinstance(item, StreamEvent) else item.kind for item in items]
        assert kinds.index("CallTool") < kinds.index("progress") < kinds.index("ToolReturned")

    play(body, ScriptedModel([call("work"), say("done")]), host=Agent("host", tools=[work]), log=SlowLog())


def test_a_session_that_fails_gives_its_readers_the_durable_events_and_the_error() -> None:
    class Failing(MemoryLog):
        """A log that fails from the second ask on."""

        is_broken = False

        async def append(self, batch):  # type: ignore[no-untyped-def]  # the types are those of the real one
            if self.is_broken:
                raise StoreFailed("the disk is full")
            return await super().append(batch)

    log = Failing()

    async def body(session: Session) -> None:
        client, late = Client(last=0), Client(last=0)
        following = asyncio.create_task(follow(client, session.stream(after=0)))
        await session.ask("hi")
        log.is_broken = True
        with pytest.raises(SessionFailed):
            await session.ask("again")
        with pytest.raises(SessionFailed, match="the disk is full"):
            await following
        with pytest.raises(SessionFailed, match="the disk is full"):
            await follow(late, session.stream(after=0))
        head = await log.head("s")
        assert client.last == late.last == head.seq

    play(body, ScriptedModel(lambda request: say("hi")), log=log)


def test_words_of_a_model_after_its_reply_are_dropped() -> None:
    class Late(TypingModel):
        """A model that goes on talking."""

        async def call(self, request, on_text):  # type: ignore[no-untyped-def]  # the types are those of the real one
            asyncio.get_running_loop().call_later(0.01, on_text, "and another thing")
            return await super().call(request, on_text)

    async def body(session: Session) -> None:
        client = Client(last=0)
        following = asyncio.create_task(follow(client, session.stream(after=0)))
        await session.ask("hi")
        await asyncio.sleep(0.03)
        await session.close()
        await following
        assert client.finished == {("host", 1, 1): "Good day. "}
        assert client.texts == {}

    play(body, Late(lambda request: HELLO))


def test_what_is_served_ends_once_the_process_is_told_to_end_and_the_next_reader_goes_on() -> None:
    gate = asyncio.Event()

    async def main() -> None:
        async with Runtime(MemoryLog(), model=TypingModel(lambda request: HELLO, gate)) as runtime:
            session = await runtime.open(Agent("host"), session_id="s")
            asking = asyncio.create_task(session.ask("hi"))
            served = session.stream().sse()
            assert b"event: snapshot" in await anext(served)
            rest = asyncio.create_task(collect(served))
            seen = asyncio.create_task(read_until(session.stream(after=0), has_ended))
            await asyncio.sleep(0.01)
            runtime.stopping()
            await rest  # it ends, while the ask still runs
            assert len(await collect(session.stream(after=0).sse())) <= 1
            gate.set()
            await asking
            assert has_ended((await seen)[-1])  # a reader that is not served reads on
            assert not session._hub._readers

    async def collect(chunks: AsyncIterator[bytes]) -> list[bytes]:
        return [chunk async for chunk in chunks]

    asyncio.run(main())


def test_text_is_a_view_of_the_stream_from_now_on() -> None:
    def reply(request: ModelRequest) -> Typed:
        return Typed(["Wrong"], failure=BUSY) if (request.turn, request.attempt) == (2, 1) else HELLO

    async def body(session: Session) -> None:
        await session.ask("before")
        found: list[object] = []

        async def read() -> None:
            async for item in session.text():
                found.append(item)

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        await session.ask("now")
        await session.close()
        await reading
        assert [item for item in found if isinstance(item, TextReset)] == [TextReset("host", 2, 1)]
        texts = [item.text for item in found if isinstance(item, TextDelta) and item.attempt == 2]
        assert "".join(texts) == "Good day. "

    play(body, TypingModel(reply))


def test_without_readers_only_replies_under_way_are_kept() -> None:
    async def body(session: Session) -> None:
        for _ in range(3):
            await session.ask("hi")
            assert_nothing_left(session)

    play(body, TypingModel(lambda request: HELLO))


def test_a_reader_of_a_long_past_reads_it_at_its_own_pace() -> None:
    async def body(session: Session) -> None:
        for _ in range(60):
            await session.ask("hi")
        stream = session.stream(after=0)
        client = Client(last=0)
        client.connect()
        for _ in range(5):
            client.take(await anext(stream))
        assert not session._hub._readers
        for _ in range(60):
            await session.ask("hi")
        following = asyncio.create_task(follow(client, stream))
        await session.close()
        await following
        client.check([event async for event in session.events()])
        assert not client.is_cut

    play(body, ScriptedModel(lambda request: say("z" * 5_000)))


class Typist(TypingModel):
    """A model whose children wait for a gate after they have typed, and whose host does not."""

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        if request.address == "host":
            return await TypingModel(self.reply).call(request, on_text)
        return await super().call(request, on_text)


def test_a_reader_joins_while_more_text_is_under_way_than_its_queue_holds() -> None:
    gate, words, children = asyncio.Event(), "word " * 60_000, 8

    def reply(request: ModelRequest) -> Typed:
        if request.address != "host":
            return Typed([words])
        tasks: list[tuple[str, dict[str, object]]] = [("task", {"agent": "kid", "prompt": "go"})] * children
        return Typed([], tasks) if request.turn == 1 else Typed(["done "])

    async def body(session: Session) -> None:
        asking = asyncio.create_task(session.ask("go"))
        await until(lambda: len(session._hub._replies) == children)
        client = Client()
        following = asyncio.create_task(follow(client, session.stream(of="*")))
        await until(lambda: len(client.texts) == children)
        gate.set()
        await asking
        await session.close()
        await following
        found = [text for name, text in client.finished.items() if name[0] != "host"]
        assert found == [words] * children

    play(body, Typist(reply, gate), host=Agent("host", agents=[Agent("kid")]))
