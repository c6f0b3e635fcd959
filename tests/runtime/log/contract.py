"""What every EventLog must do. A store's test inherits `EventLogContract` and gives a `kit` fixture."""

import asyncio
from typing import Protocol

import msgspec
import pytest

from callboard.actors.codec import decode
from callboard.actors.errors import (
    CorruptLog,
    Fenced,
    MisuseError,
    SessionExists,
    SessionNotFound,
    StoreFailed,
    WrongHead,
)
from callboard.actors.messages import Ask, Cancel, Finished, SessionOpened, ToolReturned
from callboard.actors.profiles import ModelSpec
from callboard.runtime.log.protocol import GENESIS, Append, EventLog, Head, LogReader
from tests.runtime.log.kit import add, added, event, events, json_text, large, run, same


class Kit(Protocol):
    """One place where a log is kept."""

    def log(self, key: bytes | None = None) -> EventLog:
        """The log there, not open yet."""
        ...

    def reader(self) -> LogReader:
        """A reader of it."""
        ...


class EventLogContract:
    # --- order, gaps, bounds ------------------------------------------------------

    def test_events_come_back_in_order_and_byte_for_byte(self, kit: Kit) -> None:
        posted = [*events(1, 700), large(701), *events(702, 900)]

        async def work() -> None:
            log = kit.log()
            await log.open()
            epoch = await log.create("s", 5, "a title")
            head = await added(log, "s", epoch, posted[:300])
            assert head.seq == 300
            head = await added(log, "s", epoch, posted[300:])
            assert same(await log.read("s"), posted)
            assert await log.head("s") == head
            await log.close()

        run(work)
        reader = kit.reader()
        assert same(reader.events("s"), posted)
        assert reader.verify_chain("s") == reader.head("s")
        reader.close()

    def test_a_page_begins_and_ends_where_it_is_asked_to(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            await log.create("a", 1, "")
            await log.create("b", 2, "")
            await added(log, "a", 1, events(1, 30))
            await added(log, "b", 1, events(1, 30))
            reader = kit.reader()
            for start, limit, first, last in (
                (1, 10, 1, 10),
                (25, 10, 25, 30),
                (-3, 2, 1, 2),
                (30, 1, 30, 30),
            ):
                page = await log.read("a", start, limit)
                assert [row.seq for row in page] == list(range(first, last + 1))
                assert reader.events("a", start, limit) == page
            assert await log.read("a", 31) == []
            assert await log.read("a", 1, 0) == []
            assert reader.events("a", 2**40) == []
            reader.close()
            await log.close()

        run(work)

    def test_events_that_leave_a_gap_or_repeat_a_seq_are_refused_whole(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            await log.create("s", 1, "")
            await added(log, "s", 1, events(1, 3))
            for wrong in ([event(5)], [event(3)], [event(4), event(6)], [event(4), event(4)]):
                (answer,) = await log.append([Append("s", 3, 1, wrong)])
                assert isinstance(answer, WrongHead)
            assert same(await log.read("s"), events(1, 3))
            await log.close()

        run(work)

    def test_a_wrong_head_is_answered_for_its_own_session_only(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            for name in "abc":
                await log.create(name, 1, "")
            answers = await log.append(
                [
                    Append("a", 0, 1, events(1, 2)),
                    Append("b", 4, 1, events(5, 6)),
                    Append("nowhere", 0, 1, events(1, 2)),
                    Append("c", 0, 1, events(1, 1)),
                    Append("c", 1, 1, events(2, 3)),
                ]
            )
            assert [type(answer) for answer in answers] == [Head, WrongHead, SessionNotFound, Head, Head]
            assert [(await log.head(name)).seq for name in "abc"] == [2, 0, 3]
            assert answers[4] == await log.head("c")
            await log.close()

        run(work)

    def test_nothing_appended_is_answered_with_the_head(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            await log.create("s", 1, "", b"o" * 32)
            assert await log.append([]) == []
            assert await log.append([Append("s", 0, 1, [])]) == [Head(0, b"o" * 32)]
            await log.close()

        run(work)

    def test_an_event_that_cannot_be_written_fails_its_own_session_only(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            await log.create("a", 1, "")
            await log.create("b", 1, "")
            for head, unwritable in enumerate(
                (event(2, Cancel("\ud800")), event(2, sender="\ud800"), event(2, cause=1 << 70))
            ):
                good = events(head + 1, head + 1)
                answers = await log.append(
                    [Append("a", 0, 1, [event(1), unwritable]), Append("b", head, 1, good)]
                )
                assert isinstance(answers[0], StoreFailed)
                assert isinstance(answers[1], Head)
            assert await log.read("a") == []
            await added(log, "a", 1, events(1, 1))
            await log.close()

        run(work)

    # --- epochs -------------------------------------------------------------------

    def test_a_writer_of_an_old_epoch_appends_nothing(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            old = await log.create("s", 1, "")
            head = await added(log, "s", old, events(1, 2))
            new, found = await log.take_over("s")
            assert (new, found) == (old + 1, head)
            assert isinstance(await add(log, "s", old, events(3, 4)), Fenced)
            assert isinstance(await add(log, "s", new + 1, events(3, 4)), Fenced)
            await added(log, "s", new, events(3, 3))
            assert same(await log.read("s"), events(1, 3))
            await log.close()

        run(work)

    def test_epochs_and_heads_outlive_the_owner(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            await log.create("s", 1, "")
            head = await added(log, "s", 1, events(1, 9))
            await log.take_over("s")
            await log.close()
            log = kit.log()
            await log.open()
            assert await log.head("s") == head
            assert isinstance(await add(log, "s", 1, events(10, 10)), Fenced)
            head = await added(log, "s", 2, events(10, 12))
            assert await log.take_over("s") == (3, head)
            await log.close()

        run(work)

    # --- sessions -----------------------------------------------------------------

    def test_sessions_are_listed_newest_first(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            assert await log.sessions() == []
            for name, created in (("old", 10), ("new", 30), ("middle", 20), ("middle, later", 20)):
                await log.create(name, created, f"title of {name}")
            await added(log, "new", 1, events(1, 4))
            rows = await log.sessions()
            assert [row.session_id for row in rows] == ["new", "middle, later", "middle", "old"]
            assert (rows[0].head, rows[0].epoch, rows[0].created_ms) == (4, 1, 30)
            assert rows[0].title == "title of new"
            reader = kit.reader()
            assert reader.sessions() == rows
            reader.close()
            await log.close()

        run(work)

    def test_a_session_is_made_once(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            assert await log.create("s", 1, "") == 1
            with pytest.raises(SessionExists, match="'s'"):
                await log.create("s", 1, "")
            await log.close()

        run(work)

    def test_an_unknown_session_is_not_found(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            reader = kit.reader()
            for ask in (log.read, log.head, log.take_over):
                with pytest.raises(SessionNotFound, match="'x'"):
                    await ask("x")
            for look in (reader.events, reader.head, reader.verify_chain):
                with pytest.raises(SessionNotFound, match="'x'"):
                    look("x")
            reader.close()
            await log.close()

        run(work)

    def test_a_log_that_is_not_open_says_so(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            with pytest.raises(StoreFailed, match="open"):
                await log.append([])
            await log.open()
            await log.close()
            await log.close()
            with pytest.raises(StoreFailed, match="open"):
                await log.sessions()

        run(work)

    def test_names_and_titles_may_be_any_text(self, kit: Kit) -> None:
        odd = "s'\"; DROP TABLE events; --\u2028\N{SNOWMAN} %"

        async def work() -> None:
            log = kit.log()
            await log.open()
            await log.create(odd, 1, odd)
            await added(log, odd, 1, [event(1, sender="host.1'", recipient="h\N{SNOWMAN}st")])
            reader = kit.reader()
            assert reader.sessions()[0].title == odd
            assert reader.events(odd)[0].recipient == "h\N{SNOWMAN}st"
            reader.verify_chain(odd)
            reader.close()
            await log.close()

        run(work)

    # --- bodies -------------------------------------------------------------------

    @pytest.mark.parametrize(
        "raw",
        [
            json_text(1_048_576),
            msgspec.Raw('{"\\u0000": "\\u0000\\u0001\u2028\u2029\N{SNOWMAN}\N{PILE OF POO}"}'.encode()),
            msgspec.Raw(b'"' + b"\\u0000" * 500 + b'"'),
            msgspec.Raw(b' { "b" : 1.0e2, "a" : [ 1e400 , null ] , "b" : 2 } ' + b" " * 2_000),
            msgspec.Raw(b"[" * 400 + b"]" * 400 + b" " * 300),
            msgspec.Raw(b"null" + b" " * 2_000),
            msgspec.Raw(b"9" * 3_000),
        ],
        ids=["1 MiB", "odd characters", "NUL escapes", "odd spacing", "deep", "a long null", "a long number"],
    )
    def test_foreign_json_comes_back_as_its_own_bytes(self, kit: Kit, raw: msgspec.Raw) -> None:
        posted = [
            event(1, ToolReturned(turn=1, call=0, status="ok", output=raw)),
            event(2, Ask("r", raw, schema=raw)),
            event(3, SessionOpened(1, "h", (raw, msgspec.Raw(b"{}"), raw), ModelSpec(name="m"))),
            event(4, Finished("answered", bytes(raw).decode())),
        ]

        async def work() -> None:
            log = kit.log()
            await log.open()
            await log.create("s", 1, "")
            await added(log, "s", 1, posted)
            stored = await log.read("s")
            assert same(stored, posted)
            assert [type(decode(row.body)) for row in stored] == [type(one.body) for one in posted]
            reader = kit.reader()
            assert reader.events("s") == stored
            reader.verify_chain("s")
            reader.close()
            await log.close()

        run(work)

    # --- the chain ----------------------------------------------------------------

    def test_digests_depend_on_session_origin_and_key(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            heads = set()
            for name, origin in (("a", GENESIS), ("b", GENESIS), ("c", b"c" * 32)):
                await log.create(name, 1, "", origin)
                assert await log.head(name) == Head(0, origin)
                heads.add((await added(log, name, 1, events(1, 3))).digest)
            assert len(heads) == 3
            reader = kit.reader()
            for name in "abc":
                reader.verify_chain(name)
            reader.close()
            await log.close()

        run(work)

    def test_a_key_is_needed_to_verify_what_was_written_with_it(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log(b"secret")
            await log.open()
            await log.create("s", 1, "")
            await added(log, "s", 1, [*events(1, 3), large(4)])
            await log.close()

        run(work)
        reader = kit.reader()
        assert reader.verify_chain("s", b"secret").seq == 4
        for key in (None, b"guess"):
            with pytest.raises(MisuseError, match="digest key"):
                reader.verify_chain("s", key)
        reader.close()

    def test_a_head_that_was_acknowledged_must_still_be_there(self, kit: Kit) -> None:
        async def work() -> list[Head]:
            log = kit.log()
            await log.open()
            await log.create("s", 1, "")
            heads = [await added(log, "s", 1, events(seq, seq)) for seq in range(1, 6)]
            await log.close()
            return heads

        heads = run(work)
        reader = kit.reader()
        for head in heads:
            assert reader.verify_chain("s", head=head) == heads[-1]
        with pytest.raises(CorruptLog, match="acknowledged") as caught:
            reader.verify_chain("s", head=Head(2, heads[2].digest))
        assert caught.value.seq == 2
        with pytest.raises(CorruptLog, match="missing") as caught:
            reader.verify_chain("s", head=Head(6, heads[2].digest))
        assert (caught.value.session_id, caught.value.seq) == ("s", 6)
        reader.close()

    # --- readers and writers at once ------------------------------------------------

    @pytest.mark.slow
    def test_a_reader_sees_whole_batches_while_they_are_written(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            await log.create("s", 1, "")
            reader = kit.reader()
            seen = set()

            async def write() -> None:
                for first in range(1, 801, 20):
                    await added(log, "s", 1, events(first, first + 19))

            writing = asyncio.create_task(write())
            while not writing.done():
                head = reader.head("s")
                rows = reader.events("s")
                assert head.seq % 20 == 0
                assert len(rows) % 20 == 0
                assert len(rows) >= head.seq
                assert reader.verify_chain("s").seq >= len(rows)
                seen.add(head.seq)
                await asyncio.sleep(0)
            await writing
            assert reader.verify_chain("s").seq == 800
            reader.close()
            await log.close()

        run(work)

    def test_a_cancelled_append_is_stored_whole_or_not_at_all(self, kit: Kit) -> None:
        async def work() -> None:
            log = kit.log()
            await log.open()
            await log.create("s", 1, "")
            appending = asyncio.create_task(added(log, "s", 1, events(1, 300)))
            await asyncio.sleep(0)
            appending.cancel()
            await asyncio.gather(appending, return_exceptions=True)
            head = (await log.head("s")).seq
            assert head in (0, 300)
            await added(log, "s", 1, events(head + 1, head + 5))
            await log.close()

        run(work)
        reader = kit.reader()
        reader.verify_chain("s")
        reader.close()
