"""The capacity of models over all workers, in the tables of a log: the home of their places and tokens.

capacity   model -> the version of its home, and its bucket of tokens
places     model, worker, tag -> the worker's last report, and the places that it may be using; in an
           encrypted log the tag's keyed digest stands for it

Rules
  - The rules are those of `actors/cluster/model_home`. A report reads the home, decides here, and writes by
    one statement that compares the version. So no lock outlives a statement: a worker that is stopped in
    the middle of a report delays no other.
  - A report that others were faster than reads again. After a cut connection the number of the report tells
    whether it has arrived: a second one is given nothing, until the next report.
  - A lease that was renewed since the last report counts as it is now.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from callboard.actors.cluster.model_home import Grant, ModelHome, strictest
from callboard.actors.cluster.shares import Holding, Renewal
from callboard.actors.protocol.errors import StoreLocked
from callboard.actors.session.capacity import Capacity
from callboard.runtime.log.postgres.arrays import int8s, texts
from callboard.runtime.log.postgres.link import Row
from callboard.runtime.log.postgres.tables import Tables

ATTEMPTS_MAX: Final = 20  # of a report while others are faster

_NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
# The version is read before the places: if they change meanwhile, the write finds another version.
_HOME: Final = (
    f"SELECT version, level, at_ms, {_NOW}, "
    "(SELECT w.ends_ms FROM {s}.workers AS w WHERE w.id = %s) FROM {s}.capacity WHERE model = %s"
)
_NEW_HOME: Final = "INSERT INTO {s}.capacity(model) VALUES (%s) ON CONFLICT DO NOTHING"
_PLACES: Final = (
    "SELECT p.worker, p.number, p.share, p.in_flight, p.waiting, "
    "greatest(p.ends_ms, coalesce(w.ends_ms, 0)), p.sessions, p.lacks, p.tag, p.held, p.used, p.at_ms, "
    "p.tag_used, p.calls, p.tokens_per_minute, p.timeout_ms "
    "FROM {s}.places AS p LEFT JOIN {s}.workers AS w ON w.id = p.worker WHERE p.model = %s"
)
_NUMBERS: Final = (
    "worker, number, share, in_flight, waiting, ends_ms, sessions, lacks, held, used, at_ms, tag_used"
)
_KNOWN: Final = "calls, tokens_per_minute, timeout_ms"
_WRITE: Final = f"""WITH moved AS (
    UPDATE {{s}}.capacity SET version = version + 1, level = %s, at_ms = %s
    WHERE model = %s AND version = %s RETURNING model),
gone AS (
    DELETE FROM {{s}}.places AS p USING moved, unnest(%s, %s) AS g(worker, tag)
    WHERE p.model = moved.model AND p.worker = g.worker AND p.tag = g.tag),
put AS (
    INSERT INTO {{s}}.places(model, tag, {_NUMBERS}, {_KNOWN})
    SELECT moved.model, w.*, %s, %s, %s FROM moved, unnest({", ".join(["%s"] * 13)}) AS w
    ON CONFLICT (model, worker, tag) DO UPDATE SET ({_NUMBERS}, {_KNOWN}) = ROW(
    {", ".join(f"excluded.{name.strip()}" for name in f"{_NUMBERS},{_KNOWN}".split(","))}))
SELECT model FROM moved"""
_LEAVE: Final = "DELETE FROM {s}.places WHERE model = %s AND worker = %s AND tag = ANY(%s)"
_STATUS: Final = (
    "SELECT p.model, p.worker, coalesce(w.name, ''), p.held, p.in_flight, p.waiting, p.calls, "
    f"greatest(p.ends_ms, coalesce(w.ends_ms, 0)) - {_NOW}, p.timeout_ms, p.tag FROM {{s}}.places AS p "
    "LEFT JOIN {s}.workers AS w ON w.id = p.worker ORDER BY p.model, p.tag, p.worker"
)


class PlacesRow(NamedTuple):
    """The places of a worker. left_ms: of its lease; once that is over, they are free after timeout_ms more.

    limit: the calls that the worker knows as the limit of the model; None for no limit. tag: for which it has
    them, as the log has it.
    """

    model: str
    worker: int
    name: str
    held: int
    in_flight: int
    waiting: int
    limit: int | None
    left_ms: int
    timeout_ms: int
    tag: str = ""


class Report(NamedTuple):
    """A worker's report for a tag. unused: tokens that it gives back."""

    renewal: Renewal
    unused: int = 0


class PlaceTables:
    """The tables `capacity` and `places`, on one connection, outside any transaction."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def report(self, model: str, reports: Sequence[Report], limits: Capacity, timeout_ms: int) -> list[Grant]:
        """Take a worker's reports, each as `ModelHome.report` does.

        timeout_ms: the longest time of its calls.

        Raises StoreLocked while others are faster each time.
        """
        reports = [one._replace(renewal=self._stored(one.renewal)) for one in reports]
        worker = reports[0].renewal.worker
        for _ in range(ATTEMPTS_MAX):
            rows = self._run(_HOME, (worker, model))
            if not rows:
                self._run(_NEW_HOME, (model,))
                continue
            version, level, at_ms, now, ends_ms = rows[0]
            found = self._run(_PLACES, (model,))
            home = ModelHome(
                strictest([limits, *(Capacity(row[13], row[14]) for row in found)]),
                max([timeout_ms, *(row[15] for row in found)]),
                [_holding(row) for row in found],
                now if at_ms is None else at_ms,
                level,
            )
            before = dict(home.shares.holdings)
            grants = [
                home.report(replace(one.renewal, ends_ms=ends_ms or 0), one.unused, now) for one in reports
            ]
            after = home.shares.holdings
            changed = [one for name, one in after.items() if before.get(name) != one]
            gone = [name for name in before if name not in after]
            if not changed and not gone:
                return grants  # refused
            kept = (home.bucket.level if home.bucket.rate else None, home.bucket.filled_ms, model, version)
            left = int8s([one.worker for one in gone]), texts(one.tag for one in gone)
            known = (limits.calls, limits.tokens_per_minute, timeout_ms)
            if self._run(_WRITE, (*kept, *left, *known, *_columns(changed))):
                return grants
        raise StoreLocked(f"{self._tables.link.address}: the capacity of {model} is in use; try again")

    def _stored(self, renewal: Renewal) -> Renewal:
        return replace(renewal, tag=self._tables.stored_tag(renewal.tag)) if renewal.tag else renewal

    def leave(self, model: str, worker: int, tags: Sequence[str] = ("",)) -> None:
        """Free the places of a worker that has nothing in flight for these tags and starts nothing more."""
        stored = texts(self._tables.stored_tag(tag) if tag else "" for tag in tags)
        self._run(_LEAVE, (model, worker, stored))

    def places(self) -> list[PlacesRow]:
        """Return the places of all workers, also of those whose lease has ended."""
        return [PlacesRow(*row) for row in self._run(_STATUS)]

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        return self._tables.rows(statement, values)


def _holding(row: Row) -> Holding:
    return Holding(Renewal(*row[:9]), *row[9:13])


def _columns(changed: Sequence[Holding]) -> list[object]:
    rows = [(*_reported(one.last), one.held, one.used, one.at_ms, one.tag_used) for one in changed]
    numbers = [int8s(column) for column in zip(*rows, strict=True)] if rows else [int8s([])] * 12
    return [texts(one.last.tag for one in changed), *numbers]


def _reported(last: Renewal) -> tuple[int, ...]:
    who = (last.worker, last.number, last.share, last.in_flight, last.waiting)
    return (*who, last.ends_ms, last.sessions, last.lacks)
