"""The capacity of models over all workers, in the tables of a log: the home of their places and tokens.

capacity   model -> the version of its home, and its bucket of tokens
places     model, worker -> the worker's last report, and the places that it may be using

Rules
  - The rules are those of `actors/cluster/model_home`. A report reads the home, decides here, and writes by
    one statement that compares the version. So no lock outlives a statement: a worker that is stopped in
    the middle of a report delays no other.
  - A report that others were faster than reads again. After a cut connection the number of the report tells
    whether it has arrived: a second one is given nothing, until the next report.
  - A lease that was renewed since the last report counts as it is now.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from callboard.actors.cluster.model_home import Grant, ModelHome, strictest
from callboard.actors.cluster.shares import Holding, Renewal
from callboard.actors.protocol.errors import StoreLocked
from callboard.actors.session.capacity import Capacity
from callboard.runtime.log.postgres.arrays import int8s
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
    "greatest(p.ends_ms, coalesce(w.ends_ms, 0)), p.sessions, p.lacks, p.held, p.used, p.at_ms, "
    "p.calls, p.tokens_per_minute, p.timeout_ms "
    "FROM {s}.places AS p LEFT JOIN {s}.workers AS w ON w.id = p.worker WHERE p.model = %s"
)
_COLUMNS: Final = (
    "worker, number, share, in_flight, waiting, ends_ms, sessions, lacks, held, used, at_ms, "
    "calls, tokens_per_minute, timeout_ms"
)
_WRITE: Final = f"""WITH moved AS (
    UPDATE {{s}}.capacity SET version = version + 1, level = %s, at_ms = %s
    WHERE model = %s AND version = %s RETURNING model),
gone AS (
    DELETE FROM {{s}}.places AS p USING moved WHERE p.model = moved.model AND p.worker = ANY(%s))
INSERT INTO {{s}}.places(model, {_COLUMNS})
SELECT model, {", ".join(["%s"] * 14)} FROM moved
ON CONFLICT (model, worker) DO UPDATE SET ({_COLUMNS}) = ROW(
{", ".join(f"excluded.{name.strip()}" for name in _COLUMNS.split(","))}) RETURNING worker"""
_LEAVE: Final = "DELETE FROM {s}.places WHERE model = %s AND worker = %s"
_STATUS: Final = (
    "SELECT p.model, p.worker, coalesce(w.name, ''), p.held, p.in_flight, p.waiting, p.calls, "
    f"greatest(p.ends_ms, coalesce(w.ends_ms, 0)) - {_NOW}, p.timeout_ms FROM {{s}}.places AS p "
    "LEFT JOIN {s}.workers AS w ON w.id = p.worker ORDER BY p.model, p.worker"
)


class PlacesRow(NamedTuple):
    """The places of a worker. left_ms: of its lease; once that is over, they are free after timeout_ms more.

    limit: the calls that the worker knows as the limit of the model; None for no limit.
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


class PlaceTables:
    """The tables `capacity` and `places`, on one connection, outside any transaction."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def report(self, model: str, renewal: Renewal, unused: int, limits: Capacity, timeout_ms: int) -> Grant:
        """Take a worker's report, as `ModelHome.report` does. timeout_ms: the longest time of its calls.

        Raises StoreLocked while others are faster each time.
        """
        for _ in range(ATTEMPTS_MAX):
            rows = self._run(_HOME, (renewal.worker, model))
            if not rows:
                self._run(_NEW_HOME, (model,))
                continue
            version, level, at_ms, now, ends_ms = rows[0]
            found = self._run(_PLACES, (model,))
            home = ModelHome(
                strictest([limits, *(Capacity(row[11], row[12]) for row in found)]),
                max([timeout_ms, *(row[13] for row in found)]),
                [_holding(row) for row in found],
                now if at_ms is None else at_ms,
                level,
            )
            grant = home.report(replace(renewal, ends_ms=ends_ms or 0), unused, now)
            own = home.shares.holdings.get(renewal.worker)
            if own is None or own.last.number != renewal.number:
                return grant  # refused: nothing has changed
            gone = [row[0] for row in found if row[0] not in home.shares.holdings]
            kept = (home.bucket.level if home.bucket.rate else None, home.bucket.filled_ms, model, version)
            known = (limits.calls, limits.tokens_per_minute, timeout_ms)
            if self._run(_WRITE, (*kept, int8s(gone), *_values(own), *known)):
                return grant
        raise StoreLocked(f"{self._tables.link.address}: the capacity of {model} is in use; try again")

    def leave(self, model: str, worker: int) -> None:
        """Free the places of a worker that has nothing in flight and starts nothing more."""
        self._run(_LEAVE, (model, worker))

    def places(self) -> list[PlacesRow]:
        """Return the places of all workers, also of those whose lease has ended."""
        return [PlacesRow(*row) for row in self._run(_STATUS)]

    def _run(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._tables.rows(statement, values)


def _holding(row: Sequence[Any]) -> Holding:
    return Holding(Renewal(*row[:8]), row[8], row[9], row[10])


def _values(one: Holding) -> tuple[int, ...]:
    last = one.last
    report = (last.worker, last.number, last.share, last.in_flight, last.waiting, last.ends_ms)
    return (*report, last.sessions, last.lacks, one.held, one.used, one.at_ms)
