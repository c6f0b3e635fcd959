"""The facts of a session after each event of its log, kept once for all invariants.

The supervisor handles its inbox in the order of the log, and its posts name the handled event as their
cause. So a log tells when each event was handled, also those that were answered with nothing: they were
handled before any later one. That is all this uses; it asks no decider.
"""

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.addresses import CLIENT, HOST, SUPERVISOR, child_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    Ask,
    AskEnded,
    Begin,
    CheckSchema,
    Delegate,
    DelegationEnded,
    Finished,
    ReportJudged,
    SchemaChecked,
    SessionClosed,
    SessionOpened,
    Stop,
    Stopped,
)
from callboard.actors.protocol.profiles import Profile

Call: TypeAlias = tuple[str, int, int]
"""Who called, in which turn, which call of it; an ask is (client, the seq of its `Ask`, 0)."""


class Handled(NamedTuple):
    """An event that the supervisor has handled, with the events that it posted for it."""

    event: Event
    outputs: Sequence[Event]


class Life:
    """One life of an agent: from its Begin to its Finished or Stopped.

    profile: who it is. call: the delegation or ask that it works on. ended_by: the seq of the event whose
    handling ended it, as far as the log tells by now; 0 while it runs. stopped: the seq of its Stop, or 0.
    """

    __slots__ = ("address", "begin", "call", "ended_by", "is_over", "profile", "seq", "stopped")

    def __init__(self, event: Event, begin: Begin, call: Call) -> None:
        self.address = event.recipient
        self.seq = event.seq
        self.begin = begin
        self.profile = profile_of(bytes(begin.profile))
        self.call = call
        self.ended_by = 0
        self.stopped = 0
        self.is_over = False


