"""Commands of clients in the tables of a log: each is a row, which the owner of its session carries out.

    waiting (seq 0, no answer) -> carried out by event `seq`, marked in the statement that appends the event
                               -> answered, where it needed no event or was refused

A row is known by its session and request id, so a client that got no answer may send its command again. The
result of a command with an event is read from the log, so no crash of the owner can lose it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import MisuseError, SessionEnded
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.postgres.arrays import Texts, texts
from callboard.runtime.log.postgres.link import Row
from callboard.runtime.log.postgres.tables import Tables, is_text
from callboard.runtime.log.protocol import no_session
from callboard.runtime.log.session_rows import HIDDEN

TAKEN: Final = 1_000  # commands that an owner takes at a time

_NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_WAITS: Final = "c.seq = 0 AND c.answer = ''"
_FIELDS: Final = "c.id, c.session, c.request_id, c.body, c.seq, c.answer"
_FIND: Final = f"SELECT {_FIELDS} FROM {{s}}.commands AS c WHERE c.session = %s AND c.request_id = %s"
_ADD: Final = (
    f"INSERT INTO {{s}}.commands(session, request_id, body, at_ms) VALUES (%s, %s, %s, {_NOW}) "
    "ON CONFLICT (session, request_id) DO NOTHING"
)
# The update locks the row, so that its worker does not end the lease without having seen the command.
_SHARE: Final = (
    "INSERT INTO {s}.leases AS had(session, host, request_id, prompt, tags, scopes, since_ms) "
    f"VALUES (%s, %s, '', '', %s, %s, {_NOW}) ON CONFLICT (session) DO UPDATE SET since_ms = had.since_ms"
)
_OF_WORKER: Final = (
    f"SELECT {_FIELDS} FROM {{s}}.commands AS c JOIN {{s}}.leases AS l ON l.session = c.session "
    f"WHERE l.worker = %s AND {_WAITS} ORDER BY c.id LIMIT {TAKEN}"
)
_ANSWER: Final = (
    f"UPDATE {{s}}.commands AS c SET answer = %s FROM {{s}}.leases AS l JOIN {{s}}.workers AS w "
    f"ON w.id = l.worker WHERE c.id = %s AND {_WAITS} AND l.session = c.session AND l.worker = %s "
    f"AND w.ends_ms > {_NOW}"
)


class CommandRow(NamedTuple):
    """A command. body: as JSON. seq: of the event that carried it out, 0 for none. answer: JSON, or empty."""

    number: int
    session: str
    request_id: str
    body: str
    seq: int
    answer: str

    @property
    def is_waiting(self) -> bool:
        """Return True until the command is carried out or answered."""
        return not (self.seq or self.answer)


class CommandTables:
    """The table `commands`, on one connection. Every method needs a transaction."""

    def __init__(self, tables: Tables, cipher: Cipher | None) -> None:
        self._tables = tables
        self._cipher = cipher

    def add(
        self, session: str, request_id: str, body: str, host: str = "", tags: Sequence[str] = ()
    ) -> CommandRow:
        """Add a command, unless it is there. Return its row.

        host: the agent that opens a new session; empty for a session that exists. tags: of a new session.

        Raises MisuseError if the id is that of another command, SessionNotFound, SessionEnded.
        """
        found = self.find(session, request_id)
        if found is None:
            self._share(session, host, tags)
            self._run(_ADD, (session, request_id, self._kept(session, body)))
            found = self.find(session, request_id)
            assert found is not None
        if found.body != body:
            raise MisuseError(
                f"request id {request_id!r:.100} of session {session!r:.100} is that of another command; "
                "choose a new id"
            )
        return found

    def _share(self, session: str, host: str, tags: Sequence[str]) -> None:
        """Put a session among those that workers share, if it is not there."""
        if not is_text(session):
            raise no_session(session)
        rows = self._run(
            "SELECT host, status FROM {s}.sessions WHERE session_id = %s AND status <> %s", (session, HIDDEN)
        )
        if rows and rows[0][1] == "closed":
            raise SessionEnded(
                f"session {session} is closed; read it with `callboard show {session}`, or continue it with "
                "`await runtime.reopen(...)`"
            )
        shared = self._run("SELECT host FROM {s}.leases WHERE session = %s", (session,))
        name = rows[0][0] if rows and rows[0][0] else shared[0][0] if shared else host
        if not name:
            raise no_session(session)
        self._run(_SHARE, (session, name, *self.stored_tags(session, tags)))

    def stored_tags(self, session: str, tags: Sequence[str]) -> tuple[str, Texts]:
        """Return tags as JSON, and as scopes, in the form in which the log has them."""
        stored = self._tables.stored_tag
        scopes = [
            f"{stored(tag[: at + 1] + '*')}={stored(tag)}"
            for tag in tags
            for at, character in enumerate(tag)
            if character == ":"
        ]
        kept = msgspec.json.encode(tags).decode() if tags else ""
        return self._kept(session, kept), texts(scopes)

    def find(self, session: str, request_id: str) -> CommandRow | None:
        """Return a command, or None for an unknown id."""
        rows = self._run(_FIND, (session, request_id)) if is_text(session) else []
        return self._row(rows[0]) if rows else None

    def waiting(self, worker: int) -> list[CommandRow]:
        """Return the commands that wait for the sessions of a worker, the oldest first."""
        return [self._row(row) for row in self._run(_OF_WORKER, (worker,))]

    def waited_for(self, sessions: Sequence[str]) -> set[str]:
        """Return those sessions for which a command waits."""
        query = f"SELECT DISTINCT c.session FROM {{s}}.commands AS c WHERE c.session = ANY(%s) AND {_WAITS}"
        return {session for (session,) in self._run(query, (texts(sessions),))}

    def answer(self, worker: int, command: CommandRow, answer: str) -> None:
        """Answer a command that no event carries out, if this worker still has its session."""
        self._run(_ANSWER, (self._kept(command.session, answer), command.number, worker))

    def refuse_all(self, worker: int, session: str, answer: str) -> None:
        """Answer all commands that wait for a session of this worker."""
        for row in self.waiting(worker):
            if row.session == session:
                self.answer(worker, row, answer)

    def _row(self, row: Row) -> CommandRow:
        number, session, request_id, body, seq, answer = row
        return CommandRow(
            number, session, request_id, self.shown(session, body), seq, self.shown(session, answer)
        )

    def _kept(self, session: str, text: str) -> str:
        return self._tables.stored_text("details", session, text)

    def shown(self, session: str, kept: str) -> str:
        """Return a text as it was before the log took it."""
        if self._cipher is None or not kept:
            return kept
        return self._cipher.open(("details", session), bytes.fromhex(kept)).decode()

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        return self._tables.rows(statement, values)
