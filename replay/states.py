"""States of actors at any event of a recording: folds over the events that they received and posted.

States as data: digests and JSON, equal in any process and under any Python; and the fields that differ.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Final, NamedTuple, NoReturn, TypeAlias

import msgspec
from msgspec.structs import StructConfig

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.client_messages import Forked, Resumed, SessionOpened
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.core import SessionCore, recorded_failure
from callboard.actors.session.shared_state import SharedState
from callboard.actors.session.step import ActorState, Decision
from callboard.replay.reading import Source

SNAPSHOT_EVENTS: Final = 1_024
"""Events received between two states that are kept, which share all that did not change."""

_BATCH_EVENTS: Final = 512
"""Decisions of the supervisor that are made together: one unit of work for all of them."""


class Output(NamedTuple):
    """An event that an actor posted. failure: of the decision, if the event says that it failed."""

    cause: int
    failure: str


History: TypeAlias = Callable[[str, int, int], Iterable[Event | Output]]
"""(address, first seq, last seq) -> the events that the actor received and its outputs, in order."""


_FAILED: Final = b'{"type":"DeciderFailed"'


def history_in(source: Source, actor: str, first: int, last: int) -> Iterator[Event | Output]:
    """Yield the history of an actor in a log, see `History`. Digests are not checked."""
    for row in source.of_actor(actor, first, last):
        if row.sender == actor:
            # Only a failure is decoded: an agent's outputs are as many as the events it received.
            is_failure = row.body.startswith(_FAILED)
            yield Output(row.cause, recorded_failure((source.event(row),)) if is_failure else "")
        if row.recipient == actor:
            yield source.event(row)


class Fold:
    """The state of one actor. A decision is made when its first output is met, or in `finish`."""

    __slots__ = ("_core", "_waiting", "actor", "received")

    def __init__(self, actor: str) -> None:
        self.actor = actor
        self.received = 0
        self._core = SessionCore()
        self._waiting: list[Event] = []

    @property
    def state(self) -> ActorState | None:
        """Return the state after the decisions made so far; None for an actor that has made none."""
        return self._core.states.get(self.actor)

    def watch(self, note: Callable[[ActorState, Event, ActorState], object]) -> None:
        """Let `note` see each decision: the state before, the event, and the state that was decided on.

        That of a sub-agent's last decision is kept by no session: `state` is a small one from there on.
        """
        step = self._core.step

        def watched(state: ActorState, event: Event) -> Decision:
            after, posts = step(state, event)
            note(state, event, after)
            return after, posts

        self._core.step = watched

    def copy(self) -> "Fold":
        """Return a second fold that goes on from the same place."""
        other = Fold(self.actor)
        other.received, other._waiting = self.received, [*self._waiting]
        if self.state is not None:
            other._core.keep(self.actor, self.state)
        return other

    def take(self, item: Event | Output) -> None:
        """Take in the next item of the actor's history. Raises Diverged if a decision raises."""
        if isinstance(item, Event):
            self.received += 1
            self._waiting.append(item)  # not decided yet: only its outputs tell whether it failed
            if self.actor == SUPERVISOR and len(self._waiting) >= _BATCH_EVENTS:
                self._decide_supervisor()
        elif self.actor != SUPERVISOR:
            self._decide_upto(item)

    def _decide_upto(self, output: Output) -> None:
        while self._waiting and self._waiting[0].seq <= output.cause:
            event = self._waiting.pop(0)
            self._decide(event, output.failure if event.seq == output.cause else "")

    def finish(self, failure: Callable[[Event], str]) -> ActorState | None:
        """Make the waiting decisions and return the state, if any. failure: finds a recorded failure."""
        if self.actor == SUPERVISOR:
            self._decide_supervisor()
        for event in self._waiting:
            try:
                self._decide(event)
            except Diverged:
                recorded = failure(event)
                if not recorded:
                    raise
                self._decide(event, recorded)
        self._waiting = []
        return self.state

    def _decide(self, event: Event, failure: str = "") -> None:
        try:
            self._core.decide(event, failure)
        except Exception as error:
            raise Diverged(
                f"{self.actor} raises {type(error).__name__} on event {event.seq}, and the log holds no "
                "failure of it: the code has changed; `callboard verify` shows where"
            ) from error

    def _decide_supervisor(self) -> None:
        """Make the supervisor's waiting decisions together; no log holds a failure of it."""
        waiting, self._waiting = self._waiting, []
        try:
            if waiting:
                self._core.decide_together(waiting)
        except Exception:  # one by one, to say which
            for event in waiting:
                self._decide(event)


class Folds(dict[str, Fold]):
    """The folds of all actors that an event has reached, by address."""

    def __missing__(self, actor: str) -> Fold:
        fold = self[actor] = Fold(actor)
        return fold

    def finish(self, failure: Callable[[Event], str]) -> dict[str, ActorState]:
        """Make all waiting decisions and return the states. failure: finds the recorded one of an event."""
        finished = ((actor, fold.finish(failure)) for actor, fold in self.items())
        return {actor: state for actor, state in finished if state is not None}


