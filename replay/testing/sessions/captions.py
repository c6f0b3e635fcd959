"""Captions of a chart's steps: which tool or agent a message is about, with the argument that matters.

    tool read_file path="a.txt"
    task -> explorer "Find the tests."
    ModelReplied read_file path="a.txt"

That argument is the first text among a call's arguments, in the order of the model, else the first of any
kind. Labels name turns and calls instead, because they must be equal in every run and must be short to make.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from callboard.actors.agent.arguments import read_task
from callboard.actors.agent.content import ToolUse, read
from callboard.actors.protocol.client_messages import Ask, AskEnded, Tell, TellEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
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
from callboard.actors.protocol.prompts import TASK
from callboard.replay.testing.world import Move
from callboard.runtime.log.tree import prompt_text

CHARS_MAX: Final = 200
"""The most of a caption; a chart cuts it to its column."""


def caption(move: Move, event: Event | None, log: Sequence[Event], posted: Sequence[Event]) -> str:
    """Return the caption of a move, or '' if its label says as much.

    event: the message that is handled, or the request that a port answers. log: of the run. posted: by it.
    """
    if event is None:
        return ""
    if move.kind == "deliver":
        handled = _HANDLED.get(type(event.body))
        said = handled(event.body, _request_of(event, log)) if handled else ""
    else:
        said = _asked(event, posted)
        said = said if move.kind == "port" else f"{move.label} {said}" * bool(said)
    return _one_line(said)[:CHARS_MAX]


def _asked(request: Event, posted: Sequence[Event]) -> str:
    """Describe a request for which a port answers or fails."""
    match request.body:
        case CallTool() as call:
            return f"tool {call_words(call.tool, call.arguments)}"
        case RequestApproval() as asked:
            return f"approval {'again ' * asked.is_repeat}{call_words(asked.tool, asked.arguments)}"
        case CallModel(agent=agent):
            replies = [event.body for event in posted if isinstance(event.body, ModelReplied)]
            return f"{agent} answers {_reply(replies[0])}" if replies else ""
        case _:
            return ""


def _request_of(event: Event, log: Sequence[Event]) -> object:
    """Return the message that caused an event; None at the start of a log."""
    return log[event.cause - 1].body if 0 < event.cause <= len(log) else None


# --- calls ------------------------------------------------------------------------------


def call_words(tool: str, arguments: Json) -> str:
    """Describe a call: the agents and the prompt of a `task`, or the tool and the argument that matters."""
    task = read_task(arguments) if tool == TASK else None
    if task is not None:
        names = task.agents or ((task.agent,) if task.agent else ())
        return _task(names * (task.copies or 1), task.prompt)
    return f"{tool} {argument_words(arguments)}".rstrip()


def argument_words(value: Json) -> str:
    """Return the argument that matters, as `name=value`; a value that is not an object as it is."""
    try:
        given = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return ""
    if not isinstance(given, dict):
        return _value(given)
    name = next((name for name, one in given.items() if isinstance(one, str)), next(iter(given), None))
    return "" if name is None else f"{name}={_value(given[name])}"


def _value(value: object) -> str:
    """Return a value as JSON: text with the characters that a reader knows, not with escapes for them."""
    if value is None:
        return ""
    return f'"{value}"' if isinstance(value, str) else msgspec.json.encode(value).decode()


def _task(profiles: Sequence[str], prompt: Json) -> str:
    names = ", ".join(name if n == 1 else f"{name} x{n}" for name, n in Counter(profiles).items())
    return f'task -> {names} "{prompt_text(prompt, CHARS_MAX)}"'


def _reply(reply: ModelReplied) -> str:
    """Describe a model's reply: its failure, its calls, or its text."""
    if reply.failure is not None:
        return f"{reply.failure.code}: {reply.failure.message}"
    said = read(reply.content)
    if said is None:
        return "content that cannot be read" if reply.content != NULL else reply.status
    return ", ".join(map(_use, said.uses)) or f'"{said.text}"'


def _use(use: ToolUse) -> str:
    return call_words(use.name, use.input)


# --- handled messages -------------------------------------------------------------------


class _Named(msgspec.Struct):
    name: str


_PROFILE: Final = msgspec.json.Decoder(_Named)


def _named(kind: str, request: object, rest: str) -> str:
    """Return the caption of an answer to a tool call or a question. request: of the port, if it is known."""
    tool = request.tool if isinstance(request, CallTool | RequestApproval) else ""
    return " ".join(filter(None, (kind, tool, rest)))


def _returned(body: ToolReturned, request: object) -> str:
    output = argument_words(body.output)
    return _named("ToolReturned", request, output if body.status == "ok" else f"{body.status} {output}")


def _given(body: ApprovalGiven, request: object) -> str:
    return _named("ApprovalGiven", request, f"{body.verdict} {_value(body.note or None)}".rstrip())


def _started(body: ToolStarted, request: object) -> str:
    if not isinstance(request, CallTool):
        return ""
    return f"ToolStarted {call_words(request.tool, request.arguments)}"


def _ended(body: AskEnded | DelegationEnded | Finished, request: object) -> str:
    value = NULL if isinstance(body, Finished) else body.value
    said = argument_words(value) or (f'"{body.text}"' if body.text else "")
    return f"{type(body).__name__} {body.kind} {said}".rstrip()


_HANDLED: Final[Mapping[type, Callable[[Any, object], str]]] = {
    Ask: lambda ask, _: f'Ask {ask.request_id} "{prompt_text(ask.prompt, CHARS_MAX)}"',
    Begin: lambda begin, _: (
        f'Begin {_PROFILE.decode(begin.profile).name} "{prompt_text(begin.prompt, CHARS_MAX)}"'
    ),
    Delegate: lambda asked, _: _task(asked.profiles, asked.prompt),
    Tell: lambda tell, _: f'Tell {tell.address} "{tell.text}"',
    Told: lambda told, _: f'Told "{told.text}"',
    TellEnded: lambda ended, _: f"TellEnded {ended.status}",
    ReportBack: lambda report, _: f"report_back {argument_words(report.value)}".rstrip(),
    ReportJudged: lambda judged, _: f"ReportJudged {judged.verdict}",
    ModelReplied: lambda reply, _: f"ModelReplied {_reply(reply)}",
    ToolStarted: _started,
    ToolReturned: _returned,
    ApprovalGiven: _given,
    **dict.fromkeys((AskEnded, DelegationEnded, Finished), _ended),
}
"""The captions of handled messages: of the message, and of the request that it answers."""


def _one_line(text: str) -> str:
    """Return a text on one line, without characters that a terminal would obey."""
    return "".join(
        one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in " ".join(text.split())
    )
