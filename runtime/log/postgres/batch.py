"""A batch: its plan, and the one statement that writes it.

The statement moves the heads of those sessions that are where their writer believes: same epoch, same head,
and the same digest of its last event. It inserts events, large values, usage and spending of these sessions,
marks the commands that their events carry out, and returns the numbers of the sessions. The others are
refused and have changed nothing. The digest is compared because a server that was set back may give an epoch
twice.

It is one statement outside a transaction, so that a client that is stopped in between holds no row.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from itertools import chain, repeat
from typing import Any, Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.usage import ZERO, Usage, plus
from callboard.actors.session.budget_keys import SpendingChange
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import UNWRITABLE, HashChain, Sealing
from callboard.runtime.log.large_values import Cut
from callboard.runtime.log.postgres.arrays import byteas, int8s, texts
from callboard.runtime.log.postgres.spending import SpendingTables, usage_columns, usage_rows
from callboard.runtime.log.protocol import Append, Carried, Head, refusal
from callboard.runtime.log.session_rows import NO_CHANGE, RowChange, change_of, details_of, title_of
from callboard.runtime.log.spending import NetChanges, Place, summed

StoredText = Callable[[str, str, str], str]
"""The place ("title" or "details"), the session and a text -> the text as the log has it."""

_FIGURES: Final = Usage.__struct_fields__
_MOVED: Final = """WITH moved AS (
UPDATE {s}.sessions AS s SET head = m.head, digest = m.digest,
    last_ms = CASE WHEN m.head = m.expected THEN s.last_ms ELSE m.last_ms END%(changes)s
FROM unnest(%%s, %%s, %%s, %%s, %%s, %%s, %%s%(more)s)
    AS m(id, epoch, expected, previous, head, digest, last_ms%(names)s)
WHERE s.id = m.id AND s.epoch = m.epoch AND s.head = m.expected AND s.digest = m.previous
    AND s.status <> 'hidden'
RETURNING s.id), """
_CHANGES: Final = """,
    kind = CASE WHEN m.kind = '' THEN s.kind ELSE m.kind END,
    host = CASE WHEN m.host = '' THEN s.host ELSE m.host END,
    failures = m.failures + CASE WHEN m.is_asked = 1 THEN 0 ELSE s.failures END,
    title = CASE WHEN s.title = '' AND s.kind = '' AND s.status = 'open' THEN m.title ELSE s.title END,
    details = CASE WHEN m.details = '' THEN s.details ELSE m.details END,
    status = CASE WHEN m.status = '' THEN s.status ELSE m.status END"""
_CHANGED: Final = ", status, kind, host, title, details, failures, is_asked"
_EVENTS: Final = """added AS (
INSERT INTO {s}.events(session, seq, at, cause, sender, recipient, digest, body, cuts)
SELECT e.session, e.seq, e.at, e.cause, e.sender, e.recipient, e.digest, e.body, nullif(e.cuts, '')
FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s)
    AS e(session, seq, at, cause, sender, recipient, digest, body, cuts)
