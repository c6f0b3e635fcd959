"""The digest of a simulated session: equal for two orders that come to the same.

States and messages hold numbers that depend on the order of everything: seqs of events, tickets, numbers of
checks and timers. Here an event has its title (see `names`), and the other numbers have their rank, so that
two orders that differ in nothing else have one digest.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.session.step import ActorState
from callboard.replay.testing.sessions.board import Board
from callboard.replay.testing.sessions.names import title

_SEQS = frozenset(
    {
        ("AgentState", "fresh"), ("Answer", "seq"), ("Pending", "seq"), ("AskOutcome", "by"),
        ("DelegationEnded", "by"), ("AskEnded", "by"), ("TurnRequested", "new"), ("DeciderFailed", "event"),
        ("CallModel", "request"), ("Record", "wanted_at"),
    }
)  # fmt: skip
"""Fields that hold seqs of events."""

_ORDERED = frozenset(
    {
        ("SupervisorState", "queue"), ("SupervisorState", "checks"), ("SupervisorState", "timers"),
        ("Record", "waiting"), ("Delegation", "pending"),
    }
)  # fmt: skip
"""Maps whose keys are numbers drawn in the order of everything: only the order of the keys counts."""

_DROPPED = frozenset(
    {
        ("SupervisorState", "next_ticket"), ("SupervisorState", "next_check"),
        ("SupervisorState", "next_timer"), ("Record", "ticket"), ("Record", "deadline_timer"),
        ("Record", "turn_timer"), ("AskState", "before"), ("AskState", "deadline_timer"),
        ("AskState", "grace_timer"), ("CheckSchema", "check"), ("SchemaChecked", "check"),
        ("SetTimer", "timer"), ("ExtendTimer", "timer"), ("CancelTimer", "timer"), ("TimerFired", "timer"),
    }
)  # fmt: skip
"""Numbers drawn in the order of everything, which point at something that is called by its name anyway."""


def rest_digest_of(board: Board) -> bytes:
    """Return 128 bits for a session at rest; faster, since little there depends on the whole order."""
    parts = [_rested(state) for _, state in sorted(board.states.items())]
    told = (board.now, type(board.failure).__name__, sorted(board.states))
    return blake2b(b"".join((*parts, msgspec.msgpack.encode(told))), digest_size=16).digest()


def _rested(state: ActorState) -> bytes:
    """Return the bytes of a state; an agent's digest stands for its conversation and fixed parts."""
    if isinstance(state, AgentState):
        state = replace(state, prefix=None, history=IntMap(), answers=IntMap(), fresh=())
    else:
        state = replace(state, profiles={}, next_ticket=0, next_check=0, next_timer=0)
        if state.host is not None:
            state = replace(state, host=replace(state.host, delegation=0))
    return _ENCODER.encode(state)


_ENCODER: Final = msgspec.msgpack.Encoder()


def digest_of(board: Board) -> bytes:
    """Return 128 bits for a session."""
    plain = _Plain(board.log)
    parts = {
        "states": {address: plain.of(state) for address, state in sorted(board.states.items())},
        "inboxes": {
            address: [[title(event), plain.of(event.body)] for event in inbox]
            for address, inbox in sorted(board.inboxes.items())
            if inbox
        },
        "offers": sorted(board.offers),
        "later": sorted(board.later.items()),
        "requests": sorted((one.strand, one.fault_mode) for one in board.requests.values()),
        "aborted": sorted(one.strand for one in board.requests.values() if one.event.seq in board.aborted),
        "now": board.now,
        "failure": type(board.failure).__name__,
    }
    return blake2b(msgspec.msgpack.encode(parts), digest_size=16).digest()


class _Plain:
    """Values as plain ones, events by name."""

    def __init__(self, log: list[Event]) -> None:
        self._log = log

    def of(self, value: object) -> object:
        """Return the plain value."""
        if isinstance(value, msgspec.Raw):
            return bytes(value)
        if isinstance(value, IntMap):
            return [[key, self.of(one)] for key, one in value.items()]
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, tuple | list):
            return [self.of(one) for one in value]
        if isinstance(value, Mapping):
            return sorted([str(key), self.of(one)] for key, one in value.items())
        return value

    def _struct(self, value: msgspec.Struct) -> list[object]:
        name = type(value).__name__
        found: list[object] = [name]
        for field in value.__struct_fields__:
            key, held = (name, field), getattr(value, field)
            if key in _SEQS:
                found.append(self._named(held))
            elif key in _ORDERED:
                found.append([self.of(one) for one in held.values()])
            elif key not in _DROPPED and not self._is_ask_key(value, field):
                found.append(self.of(held))
        return found

    def _is_ask_key(self, value: msgspec.Struct, field: str) -> bool:
        """Return whether this is the seq of an ask, which names the delegation that the host works on."""
        if (type(value).__name__, field) == ("Record", "delegation"):
            return getattr(value, "address", "") == HOST
        is_key = (type(value).__name__, field) == ("Delegation", "key")
        return is_key and getattr(value, "racers", ()) == (0,)

    def _named(self, seqs: object) -> object:
        if isinstance(seqs, tuple):
            return [self._named(seq) for seq in seqs]
        assert isinstance(seqs, int)
        return title(self._log[seqs - 1]) if 0 < seqs <= len(self._log) else seqs
