"""Cases for forks: they read as whole sessions, and keep the sessions that they share events with."""

from contextlib import closing

import pytest

from callboard.actors.protocol.errors import HasForks, SessionExists, SessionNotFound, WrongHead
from callboard.replay.testing.stores.events import StorePlace, added, events, large, on_loops, opened, same
from callboard.runtime.log.protocol import EventLog, Head, Segment

_KEY = b"a digest key"


async def forked(log: EventLog) -> None:
    """Fork session s at event 6, that fork at 8, and this one at 3, which is an event of s."""
    await added(log, "s", 1, [*events(1, 4), large(5), *events(6, 10)])
    assert (await log.fork("f", 5, "a fork", "s", 6)).seq == 6
    await added(log, "f", 1, [*events(7, 8), large(9, 6_000, "y")])
    assert (await log.fork("g", 6, "its fork", "f", 8)).seq == 8
    await added(log, "g", 1, events(9, 9))
    assert (await log.fork("h", 7, "of its beginning", "g", 3)).seq == 3


@on_loops
class ForkCases:
    """A fork shares the events up to its base, each under the id of the session that posted it."""

    async def test_a_fork_reads_as_a_whole_session_by_pages_of_any_size(self, place: StorePlace) -> None:
        posted = [*events(1, 4), large(5), *events(6, 9)]
        async with opened(place, sessions="s") as log:
            await forked(log)
            for start in range(1, 11):
                for limit in range(4):
                    page = posted[start - 1 : start - 1 + limit]
                    assert same(await log.read("g", start, limit), page), (start, limit)
            with closing(place.reader()) as reader:
                assert same(reader.events("g"), posted)
                assert same(reader.events_of("g", "host", 5, 8), posted[4:8])
                assert same(reader.events_of("g", "host", 2, 9, 3), posted[1:4])
                assert reader.events_of("g", "nobody", 1, 9) == []

    async def test_each_event_keeps_the_id_under_which_it_was_posted(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            await forked(log)
            with closing(place.reader()) as reader:
                found = reader.segments("g")
                assert [(one.session_id, one.last) for one in found] == [("s", 6), ("f", 8), ("g", 9)]
                assert found[1].before == Head(6, reader.events("s", 6, 1)[0].digest)
                (first, own) = reader.segments("h")
                assert (first.last, own) == (3, Segment("h", Head(3, reader.events("s", 3, 1)[0].digest), 3))

    async def test_the_rows_name_the_session_that_has_the_shared_events(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            await forked(log)
            rows = await log.sessions()
            found = [(row.session_id, row.parent, row.base, row.head) for row in rows]
            assert found == [("h", "s", 3, 3), ("g", "f", 8, 9), ("f", "s", 6, 9), ("s", "", 0, 10)]
            with closing(place.reader()) as reader:
                assert reader.sessions() == rows

    async def test_the_chain_of_a_fork_is_checked_through_all_its_segments(self, place: StorePlace) -> None:
        async with opened(place, _KEY, sessions="s") as log:
            await forked(log)
            with closing(place.reader()) as reader:
                for name, seq in (("s", 10), ("f", 9), ("g", 9), ("h", 3)):
                    head = reader.head(name)
                    assert reader.verify_chain(name, _KEY) == head
                    assert head.seq == seq
                    known = reader.events(name, 2, 1)[0]
                    reader.verify_chain(name, _KEY, Head(2, known.digest))
                pages = reader.checked_pages("g", 7, _KEY)
                rows = [row for page in pages for row in page]
                assert [row.seq for row in rows] == [*range(1, 8)]
                after = Head(rows[5].seq, rows[5].digest)  # the end of a segment
                ((last,),) = reader.checked_pages("g", 7, _KEY, after=after)
                assert last == rows[6]

    async def test_a_fork_goes_on_after_a_restart_and_so_does_its_parent(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            await forked(log)
            assert (await added(log, "s", 1, events(11, 12))).seq == 12
        async with opened(place) as log:
            epoch, head = await log.take_over("h")
            assert (epoch, head.seq) == (2, 3)
            assert (await added(log, "h", epoch, events(4, 5))).seq == 5
            assert same(await log.read("h"), events(1, 5))
            assert await log.head("h") == (await log.take_over("h"))[1]

    async def test_a_fork_that_cannot_be_made_is_refused(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            await forked(log)
            for base in (0, -1, 11):
                with pytest.raises(WrongHead, match="events 1 to 10"):
                    await log.fork("x", 1, "", "s", base)
            with pytest.raises(SessionExists, match="'f'"):
                await log.fork("f", 1, "", "s", 2)
            with pytest.raises(SessionNotFound, match="'nobody'"):
                await log.fork("x", 1, "", "nobody", 2)
            assert len(await log.sessions()) == 4

    async def test_a_fork_comes_with_its_first_events_or_not_at_all(self, place: StorePlace) -> None:
        async with opened(place, _KEY, sessions="s") as log:
            await added(log, "s", 1, events(1, 4))
            with pytest.raises(WrongHead):
                await log.fork("f", 1, "", "s", 3, events(5, 6))
            assert [row.session_id for row in await log.sessions()] == ["s"]
            head = await log.fork("f", 1, "", "s", 3, [*events(4, 5), large(6)])
            assert head == await log.head("f")
            assert same(await log.read("f"), [*events(1, 5), large(6)])
            assert (await added(log, "f", 1, events(7, 8))).seq == 8
            with closing(place.reader()) as reader:
                assert reader.verify_chain("f", _KEY).seq == 8
                assert (reader.sessions()[0].base, reader.sessions()[0].head) == (3, 8)

    async def test_a_session_with_forks_is_not_deleted(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            await forked(log)
            with pytest.raises(HasForks, match=r"forks.*: f, h;"):
                await log.delete("s")
            with pytest.raises(HasForks, match=r"forks.*: g;"):
                await log.delete("f")
            assert [await log.delete(name) for name in "hgf"] == [0, 1, 3]
            while await log.purge():
                pass
            assert same(await log.read("s"), [*events(1, 4), large(5), *events(6, 10)])
            assert await log.delete("s") == 10

    async def test_shared_events_stay_until_the_last_fork_goes(self, place: StorePlace) -> None:
        posted = [*events(1, 4), large(5), *events(6, 9)]
        async with opened(place, _KEY, sessions="s") as log:
            await forked(log)
            assert await log.delete("s", keep_forks=True) == 4
            assert await log.delete("f", keep_forks=True) == 1
            await _purged(log)
            assert same(await log.read("g"), posted)
            with closing(place.reader()) as reader:
                assert [row.session_id for row in reader.sessions()] == ["h", "g"]
                assert reader.verify_chain("g", _KEY).seq == 9
                assert [one.session_id for one in reader.segments("g")] == ["s", "f", "g"]
                for look in (reader.events, reader.head, reader.segments):
                    with pytest.raises(SessionNotFound):
                        look("s")
            with pytest.raises(SessionExists):
                await log.create("s", 1, "")
            for gone in (log.take_over, log.read, log.delete):
                with pytest.raises(SessionNotFound):
                    await gone("f")
            assert (await log.fork("k", 1, "of a fork", "g", 5)).seq == 5
            assert (await log.fork("l", 1, "of a hidden one", "f", 7)).seq == 7
            await log.delete("k")
            await log.delete("l")
            assert await log.delete("g") == 1 + 2 + 3  # its own, and what it was the last to share
            await _purged(log)
            assert same(await log.read("h"), posted[:3])
            assert await log.delete("h") == 3
            await _purged(log)
            assert await log.create("s", 1, "") == 1

    async def test_a_large_value_of_a_shared_event_stays(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            await added(log, "s", 1, [large(1, 5_000, "x"), large(2, 6_000, "y"), large(3, 5_000, "x")])
            await log.fork("f", 2, "", "s", 1)
            await log.delete("s", keep_forks=True)
            await _purged(log)
            assert same(await log.read("f"), [large(1, 5_000, "x")])
            with closing(place.reader()) as reader:
                assert reader.verify_chain("f").seq == 1

    async def test_keep_forks_changes_nothing_without_forks(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            await added(log, "s", 1, events(1, 5))
            assert await log.delete("s", keep_forks=True) == 5
            assert await log.create("s", 1, "") == 1


async def _purged(log: EventLog) -> None:
    while await log.purge():
        pass
