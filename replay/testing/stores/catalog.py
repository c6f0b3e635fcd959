"""Cases for the list of sessions: its rows, its choices and pages, and the removal of sessions."""

import asyncio
from contextlib import closing
from typing import Any

import msgspec
import pytest

from callboard.actors.protocol.client_messages import (
    RULES,
    Ask,
    AskEnded,
    Resumed,
    SessionClosed,
    SessionOpened,
)
from callboard.actors.protocol.errors import MisuseError, SessionNotFound
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, DelegationEnded
from callboard.actors.protocol.profiles import ModelSpec
from callboard.replay.testing.stores.events import (
    AT_MS,
    StorePlace,
    added,
    event,
    events,
    large,
    on_loops,
    opened,
    same,
)
from callboard.runtime.log.protocol import Append, EventLog
from callboard.runtime.log.session_rows import SessionQuery

_OPENED = SessionOpened(RULES, "host", (), ModelSpec("m"))
_ASK = Ask("first", Json(b'"go"'))
_BUDGET = AskEnded("first", "budget")
_ANSWERED = AskEnded("first", "answered")

STEPS: list[tuple[AnyMessage, str, str]] = [
    (_ASK, "unfinished", ""),
    (Resumed(RULES), "unfinished", ""),
    (_BUDGET, "open", "budget"),
    (Resumed(RULES), "open", "budget"),
    (_ASK, "unfinished", "budget"),
    (_ANSWERED, "open", "answered"),
    (SessionClosed(), "closed", "answered"),
    (Resumed(RULES), "closed", "answered"),
    (Resumed(RULES, reopens=True), "open", "answered"),
    (SessionClosed(), "closed", "answered"),
]
"""Messages between the client and the supervisor: the status and the kind after each."""


HOSTS: list[tuple[AnyMessage, str]] = [
    (_OPENED, "host"),
    (Resumed(RULES, "other"), "other"),
    (Resumed(RULES), "other"),
]


_FAILED, _FINE = DelegationEnded(1, 0, "budget"), DelegationEnded(1, 1, "answered")
_DENIED = DelegationEnded(1, 2, "denied")
FAILURES: list[tuple[AnyMessage, int]] = [
    (_ASK, 0),
    (_FAILED, 1),
    (_FINE, 1),
    (_DENIED, 1),
    (_FAILED, 2),
    (_ANSWERED, 2),
    (_ASK, 0),
    (_FAILED, 1),
]
"""Messages of a session: the number of failures after each."""


def opening(*tags: str, **metadata: object) -> SessionOpened:
    """Make the first message of a session."""
    return SessionOpened(
        RULES, "host", (), ModelSpec("m"), tags=tags, metadata=Json(msgspec.json.encode(metadata or None))
    )


def of_client(seq: int, body: AnyMessage) -> Any:
    """Make an event between the client and the supervisor."""
    is_input = isinstance(body, SessionOpened | Resumed | Ask)
    sides = {"sender": "client", "recipient": "supervisor"}
    return event(seq, body, **sides if is_input else {"sender": "supervisor", "recipient": "client"})


async def chosen(log: EventLog, **query: Any) -> str:
    """Return the names of the chosen sessions, one letter each."""
    return "".join(row.session_id for row in await log.sessions(SessionQuery(**query)))


async def purge(log: EventLog) -> int:
    """Remove all that is left of deleted sessions. Return the number of steps."""
    steps = 1
    while await log.purge():
        steps += 1
    return steps


