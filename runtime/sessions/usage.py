"""The usage of sessions: stored with their events, summed up, and filled in where it is missing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Literal, TypeAlias, get_args

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.plain_values import PlainValues
from callboard.actors.protocol.usage import ZERO, Usage, plus
from callboard.actors.session.budget_keys import SpendingChange
from callboard.actors.session.usage_books import UsageBooks
from callboard.runtime.log.protocol import EventLog, event_of
from callboard.runtime.log.session_rows import SessionQuery, SessionRow
from callboard.runtime.log.spending import UsageRow
from callboard.runtime.sessions.board import Board

UsageBy: TypeAlias = Literal["day", "model", "profile", "tag"]
"""A way to sum usage up."""

_PAGE: Final = 2_000


class UsageLine(PlainValues, frozen=True, metaclass=NamedFields):
    """The usage of one day, model, profile or tag. key: its name; empty for sessions without a tag."""

    key: str
    usage: Usage


class UsageReport(PlainValues, frozen=True, metaclass=NamedFields):
    """The usage of sessions. lines: by name. total: of all these sessions.

    overlaps: True if a session may count in several lines, as with its tags: then their sum is no total.
    """

    by: UsageBy
    lines: tuple[UsageLine, ...]
    total: Usage
    overlaps: bool


def keep_usage(board: Board, books: UsageBooks) -> None:
    """Let the charges of a session be stored with the events that settle its calls."""
    stage, taken = board.stage, books.taken

    def stage_all(events: Sequence[Event], spending: Sequence[SpendingChange] = ()) -> None:
        stage(events, spending, taken() if books.charges else ())

    board.stage = stage_all
    for kind, taker in books.takers.items():
        former = board.takers.get(kind)
        board.takers[kind] = taker if former is None else partial(_both, former, taker)


def _both(first: Callable[[Event], None], second: Callable[[Event], None], event: Event) -> None:
    first(event)
    second(event)


def checked_by(by: object) -> UsageBy:
    """Return the way to sum up. Raises MisuseError for another value."""
    for known in get_args(UsageBy):
        if by == known:
            choice: UsageBy = known
            return choice
    raise MisuseError(f"by={by!r:.80}: use one of {', '.join(map(repr, get_args(UsageBy)))}")


def report_of(rows: Iterable[UsageRow], tags: Mapping[str, Sequence[str]], by: UsageBy) -> UsageReport:
    """Sum usage up. tags: of the sessions that count, by id."""
    lines: dict[str, Usage] = {}
    total = ZERO
    for row in rows:
        own = tags.get(row.session_id)
        if own is None:
            continue
        total = plus(total, row.usage)
        for key in (own or ("",)) if by == "tag" else (getattr(row, by),):
            lines[key] = plus(lines.get(key, ZERO), row.usage)
    found = tuple(UsageLine(key, lines[key]) for key in sorted(lines))
    return UsageReport(by, found, total, overlaps=by == "tag")


def tags_of(rows: Iterable[SessionRow], tag: str | None) -> dict[str, tuple[str, ...]]:
    """Return the tags of the sessions that count, by id. tag: only those with this tag; None for all."""
    return {row.session_id: row.tags for row in rows if tag is None or tag in row.tags}


async def fill_usage(log: EventLog) -> int:
    """Fill in the usage of sessions whose events came without, such as imported ones. Return their number.

    Reads the events of sessions that have none. Raises CorruptLog, StoreError.
    """
    filled = 0
    for row in await log.sessions(SessionQuery()):
        if row.usage != ZERO or row.head == row.base:
            continue
        books, start, charges = UsageBooks(is_fork=bool(row.parent)), 1, []
        while page := await log.read(row.session_id, start, _PAGE):
            events = [event_of(row.session_id, one) for one in page]
            books.take(event for event in events if event.seq <= row.base)
            charges += books.take(event for event in events if event.seq > row.base)
            start += len(page)
        if charges:
            await log.set_usage(row.session_id, charges)
            filled += 1
    return filled
