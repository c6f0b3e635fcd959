"""The digest chain: as documented, injective, and any change is found where it was made."""

import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import CorruptLog, MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.runtime.log.hash_chain import (
    FIRST_EVENTS,
    KEY_BYTES_MAX,
    PAGE_BYTES,
    UNWRITABLE,
    HashChain,
    PageSizes,
    last_head,
)
from callboard.runtime.log.large_values import Cut, blob_digest
from callboard.runtime.log.protocol import GENESIS, Head, Sealed, Segment, Stored
from tests.effort import effort
from tests.runtime.log.kit import event, events, json_text, large, seal_one
from tests.tables import table


def packed(value: object) -> bytes:
    """Encode MessagePack, written from its specification alone."""
    if isinstance(value, int):
        for limit, code in ((1 << 7, b""), (1 << 8, b"\xcc"), (1 << 16, b"\xcd"), (1 << 32, b"\xce")):
            if value < limit:
                return code + value.to_bytes(max(1, 1 << max(0, code[0] - 0xCC)) if code else 1, "big")
        return b"\xcf" + value.to_bytes(8, "big")
    if isinstance(value, str):
        data = value.encode()
        if len(data) < 32:
            return bytes([0xA0 | len(data)]) + data
        return _sized(b"\xd9\xda\xdb", len(data)) + data
    if isinstance(value, bytes):
        return _sized(b"\xc4\xc5\xc6", len(value)) + value
    assert isinstance(value, list)
    head = bytes([0x90 | len(value)]) if len(value) < 16 else b"\xdc" + struct.pack(">H", len(value))
    return head + b"".join(map(packed, value))


def _sized(codes: bytes, size: int) -> bytes:
    width = 0 if size < 1 << 8 else 1 if size < 1 << 16 else 2
    return codes[width : width + 1] + size.to_bytes(1 << width, "big")


@table("key", [b"", b"k", b"k" * KEY_BYTES_MAX])
@table("body", [Cancel("r"), Cancel("r" * 300), Cancel("r" * 70_000)])
def test_anybody_can_recompute_a_digest_from_the_documentation(key: bytes, body: Cancel) -> None:
    one = event(3_000_000_000, body, cause=70_000, sender="host." + "1." * 20 + "1")
    previous = bytes(range(32))
    row = seal_one(HashChain(key or None), "session", previous, one)
    fields = ["session", one.seq, previous, one.at, one.sender, one.recipient, one.cause, encode(body), []]
    state = blake2b(digest_size=32, person=b"callboard/1", key=key)
    state.update(packed(fields))
    assert row.digest == state.digest()


def test_values_that_were_cut_out_are_in_the_digest_by_place_and_digest() -> None:
    one = large(1, 5_000)
    row = seal_one(HashChain(), "s", GENESIS, one)
    data = b'"' + b"x" * 4_998 + b'"'
    offset = row.body.index(b"null")
    cuts = [[offset, blob_digest(data)]]
    fields = ["s", 1, GENESIS, one.at, one.sender, one.recipient, one.cause, row.body, cuts]
    assert row.digest == blake2b(packed(fields), digest_size=32, person=b"callboard/1").digest()


def test_the_digest_of_a_known_event_stays_the_same() -> None:
    one = Event(1, 1_700_000_000_000, "client", "supervisor", 0, Cancel("why"))
    row = seal_one(HashChain(), "session", GENESIS, one)
    assert row.body == b'{"type":"Cancel","reason":"why"}'
    assert row.digest.hex() == "1af08e31a37c848ca1e1f6e8cebdb8ae088cbef24b8028162ad97d2b733b0f75"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
envelopes = st.tuples(
    texts, st.integers(1, 3), st.binary(max_size=3), st.integers(0, 3), texts, texts, st.integers(0, 3), texts
)


@pytest.mark.slow
@given(envelopes, envelopes)
@settings(max_examples=effort(100, 3_000))
def test_two_different_events_never_give_the_same_bytes(one: tuple[object, ...], other: object) -> None:
    encoded = msgspec.msgpack.encode
    assert (encoded(one) == encoded(other)) == (one == other)
    assert list(one) == msgspec.msgpack.decode(encoded(one))