@on_loops
class CatalogCases:
    """Sessions as a list."""

    # --- rows ---------------------------------------------------------------------

    async def test_the_first_ask_gives_its_session_a_title_if_it_has_none(self, place: StorePlace) -> None:
        blocks = msgspec.json.encode([{"type": "image"}, {"type": "text", "text": "look"}, {"text": "again"}])
        prompts = {"text": b'"How are\\nyou?"', "blocks": blocks, "long": msgspec.json.encode("a" * 201)}
        async with opened(place) as log:
            for name in (*prompts, "given"):
                await log.create(name, AT_MS, "given" if name == "given" else "")
                await added(log, name, 1, [event(1, _OPENED)])
            for name, prompt in {**prompts, "given": b'"x"'}.items():
                await added(log, name, 1, [event(2, Ask("r", Json(prompt))), event(3, _ANSWERED)])
                await added(log, name, 1, [event(4, Ask("s", Json(b'"later"')))])
            titles = {row.session_id: row.title for row in await log.sessions()}
            with closing(place.reader()) as reader:
                assert {row.session_id: row.title for row in reader.sessions()} == titles
        assert titles == {
            "text": "How are\nyou?",
            "blocks": "look again",
            "long": "a" * 200,
            "given": "given",
        }

    async def test_a_session_that_was_asked_without_a_title_gets_none_later(self, place: StorePlace) -> None:
        async with opened(place) as log:
            await log.create("s", AT_MS, "")
            first = Ask("r", Json(b'""'))
            await added(log, "s", 1, [event(1, _OPENED), event(2, first), event(3, _ANSWERED)])
            await added(log, "s", 1, [event(4, Ask("s", Json(b'"later"')))])
            assert [row.title for row in await log.sessions()] == [""]
            await log.take_over("s")
            await added(log, "s", 2, [event(5, _ANSWERED), event(6, Ask("t", Json(b'"later"')))])
            assert [row.title for row in await log.sessions()] == [""]

    async def test_a_row_follows_the_events_of_its_session(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            (row,) = await log.sessions()
            assert (row.status, row.kind, row.last_ms, row.tags, row.metadata) == ("open", "", 0, (), {})
            for seq, (body, status, kind) in enumerate(STEPS, 1):
                await added(log, "s", 1, [of_client(seq, body)])
                (row,) = await log.sessions()
                assert (row.head, row.last_ms) == (seq, AT_MS + seq)
                assert (row.status, row.kind) == (status, kind)
            with closing(place.reader()) as reader:
                assert reader.sessions() == [row]

    @pytest.mark.parametrize("size", [2, 3, len(STEPS)])
    async def test_so_it_does_when_one_batch_has_many(self, place: StorePlace, size: int) -> None:
        async with opened(place, sessions="s") as log:
            for first in range(0, len(STEPS), size):
                part = STEPS[first : first + size]
                posted = [of_client(first + at, body) for at, (body, _, _) in enumerate(part, 1)]
                half = len(posted) // 2
                await log.append(
                    [Append("s", first, 1, posted[:half]), Append("s", first + half, 1, posted[half:])]
                )
                (row,) = await log.sessions()
                assert (row.head, row.status, row.kind) == (first + len(part), *part[-1][1:])

    async def test_a_refused_batch_changes_no_row(self, place: StorePlace) -> None:
        async with opened(place, sessions="ab") as log:
            await log.append(
                [Append("a", 1, 1, [of_client(2, _ASK)]), Append("b", 0, 1, [of_client(1, _ASK)])]
            )
            assert await chosen(log, status="unfinished") == "b"

    async def test_tags_and_metadata_are_those_of_the_first_event(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            first = opening("user:7", "émile", name="Ann", plan={"seats": [1, None]})
            await added(log, "s", 1, [of_client(1, first), *events(2, 3)])
            (row,) = rows = await log.sessions()
            assert (row.host, row.tags) == ("host", ("user:7", "émile"))
            assert row.metadata == {"name": "Ann", "plan": {"seats": [1, None]}}
            left = place.after_crash()
        for kept in (place, left or place):
            with closing(kept.reader()) as reader:
                assert reader.sessions() == rows

    async def test_the_host_is_the_one_that_was_recorded_last(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            for seq, (body, host) in enumerate(HOSTS, 1):
                await added(log, "s", 1, [of_client(seq, body)])
                assert (await log.sessions())[0].host == host

    async def test_failures_below_are_counted_in_each_ask(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            for seq, (body, count) in enumerate(FAILURES, 1):
                await added(log, "s", 1, [event(seq, body)])
                assert (await log.sessions())[0].failures == count

    # --- choices and pages --------------------------------------------------------

    async def test_sessions_are_chosen_by_status_tag_and_time(self, place: StorePlace) -> None:
        async with opened(place) as log:
            for at, name in enumerate("abcd"):
                await log.create(name, at, "")
                tags = ("all", "odd") if at % 2 else ("all",)
                await added(log, name, 1, [of_client(1, opening(*tags))])
            await added(log, "b", 1, [of_client(2, _ASK)])
            await added(log, "c", 1, [of_client(2, _ASK), of_client(3, _ANSWERED)])
            await added(
                log, "d", 1, [of_client(seq, body) for seq, body in ((2, _ASK), (3, SessionClosed()))]
            )
            for query, wanted in (
                ({}, "dcba"),
                ({"status": "open"}, "ca"),
                ({"status": "unfinished"}, "b"),
                ({"status": "closed"}, "d"),
                ({"tag": "all"}, "dcba"),
                ({"tag": "odd"}, "db"),
                ({"tag": "od"}, ""),
                ({"tag": "odd", "status": "closed"}, "d"),
                ({"since_ms": AT_MS + 2}, "dcb"),
                ({"since_ms": AT_MS + 3, "tag": "odd"}, "d"),
                ({"limit": 0}, ""),
                ({"limit": 3}, "dcb"),
            ):
                assert await chosen(log, **query) == wanted, query
                with closing(place.reader()) as reader:
                    rows = reader.sessions(SessionQuery(**query))
                assert "".join(row.session_id for row in rows) == wanted, query

    async def test_pages_hold_every_session_once_also_if_some_are_deleted(self, place: StorePlace) -> None:
        names = "abcdefghij"
        async with opened(place) as log:
            for at, name in enumerate(names):
                await log.create(name, at // 3, "")  # three of a time
            found, after = "", ""
            while page := await log.sessions(SessionQuery(after=after, limit=2)):
                found += "".join(row.session_id for row in page)
                after = page[-1].cursor
                await log.delete(page[-1].session_id)  # the place of the next page
                await purge(log)
            assert found == names[::-1]
            assert await chosen(log) == names[::-1][::2]

    @pytest.mark.parametrize("after", ["x", "1", "1.", "1.2.3", "1.2\n", "\u0661.2", "1" * 30 + ".1"])
    async def test_a_place_that_is_no_cursor_is_refused(self, place: StorePlace, after: str) -> None:
        async with opened(place, sessions="s") as log:
            with pytest.raises(MisuseError, match="cursor"):
                await log.sessions(SessionQuery(after=after))

    # --- removal ------------------------------------------------------------------

    async def test_a_deleted_session_is_found_nowhere_before_it_is_removed(self, place: StorePlace) -> None:
        async with opened(place, sessions="ab") as log:
            for name in "ab":
                await added(log, name, 1, [of_client(1, opening("tag")), *events(2, 40), large(41)])
            assert await log.delete("a") == 41
            assert (
                await chosen(log) == await chosen(log, tag="tag") == await chosen(log, status="open") == "b"
            )
            with closing(place.reader()) as reader:
                for look in (reader.events, reader.head, reader.verify_chain, reader.segments):
                    with pytest.raises(SessionNotFound, match="'a'"):
                        look("a")
            assert await log.create("a", 1, "") == 1
            await added(log, "a", 1, events(1, 5))
            await purge(log)
            assert same(await log.read("a"), events(1, 5))
            with closing(place.reader()) as reader:
                assert [reader.verify_chain(name).seq for name in "ab"] == [5, 41]

    async def test_a_large_value_stays_as_long_as_a_session_has_it(self, place: StorePlace) -> None:
        posted = [large(1, 5_000, "x"), large(2, 6_000, "y"), large(3, 5_000, "x")]
        async with opened(place, sessions="abc") as log:
            for name in "abc":
                await added(log, name, 1, posted)
            for name, rest in (("b", "ac"), ("c", "a")):
                await log.delete(name)
                await purge(log)
                for other in rest:
                    assert same(await log.read(other), posted)
            await log.delete("a")
            await purge(log)
            await log.vacuum(1_000)
            await log.create("d", 1, "")
            await added(log, "d", 1, posted)
            assert same(await log.read("d"), posted)

    async def test_values_are_appended_while_their_other_session_is_removed(self, place: StorePlace) -> None:
        posted = [large(seq, 2_000 + seq) for seq in range(1, 1_201)]
        async with opened(place, sessions="ab") as log:
            await added(log, "a", 1, posted)
            await log.delete("a")
            for first in range(0, 1_200, 100):
                await asyncio.gather(log.purge(), added(log, "b", 1, posted[first : first + 100]))
            await purge(log)
            assert same(await log.read("b"), posted)
            with closing(place.reader()) as reader:
                assert reader.verify_chain("b").seq == 1_200

    async def test_a_removal_goes_on_after_a_crash(self, place: StorePlace) -> None:
        async with opened(place, sessions="ab") as log:
            for name in "ab":
                await added(log, name, 1, [*events(1, 2_000), large(2_001)])
            full = log.size_bytes()
            await log.delete("a")
            await log.purge()
            left = place.after_crash()
            if left is None:
                return
        async with opened(left) as log:
            assert await chosen(log) == "b"
            await purge(log)
            assert not await log.purge()
            assert await log.vacuum(100_000) == 0
            await log.vacuum(None)
            assert log.size_bytes() < 0.75 * full
            assert same(await log.read("b"), [*events(1, 2_000), large(2_001)])
            assert (await log.take_over("b"))[1].seq == 2_001
