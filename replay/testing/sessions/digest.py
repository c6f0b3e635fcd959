"""The digest of a simulated session: equal for two orders that come to the same.

States and messages hold numbers that depend on the order of everything. Here an event has its title (see
`names`), and other such numbers have their rank or are left out.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.state import AgentState
from callboard.actors.agent.tasks import Background, Unheard
from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.session.step import ActorState
from callboard.replay.descriptions import DESCRIPTIONS
from callboard.replay.testing.sessions.board import Board
from callboard.replay.testing.sessions.names import title

_SEQS: Final = frozenset(
    {
        ("AgentState", "fresh"), ("Pending", "seq"), ("AskOutcome", "by"), ("Wish", "seq"),
        ("Unheard", "seq"), ("Unsent", "fresh"), ("NextTools", "seq"),
        *((kind.__name__, field) for kind, one in DESCRIPTIONS.items() for field in one.links),
    }
)  # fmt: skip
"""Fields that hold seqs of events."""

_ORDERED: Final = frozenset(
    {
        ("SupervisorState", "queue"), ("SupervisorState", "checks"), ("SupervisorState", "timers"),
        ("Record", "waiting"), ("Delegation", "pending"),
    }
)  # fmt: skip
"""Maps whose keys are numbers drawn in the order of everything: only the order of the keys counts."""

_DROPPED: Final = frozenset(
    {
        ("SupervisorState", "next_ticket"), ("SupervisorState", "next_check"),
        ("SupervisorState", "next_timer"), ("Wish", "ticket"), ("Record", "deadline_timer"),
        ("Record", "turn_timer"), ("AskState", "before"), ("AskState", "deadline_timer"),
        ("AskState", "grace_timer"), ("CheckSchema", "check"), ("SchemaChecked", "check"),
        ("SetTimer", "timer"), ("ExtendTimer", "timer"), ("CancelTimer", "timer"), ("TimerFired", "timer"),
    }
)  # fmt: skip
"""Numbers drawn in the order of everything, which point at something that is called by its name anyway."""

_ENCODER: Final = msgspec.msgpack.Encoder()


def rest_digest_of(board: Board) -> bytes:
    """Return 128 bits for a session at rest; faster, since little there depends on the whole order."""
    parts = [_rested(state) for _, state in sorted(board.states.items())]
    about = (board.now, type(board.failure).__name__, sorted(board.states))
    return blake2b(b"".join((*parts, _ENCODER.encode(about))), digest_size=16).digest()


def _rested(state: ActorState) -> bytes:
    """Return the bytes of a state; an agent's digest stands for its conversation and fixed parts."""
    if isinstance(state, AgentState):
        state = replace(
            state,
            prefix=None,
            history=IntMap(),
            calls=replace(state.calls, answers=IntMap()),
            fresh=(),
            unsent=None,
            background=_unread(state),
        )
    else:
        state = replace(state, profiles={}, next_ticket=0, next_check=0, next_timer=0)
        if state.host is not None:
            state = replace(state, host=replace(state.host, delegation=0))
    return _ENCODER.encode(state)


def _unread(state: AgentState) -> Background:
    """Return an agent's tasks and words without the seqs of the words."""
    words: IntMap[Unheard] = IntMap()
    for word in state.background.words.values():
        words = words.append(replace(word, seq=0))
    return replace(state.background, words=words)


def _inboxes(board: Board) -> dict[str, object]:
    """Return the messages of each inbox that has some."""
    log = board.log
    return {
        address: [[title(event), _plain(event.body, log)] for event in inbox]
        for address, inbox in sorted(board.inboxes.items())
        if inbox
    }


def digest_of(board: Board) -> bytes:
    """Return 128 bits for a session."""
    log, requests = board.log, board.requests.values()
    parts = {
        "states": {address: _plain(state, log) for address, state in sorted(board.states.items())},
        "inboxes": _inboxes(board),
        "offers": sorted(board.offers),
        "later": sorted(board.later.items()),
        "requests": sorted((one.strand, one.fault_mode, one.event.seq in board.aborted) for one in requests),
        "now": board.now,
        "shared": {name: cell.json() for name, cell in sorted(board.gate.shared.cells.items())},
        "failure": type(board.failure).__name__,
    }
    return blake2b(_ENCODER.encode(parts), digest_size=16).digest()


def _plain(value: object, log: list[Event]) -> object:
    """Return a value as plain data, with events by their titles."""
    match value:
        case msgspec.Raw():
            return bytes(value)
        case IntMap():
            return [[key, _plain(one, log)] for key, one in value.items()]
        case msgspec.Struct():
            return [type(value).__name__, *_plain_fields(value, log)]
        case tuple() | list():
            return [_plain(one, log) for one in value]
        case Mapping():
            return sorted([str(key), _plain(one, log)] for key, one in value.items())
        case _:
            return value


def _plain_fields(value: msgspec.Struct, log: list[Event]) -> list[object]:
    found: list[object] = []
    for field in value.__struct_fields__:
        key, held = (type(value).__name__, field), getattr(value, field)
        if key in _SEQS:
            found.append(_titles(held, log))
        elif key in _ORDERED:
            found.append(_plain(list(held.values()), log))
        elif not _is_dropped(value, key):
            found.append(_plain(held, log))
    return found


def _is_dropped(value: msgspec.Struct, key: tuple[str, str]) -> bool:
    """Return whether to drop a field; so is the seq of an ask, as a name of the host's delegation."""
    if key == ("Record", "delegation"):
        return getattr(value, "address", "") == HOST
    return key in _DROPPED or (key == ("Delegation", "key") and getattr(value, "racers", ()) == (0,))


def _titles(seqs: object, log: list[Event]) -> object:
    if isinstance(seqs, tuple):
        return [_titles(seq, log) for seq in seqs]
    assert isinstance(seqs, int)
    return title(log[seqs - 1]) if 0 < seqs <= len(log) else seqs
