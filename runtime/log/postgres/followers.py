"""Clients that follow sessions, in the tables of a log, and the notifications that owners send them.

followers   a client process that listens, by a lease that it renews; its channel has a name that only those
            who may read the table know
followed    a session that a follower waits for; `id` stands for it in notifications, which name no session

Rules
  - A notification is a hint. The truth is the log, which followers also ask without one.
  - A follower that listens again, after its connection was cut, is a new one: owners greet it, so that it
    knows since when they have known it.
  - A notification is never sent in the statement of an append, because all transactions that notify commit
    one after the other (https://www.recall.ai/blog/postgres-listen-notify-does-not-scale).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from callboard.runtime.log.postgres.arrays import int8s, texts
from callboard.runtime.log.postgres.link import Row

LEASE_MS: Final = 15_000  # of a follower, renewed each third
QUEUE_USAGE_MAX: Final = 0.1  # of the server's queue of notifications, 8 GB: a healthy one is empty
FORGET_MS: Final = 60_000  # after which a follower that has not renewed is forgotten

EVENTS: Final = 0  # a wish: notifications of events alone
HOST_TEXT: Final = 1  # also the text of the host's replies
ALL_TEXT: Final = 2  # also the text of every agent's replies

_NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_FORGET: Final = f"DELETE FROM {{s}}.followers WHERE ends_ms < {_NOW} - {FORGET_MS}"
_REGISTER: Final = (
    f"INSERT INTO {{s}}.followers(name, ends_ms) VALUES (%s, {_NOW} + {LEASE_MS}) RETURNING id, channel"
)
_RENEW: Final = f"UPDATE {{s}}.followers SET ends_ms = {_NOW} + {LEASE_MS} WHERE id = %s RETURNING id"
_FOLLOW: Final = (
    "INSERT INTO {s}.followed(follower, session, wish) "
    "SELECT %s, w.session, w.wish FROM unnest(%s, %s) AS w(session, wish) RETURNING id, session"
)
_NEWEST: Final = "SELECT coalesce(max(id), 0) FROM {s}.followed"
_OF_OWNER: Final = (
    "SELECT d.id, d.session, d.wish, f.channel FROM {s}.leases AS l "
    "JOIN {s}.followed AS d ON d.session = l.session JOIN {s}.followers AS f ON f.id = d.follower "
    f"WHERE l.worker = %s AND f.ends_ms > {_NOW}"
)
_STATUS: Final = (
    f"SELECT f.name, f.ends_ms - {_NOW}, count(d.id), count(d.id) FILTER (WHERE d.wish > {EVENTS}) "
    "FROM {s}.followers AS f LEFT JOIN {s}.followed AS d ON d.follower = f.id "
    f"WHERE f.ends_ms > {_NOW} GROUP BY f.id ORDER BY f.id"
)
NOTIFY: Final = "SELECT pg_notify(n.channel, n.payload) FROM unnest(%s, %s) AS n(channel, payload)"

Run = Callable[[str, Sequence[object]], list[Row]]
"""Runs a statement, in which `{s}` stands for the schema, and returns its rows."""


class Followed(NamedTuple):
    """A session that a client follows. number: stands for it in notifications. wish: such as `HOST_TEXT`."""

    number: int
    session: str
    wish: int
    channel: str


class FollowerRow(NamedTuple):
    """A client that listens. left_ms: of its lease. sessions: it follows; with_text: with their live text."""

    name: str
    left_ms: int
    sessions: int
    with_text: int


class FollowerTables:
    """The tables `followers` and `followed`, on one connection. run: see `Run`."""

    def __init__(self, run: Run) -> None:
        self._run = run

    # --- by followers ---------------------------------------------------------------

    def register(self, name: str) -> tuple[int, str]:
        """Begin the lease of a new follower. Return its number, and the channel on which it listens."""
        self._run(_FORGET, ())
        ((number, channel),) = self._run(_REGISTER, (name,))
        return int(number), str(channel)

    def renew(self, number: int) -> bool:
        """Renew the lease of a follower. Return False if it was forgotten."""
        return bool(self._run(_RENEW, (number,)))

    def follow(self, number: int, wishes: Mapping[str, int]) -> dict[str, int]:
        """Follow sessions. wishes: by session. Return the number of each in notifications."""
        values = (number, texts(wishes), int8s([*wishes.values()]))
        return {session: row for row, session in self._run(_FOLLOW, values)}

    def unfollow(self, rows: Sequence[int]) -> None:
        """Follow sessions no longer. rows: their numbers in notifications."""
        self._run("DELETE FROM {s}.followed WHERE id = ANY(%s)", (int8s(rows),))

    def leave(self, number: int) -> None:
        """Forget a follower with all that it follows."""
        self._run("DELETE FROM {s}.followers WHERE id = %s", (number,))

    # --- by owners ------------------------------------------------------------------

    def newest(self) -> int:
        """Return the highest number of a followed session, which rises with each new one; 0 for none."""
        ((newest,),) = self._run(_NEWEST, ())
        return int(newest)

    def of_owner(self, owner: int) -> list[Followed]:
        """Return what live followers follow of the sessions that an owner has."""
        return [Followed(*row) for row in self._run(_OF_OWNER, (owner,))]

    def followers(self) -> list[FollowerRow]:
        """Return the followers whose lease has not ended."""
        return [FollowerRow(*row) for row in self._run(_STATUS, ())]

    def queue_usage(self) -> float:
        """Return the part of the server's queue of notifications that is full, from 0 to 1."""
        ((usage,),) = self._run("SELECT pg_notification_queue_usage()", ())
        return float(usage)


def queue_warnings(usage: float) -> list[str]:
    """Return a sentence about a queue of notifications that fills up, if it does."""
    if usage < QUEUE_USAGE_MAX:
        return []
    return [
        f"the server's queue of notifications is {usage:.0%} full, and once it is full nothing can be "
        "notified: a program listens and does not read, or stays in a transaction; the server's log names "
        "its process, which pg_terminate_backend ends"
    ]
