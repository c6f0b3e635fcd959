"""The rows of a batch, and its large values, in the few values that go over to SQLite.

A value is bound with the interpreter lock held, so a chunk of rows goes over in few values, and SQLite takes
them apart again: all bodies end to end, all digests end to end, and two whole numbers for each row. Reading
a field of a JSON list takes SQLite 1,500 instructions, and a shift and a mask of a number take 100.

    rows      JSON list:  is odd (1 bit) | bytes of the body (27) | place of the body (23) | sender (12)
    numbers   JSON list of 19 digits each:  time after `since` (18) | cause (32) | recipient (12)
    odd       JSON object: time, sender, recipient, cause, cuts and size of rows that do not fit, or have cuts
    first     the id of the first row; `ids`, of 19 digits each, if the others do not follow one by one

Addresses are numbers: those of `_FIXED`, and behind them those of the JSON list `addresses`. Large values go
over before the rows that need them. Values that the file is known to have are not sent again.
"""

import sqlite3
from collections.abc import Container, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, Final, TypeAlias

import msgspec

from callboard.actors.protocol.addresses import (
    APPROVALS,
    BUDGETS,
    CAPACITY,
    CLIENT,
    CLOCK,
    CONTEXT,
    HOST,
    MODEL,
    SCHEMA,
    SUPERVISOR,
    TOOLS,
)
from callboard.actors.protocol.events import Event
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import DIGEST_BYTES, Sealing
from callboard.runtime.log.large_values import Cut
from callboard.runtime.log.sqlite.schema import SEQ_BITS

CHUNK_BYTES: Final = 4 * 2**20  # beyond this a statement gets no further row: SQLite copies them
TEXT: Final = "CAST({} AS TEXT)"
BLOB: Final = "{}"  # SQL for a stored body or large value: readable, or encrypted
ODD_MAX: Final = 64  # odd rows of a chunk: each is looked up in a list

_FIXED: Final = (SUPERVISOR, MODEL, HOST, TOOLS, CLIENT, SCHEMA, CLOCK, APPROVALS, CAPACITY, BUDGETS, CONTEXT)
_ADDRESS_BITS: Final = 12
_PLACE_BITS: Final = 23
_SIZE_BITS: Final = 27
_CAUSE_BITS: Final = 32
_TIME_BITS: Final = 18
_UNIT: Final = 1 << _ADDRESS_BITS
_SIZE_UNIT: Final = 1 << (_ADDRESS_BITS + _PLACE_BITS)
_TIME_UNIT: Final = 1 << (_ADDRESS_BITS + _CAUSE_BITS)
_ODD: Final = 1 << (_ADDRESS_BITS + _PLACE_BITS + _SIZE_BITS)
_EARLIER_MS: Final = 1 << (_TIME_BITS - 1)  # the sessions of a batch may be a little behind its first event
_DIGITS: Final = 10**18  # added to a number, so that all have 19 digits

# In batches of 512 rows with bodies of 180 bytes, a row with a JSON list of eight fields took 0.2 us with the
# interpreter lock and 1.8 us without it, on another core; an INSERT of its own 1.3 us with it (CPython 3.11,
# SQLite 3.40).
Chunk: TypeAlias = dict[str, str | bytes | int | None]
"""The parameters of the statements. Of rows: those above, and `bodies`, `digests`. Of large values: `names`,
their digests end to end; `data`; `pieces`, the place of each in the data or null if it is not sent; `uses`.
"""
CHUNK_FIELDS: Final = (
    *("rows", "numbers", "since", "first", "ids", "addresses", "odd", "bodies", "digests"),
    *("pieces", "data", "names", "uses"),
)


def _in_row(field: int, plain: str) -> str:
    """Return SQL for a field of a row: `plain`, or for an odd row its place in the list of its fields."""
    odd = f"json_extract({{of}}odd, '$.\"' || row.key || '\"[{field}]')"
    return f"CASE WHEN row.value >= {_ODD} THEN {odd} ELSE {plain} END"


def _address(number: str) -> str:
    """Return SQL for the address with a number."""
    fixed = " ".join(f"WHEN {at} THEN '{name}'" for at, name in enumerate(_FIXED))
    other = f"json_extract({{of}}addresses, '$[' || ({number} - {len(_FIXED)}) || ']')"
    return f"CASE {number} {fixed} ELSE {other} END"


