"""`callboard cluster`: workers of a log on a server, waiting sessions, shares of capacity, and settings."""

from typing import Final, NamedTuple

import click

from callboard.actors.cluster.claims import WaitingSession, waits_for
from callboard.cli.options import json_option, log_option
from callboard.cli.output import emit_json, emit_lines, table, talk
from callboard.cli.terminal_escape import safe_line
from callboard.cli.worker_command import leases_of
from callboard.replay.formats import counted, duration
from callboard.runtime import event_loop
from callboard.runtime.log.postgres.followers import FollowerRow, queue_warnings
from callboard.runtime.log.postgres.health import Health, Replica
from callboard.runtime.log.postgres.leases import Backlog, LeaseTables, WorkerRow
from callboard.runtime.log.postgres.places import PlacesRow, PlaceTables

_LISTED: Final = 50
_WORKERS: Final = ("worker", "agents", "sessions", "lease")
_WAITING: Final = ("session", "for", "refusal")
_FOLLOWERS: Final = ("client", "follows", "with text", "lease")
_REPLICAS: Final = ("replica", "mode", "behind_bytes", "behind_ms")


class _Status(NamedTuple):
    """The answers of the server at one moment. waiting: the oldest sessions, each with the last refusal.

    notified: the part of its queue of notifications that is full.
    """

    workers: list[WorkerRow]
    waiting: list[tuple[WaitingSession, str]]
    now_ms: int
    places: list[PlacesRow]
    backlog: Backlog
    health: Health
    followers: list[FollowerRow]
    notified: float

    def warnings(self) -> list[str]:
        """Return a sentence for each thing that the operator should change."""
        return [*self.health.warnings(), *queue_warnings(self.notified)]


@click.command("cluster")
@click.argument("subject", type=click.Choice(["status"]))
@log_option
@json_option
def cluster(subject: str, log: str, as_json: bool) -> None:
    """List workers with their leases, waiting sessions, shares of capacity, replicas and clients.

    Replicas have their lag, and clients the number of sessions that they follow.

    It warns if the server may lose events that it has acknowledged: `synchronous_commit` is not on, or no
    replica is synchronous where a failover is possible. A `write` tool may then run twice. It also warns if
    the server's queue of notifications fills up.

    \b
    Examples:
      callboard cluster status --log postgresql://app@db/agents
      callboard cluster status --json | jq '.waiting[] | .for'
      callboard cluster status --json | jq -e '.warnings == []'
    """
    found: _Status = event_loop.run(_look(log))
    if as_json:
        emit_json(_plain(found))
        return
    if not found.workers:
        talk("no worker is registered; start one with `callboard worker`")
    else:
        emit_lines(table(_safe(_worker_rows(found)), _WORKERS))
    if found.waiting:
        rows = _waiting_rows(found)
        emit_lines(table(_safe([row[:2] for row in rows]), ("session", "waits for")))
        for session, _, why in rows:
            if why:
                talk(f"a worker cannot run {safe_line(session, 80)}: {safe_line(why, 500)}")
        talk(
            f"{counted(found.backlog.sessions, 'session')} without a worker, the oldest since "
            f"{duration(found.backlog.oldest_ms)}"
        )
    if found.places:
        emit_lines(table(_safe([place_row(one) for one in found.places]), SHARES))
    if found.health.replicas:
        emit_lines(
            table(_safe([_replica_row(one) for one in found.health.replicas]), ("replica", "mode", "lag"))
        )
    if found.followers:
        emit_lines(table(_safe(_follower_rows(found)), _FOLLOWERS))
    for warning in found.warnings():
        talk(f"warning: {warning}")


async def _look(log: str) -> _Status:
    def read(tables: LeaseTables) -> _Status:
        waiting = tables.waiting(_LISTED)
        now, health, following = tables.now_ms(), tables.health(), tables.followers
        found = _Status(tables.workers(), waiting, now, [], tables.backlog(), health, [], 0.0)
        return found._replace(followers=following.followers(), notified=following.queue_usage())

    async with leases_of(log) as leases:
        found = await leases.change(read)
        return found._replace(places=await leases.share(PlaceTables.places))


def _plain(found: _Status) -> dict[str, object]:
    """Return the status as JSON has it."""
    return {
        "workers": [dict(zip(_WORKERS, row, strict=True)) for row in _worker_rows(found)],
        "waiting": [dict(zip(_WAITING, row, strict=True)) for row in _waiting_rows(found)],
        "backlog": found.backlog._asdict(),
        "shares": [dict(zip(SHARES, place_row(one), strict=True)) for one in found.places],
        "replicas": [dict(zip(_REPLICAS, one, strict=True)) for one in found.health.replicas],
        "followers": [dict(zip(_FOLLOWERS, row, strict=True)) for row in _follower_rows(found)],
        "warnings": found.warnings(),
    }


def _worker_rows(found: _Status) -> list[tuple[str, ...]]:
    return [
        (
            one.name,
            " ".join(one.state.hosts),
            f"{one.sessions}/{one.state.slots}",
            f"{one.left_ms / 1_000:.1f} s" if one.left_ms > 0 else "ended",
        )
        for one in found.workers
    ]


def _waiting_rows(found: _Status) -> list[tuple[str, ...]]:
    live = [one.state for one in found.workers if one.left_ms > 0]
    return [
        (one.session, waits_for(one, live, found.now_ms) or "its claim", why) for one, why in found.waiting
    ]


def _follower_rows(found: _Status) -> list[tuple[str, ...]]:
    return [
        (one.name, str(one.sessions), str(one.with_text), f"{one.left_ms / 1_000:.1f} s")
        for one in found.followers
    ]


def _replica_row(one: Replica) -> tuple[str, ...]:
    if one.behind_bytes is None:
        return (one.name, one.mode or "not shown", "not shown: GRANT pg_monitor to the role")
    # Without writes there is no delay to measure.
    lag = "" if one.behind_ms is None else f", {duration(one.behind_ms)}"
    return (one.name, one.mode, f"{one.behind_bytes:,} bytes{lag}")


def _safe(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(safe_line(one, 80) for one in row) for row in rows]


SHARES: Final = ("model", "tag", "worker", "places", "in flight", "waiting", "free")


def place_row(one: PlacesRow) -> tuple[str, ...]:
    """Return a worker's places for a tag, its calls, and when the places of a lost worker are free."""
    free_ms = one.left_ms + one.timeout_ms
    free = "" if one.left_ms > 0 else f"in {max(0, free_ms) / 1_000:.1f} s"
    held = "no limit" if one.limit is None else f"{one.held}/{one.limit}"
    return (
        one.model,
        one.tag,
        one.name or f"number {one.worker}",
        held,
        str(one.in_flight),
        str(one.waiting),
        free,
    )
