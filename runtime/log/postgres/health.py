"""The parts of a server's settings on which "no effect twice" depends, and its replicas.

An event that the server has acknowledged must not be lost. It is lost with the machine if the server
acknowledges before its disk has it (`synchronous_commit`, `fsync`), and in a failover if the new primary was
behind (no synchronous replica). The settings are read as callboard's own connections have them, because a
role, a database or PGOPTIONS may change them.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from callboard.runtime.log.postgres.address import Address
from callboard.runtime.log.postgres.link import Row

Rows = Callable[[str], Sequence[Row]]
"""Runs a statement without parameters, and returns its rows."""

_DURABLE: Final = ("on", "remote_apply")
_SETTINGS: Final = (
    "SELECT current_setting('synchronous_commit'), current_setting('fsync'), "
    "current_setting('full_page_writes'), current_setting('synchronous_standby_names')"
)
# A base backup under way is listed beside the replicas. Without the right to read them, states are NULL.
_REPLICAS: Final = (
    "SELECT application_name, coalesce(sync_state, ''), "
    "pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint, "
    "(extract(epoch FROM replay_lag) * 1000)::bigint "
    "FROM pg_stat_replication WHERE coalesce(state, '') <> 'backup' ORDER BY 1, pid"
)


class Replica(NamedTuple):
    """A replica of the server. behind_bytes, behind_ms: its lag in replaying; None if not known.

    mode: `sync`, `quorum`, `potential` or `async`; empty if the role may not see it.
    """

    name: str
    mode: str
    behind_bytes: int | None
    behind_ms: int | None


class Health(NamedTuple):
    """The settings of a server that decide whether acknowledged events are kept.

    has_failover: the address names several servers, or the server has replicas.
    """

    synchronous_commit: str
    fsync: str
    full_page_writes: str
    standbys: str
    replicas: tuple[Replica, ...]
    has_failover: bool

    def warnings(self) -> list[str]:
        """Return a sentence for each setting with which an effect may happen twice."""
        found: list[str] = []
        if self.synchronous_commit not in _DURABLE:
            found.append(
                f"synchronous_commit is {self.synchronous_commit}: the server acknowledges events that a "
                "failure can take back, and then a `write` tool may run twice; set it to on"
            )
        for name, value in (("fsync", self.fsync), ("full_page_writes", self.full_page_writes)):
            if value != "on":
                found.append(f"{name} is {value}: a loss of power can destroy the log; set it to on")
        if self.has_failover and not self.standbys:
            found.append(
                "no replica is synchronous: a failover can lose acknowledged events, and then a `write` tool "
                "may run twice; name the replicas in synchronous_standby_names"
            )
        modes = [one.mode for one in self.replicas]
        if self.standbys and "" not in modes and not {"sync", "quorum"} & set(modes):
            found.append(
                f"no replica of synchronous_standby_names ({self.standbys}) is connected: "
                "each append waits until one is; start it, or name others"
            )
        return found


def health_of(rows: Rows, address: Address) -> Health:
    """Read the settings and replicas of a server. Raises StoreError."""
    ((commit, fsync, full_page_writes, standbys),) = rows(_SETTINGS)
    replicas = tuple(Replica(*row) for row in rows(_REPLICAS))
    names_several = any("," in address.parameters.get(key, "") for key in ("host", "hostaddr"))
    return Health(commit, fsync, full_page_writes, standbys, replicas, names_several or bool(replicas))