class Facts:
    """The session up to an event of its log: `settle` the event, then `hear` it, then read the facts.

    lives: the latest life of every agent that ever began. works_on: the delegation of every address that was
    taken. delegates: the requested delegations, by call. asks: those without an outcome, in their order.
    waiting: the seqs of delegations that may begin without a check of their own: one of their schema runs.
    """

    def __init__(self) -> None:
        self.opened: SessionOpened | None = None
        self.profiles: dict[str, tuple[Profile, bytes]] = {}
        self.lives: dict[str, Life] = {}
        self.works_on: dict[str, Call] = {}
        self.delegates: dict[Call, Delegate] = {}
        self.copies: dict[Call, list[str]] = {}
        self.asks: dict[str, Event] = {}
        self.waiting: set[int] = set()
        self._looked_at: dict[int, bytes] = {}
        self._is_closed = False
        self._next_ordinal: dict[str, int] = {}
        self._inbox: deque[Event] = deque()
        self._current: Event | None = None
        self._outputs: list[Event] = []

    @property
    def limits(self) -> Limits:
        """Return the limits of the session."""
        return self.opened.limits if self.opened else Limits()

    @property
    def running(self) -> tuple[Event, Ask] | None:
        """Return the ask that the host works on, or the first that waits."""
        for event in self.asks.values():
            assert isinstance(event.body, Ask)
            return event, event.body
        return None

    # --- the order in which the supervisor works --------------------------------------

    def settle(self, event: Event) -> Sequence[Handled]:
        """Return what the supervisor has handled before this event was posted, in its order."""
        is_its = event.sender == SUPERVISOR
        current = self._current
        if current is not None:
            if is_its and event.cause == current.seq:
                return ()
            done = [self._close()]
            return [*done, *self._start(event)] if is_its else done
        return self._start(event) if is_its else ()

    def _start(self, event: Event) -> Sequence[Handled]:
        """Start a decision with its first output: everything before its cause was handled before."""
        skipped = self._skip_to(event.cause)
        if self._inbox and self._inbox[0].seq == event.cause:
            self._current = self._taken(self._inbox.popleft())
            self._take_ordinals(self._current, event)
        return skipped

    def rest(self, *, is_cut: bool) -> Sequence[Handled]:
        """Return the last decision, and the events that were handled without an answer.
        is_cut: the log may end in the middle of a decision, which then shows nothing.
        """
        if is_cut and self._current is not None:
            return []
        last = [self._close()] if self._current is not None else []
        return [*last, *self._skip_to(1 << 62)]

    def _close(self) -> Handled:
        assert self._current is not None
        handled = Handled(self._current, tuple(self._outputs))
        self._current, self._outputs = None, []
        return handled

    def _skip_to(self, seq: int) -> list[Handled]:
        inbox, found = self._inbox, []
        while inbox and inbox[0].seq < seq:
            event = self._taken(inbox.popleft())
            if event.seq in self.waiting:
                self._take_ordinals(event, None)
            found.append(Handled(event, ()))
        return found

    def _taken(self, event: Event) -> Event:
        body, life = event.body, self.lives.get(event.sender)
        if isinstance(body, Finished | Stopped) and life is not None:
            life.ended_by = life.ended_by or event.seq
        elif isinstance(body, SchemaChecked):
            self._looked_at.pop(body.check, None)
        elif isinstance(body, Delegate) and self._is_looked_at(body):
            self.waiting.add(event.seq)
        return event

    def _is_looked_at(self, body: Delegate) -> bool:
        return not self._is_closed and bytes(self._schema_of(body)) in self._looked_at.values()

    def _schema_of(self, body: Delegate) -> Json:
        known = self.profiles.get(body.profiles[0]) if body.profiles else None
        return known[0].schema if known is not None and body.schema == NULL else body.schema

    def _take_ordinals(self, event: Event, first: Event | None) -> None:
        """Give each profile of a `Delegate` an ordinal, unless its sender has ended.
        A denied one takes ordinals too; the empty address of the answer says that the sender has ended.
        first: the first answer to it; None if it waits for a check that is already under way.
        """
        body = event.body
        if not isinstance(body, Delegate):
            return
        if first is not None and isinstance(first.body, DelegationEnded) and not first.body.address:
            return
        call = (event.sender, body.turn, body.call)
        start = self._next_ordinal.get(event.sender, 1)
        self._next_ordinal[event.sender] = start + len(body.profiles)
        copies = [child_of(event.sender, start + index) for index in range(len(body.profiles))]
        self.copies[call] = copies
        self.works_on.update(dict.fromkeys(copies, call))

    # --- what an event tells ------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """Take in the next event of the log."""
        if self._current is not None and event.sender == SUPERVISOR:
            self._outputs.append(event)
        if event.recipient == SUPERVISOR:
            self._inbox.append(event)
        told = _TOLD.get(type(event.body))
        if told is not None:
            told(self, event)

    def _looks(self, event: Event) -> None:
        assert isinstance(event.body, CheckSchema)
        if event.body.task == "accept":
            self._looked_at[event.body.check] = bytes(event.body.schema)

    def _closed(self, event: Event) -> None:
        self._is_closed = True

    def _opened(self, event: Event) -> None:
        assert isinstance(event.body, SessionOpened)
        if self.opened is None:
            self.opened = event.body
            read = ((profile_of(bytes(raw)), bytes(raw)) for raw in event.body.profiles)
            self.profiles = {profile.name: (profile, raw) for profile, raw in read}

    def _asked(self, event: Event) -> None:
        assert isinstance(event.body, Ask)
        self.asks.setdefault(event.body.request_id, event)

    def _ask_ended(self, event: Event) -> None:
        assert isinstance(event.body, AskEnded)
        self.asks.pop(event.body.request_id, None)

    def _delegated(self, event: Event) -> None:
        body = event.body
        assert isinstance(body, Delegate)
        self.delegates[event.sender, body.turn, body.call] = body

    def _begun(self, event: Event) -> None:
        assert isinstance(event.body, Begin)
        call = self.works_on.get(event.recipient, (CLIENT, 0, 0))
        if event.recipient == HOST and (running := self.running) is not None:
            call = (CLIENT, running[0].seq, 0)
            self.works_on[HOST] = call
        self.lives[event.recipient] = Life(event, event.body, call)

    def _over(self, event: Event) -> None:
        life = self.lives.get(event.sender)
        if life is not None:
            life.is_over = True

    def _stopped(self, event: Event) -> None:
        life = self.lives.get(event.recipient)
        if life is not None:
            life.stopped = life.stopped or event.seq
            life.ended_by = life.ended_by or event.cause

    def _judged(self, event: Event) -> None:
        assert isinstance(event.body, ReportJudged)
        life = self.lives.get(event.recipient)
        if event.body.verdict == "accepted" and life is not None:
            life.ended_by = life.ended_by or event.cause


_TOLD = {
    SessionOpened: Facts._opened,
    Ask: Facts._asked,
    AskEnded: Facts._ask_ended,
    Delegate: Facts._delegated,
    Begin: Facts._begun,
    Finished: Facts._over,
    Stopped: Facts._over,
    Stop: Facts._stopped,
    ReportJudged: Facts._judged,
    CheckSchema: Facts._looks,
    SessionClosed: Facts._closed,
}


@lru_cache(maxsize=1_024)
def profile_of(raw: bytes) -> Profile:
    """Return the profile in these bytes."""
    return msgspec.json.decode(raw, type=Profile)
