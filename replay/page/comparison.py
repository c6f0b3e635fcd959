"""Two sessions in one page: the pairs of their events, the first difference, what a fork saved."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from callboard.actors.protocol.events import Event
from callboard.replay.diff import Difference, diff
from callboard.replay.divergence import ABSENT, ABSENT_TEXT
from callboard.replay.lineage import billing
from callboard.replay.reading import Rows, Source, whole
from callboard.runtime.log.protocol import Segment, Stored

_LISTED: Final = 300
_VALUE_CHARS: Final = 2_000


def comparison(left: Source, right: Source) -> dict[str, object]:
    """Compare two sessions for a page. Every digest of both is checked.

    right: the fork, or the later one of two runs. Returns `pairs` as steps from pair to pair, `shared`, the
    number of events that both begin with, and the words and figures of the difference.
    """
    mine, theirs = _rows(left), _rows(right)
    found = diff(mine.upto(left.head.seq), theirs.upto(right.head.seq))
    shared = shared_events(left, right)
    events = map(right.event, theirs.upto(right.head.seq))
    return {
        "session": left.session_id,
        "shared": shared,
        "pairs": _steps(pair for pair in found.paired if min(pair) > shared),
        "differences": [_difference(one) for one in found.differences[:_LISTED]],
        "count": len(found.differences),
        "differing": [list(one.seqs) for one in found.differences],
        "profiles": found.profiles[:_LISTED],
        "totals": found.totals,
        "saved": _saved(events, shared) if shared else None,
    }


def _steps(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return pairs as the steps from each one to the next, in the order of the left session."""
    return [[b[0] - a[0], b[1] - a[1]] for a, b in pairwise([(0, 0), *sorted(pairs)])]


def in_order(one: Source, other: Source) -> tuple[Source, Source]:
    """Return the left and the right session: an origin stands left of its fork, else the first one does."""
    is_origin = len(_segments(other)) < len(_segments(one)) and shared_events(one, other) > 0
    return (other, one) if is_origin else (one, other)


def shared_events(left: Source, right: Source) -> int:
    """Return the number of events that two sessions of one lineage share, 0 for strangers."""
    shared = min(_shared_segments(left, right), left.head.seq, right.head.seq)
    return shared if _digest(left, shared) == _digest(right, shared) else 0


def _shared_segments(left: Source, right: Source) -> int:
    """Return the last event of the segments that have the same ids."""
    shared = 0
    for mine, theirs in zip(_segments(left), _segments(right), strict=False):
        if mine.session_id != theirs.session_id:
            break
        shared = min(mine.last, theirs.last)
        if mine.last != theirs.last:
            break
    return shared


def _digest(source: Source, seq: int) -> bytes:
    """Return the digest of an event. Sessions of two logs may have one id."""
    row = next(iter(source.reader.events(source.session_id, seq, 1)), None)
    return row.digest if row is not None else b""


def _segments(source: Source) -> Sequence[Segment]:
    *shared, own = source.reader.segments(source.session_id)
    return [*shared, own._replace(last=source.head.seq)]


def _rows(source: Source) -> "Rows[Stored]":
    return Rows(source, whole)


def _difference(one: Difference) -> list[object]:
    return [one.kind, one.agent, *one.seqs, one.path, _cut(one.first), _cut(one.second)]


def _cut(value: object) -> object:
    """Return a value of a difference; a long text cut, since the event has all of it."""
    if value is ABSENT:
        return ABSENT_TEXT
    return value[:_VALUE_CHARS] if isinstance(value, str) else value


def _saved(events: Iterable[Event], shared: int) -> dict[str, object]:
    """Return the figures of a fork: of the events that it shares, of answers that it reused, and its own."""
    every = list(events)
    prefix, paid = billing(every[:shared]), billing(every[shared:])
    reused = paid.used.tokens - paid.billed.tokens, paid.used.micro_usd - paid.billed.micro_usd
    return {
        "shared": [prefix.called + prefix.reused, prefix.used.tokens, prefix.used.micro_usd],
        "reused": [paid.reused, *reused],
        "reused_tools": paid.reused_tools,
        "made": [paid.called, paid.billed.tokens, paid.billed.micro_usd],
        "tools": paid.tools,
    }
