"""Workers and leases in the tables of a log: who runs which of the sessions that workers share.

    submitted -> waiting (no worker) -> claimed -> finished (its row is gone)
                    ^------------------- the worker's lease has ended, or it gave the session back

All times are of the server's clock. A lease says who should run a session. Its epoch, head and digest, which
each append compares, decide that no other process can append to it.

`tags` are those with which a new session is opened, as JSON; `scopes` has each of them behind every pattern
that names it (`tenant:*=tenant:acme`), by which workers that are fair by tag take them in turn.

A runtime that opens sessions by itself holds them in the same way, as a worker without agents and slots.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import json

from callboard.actors.cluster.claims import LOOKED_AT, LOSSES_MAX, WaitingSession, WorkerState, claims
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.postgres.arrays import int8s, texts
from callboard.runtime.log.postgres.commands import CommandTables
from callboard.runtime.log.postgres.followers import FollowerTables
from callboard.runtime.log.postgres.health import Health, health_of
from callboard.runtime.log.postgres.link import Row
from callboard.runtime.log.postgres.migrating import check_usable, newest
from callboard.runtime.log.postgres.tables import Tables, is_text

FORGET_MS: Final = 3_600_000  # after which a worker without a lease and without sessions is forgotten
WHY_CHARS_MAX: Final = 500
SURVIVED_LEASES: Final = 10

_NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_REGISTER: Final = (
    "INSERT INTO {s}.workers(name, hosts, slots, lease_ms, schema, began_ms, ends_ms) "
    f"VALUES (%s, %s, %s, %s, %s, {_NOW}, {_NOW} + %s) RETURNING id"
)
_RENEW: Final = (
    f"UPDATE {{s}}.workers SET ends_ms = {_NOW} + lease_ms, running = %s, is_draining = %s "
    f"WHERE id = %s AND ends_ms > {_NOW} RETURNING id"
)
_CLAIM: Final = (
    "UPDATE {s}.leases SET losses = losses + (worker IS NOT NULL)::int, worker = %s, "
    f"claimed_ms = {_NOW} WHERE session = ANY(%s)"
)
_SURVIVED: Final = (  # a session that has run for so long does not end its workers
    f"UPDATE {{s}}.leases AS l SET losses = 0 FROM {{s}}.workers AS w WHERE w.id = %s AND l.worker = w.id "
    f"AND l.losses > 0 AND l.claimed_ms < {_NOW} - {SURVIVED_LEASES} * w.lease_ms"
)
_GIVE_BACK_OTHERS: Final = "UPDATE {s}.leases SET worker = NULL WHERE worker = %s AND NOT (session = ANY(%s))"
_LIVE: Final = f"SELECT id, hosts, slots, running, is_draining FROM {{s}}.workers WHERE ends_ms > {_NOW}"
_IS_FREE: Final = f"(l.worker IS NULL OR w.ends_ms <= {_NOW})"
_FREE: Final = (
    "SELECT l.session, l.host, l.since_ms, l.refused_by, l.losses + (l.worker IS NOT NULL)::int, "
    "coalesce(w.ends_ms, 0), l.request_id, l.prompt, l.tags, l.scopes FROM {s}.leases AS l "
    f"LEFT JOIN {{s}}.workers AS w ON w.id = l.worker WHERE {_IS_FREE} "
)
_FITS: Final = (
    " AND l.host = ANY(%s) AND NOT (%s = ANY(l.refused_by)) "
    "AND (%s = 0 OR l.losses + (l.worker IS NOT NULL)::int < %s) "
)
_LOCK: Final = "FOR UPDATE OF l SKIP LOCKED"
_OLDEST: Final = f"{_FREE}{_FITS} ORDER BY l.since_ms, l.session LIMIT %s {_LOCK}"
# The least of those that the pattern names, as in `tag_among`.
_TAG: Final = "coalesce((SELECT min(x) FROM unnest(l.scopes) AS x WHERE starts_with(x, %s)), '')"
# A session that another worker has claimed meanwhile is left out, because its row is checked again once it is
# locked: that is why the conditions stand there twice.
_IN_TURN: Final = (
    f"{_FREE}{_FITS} AND l.session IN (SELECT f.session FROM (SELECT l.session, l.since_ms, "
    f"row_number() OVER (PARTITION BY l.host, {_TAG} ORDER BY l.since_ms, l.session) AS turn "
    f"FROM {{s}}.leases AS l LEFT JOIN {{s}}.workers AS w ON w.id = l.worker WHERE {_IS_FREE}{_FITS}) AS f "
    f"ORDER BY f.turn, f.since_ms, f.session LIMIT %s) {_LOCK}"
)
_RUNNING: Final = (
    f"SELECT {_TAG}, count(*) FROM {{s}}.leases AS l JOIN {{s}}.workers AS w ON w.id = l.worker "
    f"WHERE w.ends_ms > {_NOW} GROUP BY 1"
)
_SUBMIT: Final = (
    "INSERT INTO {s}.leases(session, host, request_id, prompt, tags, scopes, since_ms) "
    f"VALUES (%s, %s, %s, %s, %s, %s, {_NOW}) "
    "ON CONFLICT (session) DO UPDATE SET losses = 0 WHERE leases.losses > 0"
)
_HOLD: Final = (
    "INSERT INTO {s}.leases AS had(session, host, request_id, prompt, since_ms, worker) "
    f"VALUES (%s, %s, '', '', {_NOW}, %s) ON CONFLICT (session) DO UPDATE SET worker = excluded.worker "
    "WHERE had.worker IS NULL OR had.worker = excluded.worker OR %s OR NOT EXISTS "
    f"(SELECT 1 FROM {{s}}.workers AS w WHERE w.id = had.worker AND w.ends_ms > {_NOW}) RETURNING session"
)
_IS_LEFT: Final = (
    "SELECT 1 FROM {s}.leases AS l LEFT JOIN {s}.sessions AS s ON s.session_id = l.session "
    "WHERE l.session = %s AND (s.status = 'unfinished' "
    "OR l.request_id <> '' AND s.status IS DISTINCT FROM 'closed')"  # NULL: no process has opened it yet
)
_OWNERS: Final = (
    "SELECT l.session, w.id, w.name FROM {s}.leases AS l JOIN {s}.workers AS w ON w.id = l.worker "
    f"WHERE l.session = ANY(%s) AND w.ends_ms > {_NOW}"
)
_FINISH: Final = (
    "DELETE FROM {s}.leases AS l USING unnest(%s, %s) AS k(worker, session) "
    "WHERE l.session = k.session AND l.worker = k.worker"
)
_LOCK_ALL: Final = "SELECT 1 FROM {s}.leases WHERE session = ANY(%s) ORDER BY session FOR UPDATE"
_EPOCH: Final = "SELECT epoch FROM {s}.sessions WHERE session_id = %s"
_BACKLOG: Final = (
    f"SELECT count(*), coalesce(max({_NOW} - greatest(l.since_ms, w.ends_ms)), 0) FROM {{s}}.leases AS l "
    f"LEFT JOIN {{s}}.workers AS w ON w.id = l.worker WHERE {_IS_FREE}"
)
_FORGET: Final = (
    f"DELETE FROM {{s}}.workers AS w WHERE ends_ms < {_NOW} - {FORGET_MS} "
    "AND NOT EXISTS (SELECT 1 FROM {s}.leases AS l WHERE l.worker = w.id)"
)
_STATUS: Final = (
    f"SELECT id, name, hosts, slots, running, is_draining, ends_ms - {_NOW}, "
    "(SELECT count(*) FROM {s}.leases AS l WHERE l.worker = w.id) FROM {s}.workers AS w ORDER BY id"
)


class Claim(NamedTuple):
    """A session that a worker has claimed, with the request that it was submitted with."""

    session: str
    host: str
    request_id: str
    prompt: str
    tags: tuple[str, ...] = ()


class WorkerRow(NamedTuple):
    """A worker as the tables have it. left_ms: of its lease, below 0 once it has ended. sessions: it has."""

    state: WorkerState
    name: str
    left_ms: int
    sessions: int


class Backlog(NamedTuple):
    """The sessions that no live worker has. oldest_ms: the longest wait, 0 if none waits.

    A wait begins when the session is submitted, or when the lease of a lost worker ends.
    """

    sessions: int
    oldest_ms: int


class LeaseTables:
    """The tables `workers` and `leases`, on one connection."""

    def __init__(self, tables: Tables, cipher: Cipher | None) -> None:
        self._tables = tables
        self.commands = CommandTables(tables, cipher)
        self.followers = FollowerTables(tables.rows)

    # --- workers ------------------------------------------------------------------

    def register(self, name: str, hosts: Sequence[str], slots: int, lease_ms: int) -> int:
        """Begin a lease for a new worker. Return its number.

        Raises StoreTooNew if the log was changed meanwhile, so that only newer workers can use it.
        """
        link = self._tables.link
        check_usable(link.execute, link.address.schema, repr(link.address))
        self._run(_FORGET)
        rows = self._run(_REGISTER, (name, texts(hosts), slots, lease_ms, newest(), lease_ms))
        return int(rows[0][0])

    def renew(self, worker: int, running: int, *, is_draining: bool) -> bool:
        """Renew a lease. Return False if it has ended: then its sessions may be another worker's."""
        if not self._run(_RENEW, (running, is_draining, worker)):
            return False
        self._run(_SURVIVED, (worker,))
        return True

    def keep_only(self, worker: int, running: Sequence[str]) -> None:
        """Give those sessions of a worker back that it does not run."""
        self._run(_GIVE_BACK_OTHERS, (worker, texts(running)))

    def leave(self, worker: int) -> None:
        """End a lease, and give all its sessions back at once."""
        self._run("UPDATE {s}.leases SET worker = NULL WHERE worker = %s", (worker,))
        self._run("DELETE FROM {s}.workers WHERE id = %s", (worker,))

    # --- sessions -----------------------------------------------------------------

    def submit(self, session: str, host: str, request_id: str, prompt: str, tags: Sequence[str] = ()) -> None:
        """Put a session among those that wait. One that was submitted before stays as it is.

        tags: those with which it is opened.
        """
        kept = self._tables.stored_text("details", session, prompt)
        self._run(_SUBMIT, (session, host, request_id, kept, *self.commands.stored_tags(session, tags)))

    def claim(
        self, worker: int, at_most: int, losses_max: int = LOSSES_MAX, fair_by: str = ""
    ) -> list[Claim]:
        """Claim waiting sessions for a worker, in a transaction. None for one whose lease has ended.

        fair_by: the pattern of the tags that have an equal part; empty for the oldest sessions.
        """
        states = {row[0]: _state(row) for row in self._run(_LIVE)}
        own = states.get(worker)
        if own is None or not own.free:
            return []
        fits = (texts(own.hosts), worker, losses_max, losses_max)
        looked_at, running = min(own.free, at_most) * LOOKED_AT, dict[str, int]()
        start = f"{self._tables.stored_tag(fair_by)}=" if fair_by else ""
        if fair_by:
            running = dict(self._run(_RUNNING, (start,)))
            rows = self._run(_IN_TURN, (*fits, start, *fits, looked_at))
        else:
            rows = self._run(_OLDEST, (*fits, looked_at))
        requests = {row[0]: row[6:9] for row in rows}
        free_of_all = sum(one.free for one in states.values())
        found = [_waiting(row, _tag_among(start, row[9])) for row in rows]
        chosen = claims(found, own, free_of_all, at_most, self.now_ms(), losses_max, running)
        names = [one.session for one in chosen]
        # Counted at once: the next claim comes before the next renewal.
        self._run(_CLAIM, (worker, texts(names)))
        self._run("UPDATE {s}.workers SET running = running + %s WHERE id = %s", (len(names), worker))
        return [self._claim(one, *requests[one.session]) for one in chosen]

    def _claim(self, one: WaitingSession, request_id: str, prompt: str, tags: str) -> Claim:
        opened = [self.commands.shown(one.session, kept) for kept in (prompt, tags)]
        return Claim(one.session, one.host, request_id, opened[0], tuple(json.decode(opened[1] or "[]")))

    def hold(self, worker: int, session: str, host: str, *, steal: bool) -> str:
        """Give a session to a worker that opens it by itself.

        Return the name of the live owner that has it; empty if it is this worker's now. steal: True takes it
        from a live owner, too.
        """
        if self._run(_HOLD, (session, host, worker, steal)):
            return ""
        owner = self.owner(session)
        return owner[1] if owner else self.hold(worker, session, host, steal=steal)

    def let_go(self, worker: int, session: str) -> None:
        """Give a session back that a worker had opened by itself: it waits for another if work is left."""
        if not self._run(
            "SELECT 1 FROM {s}.leases WHERE session = %s AND worker = %s FOR UPDATE", (session, worker)
        ):
            return
        if self.commands.waited_for((session,)) or self._run(_IS_LEFT, (session,)):
            self.give_back(worker, session)
        else:
            self._run("DELETE FROM {s}.leases WHERE session = %s", (session,))

    def give_back(self, worker: int, session: str) -> None:
        """Let a session wait again, if this worker still has it."""
        self._run("UPDATE {s}.leases SET worker = NULL WHERE session = %s AND worker = %s", (session, worker))

    def refuse(self, worker: int, session: str, why: str) -> None:
        """Give a session back that this worker cannot run, so that it does not claim it again."""
        values = (worker, why.replace("\0", "")[:WHY_CHARS_MAX], session, worker)
        self._run(
            "UPDATE {s}.leases SET worker = NULL, refused_by = refused_by || %s::bigint, why = %s "
            "WHERE session = %s AND worker = %s",
            values,
        )

    def finish(self, ended: Sequence[tuple[int, str]]) -> list[bool]:
        """Take sessions out of those that workers share, each if this worker still has it.

        Answer False for a session that a command waits for, and leave it as it is.
        """
        sessions = [session for _, session in ended]
        # Locked first: a client locks the row as well, so its command is there or finds no row.
        self._run(_LOCK_ALL, (texts(sessions),))
        busy = self.commands.waited_for(sessions)
        free = [one for one in ended if one[1] not in busy]
        self._run(_FINISH, (int8s([worker for worker, _ in free]), texts(session for _, session in free)))
        return [session not in busy for session in sessions]

    # --- looking ------------------------------------------------------------------

    def owner(self, session: str) -> tuple[int, str] | None:
        """Return number and name of the worker that has a session under a live lease."""
        return self.owners((session,)).get(session)

    def owners(self, sessions: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Return number and name of the workers that have sessions under a live lease, by the sessions."""
        rows = self._run(_OWNERS, (texts(filter(is_text, sessions)),))
        return {session: (number, name) for session, number, name in rows}

    def epoch(self, session: str) -> int:
        """Return the epoch of a session, 0 without one. An answer under a lower epoch is out of date."""
        rows = self._run(_EPOCH, (session,)) if is_text(session) else []
        return int(rows[0][0]) if rows else 0

    def has(self, session: str) -> bool:
        """Return True for a session that workers share, also one that none has opened yet."""
        return is_text(session) and bool(self._run("SELECT 1 FROM {s}.leases WHERE session = %s", (session,)))

    def workers(self) -> list[WorkerRow]:
        """Return all workers, with those whose lease has ended."""
        return [WorkerRow(_state((row[0], *row[2:6])), row[1], row[6], row[7]) for row in self._run(_STATUS)]

    def waiting(self, limit: int) -> list[tuple[WaitingSession, str]]:
        """Return sessions that no live worker has, the oldest first, each with the last refusal."""
        rows = self._run(
            _FREE.replace("l.request_id, l.prompt, l.tags, l.scopes", "l.why")
            + "ORDER BY l.since_ms, l.session LIMIT %s",
            (limit,),
        )
        return [(_waiting(row), row[6]) for row in rows]

    def now_ms(self) -> int:
        """Return the server's time."""
        ((now,),) = self._run(f"SELECT {_NOW}")
        return int(now)

    def backlog(self) -> Backlog:
        """Return how many sessions wait for a worker, and for how long."""
        ((sessions, oldest_ms),) = self._run(_BACKLOG)
        return Backlog(sessions, oldest_ms)

    def health(self) -> Health:
        """Return the settings of the server on which the promises of the log depend."""
        return health_of(self._run, self._tables.link.address)

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        return self._tables.rows(statement, values)


def _waiting(row: Row, tag: str = "") -> WaitingSession:
    return WaitingSession(row[0], row[1], row[2], tuple(row[3]), row[4], row[5], tag)


def _tag_among(start: str, scopes: Sequence[str]) -> str:
    return min((one for one in scopes if start and one.startswith(start)), default="")


def _state(row: Row) -> WorkerState:
    number, hosts, slots, running, is_draining = row
    return WorkerState(number, tuple(hosts), slots, running, is_draining)
