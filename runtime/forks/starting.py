"""The way into a fork.

Forking: the wish for a fork, and the ports that play the recorded answers back.

A fork whose process has ended: the next one goes on with its recorded answers, by what the log holds.
"""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, get_args

from callboard.actors.protocol.addresses import APPROVALS, CONTEXT, MODEL, SCHEMA, TOOLS
from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.errors import MisuseError, SessionNotFound
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.value_types import Effects
from callboard.actors.session.copied_files import CopyChoice
from callboard.actors.session.fork_plan import Place, planned_again
from callboard.actors.session.place_names import checkpoint_named
from callboard.actors.session.playback import Playback
from callboard.actors.session.port_gate import PortGate
from callboard.runtime.files.copying import FolderCopy
from callboard.runtime.forks.playback import LivePlayback, Questions, ReusingPort, VirtualClock
from callboard.runtime.log.file_contents import Contents
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.sanitize import check_json
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.resuming import RecordedSession, read_session
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_deps import FilesChoice, Given, MemoryChoice

_REUSED: Final = (MODEL, TOOLS, APPROVALS, SCHEMA, CONTEXT)


class Forking(NamedTuple):
    """A wish to fork a session; the fields are the parameters of `Runtime.fork`.

    effects: None for the usual choice.
    """

    at: int | str | None = None
    changes: Mapping[Place, Json] = {}
    limits: Limits | None = None
    effects: Effects | None = None
    session_id: str = ""
    until: int | None = None
    deps: object = None
    files: FilesChoice = None
    memory: MemoryChoice = None
    files_to: Path | None = None
    skip_lost: bool = False

    @property
    def given(self) -> Given:
        """Return the objects for its tools."""
        return Given(self.deps, self.files, self.memory)

    def place_in(self, session_id: str, events: Sequence[Event]) -> int | None:
        """Return the seq of the last shared event. Raises UnknownName for a checkpoint that is not there."""
        return checkpoint_named(session_id, events, self.at) if isinstance(self.at, str) else self.at


def checked_effects(effects: str | None) -> Effects | None:
    """Return the choice for tools with an effect, None for the usual one. Raises MisuseError."""
    if effects is None:
        return None
    for known in get_args(Effects):
        if effects == known:
            choice: Effects = known
            return choice
    raise MisuseError(f"effects={effects!r}: use 'recorded', 'ask' or 'live'")


def play_back(
    session: Session, board: Board, at: int, playback: Playback, questions: Questions
) -> LivePlayback:
    """Put the recorded answers before the ports of a fork. at: the time of its last event."""
    live = LivePlayback(board, playback, VirtualClock(at), session._repost, session._runs_ask, questions)
    if playback.files.has_copy and board.deps.files is not None:
        live.copy = FolderCopy(board.deps.files, Contents(playback.files.contents.values()))
    for name in _REUSED:
        board.ports[name] = ReusingPort(board.ports[name], live)
    session._expect(playback.asks_left)
    return live


def hold_open(board: Board, answered: Iterable[int], playback: LivePlayback, started: Container[int]) -> None:
    """Hold the recorded answers to logged requests. answered: those with one. started: those that start."""
    requests = (board.gate.request(seq) for seq in answered if seq not in started)
    playback.hold_open([one for one in requests if one is not None])


def result_json(value: object) -> Json:
    """Return the value of a change as a tool or a model gives it: a text, or a list of content blocks.

    Any other JSON value is taken as its text. Raises InvalidPrompt.
    """
    is_blocks = isinstance(value, list) and all(isinstance(one, dict) and "type" in one for one in value)
    if isinstance(value, str) or (is_blocks and value):
        return check_json(json.dumps(value, ensure_ascii=False))
    return check_json(json.dumps(json.dumps(value, ensure_ascii=False), ensure_ascii=False))


class PastFork(NamedTuple):
    """The playback of a fork. answered: the seqs of its open requests that have a recorded answer."""

    playback: Playback
    answered: frozenset[int]


async def past_fork(log: EventLog, recorded: RecordedSession) -> PastFork | None:
    """Return the playback of a recorded session; None if it is not a fork."""
    found = next((event for event in reversed(recorded.events) if isinstance(event.body, Forked)), None)
    if found is None:
        return None
    forked = found.body
    assert isinstance(forked, Forked)
    origin = recorded.events[: forked.at]
    with suppress(SessionNotFound):  # it was deleted, apart from the events that the fork shares
        origin = (await read_session(log, forked.origin)).events
    copy = CopyChoice(forked.has_copy, forked.skips_lost)
    playback = Playback(planned_again(origin, forked), forked.effects, copy)
    playback.note(recorded.events)
    playback.note_own(recorded.events[found.seq :])
    if recorded.is_closed:
        playback.inputs.clear()
    return PastFork(playback, _answered(recorded, playback))


def _answered(recorded: RecordedSession, playback: Playback) -> frozenset[int]:
    gate = PortGate()
    gate.on_events(recorded.events)
    return frozenset(seq for seq, one in gate.open.items() if playback.has_answer(one.event, gate))
