"""A recorded session, opened to look at. Nothing in here can call a model or run a tool.

recording = Recording.open("callboard.db", session_id)
recording.verify().lines()
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Self

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.protocol.addresses import SUPERVISOR, is_decider
from callboard.actors.protocol.codec import canonical
from callboard.actors.protocol.errors import CorruptLog, Diverged, SessionNotFound, UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.core import recorded_failure
from callboard.actors.session.shared_state import SharedState, folded
from callboard.actors.session.step import ActorState
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.budget import BudgetReport, budget_report
from callboard.replay.diagnosis.diagnose import diagnose
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diff import SessionDiff, diff
from callboard.replay.divergence import Divergence
from callboard.replay.exports.writing import Job, export
from callboard.replay.grouping import Span, spans
from callboard.replay.reading import Rows, Source
from callboard.replay.search import Match, Query, search
from callboard.replay.state_changes import Change, changes, value_at
from callboard.replay.states import Folds, Output, States
from callboard.replay.steps import Steps
from callboard.replay.verify import Page, Verifier
from callboard.replay.why import Why, why
from callboard.runtime.log.protocol import Head, LogReader, Stored
from callboard.runtime.log.reading import open_reader
from callboard.runtime.log.session_rows import SessionRow
from callboard.runtime.log.tree import Tree

_FAILED = b'{"type":"DeciderFailed"'
_NAMED = 12


@dataclass(frozen=True)
class Verification:
    """The result of a verification: how much was checked, the head it holds for, the first divergence."""

    session_id: str
    events: int
    decisions: int
    head: Head
    divergence: Divergence | None

    @property
    def is_ok(self) -> bool:
        """Return whether the code does what the log says, to the byte."""
        return self.divergence is None

    def raise_if_diverged(self) -> None:
        """Raise Diverged with the report, if there is a divergence."""
        if self.divergence is not None:
            raise Diverged("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        if self.divergence is not None:
            return [f"session {self.session_id}", *self.divergence.lines()]
        return [
            f"session {self.session_id}: {self.events} events, {self.decisions} decisions, "
            f"all as recorded; head {self.head.seq}:{self.head.digest.hex()}"
        ]


class Recording(AbstractContextManager["Recording"]):
    """One session of a log, up to the head that it had when it was opened.

    rows, events: sequences that read the log when they are used. Reading them from the start checks the
    digests on the way; reading one in the middle does not. Nothing is held in memory.

    Methods raise CorruptLog for a log whose digests, order or format are broken, StoreError if it cannot be
    read, and Diverged where a decider raises now and did not when it was recorded.
    """

    def __init__(self, source: Source) -> None:
        self.session_id = source.session_id
        self.head = source.head
        self.rows: Rows[Stored] = Rows(source, lambda row: row)
        self.events: Rows[Event] = Rows(source, source.event)
        self._source = source
        self._states = States(self._history, source.head.seq)

    @classmethod
    def open(
        cls,
        log: "str | Path | LogReader",
        session_id: str = "",
        *,
        head: Head | None = None,
        key: bytes | None = None,
        encryption_key: bytes | None = None,
    ) -> Self:
        """Open a session of a log; without an id, the newest. Reads its head and nothing else.

        log: a file, which is closed with the recording, or a reader, which stays open. head: one that was
        returned with an outcome; a log that no longer contains it is refused as cut. key: the digest key.
        encryption_key: of an encrypted file. Raises SessionNotFound, CorruptLog, StoreError.
        """
        is_file = isinstance(log, str | Path)
        reader = open_reader(log, key, encryption_key) if isinstance(log, str | Path) else log
        try:
            name = session_id or _newest(reader)
            end = reader.head(name)
            _check_known(reader, name, end, head)
        except BaseException:
            if is_file:
                reader.close()
            raise
        return cls(Source(reader, name, end, known=head, key=key, is_owner=is_file))

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if this recording opened it. Safe to call twice; forgetting to is safe too."""
        self._source.close()

    # --- the whole session --------------------------------------------------------

    def check(self) -> Head:
        """Check the digest of every event and return the head. Raises CorruptLog at the first bad one."""
        self._source.check()
        return self.head

    def verify(self) -> Verification:
        """Check every digest, and compare the posts of every decider with the recorded ones."""
        verifier = Verifier(self.events, self._pages())
        divergence = verifier.run()
        if divergence is not None:
            self.check()  # a corrupt log is reported before any divergence
        return Verification(self.session_id, self.head.seq, verifier.decisions, self.head, divergence)

    def _pages(self) -> Iterator[Page]:
        for page in self._source.sealed_pages():
            rows = [row.whole() if row.cuts else row for row in page]
            yield [(self._source.event(row), canonical(row.body)) for row in rows]

    def search(self, query: Query) -> Iterator[Match]:
        """Yield the events that hold a text, or a value at a path, in order. Every digest is checked."""
        return search(self.rows.upto(self.head.seq), query)

    def diagnose(self) -> list[Finding]:
        """Return what went wrong: failures, loops, refusals, doubts. Every digest is checked."""
        return diagnose(self.rows.upto(self.head.seq), self._source.event)

    def diff(self, other: "Recording") -> SessionDiff:
        """Compare this session with another one. Every digest of both is checked."""
        return diff(self.rows.upto(self.head.seq), other.rows.upto(other.head.seq))

    def tree(self, at: int | None = None) -> Tree:
        """Return the delegations and their agents' figures, as after event `at`. Raises UnknownName."""
        tree = Tree()
        for event in self.events.upto(self._seq(at)):
            tree.add(event)
        return tree

    def export(self, name: str, out: "str | Path | BinaryIO", *, is_parsed: bool = False) -> None:
        """Write the session in a format of `replay.exports.writing.EXPORTERS`, every digest checked.

        out: a file's path, which is written whole or not at all, or an open binary file. is_parsed: bodies as
        objects instead of text (`jsonl`), so that digests cannot be computed from the file.
        Raises MisuseError for an unknown format, OSError.
        """
        export(name, Job([self._source], is_parsed=is_parsed), out)

    # --- single events and states -------------------------------------------------

    def event(self, seq: int) -> Event:
        """Return one event. Its digest is not checked. Raises UnknownName."""
        return self.events[self._seq(seq) - 1]

    def events_of(self, actor: str, upto: int) -> Iterator[Event]:
        """Yield the events up to `upto` that an actor received or posted. Their digests are not checked."""
        return map(self._source.event, self._source.of_actor(actor, 1, self._seq(upto)))

    def why(self, seq: int, value: str = "") -> Why:
        """Explain an event: the way to it, the events it was made of, the source of a value in it.

        Reads only the events that are needed, so their digests are not checked. Raises UnknownName for a seq
        that is not there, or an event that does not hold the value.
        """
        return why(self, seq, value)

    def steps(self) -> Steps:
        """Return the events with their decisions, their outputs and their recipients' states."""
        return Steps(self.events, self._states)

    def spans(self) -> list[Span]:
        """Return the session as spans: asks, turns, tool calls, approvals, delegations, reports."""
        return spans(self.events)

    def budget(self, at: int | None = None) -> BudgetReport:
        """Return the budgets after event `at`, the events up to it checked. Raises UnknownName."""
        upto = self._seq(at)
        state = self.state(upto, SUPERVISOR)
        assert isinstance(state, SupervisorState)
        return budget_report(self.events.upto(upto), state, upto)

    def states(self, at: int) -> dict[str, ActorState]:
        """Return all states after the events up to seq `at`, which are checked. Raises UnknownName."""
        folds = Folds()
        for event in self.events.upto(self._seq(at)):
            if event.sender in folds:
                folds[event.sender].take(Output(event.cause, recorded_failure((event,))))
            if is_decider(event.recipient):
                folds[event.recipient].take(event)
        return folds.finish(self._states.failure_after(at))

    def state(self, at: int, actor: str) -> ActorState:
        """Return an actor's state after the events up to seq `at`.

        Reads that actor's events only, so their digests are not checked; `check` does that. Where the code
        diverges from the log, it is the state that the code makes of the logged events.
        Raises UnknownName for an actor that is not there.
        """
        at = self._seq(at)
        next(self.events.between(1, 1))  # refuses a session of newer rules, which a state would not show
        state = self._states.state(at, actor) if is_decider(actor) else None
        if state is None:
            named = {row.recipient for row in self.rows.upto(at) if is_decider(row.recipient)}
            known = ", ".join(sorted({SUPERVISOR, *named}))
            raise UnknownName(f"at event {at} there is no actor {actor!r}; there are: {known}")
        return state

    def changes(self, seq: int) -> tuple[Change, ...]:
        """Return the fields of its recipient's state that an event changed; () if the recipient has none.

        Reads that actor's events only, so their digests are not checked. Raises UnknownName.
        """
        actor = self.event(seq).recipient
        if not is_decider(actor):
            return ()
        before = self._states.state(seq - 1, actor) if seq > 1 else None
        return tuple(changes(before, self._states.state(seq, actor)))

    def last_change(self, actor: str, path: str, before: int) -> int:
        """Return the last event before `before` that changed a field of an actor's state, 0 for none.

        path: of the field, such as `phase` or `spent.micro_usd`. Reads that actor's events up to there.
        """
        found, value = 0, None
        for event in self.events_of(actor, max(1, before - 1)):
            if event.recipient == actor and event.seq < before:
                now = value_at(self._states.state(event.seq, actor), path)
                found, value = (event.seq, now) if now != value else (found, value)
        return found

    def shared_state(self, at: int | None = None) -> SharedState:
        """Return the shared state after the events up to `at`, which are checked. Raises UnknownName."""
        return folded(self.events.upto(self._seq(at)))

    def request(self, seq: int) -> ModelRequest:
        """Return the exact request of a model call. Reads its agent's events only, like `state`.

        seq: of the `CallModel`, of the `TurnRequested` that led to it, or of its `ModelReplied`.
        Raises UnknownName.
        """
        grant = self._grant(self.event(seq))
        assert isinstance(grant.body, CallModel)
        state = self.state(grant.seq, grant.body.agent)
        if not isinstance(state, AgentState):
            raise UnknownName(f"{grant.body.agent} is no agent")
        return request_of(state)

    def _grant(self, event: Event) -> Event:
        """Return the model call that an event belongs to."""
        if isinstance(event.body, CallModel):
            return event
        if isinstance(event.body, ModelReplied):
            return self.event(event.cause)
        if isinstance(event.body, TurnRequested):
            return self._grant_of(event)
        grants = (str(one.seq) for one in self.events if isinstance(one.body, CallModel))
        named = ", ".join([*islice(grants, _NAMED)] or ["none"])
        raise UnknownName(f"event {event.seq} is {event.kind}, not CallModel; the first of those: {named}")

    def _grant_of(self, turn: Event) -> Event:
        for later in self.events.between(turn.seq + 1, len(self.events)):
            if isinstance(later.body, CallModel) and later.body.request == turn.seq:
                return later
        raise UnknownName(f"the turn requested at event {turn.seq} was never granted: nothing was asked")

    def _seq(self, at: int | None) -> int:
        last = self.head.seq
        if at is None:
            return last
        if not 1 <= at <= last:
            raise UnknownName(f"session {self.session_id} has events 1 to {last}; there is no {at}")
        return at

    def _history(self, actor: str, first: int, last: int) -> Iterator[Event | Output]:
        for row in self._source.of_actor(actor, first, last):
            if row.sender == actor:
                # Only a failure is decoded: an agent's outputs are as many as the events it received.
                is_failure = row.body.startswith(_FAILED)
                failure = recorded_failure((self._source.event(row),)) if is_failure else ""
                yield Output(row.cause, failure)
            if row.recipient == actor:
                yield self._source.event(row)


def sessions(log: "str | Path") -> list[SessionRow]:
    """Return the sessions of a log file, newest first. Raises StoreError."""
    with open_reader(log) as reader:
        return reader.sessions()


def _newest(reader: LogReader) -> str:
    known = reader.sessions()
    if not known:
        raise SessionNotFound(
            "the log holds no session yet; record one with `callboard run` or `callboard demo`"
        )
    return known[0].session_id


def _check_known(reader: LogReader, session_id: str, end: Head, known: Head | None) -> None:
    """Raise CorruptLog if the log plainly does not hold a head that was acknowledged."""
    if known is None or known.seq == 0:
        return  # of an empty session the head is its origin, which the first check of digests compares
    row = next(iter(reader.events(session_id, known.seq, 1)), None)
    if row is None or (row.seq, row.digest) != known:
        missing = "is missing" if end.seq < known.seq else "is not the one that was acknowledged"
        said = f"session {session_id}, event {known.seq} {missing}: the log was cut or rewritten"
        raise CorruptLog(f"{said}; look for a whole copy of it", session_id, known.seq)
