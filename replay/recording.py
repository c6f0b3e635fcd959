"""A recorded session, opened to look at. Nothing in here can call a model or run a tool.

recording = Recording.open("callboard.db", session_id)
recording.verify().lines()
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.protocol.codec import UnreadableBody, decode
from callboard.actors.protocol.errors import CorruptLog, Diverged, SessionNotFound, UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import RULES, CallModel, SessionOpened
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.step import ActorState
from callboard.replay.divergence import Divergence
from callboard.replay.tree import Tree
from callboard.replay.verify import Verifier
from callboard.runtime.log.protocol import Head, LogReader, SessionRow, Stored
from callboard.runtime.log.reading import open_reader

_PAGE = 10_000


@dataclass(frozen=True)
class Verification:
    """What verifying found: how much was checked, the head it holds for, and the first divergence."""

    session_id: str
    events: int
    decisions: int
    head: Head
    divergence: Divergence | None

    @property
    def is_ok(self) -> bool:
        """Whether the code does what the log says, to the byte."""
        return self.divergence is None

    def raise_if_diverged(self) -> None:
        """Raises Diverged with the report."""
        if self.divergence is not None:
            raise Diverged("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """The result, for people."""
        if self.divergence is not None:
            return [f"session {self.session_id}", *self.divergence.lines()]
        return [
            f"session {self.session_id}: {self.events} events, {self.decisions} decisions, "
            f"all as recorded; head {self.head.seq}:{self.head.digest.hex()}"
        ]


class Recording:
    """The events of one session, in order, with their digests checked.

    Raises CorruptLog for a log whose digests, order or format are broken, SessionNotFound, StoreError.
    """

    def __init__(self, session_id: str, rows: Sequence[Stored], head: Head) -> None:
        self.session_id = session_id
        self.rows = rows
        self.head = head
        self.events: list[Event] = [_event(session_id, row, place) for place, row in enumerate(rows)]
        _check_rules(session_id, self.events)

    @classmethod
    def open(
        cls,
        log: "str | Path | LogReader",
        session_id: str = "",
        *,
        head: Head | None = None,
        key: bytes | None = None,
    ) -> Self:
        """Read a session of a log file; without an id, the newest.

        head: one that was returned with an outcome; a log that no longer contains it is refused as cut.
        """
        reader = open_reader(log) if isinstance(log, str | Path) else log
        try:
            name = session_id or _newest(reader)
            checked = reader.verify_chain(name, key, head)
            return cls(name, read_rows(reader, name, checked.seq), checked)
        finally:
            if reader is not log:
                reader.close()

    def verify(self) -> Verification:
        """Run every decider again on the recorded inputs and compare what it posts, byte for byte."""
        verifier = Verifier(self.events, [row.body for row in self.rows])
        divergence = verifier.run()
        return Verification(self.session_id, len(self.events), verifier.decisions, self.head, divergence)

    def event(self, seq: int) -> Event:
        """One event. Raises UnknownName."""
        if not 1 <= seq <= len(self.events):
            raise UnknownName(
                f"session {self.session_id} has events 1 to {len(self.events)}; there is no {seq}"
            )
        return self.events[seq - 1]

    def states(self, at: int) -> dict[str, ActorState]:
        """Every actor's state after the events up to seq `at`. Raises UnknownName.

        Where the code diverges from the log, the states are what the code makes of the logged events.
        """
        self.event(at)
        verifier = Verifier(self.events[:at], [row.body for row in self.rows[:at]])
        for event in verifier.events:
            verifier.advance(event)
        return verifier.states

    def state(self, at: int, actor: str) -> ActorState:
        """An actor's state after the events up to seq `at`. Raises UnknownName for one that is not there."""
        states = self.states(at)
        if actor not in states:
            known = ", ".join(sorted(states))
            raise UnknownName(f"at event {at} there is no actor {actor!r}; there are: {known}")
        return states[actor]

    def request(self, seq: int) -> ModelRequest:
        """The exact request of the model call that was granted at `seq`. Raises UnknownName."""
        grant = self.event(seq).body
        if not isinstance(grant, CallModel):
            grants = [str(event.seq) for event in self.events if isinstance(event.body, CallModel)][:20]
            raise UnknownName(
                f"event {seq} is no CallModel; the first of them: {', '.join(grants) or 'none'}"
            )
        state = self.state(seq, grant.agent)
        if not isinstance(state, AgentState):
            raise UnknownName(f"{grant.agent} is no agent")
        return request_of(state)

    def tree(self) -> Tree:
        """The delegations, with each agent's turns, tokens, cost and end."""
        tree = Tree()
        for event in self.events:
            tree.add(event)
        return tree


def sessions(log: "str | Path") -> list[SessionRow]:
    """The sessions of a log file, newest first. Raises StoreError."""
    reader = open_reader(log)
    try:
        return reader.sessions()
    finally:
        reader.close()


def read_rows(reader: LogReader, session_id: str, upto: int) -> list[Stored]:
    """All rows of a session up to a seq, page by page: no read transaction is held in between."""
    rows: list[Stored] = []
    while len(rows) < upto:
        page = reader.events(session_id, len(rows) + 1, min(_PAGE, upto - len(rows)))
        if not page:
            break
        rows += page
    return rows


def _newest(reader: LogReader) -> str:
    known = reader.sessions()
    if not known:
        raise SessionNotFound(
            "the log holds no session yet; record one with `callboard run` or `callboard demo`"
        )
    return known[0].session_id


def _event(session_id: str, row: Stored, place: int) -> Event:
    if row.seq != place + 1:
        raise CorruptLog(
            f"session {session_id}: event {place + 1} is missing, {row.seq} follows", session_id, place + 1
        )
    try:
        return Event(row.seq, row.at, row.sender, row.recipient, row.cause, decode(row.body))
    except UnreadableBody as error:
        raise CorruptLog(f"session {session_id}, event {row.seq}: {error}", session_id, row.seq) from None


def _check_rules(session_id: str, events: Sequence[Event]) -> None:
    first = events[0].body if events else None
    if isinstance(first, SessionOpened) and first.rules > RULES:
        raise CorruptLog(
            f"session {session_id} lives by rules {first.rules}, this callboard knows up to {RULES}; "
            "use a newer one",
            session_id,
            1,
        )
