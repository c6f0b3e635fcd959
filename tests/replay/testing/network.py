"""Actors on a network without order, which may lose messages or deliver them twice.

Rules
  - Every message under way is a strand of its own: any of them may be next. It is named by its sender,
    recipient and content, and numbered if the sender posted an equal one before.
  - duplicating: a message stays under way after its delivery, and is under way once, however often it
    is posted. lossy: a message may be lost instead, which is a fault.
  - Waking and faults of actors are as in `program`; so are steps: pure functions of state, sender and
    message.
  - The model is that of Stateright (https://github.com/stateright/stateright, `ActorModel`), so that its
    counts of states can be compared; it is written to be plain, `program` is the one that is fast.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from callboard.replay.testing.canonical import canonical, describe
from callboard.replay.testing.program import Actor, Send
from callboard.replay.testing.world import Move, MoveKind, Step


class _Way(NamedTuple):
    """What a move does: deliver a message, which may stay under way; lose it; or let an actor wake."""

    send: Send
    key: str = ""
    takes: bool = True
    delivers: bool = True


class Network:
    """Actors and how their messages travel. Nothing in it changes."""

    def __init__(
        self,
        actors: Mapping[str, Actor[Any, Any]],
        starts: Iterable[Send] = (),
        *,
        is_lossy: bool = False,
        is_duplicating: bool = False,
    ) -> None:
        self.actors = dict(actors)
        self.starts = tuple(starts)
        self.is_lossy = is_lossy
        self.is_duplicating = is_duplicating

    def world(self) -> "NetworkWorld":
        """Start a run."""
        return NetworkWorld(self)


class NetworkWorld:
    """A run. states: of all actors, by name. under_way: messages by the name of their strand."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.states: dict[str, Any] = {name: actor.initial for name, actor in network.actors.items()}
        self.under_way: dict[str, Send] = {}
        self._posted: Counter[str] = Counter()
        self._causes: dict[str, int] = {}
        self._steps: list[Step] = []
        for send in network.starts:
            self._post(send, 0)

    def moves(self) -> Sequence[Move]:
        """Return every message that may be delivered or lost, and every actor that may wake."""
        return list(self._ways())

    def make(self, move: Move) -> None:
        """Deliver, lose, or wake."""
        way = self._ways()[move]
        send, name = way.send, way.send.recipient
        seq, cause = len(self._steps) + 1, self._causes.get(way.key or move.strand, 0)
        self._steps.append(Step(seq, move.strand, move.kind, send.sender, name, move.label, cause))
        if way.key and way.takes:
            del self.under_way[way.key]
        if way.delivers:
            self.states[name], posts = self.network.actors[name].step(
                self.states[name], send.sender, send.message
            )
            for recipient, post in posts:
                self._post(Send(name, recipient, post), seq)
        for strand in self._waking(name):
            self._causes.setdefault(strand, seq)

    def _ways(self) -> dict[Move, _Way]:
        network, ways = self.network, dict[Move, _Way]()
        for key, send in self.under_way.items():
            name = send.recipient
            label = f"{name} handles {describe(send.message)} from {send.sender}"
            ways[Move(key, name, label)] = _Way(send, key, not network.is_duplicating)
            if network.is_lossy:
                lost = Move(
                    f"lose {key}", name, f"{describe(send.message)} from {send.sender} is lost", "fault"
                )
                ways[lost] = _Way(send, key, delivers=False)
        for name in network.actors:
            for strand, (message, kind) in self._waking(name).items():
                ways[Move(strand, name, strand, kind)] = _Way(Send(name, name, message))
        return ways

    def _waking(self, name: str) -> dict[str, tuple[object, MoveKind]]:
        """Return the messages that an actor may send itself now, by the name of their strand."""
        actor, state = self.network.actors[name], self.states[name]
        found: list[tuple[object, MoveKind]] = []
        if actor.wakes is not None:
            found += [(message, "port") for message in actor.wakes(state)]
        if actor.faults is not None:
            found += [(message, "fault") for message in actor.faults(state)]
        return {f"{name} wakes {describe(message)}": (message, kind) for message, kind in found}

    def _post(self, send: Send, cause: int) -> None:
        key = f"{send.sender}>{send.recipient} {describe(send.message)}"
        if not self.network.is_duplicating:
            # Counts all posts, not those under way now: their number depends on the order of deliveries.
            self._posted[key] += 1
            if self._posted[key] > 1:
                key = f"{key} ({self._posted[key]})"
        self.under_way.setdefault(key, send)
        self._causes.setdefault(key, cause)

    def digest(self) -> bytes:
        """Return a digest of all states and all messages under way."""
        parts = [canonical(state) for state in self.states.values()]
        parts += [canonical(tuple(send)) for send in sorted(self.under_way.values(), key=canonical)]
        return blake2b(b"\0".join(parts), digest_size=16).digest()

    def trace(self) -> Sequence[Step]:
        """Return the moves made."""
        return self._steps

    def touched(self) -> Collection[str]:
        """Return nothing: a message under way touches no other."""
        return ()

    def fork(self) -> "NetworkWorld":
        """Copy the world, state and all."""
        other = NetworkWorld.__new__(NetworkWorld)
        other.network, other.states, other.under_way = self.network, self.states.copy(), self.under_way.copy()
        other._posted, other._causes = self._posted.copy(), self._causes.copy()
        other._steps = self._steps.copy()
        return other
