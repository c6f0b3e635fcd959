"""The numbers of a running runtime: its sessions, calls, queue, commits and log."""

from collections import Counter
from typing import Literal

from callboard.actors.protocol.addresses import APPROVALS, MODEL, TOOLS
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.plain_values import PlainValues
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.writer import GroupWriter
from callboard.runtime.sessions.live_sessions import LiveSessions


class CommitStats(PlainValues, frozen=True, kw_only=True, metaclass=NamedFields):
    """The last commits, up to 1,000, in milliseconds from handing a batch to the log to its answer.

    count: the number of commits that the other fields are of; these are 0 if there was none.
    """

    count: int = 0
    mean_ms: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0


class WorkerStats(PlainValues, frozen=True, kw_only=True, metaclass=NamedFields):
    """The worker of a log on a server that runs in this process (docs/operate-cluster.md).

    number: under which it is registered, a new one after each lost lease. sessions: that it has claimed, of
    up to `slots`. lease_left_ms: until others may take its sessions over. lost_leases: since it began.
    """

    name: str
    number: int
    sessions: int
    slots: int
    lease_left_ms: int
    lost_leases: int


class RuntimeStats(PlainValues, frozen=True, kw_only=True, metaclass=NamedFields):
    """A runtime at one moment.

    sessions: the sessions in this process: `running` (an ask runs), `idle`, `failed` (in this process), and
    `asleep` (out of memory since `idle_s`, but held by the program).
    model_calls, tool_calls: calls without an answer. approvals: calls that wait for a person.
    undurable_events: events that wait for the disk; at 8,192 nothing new is started.
    log_bytes: the size of the log in bytes, its WAL included. worker: None if no worker runs here.
    """

    sessions: dict[Literal["running", "idle", "asleep", "failed"], int]
    model_calls: int
    tool_calls: int
    approvals: int
    undurable_events: int
    commits: CommitStats
    log_bytes: int
    worker: WorkerStats | None = None


def stats_of(
    sessions: LiveSessions, writer: GroupWriter, log: EventLog, worker: WorkerStats | None = None
) -> RuntimeStats:
    """Return the numbers of these sessions, and of the log that this writer writes."""
    listed = list(sessions)
    calls: Counter[str] = Counter()
    for session in listed:
        calls.update(session._open_requests())
    states = Counter(session.activity for session in listed)
    return RuntimeStats(
        sessions={
            "running": states["running"],
            "idle": states["idle"],
            "asleep": sessions.asleep(),
            "failed": states["failed"],
        },
        model_calls=calls[MODEL],
        tool_calls=calls[TOOLS],
        approvals=calls[APPROVALS],
        undurable_events=writer.undurable,
        commits=_commits(sorted(writer.commit_times)),
        log_bytes=log.size_bytes(),
        worker=worker,
    )


def _commits(times: list[float]) -> CommitStats:
    """Return the numbers of commits. times: in seconds, ascending."""
    if not times:
        return CommitStats()
    in_ms = [round(1_000 * seconds, 3) for seconds in times]
    return CommitStats(
        count=len(in_ms),
        mean_ms=round(sum(in_ms) / len(in_ms), 3),
        p50_ms=in_ms[len(in_ms) // 2],
        p99_ms=in_ms[len(in_ms) * 99 // 100],
        max_ms=in_ms[-1],
    )