JOIN moved ON moved.id = e.session)"""
_BLOBS: Final = """, wanted AS MATERIALIZED (
SELECT u.session, u.digest FROM unnest(%s, %s) AS u(session, digest) JOIN moved ON moved.id = u.session),
kept AS (INSERT INTO {s}.blobs(digest, data) SELECT b.digest, b.data FROM unnest(%s, %s) AS b(digest, data)
WHERE b.digest IN (SELECT digest FROM wanted) ORDER BY b.digest ON CONFLICT (digest) DO NOTHING),
used AS (INSERT INTO {s}.uses(blob, session) SELECT digest, session FROM wanted ON CONFLICT DO NOTHING)"""
_TAGS: Final = """, tagged AS (INSERT INTO {s}.tags(tag, session)
SELECT t.tag, t.session FROM unnest(%s, %s) AS t(session, tag) JOIN moved ON moved.id = t.session
ON CONFLICT DO NOTHING)"""
_USAGE: Final = (
    f", counted AS (INSERT INTO {{s}}.usage AS had(session, day, model, profile, {', '.join(_FIGURES)})\n"
    f"SELECT u.* FROM unnest({', '.join(['%s'] * (4 + len(_FIGURES)))}) "
    f"AS u(session, day, model, profile, {', '.join(_FIGURES)}) JOIN moved ON moved.id = u.session\n"
    "ON CONFLICT (session, day, model, profile) DO UPDATE SET "
    f"{', '.join(f'{name} = had.{name} + excluded.{name}' for name in _FIGURES)})"
)
_SPENT: Final = """, charged AS (INSERT INTO {s}.budgets AS had(scope, period, tokens, micro_usd, name)
SELECT c.scope, c.period, sum(c.tokens)::bigint, sum(c.micro_usd)::bigint, max(c.name)
FROM unnest(%s, %s, %s, %s, %s, %s) AS c(session, scope, period, tokens, micro_usd, name)
JOIN moved ON moved.id = c.session GROUP BY c.scope, c.period ORDER BY c.scope, c.period
ON CONFLICT (scope, period) DO UPDATE
SET tokens = had.tokens + excluded.tokens, micro_usd = had.micro_usd + excluded.micro_usd),
reserved AS (INSERT INTO {s}.reservations(call, session, epoch, held)
SELECT r.call, r.name, r.epoch, r.held FROM unnest(%s, %s, %s, %s, %s) AS r(session, call, name, epoch, held)
JOIN moved ON moved.id = r.session ON CONFLICT (call) DO NOTHING),
spanned AS (INSERT INTO {s}.reserved(call, scope, period, tokens, micro_usd)
SELECT p.call, p.scope, p.period, p.tokens, p.micro_usd
FROM unnest(%s, %s, %s, %s, %s, %s) AS p(session, call, scope, period, tokens, micro_usd)
JOIN moved ON moved.id = p.session ON CONFLICT DO NOTHING),
settled AS (DELETE FROM {s}.reservations AS had USING unnest(%s, %s) AS d(session, call), moved
WHERE had.call = d.call AND moved.id = d.session)"""
_CARRIED: Final = """, carried AS (UPDATE {s}.commands AS had SET seq = c.seq
FROM unnest(%s, %s, %s) AS c(session, command, seq) JOIN moved ON moved.id = c.session
WHERE had.id = c.command AND had.seq = 0 AND had.answer = '')"""
_END: Final = "\nSELECT id FROM moved"


class Known(NamedTuple):
    """A session as this log knows it: its number, epoch and head."""

    number: int
    epoch: int
    head: Head


class Move(msgspec.Struct, eq=False):
    """The part of a batch that belongs to one session."""

    session_id: str
    known: Known
    head: Head
    events: list[Event]
    sealings: list[Sealing]
    change: RowChange = NO_CHANGE
    usage: dict[Place, Usage] = {}
    spending: list[SpendingChange] = []
    carried: list[Carried] = []

    def add(self, part: Append, sealing: Sealing) -> None:
        """Add events behind the others."""
        self.head = sealing.head(self.head)
        self.events += part.events
        self.sealings.append(sealing)
        self.change = change_of(part.events, self.change)
        self.spending += part.spending
        self.carried += part.carried
        for place, usage in summed(part.usage).items():
            self.usage[place] = plus(self.usage.get(place, ZERO), usage)

    def cuts(self) -> Iterable[tuple[Cut, ...]]:
        """Yield the large values of each event."""
        for sealing in self.sealings:
            yield from (sealing.cuts.get(at, ()) for at in range(len(sealing.bodies)))


class Plan:
    """The plan of a batch. answers: one for each part. moves: by the id of the session."""

    def __init__(self, hash_chain: HashChain, cipher: Cipher | None, stored_text: StoredText) -> None:
        self.answers: list[Head | Exception] = []
        self.moves: dict[str, Move] = {}
        self._hash_chain = hash_chain
        self._cipher = cipher
        self._stored_text = stored_text

    def add(self, part: Append, known: Known) -> None:
        """Seal the events of one session, and note its answer."""
        move = self.moves.get(part.session_id) or Move(part.session_id, known, known.head, [], [])
        if refused := refusal(part, known.epoch, move.head.seq):
            self.answers.append(refused)
            return
        try:
            sealing = self._hash_chain.seal_all(part.session_id, move.head.digest, part.events)
        except UNWRITABLE as error:  # of one session only: the others of the batch go on
            said = f"session {part.session_id}: an event cannot be written: {error}"
            self.answers.append(StoreFailed(said))
            return
        move.add(part, sealing)
        self.moves[part.session_id] = move
        self.answers.append(move.head)

    def statement(
        self, moves: Iterable[Move], sent: Collection[bytes], spending: SpendingTables
    ) -> tuple[str, list[Any]]:
        """Return the statement for some sessions, and its values. sent: large values that the log has."""
        ordered = sorted(moves, key=lambda move: move.known.number)  # rows are locked in this order
        is_changed = any(move.change is not NO_CHANGE for move in ordered)
        parts = [
            self._blobs(ordered, sent),
            self._tags(ordered),
            _usage(ordered),
            _spending(ordered, spending),
            _carried(ordered),
        ]
        text = statement_of(is_changed, *map(bool, parts))
        values = [*self._moved(ordered, is_changed=is_changed), *self._events(ordered)]
        return text, [*values, *chain.from_iterable(parts)]

    def _moved(self, moves: Sequence[Move], *, is_changed: bool) -> list[Any]:
        known = [move.known for move in moves]
        values: list[Any] = [
            int8s([one.number for one in known]),
            int8s([one.epoch for one in known]),
            int8s([one.head.seq for one in known]),
            byteas([one.head.digest for one in known]),
            int8s([move.head.seq for move in moves]),
            byteas([move.head.digest for move in moves]),
            int8s([move.events[-1].at if move.events else 0 for move in moves]),
        ]
        if not is_changed:
            return values
        changes = [move.change for move in moves]
        values += [texts(getattr(one, name) for one in changes) for name in ("status", "kind", "host")]
        values += [texts(map(self._title, moves)), texts(map(self._details, moves))]
        return [
            *values,
            int8s([one.failures for one in changes]),
            int8s([int(one.is_asked) for one in changes]),
        ]

    def _title(self, move: Move) -> str:
        asked = move.change.asked
        return "" if asked is None else self._stored_text("title", move.session_id, title_of(asked.prompt))

    def _details(self, move: Move) -> str:
        if move.change.opened is None:
            return ""
        text = msgspec.json.encode(details_of(move.change.opened)).decode()
        return self._stored_text("details", move.session_id, text)

    def _events(self, moves: Sequence[Move]) -> list[Any]:
        events = [event for move in moves for event in move.events]
        numbers = [repeat(move.known.number, len(move.events)) for move in moves]
        bodies = [body for move in moves for body in self._bodies(move)]
        digests = [digest for move in moves for one in move.sealings for digest in one.digests]
        return [
            int8s([*chain.from_iterable(numbers)]),
            int8s([event.seq for event in events]),
            int8s([event.at for event in events]),
            int8s([event.cause for event in events]),
            texts([event.sender for event in events]),
            texts([event.recipient for event in events]),
            byteas(digests),
            byteas(bodies),
            texts([_places(cuts) if cuts else "" for move in moves for cuts in move.cuts()]),
        ]

    def _bodies(self, move: Move) -> list[bytes]:
        bodies = [body for one in move.sealings for body in one.bodies]
        if self._cipher is None:
            return bodies
        seal, name = self._cipher.seal, move.session_id
        return [
            seal(("event", name, event.seq), body) for event, body in zip(move.events, bodies, strict=True)
        ]

    def _blobs(self, moves: Sequence[Move], sent: Collection[bytes]) -> list[Any]:
        found: dict[bytes, bytes] = {}
        uses: dict[tuple[int, bytes], None] = {}
        for move in moves:
            if not any(one.cuts for one in move.sealings):
                continue
            for cut in chain.from_iterable(move.cuts()):
                uses[move.known.number, cut.digest] = None
                found[cut.digest] = cut.data
        if not uses:
            return []
        new = {digest: data for digest, data in found.items() if digest not in sent}
        if self._cipher is not None:
            new = {digest: self._cipher.seal(("blob", digest), data) for digest, data in new.items()}
        names = byteas([digest for _, digest in uses])
        return [int8s([number for number, _ in uses]), names, byteas([*new]), byteas([*new.values()])]

    def _tags(self, moves: Sequence[Move]) -> list[Any]:
        pairs = [
            (move.known.number, tag if self._cipher is None else self._cipher.tag(tag))
            for move in moves
            if move.change.opened is not None
            for tag in move.change.opened.tags
        ]
        return [int8s([number for number, _ in pairs]), texts(tag for _, tag in pairs)] if pairs else []


def _usage(moves: Sequence[Move]) -> list[Any]:
    usage = {move.known.number: move.usage for move in moves if move.usage}
    return usage_columns(usage_rows(usage)) if usage else []


def _spending(moves: Sequence[Move], spending: SpendingTables) -> list[Any]:
    nets = [
        (move.known.number, NetChanges(move.spending, is_reserved=True)) for move in moves if move.spending
    ]
    return spending.columns(nets) if nets else []


def _carried(moves: Sequence[Move]) -> list[Any]:
    marks = [(move.known.number, one) for move in moves for one in move.carried]
    if not marks:
        return []
    commands, seqs = [one.command for _, one in marks], [one.seq for _, one in marks]
    return [int8s([number for number, _ in marks]), int8s(commands), int8s(seqs)]


def _places(cuts: tuple[Cut, ...]) -> str:
    return msgspec.json.encode([(cut.offset, cut.digest.hex()) for cut in cuts]).decode()


@cache
def statement_of(
    is_changed: bool, blobs: bool, tags: bool, usage: bool, spent: bool, carried: bool = False
) -> str:
    """Return the text of the statement with these parts."""
    more = {"changes": _CHANGES, "more": ", %s" * 7, "names": _CHANGED} if is_changed else {}
    moved = _MOVED % (more or {"changes": "", "more": "", "names": ""})
    texts_of_parts = (_BLOBS, _TAGS, _USAGE, _SPENT, _CARRIED)
    chosen = zip((blobs, tags, usage, spent, carried), texts_of_parts, strict=True)
    return moved + _EVENTS + "".join(text for is_in, text in chosen if is_in) + _END
