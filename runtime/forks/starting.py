"""Forking: the wish for a fork, and the ports that play the recorded answers back."""

import json
from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, get_args

from callboard.actors.protocol.addresses import APPROVALS, CONTEXT, MODEL, SCHEMA, TOOLS
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.session.fork_plan import ForkPlan
from callboard.actors.session.recorded_answers import Call
from callboard.runtime.forks.playback import Playback
from callboard.runtime.forks.reusing_port import Effects, EffectsPolicy, ReusingPort
from callboard.runtime.forks.virtual_clock import VirtualClock
from callboard.runtime.sanitize import check_json
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_files import FilesChoice

_REUSED: Final = (MODEL, TOOLS, APPROVALS, SCHEMA, CONTEXT)


class Forking(NamedTuple):
    """A wish to fork a session; the fields are the parameters of `Runtime.fork`."""

    at: int | None = None
    changes: Mapping[Call, Json] = {}
    limits: Limits | None = None
    effects: Effects = "recorded"
    session_id: str = ""
    until: int | None = None
    deps: object = None
    files: FilesChoice = None


def checked_effects(effects: str) -> Effects:
    """Return the choice for tools with an effect. Raises MisuseError."""
    for known in get_args(Effects):
        if effects == known:
            choice: Effects = known
            return choice
    raise MisuseError(f"effects={effects!r}: use 'recorded' or 'live'")


def play_back(
    session: Session, board: Board, events: Sequence[Event], plan: ForkPlan, effects: Effects
) -> Playback:
    """Put the recorded answers before the ports of a fork. events: the shared ones."""
    clock = VirtualClock(events[-1].at)
    playback = Playback(board, plan.recorded, clock, session.repost, session.runs_ask)
    playback.note(events)
    policy = EffectsPolicy(effects)
    for name in _REUSED:
        board.ports[name] = ReusingPort(board.ports[name], playback, plan.recorded, policy, board.answer)
    session.expect(playback.asks_left)
    return playback


def hold_open(board: Board, plan: ForkPlan, playback: Playback, started: Container[int]) -> None:
    """Hold the recorded answers to the requests under way at the base. started: those that ports get."""
    for seq, found in plan.recorded.open_at_base.items():
        if seq in started:
            continue
        request, port = board.gate.request(seq), None
        if request is not None:
            port = board.ports[request.recipient]
        if request is not None and isinstance(port, ReusingPort):
            playback.hold(request, found, partial(port.begin, request))


def result_json(value: object) -> Json:
    """Return the value of a change as a tool or a model gives it: a text, or a list of content blocks.

    Any other JSON value is taken as its text. Raises InvalidPrompt.
    """
    is_blocks = isinstance(value, list) and all(isinstance(one, dict) and "type" in one for one in value)
    if isinstance(value, str) or (is_blocks and value):
        return check_json(json.dumps(value, ensure_ascii=False))
    return check_json(json.dumps(json.dumps(value, ensure_ascii=False), ensure_ascii=False))
