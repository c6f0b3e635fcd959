"""Live text as it arrives, and as a reader sees it: in its place, with no gap that it is not told of."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CallModel, ModelReplied, ToolReturned
from callboard.runtime.cluster import live_text
from callboard.runtime.cluster.live_text import LiveText, TextReader
from callboard.runtime.log.postgres.notices import ProgressPiece, TextPiece
from callboard.runtime.sessions.stream_items import StreamEvent, TextDelta, TextLost, TextReset, ToolProgress
from callboard.runtime.sessions.stream_reader import StreamChoice

GRANT = Event(3, 1, "supervisor", "model", 2, CallModel("host", 2))


def piece(offset: int, text: str, *, epoch: int = 1, grant: int = 3, address: str = "host") -> TextPiece:
    return TextPiece(epoch, grant, address, 1, 1, offset, text)


def delta(offset: int, text: str) -> TextDelta:
    return TextDelta("host", 1, 1, offset, text)


def replied(text: str = "", seq: int = 4, status: str = "ok") -> Event:
    content = Json(b'[{"type":"text","text":"%b"}]' % text.encode())
    return Event(seq, 1, "model", "host", 3, ModelReplied(1, 1, status, content))  # type: ignore[arg-type]  # a literal


def reader(live: LiveText, last: int = 2, of: str | None = None) -> TextReader:
    return TextReader(live, StreamChoice(of), last)


def test_text_waits_for_its_grant_and_the_end_of_the_reply_comes_with_its_event() -> None:
    live = LiveText()
    one = reader(live)
    live.add(piece(0, "ab"))
    assert [*one.arrived()] == []
    assert [*one.items_of(GRANT)] == [StreamEvent(GRANT)]
    assert [*one.arrived()] == [delta(0, "ab")]
    live.add(piece(2, "c"))
    live.add(piece(3, "d"))
    assert [*one.arrived()] == [delta(2, "cd")]
    live.add(piece(4, "e"))
    assert [*one.items_of(replied("abcdefg"))] == [
        delta(4, "e"),
        delta(5, "fg"),
        StreamEvent(replied("abcdefg")),
    ]
    live.add(piece(5, "f"))  # late
    assert live.replies == {}
    assert [*one.arrived()] == []


def test_a_gap_is_named_and_the_text_goes_on_behind_it() -> None:
    live = LiveText()
    one = reader(live)
    [*one.items_of(GRANT)]
    live.add(piece(0, "ab"))
    live.add(piece(1, "bc"))  # the first character is known
    live.add(piece(0 + 1, "b"))
    assert [*one.arrived()] == [delta(0, "abc")]
    live.add(piece(7, "hi"))
    assert [*one.arrived()] == [TextLost("host", 1, 1, 3, 4), delta(7, "hi")]
    live.add(piece(5, "fg"))  # too late
    assert [*one.arrived()] == []
    assert next(one.items_of(replied("abcdefghij"))) == delta(9, "j")


def test_a_reply_that_differs_from_its_text_and_one_that_failed_have_no_end_to_add() -> None:
    for event in (replied("other text"), replied("ab"), replied("abc", status="error")):
        live = LiveText()
        one = reader(live)
        [*one.items_of(GRANT)]
        live.add(piece(0, "ab"))
        assert [*one.arrived()] == [delta(0, "ab")]
        failed = [] if event == replied("other text") or event == replied("ab") else [TextReset("host", 1, 1)]
        assert [*one.items_of(event)] == [*failed, StreamEvent(event)]


def test_a_reader_whose_reply_another_reader_has_ended_gets_the_end_as_well() -> None:
    live = LiveText()
    fast, slow, late = reader(live), reader(live), reader(live)
    for one in (fast, slow):
        [*one.items_of(GRANT)]
    live.add(piece(0, "ab"))
    assert [*fast.arrived()] == [*slow.arrived()] == [delta(0, "ab")]
    end = replied("abc")
    for one in (fast, slow):
        assert [*one.items_of(end)] == [delta(2, "c"), StreamEvent(end)]
    [*late.items_of(GRANT)]  # it has seen no text of it
    assert [*late.items_of(end)] == [StreamEvent(end)]


def test_text_of_an_earlier_owner_is_dropped() -> None:
    live = LiveText()
    one = reader(live)
    [*one.items_of(GRANT)]
    live.add(piece(0, "lost", epoch=1))
    live.add(piece(0, "new", epoch=2))
    live.add(piece(4, " more", epoch=1))
    assert [*one.arrived()] == [delta(0, "new")]
    live.note_epoch(3)
    assert live.replies == {}


def test_a_reply_that_starts_again_is_whole_for_new_readers_and_goes_on_for_others() -> None:
    live = LiveText()
    old = reader(live)
    [*old.items_of(GRANT)]
    live.add(piece(4, "ef"))
    assert [*old.arrived()] == [TextLost("host", 1, 1, 0, 4), delta(4, "ef")]
    live.add(piece(0, "abcd"))
    assert [*old.arrived()] == []
    live.add(piece(4, "efgh"))
    new = reader(live)
    [*new.items_of(GRANT)]
    assert [*old.arrived()] == [delta(6, "gh")]
    assert [*new.arrived()] == [delta(0, "abcdefgh")]


def test_a_reader_shows_the_text_of_the_agents_that_it_chose() -> None:
    for of, expected in ((None, []), ("host.1", [TextDelta("host.1", 1, 1, 0, "x")]), ("host.2", [])):
        live = LiveText()
        one = reader(live, of=of)
        [*one.items_of(Event(3, 1, "supervisor", "model", 2, CallModel("host.1", 2)))]
        live.add(piece(0, "x", address="host.1"))
        assert [*one.arrived()] == expected
        [*(other := reader(live)).items_of(GRANT)]
        assert [*other.arrived()] == []  # its call at this seq is of another agent


def test_a_call_from_before_the_reader_is_looked_up_once() -> None:
    live = LiveText()
    one = reader(live, last=9)
    live.add(piece(0, "ab"))
    live.add(piece(0, "x", grant=8))
    live.add(piece(0, "y", grant=12))
    assert one.unknown() == [3, 8]
    one.learn(3, "host")
    one.forget(8)
    assert one.unknown() == []
    assert [*one.arrived()] == [delta(0, "ab")]


def test_what_a_client_keeps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_text, "MAX_BYTES", 5)
    live = LiveText()
    for at in range(9):
        live.add(piece(3 * at, "abc"))
        assert live.replies[3].end - live.replies[3].start <= 5 + 3
    for grant in range(1_000):
        live.end(grant)
    live.add(piece(0, "abc", grant=999))
    assert len(live._ended) == live_text.ENDED_MAX
    assert live.replies == {}


def test_text_wakes_all_that_wait() -> None:
    async def scene() -> None:
        live = LiveText()
        waits, left = [live.arrival(), live.arrival()], live.arrival()
        live.leave(left)
        live.add(piece(0, "a"))
        assert all(one.done() for one in waits)
        assert not left.done()

    asyncio.run(scene())


@given(st.text(min_size=1, max_size=40), st.data())
def test_whatever_is_lost_or_comes_twice_each_character_is_shown_or_named_once(
    text: str, data: st.DataObject
) -> None:
    live = LiveText()
    one = reader(live)
    [*one.items_of(GRANT)]
    at, shown = 0, 0
    for _ in range(data.draw(st.integers(0, 12))):
        start = data.draw(st.integers(0, at)) if data.draw(st.booleans()) else at
        at = max(at, end := data.draw(st.integers(start, len(text))))
        if data.draw(st.booleans()):
            live.add(piece(start, text[start:end]))
        if data.draw(st.booleans()):
            shown = follow(
                text, shown, [item for item in one.arrived() if isinstance(item, TextDelta | TextLost)]
            )
    content = Json(msgspec.json.encode([{"type": "text", "text": text}]))
    last = Event(4, 1, "model", "host", 3, ModelReplied(1, 1, "ok", content))
    items = [item for item in one.items_of(last) if isinstance(item, TextDelta | TextLost)]
    assert follow(text, shown, items) in (0, len(text))


def follow(text: str, shown: int, items: list[TextDelta | TextLost]) -> int:
    """Return how many characters are shown or named after some items, which have to follow each other."""
    for item in items:
        assert item.offset == shown
        if isinstance(item, TextLost):
            assert item.chars > 0
            shown += item.chars
        else:
            assert item.text == text[shown : shown + len(item.text)]
            shown += len(item.text)
    return shown


def progress(text: str, *, epoch: int = 1, grant: int = 3, address: str = "host") -> ProgressPiece:
    return ProgressPiece(epoch, grant, address, 1, 0, text)


def shown(*texts: str) -> list[ToolProgress]:
    return [ToolProgress("host", 1, 0, text) for text in texts]


def returned(seq: int, cause: int = 3) -> Event:
    body = ToolReturned(turn=1, call=0, status="ok", output=Json(b"1"))
    return Event(seq, 1, "tools", "host", cause, body)


def test_progress_waits_for_its_call_and_comes_before_the_result_to_each_reader() -> None:
    live = LiveText()
    one, other = reader(live), reader(live)
    live.add(progress("10 %"))
    live.add(progress("later", grant=5))
    assert [*one.arrived()] == []
    assert [*one.items_of(GRANT)] == [StreamEvent(GRANT)]
    assert [*one.arrived()] == shown("10 %")
    assert [*one.arrived()] == []
    live.add(progress("20 %"))
    live.add(progress("30 %"))
    assert [*one.items_of(returned(4))] == [*shown("20 %", "30 %"), StreamEvent(returned(4))]
    live.add(progress("late"))
    assert [*one.arrived()] == []
    [*other.items_of(GRANT)]
    assert [*other.arrived()] == shown("10 %", "20 %", "30 %", "late")  # it has not read the result yet
    assert [*reader(live, 9).arrived()] == []  # it came after them
    assert [*one.items_of(Event(5, 1, "host", "tools", 4, GRANT.body))]
    assert [*one.arrived()] == shown("later")


def test_progress_of_agents_that_were_not_chosen_and_of_lost_owners_is_left_out() -> None:
    live = LiveText()
    host, kid, every = reader(live, 3), reader(live, 3, "host.1"), reader(live, 3, "*")
    live.add(progress("lost"))
    live.note_epoch(2)
    live.add(progress("late", epoch=1))
    live.add(progress("own", epoch=2))
    live.add(progress("the kid's", epoch=2, address="host.1"))
    assert [item.text for item in host.arrived() if isinstance(item, ToolProgress)] == ["own"]
    assert [item.text for item in kid.arrived() if isinstance(item, ToolProgress)] == ["the kid's"]
    assert [item.text for item in every.arrived() if isinstance(item, ToolProgress)] == ["own", "the kid's"]


def test_more_progress_than_is_kept_drops_the_earliest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_text, "PROGRESS_MAX", 2)
    live = LiveText()
    one = reader(live, 3)
    for text in "abc":
        live.add(progress(text))
    assert [*one.arrived()] == shown("b", "c")


def test_progress_wakes_a_reader_that_waits() -> None:
    async def main() -> None:
        live = LiveText()
        arrival = live.arrival()
        live.add(progress("10 %"))
        assert arrival.done()

    asyncio.run(main())
