"""The page of a session that is being written: in the end it is the page of the whole session."""

import asyncio
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.events import Event
from callboard.replay.page.live import LivePage
from callboard.replay.page.packing import unpacked
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append, Head
from tests.golden import golden
from tests.replay.page.kit import PageData, page_of
from tests.replay.stories import ignored_report

Write = Callable[[int], None]


def written(events: list[Event], session_id: str) -> tuple[MemoryLog, Write]:
    """Return an empty log, and a function that writes the events up to a seq."""
    log = MemoryLog()
    head = 0

    async def start() -> int:
        await log.open()
        return await log.create(session_id, 1_700_000_000_000, "a title")

    epoch = asyncio.run(start())

    def write(upto: int) -> None:
        nonlocal head
        part = events[head:upto]
        if part:
            asyncio.run(log.append([Append(session_id, head, epoch, part)]))
        head += len(part)

    return log, write


def lines_of(page: bytes) -> list[bytes]:
    return unpacked(page.split(b'id="data">')[1].split(b"<")[0])


def bodies_in(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if line.startswith(b"{")]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=8))
def test_a_page_that_grew_has_the_lines_of_the_whole_page(steps: list[int]) -> None:
    recording = ignored_report()
    events = list(recording.events)
    log, write = written(events, "one")
    write(3)
    live = LivePage(MemoryReader(log), "one")
    lines, count = lines_of(b"".join(live.page()))[:-1], 3
    for step in [*steps, len(events), 0]:
        count = min(len(events), count + step)
        write(count)
        more = live.more(len(lines), len(bodies_in(lines)))
        lines += more.split(b"\n")[:-1] if more else []
        assert len(bodies_in(lines)) == count
    assert sorted(lines) == sorted(lines_of(page_of(recording))[:-1])
    assert bodies_in(lines) == [row.body for row in recording.rows]


def test_the_last_line_of_an_answer_has_the_columns_that_the_page_lacks() -> None:
    recording = ignored_report()
    events = list(recording.events)
    log, write = written(events, "one")
    write(10)
    live = LivePage(MemoryReader(log), "one")
    have = lines_of(b"".join(live.page()))
    write(len(events))
    *_, last = live.more(len(have) - 1, 10).split(b"\n")
    found, whole = json.loads(last[1:]), PageData(page_of(recording)).summary
    for name in ("times", "senders", "recipients", "causes"):
        assert found[name] == whole[name][10:]
    for name in ("agents", "spans", "findings", "names", "start"):
        assert found[name] == whole[name]
    assert found["is_followed"] is True


def test_nothing_new_is_an_empty_answer_and_a_closed_session_is_over() -> None:
    events = golden("everything")
    log, write = written(events, "golden")
    write(20)
    live = LivePage(MemoryReader(log), "golden")
    have = lines_of(b"".join(live.page()))
    assert live.more(len(have) - 1, 20) == b""
    write(len(events))
    live.more(len(have) - 1, 20)
    have = lines_of(b"".join(live.page()))
    assert json.loads(have[-1][1:])["is_over"] is True
    assert live.more(len(have) - 1, len(events)) == b""


@pytest.mark.parametrize("asked", [(10**6, 0), (0, 10**6), (-1, 0)])
def test_numbers_that_no_page_has_are_refused(asked: tuple[int, int]) -> None:
    log, write = written(list(ignored_report().events), "one")
    write(5)
    live = LivePage(MemoryReader(log), "one")
    with pytest.raises(ValueError, match="does not have"):
        live.more(*asked)


@given(st.integers(3, 15), st.integers(1, 9), st.booleans())
def test_an_event_that_does_not_continue_the_chain_never_gets_into_the_page(
    shown: int, later: int, is_cut: bool
) -> None:
    log, write = written(list(ignored_report().events), "one")
    write(shown)
    live = LivePage(MemoryReader(log), "one")
    have = lines_of(b"".join(live.page()))[:-1]
    write(shown + later)
    rows = log._sessions["one"].rows
    if is_cut:
        damage(log, rows[: shown - 1])
    else:
        at = len(rows) - 1
        damage(log, [*rows[:at], rows[at].replace(b"supervisor", b"supervisoR").replace(b"host", b"hosT")])
    for _ in range(2):
        with pytest.raises(CorruptLog):
            live.more(len(have), shown)
    with pytest.raises(CorruptLog):
        live.page().__next__()


def damage(log: MemoryLog, rows: list[bytes]) -> None:
    """Put other rows in the place of those of session one."""
    session = log._sessions["one"]
    session.rows = rows
    if len(rows) < session.head.seq:
        session.head = Head(len(rows), session.head.digest)


def test_a_session_that_grows_is_checked_from_where_the_page_is_and_not_from_its_start() -> None:
    events = list(ignored_report().events)
    log, write = written(events, "one")
    write(20)
    live = LivePage(MemoryReader(log), "one")
    log._sessions["one"].rows[:10] = [b""] * 10  # which no reader can read any more
    write(len(events))
    assert live.more(0, 0).count(b"\n") >= len(events)