_ADDRESSES: Final = (1 << _ADDRESS_BITS) - 1
_BODY: Final = (
    f"substr({{of}}bodies, row.value >> {_ADDRESS_BITS} & {(1 << _PLACE_BITS) - 1}, "
    + _in_row(5, f"row.value >> {_ADDRESS_BITS + _PLACE_BITS}")
    + ")"
)
# The subquery computes `number` once for a row. OFFSET keeps SQLite from folding it into the query.
_INSERT_ROWS: Final = f"""INSERT INTO events
SELECT CASE WHEN {{of}}ids IS NULL THEN {{of}}first + row.key
            ELSE CAST(substr({{of}}ids, row.key * 19 + 1, 19) AS INTEGER) END,
       {_in_row(0, f"{{of}}since + (row.number >> {_ADDRESS_BITS + _CAUSE_BITS})")},
       {_in_row(1, _address(f"(row.value & {_ADDRESSES})"))},
       {_in_row(2, _address(f"(row.number & {_ADDRESSES})"))},
       {_in_row(3, f"row.number >> {_ADDRESS_BITS} & {(1 << _CAUSE_BITS) - 1}")},
       {{body}},
       CASE WHEN {_in_row(4, "NULL")} IS NOT NULL THEN ({{cuts}}) END,
       substr({{of}}digests, row.key * {{size}} + 1, {{size}})
FROM (SELECT key, value, CAST(substr({{of}}numbers, key * 20 + 2, 19) AS INTEGER) - {_DIGITS} AS number
      FROM json_each({{of}}rows) LIMIT -1 OFFSET 0) AS row"""
_CUTS: Final = """SELECT {checked} FROM (
    SELECT json_extract(cut.value, '$[0]') AS offset, blobs.id AS number
    FROM json_each({of}odd, '$."' || row.key || '"[4]') AS cut
    LEFT JOIN blobs ON digest = substr({of}names, json_extract(cut.value, '$[1]') * {size} + 1, {size})
    ORDER BY cut.key)"""
_NUMBERED: Final = "json_group_array(json_array(offset, number))"
_ALL_NUMBERED: Final = f"CASE count(*) WHEN count(number) THEN {_NUMBERED} ELSE RAISE(ABORT, 'lost') END"
_INSERT_PIECES: Final = """INSERT INTO blobs(digest, data)
SELECT substr({of}names, piece.key * {size} + 1, {size}), {data}
FROM json_each({of}pieces) AS piece WHERE piece.type = 'array'
ON CONFLICT(digest) DO NOTHING"""
_INSERT_USES: Final = """INSERT INTO uses
SELECT blobs.id, json_extract(use.value, '$[0]')
FROM json_each({of}uses) AS use
JOIN blobs ON digest = substr({of}names, json_extract(use.value, '$[1]') * {size} + 1, {size})
WHERE true ON CONFLICT DO NOTHING"""
_DATA: Final = "substr({of}data, json_extract(piece.value, '$[0]'), json_extract(piece.value, '$[1]'))"

_NO_PIECES: Final[Chunk] = {"pieces": "[]", "names": b"", "data": b"", "uses": "[]"}

_encode = msgspec.json.Encoder().encode


@cache
def inserts_from(of: str, kind: str) -> tuple[str, str, str]:
    """Return the statements that insert a chunk's large values, their uses, and its rows. of: `:`, `NEW.`."""
    # In a trigger (`NEW.`) a large value that is not in the file is an error.
    cuts = _CUTS.format(of=of, size=DIGEST_BYTES, checked=_ALL_NUMBERED if of == "NEW." else _NUMBERED)
    body, data = kind.format(_BODY.format(of=of)), kind.format(_DATA.format(of=of))
    return (
        _INSERT_PIECES.format(of=of, size=DIGEST_BYTES, data=data),
        _INSERT_USES.format(of=of, size=DIGEST_BYTES),
        _INSERT_ROWS.format(of=of, size=DIGEST_BYTES, body=body, cuts=cuts),
    )