class States:
    """The states of single actors. last: the last seq that there is."""

    def __init__(self, history: History, last: int) -> None:
        self._history = history
        self._last = last
        self._kept: dict[str, list[tuple[int, Fold]]] = {}
        self._latest: dict[str, tuple[int, Fold]] = {}

    def state(self, at: int, actor: str) -> ActorState | None:
        """Return the actor's state after event `at`; None for an actor without one. Raises Diverged."""
        kept = self._kept.setdefault(actor, [(0, Fold(actor))])
        seq, fold = kept[bisect_right(kept, at, key=lambda snapshot: snapshot[0]) - 1]
        latest = self._latest.get(actor, kept[0])
        if seq < latest[0] <= at:  # a step forward
            seq, fold = latest
        fold = fold.copy()
        for item in self._history(actor, seq + 1, at):
            fold.take(item)
            if isinstance(item, Event) and fold.received >= kept[-1][1].received + SNAPSHOT_EVENTS:
                kept.append((item.seq, fold.copy()))
        self._latest[actor] = at, fold
        return fold.copy().finish(self.failure_after(at))

    def failure_after(self, at: int) -> Callable[[Event], str]:
        """Return what finds the failure of a decision that was recorded after `at`."""

        def failure(event: Event) -> str:
            for item in self._history(event.recipient, at + 1, self._last):
                if isinstance(item, Output) and item.cause >= event.seq:
                    return item.failure if item.cause == event.seq else ""
            return ""

        return failure


def _refuse(value: object) -> NoReturn:
    raise NotImplementedError(f"a state holds a {type(value).__name__}, which has no canonical form")


_ENCODER: Final = msgspec.json.Encoder(order="deterministic", enc_hook=_refuse)


def state_digest(state: ActorState) -> str:
    """Return SHA-256 of a state's kind and canonical JSON, in hex. Raises NotImplementedError without one."""
    return sha256(type(state).__name__.encode() + b"\0" + _ENCODER.encode(state)).hexdigest()


def to_jsonable(value: object) -> object:
    """Return a state, or a part of it, with lists and dicts in place of its maps."""
    if not isinstance(value, msgspec.Struct):
        return value
    if isinstance(value, IntMap):
        found = {key: to_jsonable(one) for key, one in value.items()}
        return list(found.values()) if list(found) == list(range(len(found))) else found
    # Messages and their parts are tagged or leave defaults out; they hold no maps, so the encoder takes them.
    if _is_tagged(value.__struct_config__):
        return value
    return {name: to_jsonable(getattr(value, name)) for name in value.__struct_fields__}


def _is_tagged(config: StructConfig) -> bool:
    return config.tag is not None or config.omit_defaults


class Change(NamedTuple):
    """A field of a state that has changed. before, after: as JSON values, None without one."""

    path: str
    before: object
    after: object


def changes(before: object, after: object, path: str = "") -> Iterator[Change]:
    """Yield the fields that differ. Parts that both states share are not looked at."""
    if before is after or before == after:
        return
    if type(before) is not type(after) or not isinstance(after, msgspec.Struct | IntMap | dict):
        yield Change(path, to_jsonable(before), to_jsonable(after))
        return
    mine, their = dict(_fields(before)), dict(_fields(after))
    for name in {**mine, **their}:
        yield from changes(mine.get(name), their.get(name), f"{path}.{name}" if path else name)


def may_change_shared(body: object) -> bool:
    """Return False for a message that certainly changes no key of the shared state."""
    if isinstance(body, ToolReturned):
        return bool(body.state_update)
    return isinstance(body, SessionOpened | Resumed | Forked)


def shared_changes(before: SharedState, after: SharedState) -> Iterator[Change]:
    """Yield the keys of the shared state whose values differ, as `shared.KEY`."""
    for name, cell in after.cells.items():
        old = before.cells[name].read() if name in before.cells else None
        if (new := cell.read()) != old:
            yield Change(f"shared.{name}", old, new)


def value_at(state: object, path: str) -> object:
    """Return the value of a field of a state, None without one.

    path: the names of fields, with dots between; "" for all of the state.
    """
    for part in path.split(".") if path else ():
        state = dict(_fields(state)).get(part)
    return to_jsonable(state)


def _fields(value: object) -> Iterable[tuple[str, object]]:
    """Return the fields of a struct, or the entries of a map, by name."""
    if isinstance(value, IntMap | dict):
        return ((str(key), inner) for key, inner in value.items())
    names = value.__struct_fields__ if isinstance(value, msgspec.Struct) else ()
    return ((name, getattr(value, name)) for name in names)