# --- verifying ----------------------------------------------------------------------


def chained(posted: list[Event], hash_chain: HashChain, session_id: str = "s") -> list[Sealed]:
    rows, previous = [], GENESIS
    for one in posted:
        row = seal_one(hash_chain, session_id, previous, one)
        rows.append(row)
        previous = row.digest
    return rows


def verify(
    hash_chain: HashChain,
    rows: list[Sealed],
    length: int,
    known: Head | None = None,
    session_id: str = "s",
    origin: bytes = GENESIS,
) -> Head:
    upto = max(length, known.seq if known else 0)

    def read(name: str, start: int, limit: int) -> list[Sealed]:
        assert name == session_id
        return rows if start == 1 else []

    before = Head(0, origin)
    segments = (Segment(session_id, before, length),)
    return last_head(hash_chain.checked_pages(segments, read, upto, known), before)


def test_an_untouched_chain_gives_its_head() -> None:
    rows = chained([*events(1, 5), large(6)], HashChain())
    assert verify(HashChain(), rows, 6) == Head(6, rows[-1].digest)
    assert verify(HashChain(), [], 0, origin=b"o" * 32) == Head(0, b"o" * 32)


CHANGES: dict[str, Callable[[Sealed], Sealed]] = {
    "time": lambda row: replace(row, at=row.at + 1),
    "sender": lambda row: replace(row, sender="host.1"),
    "recipient": lambda row: replace(row, recipient="model"),
    "cause": lambda row: replace(row, cause=1),
    "body": lambda row: replace(row, body=row.body.replace(b"reason", b"treason")),
    "digest": lambda row: replace(row, digest=bytes(32)),
    "a value": lambda row: replace(row, cuts=tuple(one._replace(digest=bytes(32)) for one in row.cuts)),
    "a place": lambda row: replace(row, cuts=tuple(one._replace(offset=9) for one in row.cuts)),
    "no value": lambda row: replace(row, cuts=()),
    "the type of a body": lambda row: replace(row, body=row.body.decode()),
    "no body": lambda row: replace(row, body=None),
}


@table("seq", range(1, 7))
@table("what", CHANGES)
def test_any_change_is_found_at_its_event(what: str, seq: int) -> None:
    rows = chained([*events(1, 5), large(6)], HashChain())
    changed = CHANGES[what](rows[seq - 1])
    if changed == rows[seq - 1]:
        return
    rows[seq - 1] = changed
    with pytest.raises(CorruptLog, match=rf"event {seq} ") as caught:
        verify(HashChain(), rows, 6)
    assert (caught.value.session_id, caught.value.seq) == ("s", seq)


@given(st.data())
@settings(max_examples=effort(40, 1_000))
def test_rows_that_were_moved_dropped_or_slipped_in_are_found(data: st.DataObject) -> None:
    rows = chained(events(1, 6), HashChain())
    other = chained([event(seq, Cancel("other")) for seq in range(1, 7)], HashChain(), "other")
    places = st.lists(st.sampled_from([*rows, *other]), max_size=8)
    found = data.draw(places)
    if found[: len(rows)] == rows[: len(found)] and len(found) <= len(rows):
        assert verify(HashChain(), found, len(found)).seq == len(found)
        return
    with pytest.raises(CorruptLog):
        verify(HashChain(), found, len(found))


def test_a_missing_tail_is_found_if_the_store_or_a_known_head_tells_of_it() -> None:
    rows = chained(events(1, 6), HashChain())
    for length, known in ((6, None), (0, Head(6, rows[5].digest))):
        with pytest.raises(CorruptLog, match="event 5 is missing, and all after it"):
            verify(HashChain(), rows[:4], length, known)
    assert verify(HashChain(), rows[:4], 4).seq == 4