class _Pieces:
    """The large values of a chunk, once each."""

    def __init__(self, known: Container[bytes], cipher: Cipher | None) -> None:
        self.size = 0
        self._known = known
        self._cipher = cipher
        self._numbers: dict[bytes, int] = {}
        self._places: list[tuple[int, int] | None] = []
        self._data: list[bytes] = []
        self._uses: dict[tuple[int, int], None] = {}

    def number(self, session: int, digest: bytes, data: bytes) -> int:
        """Return the number in this chunk of a value that was cut out of the body of a session's row."""
        if digest not in self._numbers:
            self._numbers[digest] = len(self._numbers)
            self._places.append(None if digest in self._known else self._added(digest, data))
        number = self._numbers[digest]
        self._uses[session, number] = None
        return number

    def _added(self, digest: bytes, data: bytes) -> tuple[int, int]:
        kept = data if self._cipher is None else self._cipher.seal(("blob", digest), data)
        self._data.append(kept)
        self.size += len(kept)
        return self.size - len(kept) + 1, len(kept)  # SQLite counts from 1

    def chunk(self) -> Chunk:
        """Return the chunk's parameters for large values."""
        if not self._numbers:
            return _NO_PIECES
        places, names = _encode(self._places).decode(), b"".join(self._numbers)
        uses = _encode(list(self._uses)).decode()
        return {"pieces": places, "names": names, "data": b"".join(self._data), "uses": uses}


class _Codes(dict[str, int]):
    """The numbers of addresses in a chunk: a new one gets the next."""

    def __missing__(self, address: str) -> int:
        self[address] = number = len(self)
        return number


_FIXED_CODES: Final = {name: at for at, name in enumerate(_FIXED)}


