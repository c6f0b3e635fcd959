"""A recorded session, opened to look at. Nothing in here can call a model or run a tool.

recording = Recording.open("callboard.db", session_id)
recording.verify().lines()
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from callboard.actors.protocol.addresses import SUPERVISOR, is_decider
from callboard.actors.protocol.errors import SessionNotFound, UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import CallModel
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.session.port_table import owner_of
from callboard.replay.forks import Lineage, lineage
from callboard.replay.grants import grant_of
from callboard.replay.reading import Rows, Source, check_known, head_at, whole
from callboard.replay.refused_calls import RefusedCall, Suspects
from callboard.replay.search import Match, Query, search_all
from callboard.replay.verify import Verification
from callboard.replay.why import Why, why
from callboard.runtime.log.protocol import Head, LogReader, Stored
from callboard.runtime.log.reading import given_log, open_reader
from callboard.runtime.log.session_rows import SessionRow

if TYPE_CHECKING:
    from callboard.actors.protocol.request import ModelRequest
    from callboard.actors.session.shared_state import SharedState
    from callboard.actors.session.step import ActorState
    from callboard.replay.changed.result import AgentsNow, ChangedReplay
    from callboard.replay.diagnosis.finding import Finding
    from callboard.replay.diff import SessionDiff
    from callboard.replay.grants import BudgetReport, SentRequest
    from callboard.replay.grouping import Span
    from callboard.replay.rights import AgentRights
    from callboard.replay.states import Change, States
    from callboard.replay.steps import Steps
    from callboard.runtime.log.tree import Tree

# Methods import their own parts of replay: a command needs few, and the deciders alone are 60 modules.
_NAMED = 12


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
        self.rows: Rows[Stored] = Rows(source, whole)
        self.events: Rows[Event] = Rows(source, source.events)
        self._source = source

    @classmethod
    def open(
        cls,
        log: "str | Path | LogReader",
        session_id: str = "",
        *,
        upto: int | None = None,
        head: Head | None = None,
        key: bytes | None = None,
        encryption_key: bytes | None = None,
    ) -> Self:
        """Open a session of a log; without an id, the newest. Reads its head and nothing else.

        log: a file, which is closed with the recording, or a reader, which stays open. upto: the last event
        to look at, as if the session had no later ones. head: one that was returned with an outcome; a log
        that no longer contains it is refused as cut. key: the digest key. encryption_key: of an encrypted
        file.
        Raises SessionNotFound, UnknownName, CorruptLog, StoreError.
        """
        is_file = isinstance(log, str | Path)
        reader = open_reader(log, key, encryption_key) if isinstance(log, str | Path) else given_log(log)
        try:
            name = session_id or _newest(reader)
            end = reader.head(name)
            check_known(reader, name, end, head)
            end = end if upto is None else head_at(reader, name, end, upto)
        except BaseException:
            if is_file:
                reader.close()
            raise
        return cls(Source(reader, name, end, known=head, key=key, is_owner=is_file))

    @cached_property
    def _states(self) -> "States":
        from callboard.replay.states import States, history_in

        return States(partial(history_in, self._source), self._source.head.seq)

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
        from callboard.replay.verify import Verifier, long_pages

        verifier = Verifier(self.events, long_pages(self._source))
        divergence = verifier.run()
        if divergence is not None:
            self.check()  # a corrupt log is reported before any divergence
        return Verification(self.session_id, self.head.seq, verifier.decisions, self.head, divergence)

    def search(self, query: Query) -> Iterator[Match]:
        """Yield the events with a text, or a value at a path, then refused calls. Digests are checked."""
        return search_all(self._source, self._refused, query)

    def refused_calls(self) -> list[RefusedCall]:
        """Return the calls that agents refused, which are not events. Every digest is checked."""
        return self._refused(Suspects.among(self._source.sealed_pages()))

    def _refused(self, suspects: Suspects) -> list[RefusedCall]:
        if not suspects.agents:  # nearly always: no decider is imported
            return []
        from callboard.replay.refused_calls import refused_in

        return refused_in(self._source, suspects)

    def diagnose(self) -> "list[Finding]":
        """Return what went wrong: failures, loops, refusals, doubts. Every digest is checked."""
        from callboard.replay.diagnosis.diagnose import diagnose

        return diagnose(self._source, self._refused)

    def diff(self, other: "Recording") -> "SessionDiff":
        """Compare this session with another one. Every digest of both is checked."""
        from callboard.replay.diff import diff

        return diff(self.rows.upto(self.head.seq), other.rows.upto(other.head.seq))

    def against(self, now: "AgentsNow | None" = None) -> "ChangedReplay":
        """Repeat the decisions with changed agents, on the recorded answers. Nothing is called.

        Of each actor the result has the first request and the first decision that differ, in the order of
        the log. A recorded answer is fed on where its request is made again: `replay.changed.following` says
        when it fits. now: the agents of today; None for the recorded ones, by the deciders of today.
        Every digest is checked. Raises CorruptLog, UnknownName for a session without events.
        """
        from callboard.replay.changed.replaying import against

        self._seq(1)
        return against(self.session_id, self.events, self.state, now)

    def lineage(self) -> Lineage:
        """Return the sessions of its log that this one is a fork of, and its own forks."""
        return lineage(self._source.reader.sessions(), self.session_id)

    def tree(self, at: int | None = None) -> "Tree":
        """Return the delegations and their agents' figures, as after event `at`. Raises UnknownName."""
        from callboard.runtime.log.tree import Tree

        tree = Tree()
        for event in self.events.upto(self._seq(at)):
            tree.add(event)
        return tree

    def export(
        self,
        name: str,
        out: "str | Path | BinaryIO",
        *,
        is_parsed: bool = False,
        agent: str = "",
        has_content: bool = False,
    ) -> None:
        """Write the session in a format of `replay.exports.writing.EXPORTERS`, every digest checked.

        out: a file's path, which is written whole or not at all, or an open binary file. is_parsed, agent,
        has_content: as of `Job`. Raises MisuseError for an unknown format, OSError.
        """
        from callboard.replay.exports.writing import Job, export

        export(name, Job([self._source], is_parsed=is_parsed, agent=agent, has_content=has_content), out)

    # --- single events and states -------------------------------------------------

    def event(self, seq: int) -> Event:
        """Return one event. Its digest is not checked. Raises UnknownName."""
        # Rows are read in chunks, but only this one is decoded: `why` goes back over thousands of events.
        return self._source.event(self.rows[self._seq(seq) - 1])

    def events_of(self, actor: str, upto: int) -> Iterator[Event]:
        """Yield the events up to `upto` that an actor received or posted. Their digests are not checked."""
        return map(self._source.event, self._source.of_actor(actor, 1, self._seq(upto)))

    def events_after(self, seq: int) -> Iterator[Event]:
        """Yield the events behind an event. Their digests are not checked."""
        return self.events.between(seq + 1, len(self.events))

    def why(self, seq: int, value: str = "") -> Why:
        """Explain an event: the path to it, the events that contributed to it, the source of a value in it.

        Reads only the events that are needed, so their digests are not checked. Raises UnknownName for a seq
        that is not there, or an event that does not hold the value.
        """
        return why(self, seq, value)

    def steps(self) -> "Steps":
        """Return the events with their decisions, their outputs and their recipients' states."""
        from callboard.replay.steps import Steps

        return Steps(self.events, self._states)

    def spans(self) -> "list[Span]":
        """Return the session as spans: asks, turns, tool calls, refusals, approvals, delegations, reports."""
        from callboard.replay.grouping import spans, with_refusals

        return with_refusals(spans(self.events), self.refused_calls())

    def budget(self, at: int | None = None) -> "BudgetReport":
        """Return the budgets after event `at`, the events up to it checked. Raises UnknownName."""
        from callboard.actors.supervisor.state import SupervisorState
        from callboard.replay.grants import budget_report

        upto = self._seq(at)
        state = self.state(upto, SUPERVISOR)
        assert isinstance(state, SupervisorState)
        return budget_report(self.events.upto(upto), state, upto)

    def rights(self, at: int | None = None) -> "dict[str, AgentRights]":
        """Return the rights and labels of each agent after event `at`, by address. Raises UnknownName."""
        from callboard.replay.rights import rights_of

        return rights_of(self.events.upto(self._seq(at)))

    def states(self, at: int) -> "dict[str, ActorState]":
        """Return all states after the events up to seq `at`, which are checked. Raises UnknownName."""
        from callboard.actors.session.core import recorded_failure
        from callboard.replay.states import Folds, Output

        folds = Folds()
        for event in self.events.upto(self._seq(at)):
            if event.sender in folds:
                folds[event.sender].take(Output(event.cause, recorded_failure((event,))))
            if is_decider(event.recipient):
                folds[event.recipient].take(event)
        return folds.finish(self._states.failure_after(at))

    def state(self, at: int, actor: str) -> "ActorState":
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

    def decision(self, seq: int) -> tuple[int, str]:
        """Return the decision that an event belongs to: (the event that was handled, the actor).

        An actor decides on an event that it receives. An event to a port or a client was posted by a decision
        on its cause. (0, "") for an event of which no actor knows. Raises UnknownName.
        """
        event = self.event(seq)
        if not is_decider(event.recipient) and event.cause:
            event = self.event(event.cause)
        return (event.seq, event.recipient) if is_decider(event.recipient) else (0, "")

    def changes(self, seq: int) -> "tuple[Change, ...]":
        """Return the fields that the decision of an event changed in its actor's state, see `decision`.

        Behind them come the keys of the shared state that the event changed, as `shared.KEY`. Reads that
        actor's events only, so their digests are not checked. Raises UnknownName.
        """
        from callboard.actors.session.step import initial
        from callboard.replay.states import changes

        at, actor = self.decision(seq)
        if not actor:
            return ()
        before = self._states.state(at - 1, actor) if at > 1 else None
        after = self._states.state(at, actor) or initial(actor)
        return (*changes(before or initial(actor), after), *self._shared_changes(self.event(seq)))

    def _shared_changes(self, event: Event) -> "Iterator[Change]":
        from callboard.actors.session.shared_state import folded
        from callboard.replay.states import may_change_shared, shared_changes

        if not may_change_shared(event.body):
            return
        before = folded(self.events.upto(event.seq - 1))
        yield from shared_changes(before, before.after(event))

    def last_change(self, actor: str, path: str, before: int) -> int:
        """Return the last event before `before` that changed a field of an actor's state, 0 for none.

        path: of the field, such as `phase` or `spent.micro_usd`. Reads that actor's events up to there.
        """
        from callboard.replay.states import value_at

        found, value = 0, None
        for event in self.events_of(actor, max(1, before - 1)):
            if event.recipient == actor and event.seq < before:
                now = value_at(self._states.state(event.seq, actor), path)
                found, value = (event.seq, now) if now != value else (found, value)
        return found

    def shared_state(self, at: int | None = None) -> "SharedState":
        """Return the shared state after the events up to `at`, which are checked. Raises UnknownName."""
        from callboard.actors.session.shared_state import folded

        return folded(self.events.upto(self._seq(at)))

    def request(self, seq: int) -> "ModelRequest":
        """Return the exact request of a model call. Reads only its agent's events, like `state`.

        seq: of any event of the turn: a request for it, its `CallModel`, its reply, a call or an answer.
        Raises UnknownName.
        """
        from callboard.actors.agent.state import AgentState, request_if_kept

        event = self.event(seq)
        grant = grant_of(self, event)
        if grant is None:
            raise self._without_request(event)
        agent = owner_of(grant)
        state = self.state(grant.seq, agent)
        assert isinstance(state, AgentState)
        if (request := request_if_kept(state, partial(self.state, grant.seq))) is None:
            raise UnknownName(f"event {grant.seq} asked no model: the program of {agent} had ended before it")
        return request

    def sent(self, asked: "ModelRequest") -> "SentRequest | None":
        """Return the digest of a request as it was sent, and its body if it was kept; None if not known.

        Reads its agent's events only.
        """
        from callboard.replay.grants import sent_request

        return sent_request(self.events_of(asked.address, self.head.seq), asked)

    def _without_request(self, event: Event) -> UnknownName:
        if isinstance(event.body, TurnRequested):
            said = f"the turn requested at event {event.seq} was never granted: nothing was asked"
            return UnknownName(said)
        grants = (str(one.seq) for one in self.events if isinstance(one.body, CallModel | RunStep))
        named = ", ".join([*islice(grants, _NAMED)] or ["none"])
        said = f"event {event.seq}, {event.kind}, belongs to no model call"
        return UnknownName(f"{said}; the first of those: {named}")

    def _seq(self, at: int | None) -> int:
        last = self.head.seq
        if at is None:
            return last
        if not 1 <= at <= last:
            raise UnknownName(f"session {self.session_id} has events 1 to {last}; there is no {at}")
        return at


def sessions(log: "str | Path") -> list[SessionRow]:
    """Return the sessions of a log file, newest first. Raises StoreError."""
    with open_reader(log) as reader:
        return reader.sessions()


def _newest(reader: LogReader) -> str:
    known = reader.sessions()
    if not known:
        raise SessionNotFound(
            "the log has no sessions yet; record one with `callboard run` or `callboard demo`"
        )
    return known[0].session_id
