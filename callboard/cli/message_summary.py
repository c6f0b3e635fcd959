"""A summary of every kind of message, in one line, without the parts that its envelope shows.

The matches are exhaustive: a new kind of message without a summary is a type error.
"""

from typing import assert_never

import msgspec

from callboard.actors.agent.content import read
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import (
    AgentInput,
    AnyMessage,
    ApprovalGiven,
    Ask,
    AskEnded,
    Begin,
    CallModel,
    CallTool,
    Cancel,
    CancelTimer,
    CheckSchema,
    Close,
    DeciderFailed,
    Delegate,
    DelegationEnded,
    ExtendTimer,
    Finished,
    FromAgent,
    ModelReplied,
    PortInput,
    ReportBack,
    ReportJudged,
    RequestApproval,
    Resumed,
    SchemaChecked,
    SessionClosed,
    SessionOpened,
    SetTimer,
    Stop,
    Stopped,
    TimerFired,
    ToolReturned,
    ToolStarted,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.cli.formats import counted, duration, tokens
from callboard.cli.terminal_escape import safe_line
from callboard.replay.tree import prompt_text

_CHARS_MAX = 200


def summary_of(body: AnyMessage) -> str:
    """Summarise a message in one line that is safe to print."""
    return safe_line(_summary(body), _CHARS_MAX)


def whole_prompt(prompt: Json) -> str:
    """Return the whole text of a prompt: of a list of blocks, one block a line."""
    value = msgspec.json.decode(prompt)
    if isinstance(value, str):
        return value
    parts = [one.get("text") or f"[{one.get('type')}]" for one in value or () if isinstance(one, dict)]
    return "\n".join(str(part) for part in parts)


def _summary(body: AnyMessage) -> str:
    match body:
        case SessionOpened():
            return (
                f"host {body.host}, {counted(len(body.profiles), 'agent profile')}, model {body.model.name}"
            )
        case Resumed():
            return _resumed(body)
        case Ask():
            return prompt_text(body.prompt, _CHARS_MAX) + _schema(body.schema)
        case Cancel():
            return body.reason
        case Close():
            return ""
        case AskEnded():
            return _ended(body.kind, body.detail, body.value, body.text)
        case SessionClosed():
            return f"{counted(body.usage.calls, 'model call')}, {tokens(body.usage.tokens)} tokens in all"
        case DeciderFailed():
            return f"on event {body.event}: {body.error}"
        case SchemaChecked():
            return f"check {body.check}: {body.status}{_problems(body.problems)}"
        case TimerFired():
            return f"timer {body.timer}"
        case TurnRequested() | TurnSettled() | Delegate() | ReportBack() | Finished() | Stopped():
            return _from_agent(body)
        case (
            CallModel()
            | CallTool()
            | RequestApproval()
            | CheckSchema()
            | SetTimer()
            | ExtendTimer()
            | CancelTimer()
        ):
            return _port_request(body)
        case _:
            return _agent_input(body)


def _agent_input(body: AgentInput) -> str:
    match body:
        case Begin():
            profile = msgspec.json.decode(body.profile, type=_Named).name
            return f"{profile}: {prompt_text(body.prompt, _CHARS_MAX)}{_schema(body.schema)}"
        case Stop():
            return body.reason
        case ReportJudged():
            return f"{body.verdict}{_problems(body.problems)}"
        case DelegationEnded():
            return f"{body.address or 'nobody'} {_ended(body.kind, body.detail, body.value, body.text)}"
        case ModelReplied():
            return _reply(body)
        case ToolStarted():
            return f"turn {body.turn}, call {body.call}"
        case ToolReturned():
            return f"{body.status}: {_json(body.output)}"
        case ApprovalGiven():
            return f"{body.verdict}: {body.note}" if body.note else body.verdict
        case _:
            assert_never(body)


def _from_agent(body: FromAgent) -> str:
    match body:
        case TurnRequested():
            wait = f", after {duration(body.after_ms)}" if body.after_ms else ""
            need = f"needs at most {tokens(body.need.tokens)} tokens"
            return f"turn {body.turn}, attempt {body.attempt}, {need}{wait}"
        case TurnSettled():
            used = body.settled.usage
            return f"{tokens(used.tokens)} tokens" if used else "use not known"
        case Delegate():
            return (
                f"to {', '.join(body.profiles)}: {prompt_text(body.prompt, _CHARS_MAX)}{_schema(body.schema)}"
            )
        case ReportBack():
            return _json(body.value)
        case Finished():
            return _ended(body.kind, body.detail, NULL, body.text)
        case Stopped():
            return ""
        case _:
            assert_never(body)


def _port_request(body: PortInput) -> str:
    match body:
        case CallModel():
            return f"for {body.agent}, asked for by event {body.request}"
        case CallTool():
            return f"{body.tool} {_json(body.arguments)}"
        case RequestApproval():
            return f"{'again: ' if body.is_repeat else ''}{body.tool} {_json(body.arguments)}"
        case CheckSchema():
            return f"check {body.check}: {body.task}"
        case SetTimer():
            return f"timer {body.timer}, in {duration(body.after_ms)}"
        case ExtendTimer():
            return f"timer {body.timer}, {duration(body.by_ms)} later"
        case CancelTimer():
            return f"timer {body.timer}"
        case _:
            assert_never(body)


def _resumed(body: Resumed) -> str:
    changes = []
    if body.profiles:
        changes.append(f"with {counted(len(body.profiles), 'agent profile')} of now")
    if body.model is not None:
        changes.append(f"model {body.model.name}")
    if body.limits is not None:
        changes.append("with other limits")
    if body.extend_ms:
        changes.append(f"deadlines {duration(body.extend_ms)} later")
    return ", ".join(changes)


def _reply(body: ModelReplied) -> str:
    used = f"{tokens(body.usage.tokens)} tokens" if body.usage else "use not known"
    if body.failure is not None:
        return f"{body.status}: {body.failure.code}: {body.failure.message}; {used}"
    said = read(body.content)
    if said is None:
        return f"{body.status}, {used}: content that cannot be read"
    made = [f"{use.name} {_json(use.input)}" for use in said.uses]
    return f"{body.status}, {used}: {' | '.join([said.text, *made] if said.text else made)}"


def _ended(kind: str, detail: str, value: Json, text: str) -> str:
    said = _json(value) if kind == "reported" and value != NULL else detail or text
    return f"{kind}: {said}" if said else kind


def _problems(problems: tuple[SchemaProblem, ...]) -> str:
    return "".join(f"; {one.path or '/'}: {one.message}" for one in problems)


def _schema(schema: Json) -> str:
    return "" if schema == NULL else " (with a schema)"


def _json(value: Json) -> str:
    return bytes(value)[: 4 * _CHARS_MAX].decode("utf-8", "replace")


class _Named(msgspec.Struct):
    name: str
