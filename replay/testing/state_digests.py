"""What a run did, step by step, to be compared with the same run elsewhere.

After each step a digest is noted of every state that changed and of every event that was posted. The states
are kept too until the next run: a difference is looked up in the very run in which it came up.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

import msgspec

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.digests import state_digest, to_jsonable
from callboard.replay.testing.canonical import canonical
from callboard.replay.testing.sessions.board import Board
from callboard.replay.testing.world import Violation, World


class StepDigest(NamedTuple):
    """What there is after a step. digest: of all that is new. states: that changed. posts: new events."""

    digest: bytes
    states: Mapping[str, object]
    posts: Sequence[Any]


class StepDigests:
    """A monitor that finds nothing wrong. of_steps: a note of the start, and of each step."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, steps: int) -> None:
        """Begin a run."""
        self.of_steps: list[StepDigest] = []
        self.healed_at: int | None = None  # the steps before the faults were over
        self._known: dict[str, object] = {}
        self._log: Sequence[Event] = ()
        self._read = 0

    @property
    def digests(self) -> list[bytes]:
        """Return the digests of the start and of each step."""
        return [note.digest for note in self.of_steps]

    def record(self, step: int) -> StepDigest:
        """Return a step with its states and posts as JSON values; empty for a step that was not made."""
        if step >= len(self.of_steps):
            return StepDigest(b"", {}, [])
        digest, states, posts = self.of_steps[step]
        told = {name: plain(state) for name, state in states.items()}
        return StepDigest(digest, told, [plain_event(event) for event in posts])

    def after(self, world: World, at: int, fair_steps: int) -> Violation | None:
        """Note what there is now."""
        if fair_steps and self.healed_at is None:
            self.healed_at = at - fair_steps
        states: Mapping[str, object] = getattr(world, "states", {})
        known = self._known
        changed = {name: state for name, state in states.items() if known.get(name) is not state}
        posts = self._new(world)
        self._known = dict(states)
        self.of_steps.append(StepDigest(_digest(world, changed, posts), changed, posts))
        return None

    def at_rest(self, world: World, at: int) -> Violation | None:
        """Ignore the end: nothing has changed since the last step."""
        return None

    def _new(self, world: World) -> Sequence[Event]:
        """Return the events since the step before; after a crash the log is another, and all of it is new."""
        if not isinstance(world, Board):
            return ()
        read = self._read if world.log is self._log else 0
        self._log, self._read = world.log, len(world.log)
        return world.log[read:]


def _digest(world: World, changed: Mapping[str, object], posts: Sequence[Event]) -> bytes:
    found = blake2b(digest_size=8)
    for name in sorted(changed):
        found.update(f"{name}\0".encode() + _state_digest(changed[name]))
    for event in posts:
        head = f"{event.seq} {event.at} {event.sender} {event.recipient} {event.cause}\0"
        found.update(head.encode() + encode(event.body))
    if not isinstance(world, Board):
        found.update(world.digest())
    return found.digest()


def _state_digest(state: object) -> bytes:
    if isinstance(state, AgentState | SupervisorState):
        return state_digest(state).encode()
    return canonical(state)


def plain(value: object) -> Any:
    """Return a state or message as JSON values; as text, if it cannot be JSON."""
    told = to_jsonable(value) if isinstance(value, AgentState | SupervisorState) else value
    for order in _ORDERS:
        try:
            return msgspec.json.decode(msgspec.json.encode(told, order=order))
        except (TypeError, ValueError, msgspec.MsgspecError):
            continue
    return repr(value)


_ORDERS: Final[tuple[Literal["deterministic"] | None, ...]] = ("deterministic", None)
"""Sets in order; where keys are no texts, that is refused."""


def plain_event(event: Event) -> dict[str, object]:
    """Return an event as JSON values."""
    envelope = {name: getattr(event, name) for name in ("at", "sender", "recipient", "cause")}
    return {**envelope, event.kind: plain(event.body)}