def test_the_session_the_origin_and_the_key_are_part_of_the_chain() -> None:
    rows = chained(events(1, 3), HashChain())
    for chain, session_id, origin in (
        (HashChain(), "t", GENESIS),
        (HashChain(), "s", b"1" * 32),
        (HashChain(b"k"), "s", GENESIS),
    ):
        with pytest.raises(CorruptLog, match="event 1 "):
            verify(chain, rows, 3, None, session_id, origin)


@pytest.mark.parametrize("key", [b"", b"k" * (KEY_BYTES_MAX + 1)])
def test_a_key_of_the_wrong_size_is_refused(key: bytes) -> None:
    with pytest.raises(MisuseError, match="1 to 64 bytes"):
        HashChain(key)


def test_a_key_is_recognised_without_being_stored() -> None:
    kept = HashChain(b"key").key_check
    assert "key" not in kept
    HashChain(b"key").check_key(kept, "here")
    HashChain().check_key("", "here")
    for chain, there, said in (
        (HashChain(), kept, "created with a digest key; pass that key"),
        (HashChain(b"other"), kept, "created with another digest key; pass that key"),
        (HashChain(b"key"), "", "made without a digest key; leave the key out"),
    ):
        with pytest.raises(MisuseError, match=said):
            chain.check_key(there, "here")


def test_an_event_that_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        seal_one(HashChain(), "s", GENESIS, event(1, Cancel("\ud800")))
    with pytest.raises(ValueError, match="surrogates"):
        seal_one(HashChain(), "s", GENESIS, event(1, sender="\ud800"))
    with pytest.raises(UNWRITABLE):
        seal_one(HashChain(), "s", GENESIS, event(1, Cancel(cast("str", object()))))


@pytest.mark.parametrize(
    "bad", [event(1, at=2**63), event(1, cause=2**63), event(1, at=-(2**63)), event(1, at=2**70)]
)
def test_a_number_that_would_become_a_float_is_refused(bad: Event) -> None:
    with pytest.raises(OverflowError, match="64 bits"):
        seal_one(HashChain(), "s", GENESIS, bad)


@pytest.mark.parametrize("bad", [event(1, sender="a\0b"), event(1, recipient="\0")])
def test_an_address_that_would_be_cut_at_nul_is_refused(bad: Event) -> None:
    with pytest.raises(ValueError, match="NUL"):
        seal_one(HashChain(), "s", GENESIS, bad)


def test_a_body_of_exactly_a_kibibyte_is_left_whole() -> None:
    for size, cuts in ((1_024, 0), (1_200, 1)):
        rest = size - len(encode(ToolReturned(turn=1, call=0, status="ok", output=json_text(2))))
        body = ToolReturned(turn=1, call=0, status="ok", output=json_text(rest + 2))
        assert len(encode(body)) == size
        assert len(seal_one(HashChain(), "s", GENESIS, event(1, body)).cuts) == cuts


def test_the_segments_of_a_fork_are_one_chain() -> None:
    chain = HashChain()
    shared = chained(events(1, 4), chain, "a")
    own, previous = list[Sealed](), shared[-1].digest
    for one in (event(5), event(6)):
        own.append(seal_one(chain, "f", previous, one))
        previous = own[-1].digest
    rows = {"a": shared, "f": own}
    segments = (Segment("a", Head(0, GENESIS), 4), Segment("f", Head(4, shared[-1].digest), 6))

    def read(name: str, start: int, limit: int) -> list[Sealed]:
        return [row for row in rows[name] if row.seq >= start][:limit]

    pages = list(chain.checked_pages(segments, read, 6))
    assert [row.seq for page in pages for row in page] == [1, 2, 3, 4, 5, 6]
    behind = list(chain.checked_pages(segments, read, 6, after=Head(4, shared[-1].digest)))
    assert [row.seq for page in behind for row in page] == [5, 6]
    behind = list(chain.checked_pages(segments, read, 6, after=Head(5, own[0].digest)))
    assert [row.seq for page in behind for row in page] == [6]
    with pytest.raises(CorruptLog, match="session f, event 5 is not the one that was acknowledged"):
        list(chain.checked_pages(segments, read, 6, Head(5, b"x" * 32), after=Head(5, own[0].digest)))
    elsewhere = (segments[0], Segment("f", Head(4, shared[0].digest), 6))
    with pytest.raises(CorruptLog, match=r"event 5 .*does not continue event 4"):
        list(chain.checked_pages(elsewhere, read, 6))