class Rows:
    """New rows of `events`. known: digests of large values that the file certainly has. size: in bytes."""

    def __init__(self, kind: str = TEXT, known: Container[bytes] = (), cipher: Cipher | None = None) -> None:
        self.size = 0
        self.names: set[bytes] = set()
        self._known = known
        self._cipher = cipher
        self._insert_pieces, self._insert_uses, self._insert = inserts_from(":", kind)
        self._chunks: list[Chunk] = []
        self._begin()

    def _begin(self) -> None:
        self._rows: list[int] = []
        self._numbers: list[int] = []
        self._since: int | None = None
        self._times: dict[int, int] = {}  # of the events that are added, as their numbers have them
        self._runs: list[tuple[int, int]] = []  # the first id of consecutive ones, and how many they are
        self._codes = _Codes(_FIXED_CODES)
        self._odd: dict[int, tuple[Any, ...]] = {}
        self._bodies: list[bytes] = []
        self._digests: list[bytes] = []
        self._pieces = _Pieces(self._known, self._cipher)
        self._end = 1  # where the next body begins: SQLite counts from 1

    def add(self, base: int, events: Sequence[Event], sealing: Sealing) -> None:
        """Add rows behind all others. base: the part of their ids above the seq."""
        sizes, cuts = [len(body) for body in sealing.bodies], sealing.cuts
        added = sum(sizes) + sum([len(one.data) for found in cuts.values() for one in found])
        is_small = self._end + self._pieces.size + added <= CHUNK_BYTES
        if not is_small or len(cuts) + len(self._odd) >= ODD_MAX or not self._all_fit(events):
            self._add_one_by_one(base, events, sealing)
            return
        start = 0
        for at, found in cuts.items():
            self._add(base, events[start:at], sizes[start:at])
            self._add_odd(base, events[at], sizes[at], found)
            start = at + 1
        self._add(base, events[start:] if start else events, sizes[start:])
        self._bodies += sealing.bodies
        self._digests += sealing.digests

    def _all_fit(self, events: Sequence[Event]) -> bool:
        """Return True if no row of these events is odd, and the chunk has numbers for their addresses."""
        if not events:
            return True
        times = {event.at for event in events}
        causes = [event.cause for event in events]
        since = events[0].at - _EARLIER_MS if self._since is None else self._since
        if not (
            since <= min(times) <= max(times) < since + (1 << _TIME_BITS)
            and 0 <= min(causes) <= max(causes) < 1 << _CAUSE_BITS
            and abs(since) < _DIGITS
            and self._has_numbers_for(events)
        ):
            return False
        self._since = since
        self._times = {at: _DIGITS + (at - since) * _TIME_UNIT for at in times}
        return True

    def _has_numbers_for(self, events: Sequence[Event]) -> bool:
        if (known := len(self._codes)) + 2 * len(events) <= _UNIT:
            return True
        return (
            known + len({event.sender for event in events} | {event.recipient for event in events}) <= _UNIT
        )

    def _add(self, base: int, events: Sequence[Event], sizes: Sequence[int]) -> None:
        """Add rows that are not odd."""
        if not events:
            return
        codes, times = self._codes, self._times  # which `_all_fit` has set
        *places, self._end = accumulate(sizes, initial=self._end)
        self._runs.append((base | events[0].seq, len(sizes)))
        # Products and sums: CPython has faster instructions for them than for shifts.
        self._rows += [
            size * _SIZE_UNIT + place * _UNIT + codes[event.sender]
            for event, place, size in zip(events, places, sizes, strict=True)
        ]
        self._numbers += [times[event.at] + event.cause * _UNIT + codes[event.recipient] for event in events]

    def _add_one_by_one(self, base: int, events: Sequence[Event], sealing: Sealing) -> None:
        """Add rows that have large values, fill more than one chunk, or are odd."""
        sealed, cuts = zip(events, sealing.bodies, sealing.digests, strict=True), sealing.cuts
        for at, (event, body, digest) in enumerate(sealed):
            if at not in cuts and len(body) >> _SIZE_BITS == 0 and self._all_fit((event,)):
                self._add(base, (event,), (len(body),))
            else:
                self._add_odd(base, event, len(body), cuts.get(at, ()))
            self._bodies.append(body)
            self._digests.append(digest)
            if self._end + self._pieces.size > CHUNK_BYTES or len(self._odd) == ODD_MAX:
                self._finish()

    def _add_odd(self, base: int, event: Event, size: int, cuts: Sequence[Cut]) -> None:
        numbered = self._numbered(base >> SEQ_BITS, cuts) if cuts else None
        fields = (event.at, event.sender, event.recipient, event.cause, numbered, size)
        self._odd[len(self._rows)] = fields
        self._runs.append((base | event.seq, 1))
        self._rows.append(_ODD + self._end * _UNIT)
        self._numbers.append(_DIGITS)
        self._end += size

    def _numbered(self, session: int, cuts: Sequence[Cut]) -> list[tuple[int, int]]:
        self.names.update(cut.digest for cut in cuts)
        return [(offset, self._pieces.number(session, digest, data)) for offset, digest, data in cuts]

    def only_chunk(self) -> Chunk | None:
        """Return the chunk if there is exactly one."""
        self._finish()
        return self._chunks[0] if len(self._chunks) == 1 else None

    def insert(self, connection: sqlite3.Connection) -> None:
        """Insert all rows, in as few statements as their size allows."""
        self._finish()
        for chunk in self._chunks:
            if chunk["names"]:
                connection.execute(self._insert_pieces, chunk)
                connection.execute(self._insert_uses, chunk)
            connection.execute(self._insert, chunk)

    def _finish(self) -> None:
        if self._rows:
            self.size += self._end - 1 + self._pieces.size
            self._chunks.append(
                {
                    "rows": _encode(self._rows).decode(),
                    "numbers": _encode(self._numbers),
                    "since": self._since,
                    "first": self._runs[0][0],
                    "ids": self._ids(),
                    "addresses": _encode([*self._codes][len(_FIXED) :]).decode(),
                    "odd": _encode(self._odd).decode() if self._odd else None,
                    "bodies": b"".join(self._bodies),
                    "digests": b"".join(self._digests),
                    **self._pieces.chunk(),
                }
            )
            self._begin()

    def _ids(self) -> bytes | None:
        """Return the ids of all rows, or nothing if each follows the one before."""
        ends = [first + count for first, count in self._runs]
        if ends[:-1] == [first for first, _ in self._runs[1:]]:
            return None
        ids = (one for first, count in self._runs for one in range(first, first + count))
        return b"".join([b"%19d" % one for one in ids])
