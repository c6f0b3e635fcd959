"""Captions of a chart's steps: the message that is handled, or the request that a port answers, in words.

    tool read_file {"path":"a.txt"}
    Delegate to explorer: Find the tests.
    ModelReplied read_file {"path":"a.txt"}

Labels name turns and calls instead, because they must be equal in every run and must be short to make.
"""

from collections.abc import Sequence
from typing import Final

from callboard.actors.protocol.client_messages import Ask, AskEnded, Tell, TellEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    ReportJudged,
    Told,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    ModelReplied,
    RequestApproval,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.session.port_table import owner_of
from callboard.replay.descriptions import words_of
from callboard.replay.testing.world import Move

CHARS_MAX: Final = 200
"""The most of a caption; a chart cuts it to its column."""

_HANDLED: Final = (
    *(Ask, AskEnded, Begin, Delegate, DelegationEnded, Finished, ReportBack, ReportJudged),
    *(Tell, TellEnded, Told, ModelReplied, ToolStarted, ToolReturned, ApprovalGiven),
)
"""The messages with a caption where they are handled. Of all others the label says as much."""


def caption(move: Move, event: Event | None, log: Sequence[Event], posted: Sequence[Event]) -> str:
    """Return the caption of a move, or '' if its label says as much.

    event: the message that is handled, or the request that a port answers. log: of the run. posted: by it.
    """
    if event is None:
        return ""
    if move.kind == "deliver":
        said = _handled(event, log) if isinstance(event.body, _HANDLED) else ""
    else:
        said = _asked(event, posted)
        said = said if move.kind == "port" else f"{move.label} {said}" * bool(said)
    return _one_line(said)[:CHARS_MAX]


def _handled(event: Event, log: Sequence[Event]) -> str:
    """Describe a message that is handled; an answer of a tool or of a person with the tool it is about."""
    request = log[event.cause - 1].body if 0 < event.cause <= len(log) else None
    is_answer = isinstance(event.body, ToolStarted | ToolReturned | ApprovalGiven)
    tool = request.tool if is_answer and isinstance(request, CallTool | RequestApproval) else ""
    return " ".join(filter(None, (event.kind, tool, words_of(event.body))))


def _asked(request: Event, posted: Sequence[Event]) -> str:
    """Describe a request for which a port answers or fails."""
    match request.body:
        case CallTool() as call:
            return f"tool {words_of(call)}"
        case RequestApproval() as asked:
            return f"approval {words_of(asked)}"
        case CallModel() | RunStep():
            agent = owner_of(request)
            replies = [event.body for event in posted if isinstance(event.body, ModelReplied)]
            return f"{agent} answers {words_of(replies[0])}" if replies else ""
        case _:
            return ""


def _one_line(text: str) -> str:
    """Return a text on one line, without characters that a terminal would obey."""
    return "".join(
        one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in " ".join(text.split())
    )