def test_an_event_that_is_missing_is_told_with_the_next_one_there() -> None:
    chain = HashChain()
    rows = chained(events(1, 4), chain)
    with pytest.raises(CorruptLog, match=r"event 2 .*is missing; the next one there is 3"):
        verify(chain, [rows[0], *rows[2:]], 4)


def test_a_digest_that_is_computed_alone_is_that_of_the_chain() -> None:
    chain = HashChain(b"key")
    previous = bytes(range(32))
    for posted in (event(5, cause=2, sender="host"), large(5)):
        row = seal_one(chain, "s", previous, posted)
        assert chain.digest("s", previous, replace(row, digest=b"")) == row.digest
        assert chain.digest("other", previous, row) != row.digest


def test_the_head_after_events_is_that_of_the_last_one() -> None:
    sealing = HashChain().seal_all("s", GENESIS, events(5, 7))
    assert sealing.head(Head(4, GENESIS)) == Head(7, sealing.digests[-1])
    assert HashChain().seal_all("s", GENESIS, []).head(Head(4, GENESIS)) == Head(4, GENESIS)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (Head(0, b"x" * 32), "event 1 does not continue the head that was acknowledged"),
        (Head(3, b"x" * 32), "event 3 is not the one that was acknowledged"),
    ],
)
def test_a_head_that_was_acknowledged_and_is_not_in_the_log_is_named(known: Head, said: str) -> None:
    chain = HashChain()
    rows = chained(events(1, 3), chain)
    with pytest.raises(CorruptLog, match=said):
        verify(chain, rows, 3, known)


def test_a_page_whose_end_is_not_the_acknowledged_head_is_not_given_out() -> None:
    chain = HashChain()
    rows = chained(events(1, 3), chain)
    segments = (Segment("s", Head(0, GENESIS), 3),)
    pages = chain.checked_pages(segments, lambda name, start, limit: rows, 3, Head(3, b"x" * 32))
    with pytest.raises(CorruptLog):
        next(pages)


def test_a_log_knows_its_key_by_sixteen_signs() -> None:
    assert HashChain().key_check == ""
    checks = {HashChain(key).key_check for key in (b"a", b"b", b"a" * 32)}
    assert len(checks) == 3
    assert {len(check) for check in checks} == {16}


def row(size: int) -> Stored:
    return Stored(1, 0, "a", "b", 0, b"x" * size, b"")


def test_pages_of_small_events_grow_to_the_most() -> None:
    sizes = PageSizes(2_000)
    seen = []
    for _ in range(4):
        seen.append(sizes.events)
        sizes.note([row(100)] * sizes.events)
    assert seen == [FIRST_EVENTS, 4 * FIRST_EVENTS, 16 * FIRST_EVENTS, 2_000]


def test_pages_of_large_events_shrink_to_the_bytes_of_a_page() -> None:
    sizes = PageSizes(2_000)
    for _ in range(3):
        sizes.note([row(PAGE_BYTES // 8)] * sizes.events)
        assert sizes.events == 8
    sizes.note([row(3 * PAGE_BYTES)] * 8)
    assert sizes.events == 1
    sizes.note([row(100)])
    assert sizes.events == 4


def test_values_that_are_cut_out_count() -> None:
    sizes = PageSizes(2_000)
    cut = Cut(0, b"", b"x" * PAGE_BYTES)
    sizes.note([Sealed(1, 0, "a", "b", 0, b"null", (cut,), b"")])
    assert sizes.events == 1


def test_an_empty_page_and_a_low_bound_are_no_problem() -> None:
    sizes = PageSizes(5)
    assert sizes.events == 5
    sizes.note([])
    assert sizes.events == 1
