"""The attributes of spans. Texts of people, models and tools are left out unless they are asked for."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Begin, Finished
from callboard.actors.protocol.port_messages import CallTool, ModelReplied, ToolReturned
from callboard.runtime.log.telemetry import spans as names
from callboard.runtime.log.telemetry.spans import Span

Attribute: TypeAlias = str | int | float | bool | tuple[str, ...]

CONTENT_CHARS_MAX: Final = (
    4_096  # of one text in an attribute: backends refuse or cut spans of 64 KiB and more
)
_ABOUT_CHARS_MAX: Final = 200  # of a description, which each span repeats
_MICRO: Final = 1_000_000


def attributes_of(session: str, span: Span, content_chars: int = 0) -> dict[str, Attribute]:
    """Return the attributes of a span. content_chars: the longest text of content; 0 for no content."""
    found: dict[str, Attribute] = {
        names.OPERATION: span.operation,
        names.CONVERSATION: session,
        names.SEQ: span.seq,
        names.ACTOR: span.agent,
    }
    if span.ended is not None:
        found[names.END_SEQ] = span.ended.seq
    if span.status == "unfinished":
        found[names.UNFINISHED] = True
    if span.ending:
        found[names.ENDING] = span.ending
    if span.error:
        found[names.ERROR_TYPE] = span.error
    if span.tags:
        found[names.TAGS] = span.tags
    _OWN[span.operation](found, span)
    if content_chars:
        found.update(_content(span, content_chars))
    return found


def span_name(span: Span) -> str:
    """Return the name of a span, such as `chat claude-sonnet-4-5`."""
    return f"{span.operation} {span.name}" if span.name else span.operation


def _of_ask(found: dict[str, Attribute], span: Span) -> None:
    found[names.WORKFLOW_NAME] = span.name


def _of_agent(found: dict[str, Attribute], span: Span) -> None:
    found[names.AGENT_NAME] = span.name
    found[names.AGENT_ID] = span.agent
    if isinstance(span.begun.body, Begin):
        found[names.AGENT_KIND] = "program" if span.model.is_program else "model"
    if span.about:
        found[names.AGENT_DESCRIPTION] = cut(span.about, _ABOUT_CHARS_MAX)


def _of_chat(found: dict[str, Attribute], span: Span) -> None:
    assert span.asked is not None
    model, charge = span.model, span.charge
    found[names.AGENT_NAME] = span.profile
    found[names.PROVIDER] = names.provider_name(model.made_by)
    found[names.REQUEST_MODEL] = model.made_by.model or model.name
    found[names.REQUEST_MAX_TOKENS] = model.max_tokens
    found[names.TURN], found[names.ATTEMPT] = span.asked.turn, span.asked.attempt
    body = span.ended.body if span.ended is not None else None
    if isinstance(body, ModelReplied):
        if body.stop_reason:
            found[names.FINISH_REASONS] = (body.stop_reason,)
        if answered := body.model or (body.origin.model if body.origin else ""):
            found[names.RESPONSE_MODEL] = answered
        if body.reused:
            found[names.REUSED] = True
    if charge.calls:
        # The conventions count what comes from a cache as input.
        cached = charge.cache_read_tokens + charge.cache_write_tokens
        found[names.INPUT_TOKENS] = charge.input_tokens + cached
        found[names.OUTPUT_TOKENS] = charge.output_tokens
        if charge.cache_read_tokens:
            found[names.CACHE_READ_TOKENS] = charge.cache_read_tokens
        if charge.cache_write_tokens:
            found[names.CACHE_WRITE_TOKENS] = charge.cache_write_tokens
        if charge.charged_tokens:
            found[names.CHARGED_TOKENS] = charge.charged_tokens
        if charge.micro_usd:
            found[names.COST_USD] = charge.micro_usd / _MICRO


def _of_tool(found: dict[str, Attribute], span: Span) -> None:
    call = span.begun.body
    assert isinstance(call, CallTool)
    found[names.AGENT_NAME] = span.profile
    found[names.TOOL_NAME] = call.tool
    found[names.TOOL_TYPE] = "function"
    if span.about:
        found[names.TOOL_DESCRIPTION] = cut(span.about, _ABOUT_CHARS_MAX)
    found[names.EFFECT] = call.effect
    found[names.TURN] = call.turn
    if call.id:
        found[names.TOOL_CALL_ID] = call.id
    if span.ended is not None and isinstance(span.ended.body, ToolReturned) and span.ended.body.reused:
        found[names.REUSED] = True


_OWN: Final[Mapping[names.Operation, Callable[[dict[str, Attribute], Span], None]]] = {
    "invoke_workflow": _of_ask,
    "invoke_agent": _of_agent,
    "chat": _of_chat,
    "execute_tool": _of_tool,
}


# --- content ----------------------------------------------------------------------


def _content(span: Span, longest: int) -> Iterator[tuple[str, Attribute]]:
    """Yield the texts of a span's events as the conventions have them, each cut to so many characters."""
    for event in (span.begun, span.ended):
        match event.body if event is not None else None:
            case Ask(prompt=prompt) | Begin(prompt=prompt):
                yield names.INPUT_MESSAGES, _message("user", _blocks(prompt), longest)
            case AskEnded(text=text, value=value) | Finished(text=text, value=value):
                said = bytes(value).decode() if value != NULL else text
                yield names.OUTPUT_MESSAGES, _message("assistant", said, longest)
            case ModelReplied(content=content) if content != NULL:
                yield names.OUTPUT_MESSAGES, _message("assistant", _blocks(content), longest)
            case CallTool(arguments=arguments):
                yield names.TOOL_ARGUMENTS, cut(bytes(arguments).decode(), longest)
            case ToolReturned(output=output) if output != NULL:
                yield names.TOOL_RESULT, cut(bytes(output).decode(), longest)


def _blocks(raw: Json) -> object:
    return msgspec.json.decode(raw)


def _message(role: str, content: object, longest: int) -> str:
    """Return one message as JSON. Its texts are cut before it is encoded, so that it can be read whole."""
    parts, left = [], longest
    for block in content if isinstance(content, list) else [content]:
        part, used = _part(block, left)
        left -= used
        parts.append(part)
        if left <= 0:
            break
    return msgspec.json.encode([{"role": role, "parts": parts}]).decode()


def _part(block: Any, longest: int) -> tuple[dict[str, object], int]:
    """Return a block as a part of a message, and the number of characters that it took."""
    fields = (
        block if isinstance(block, dict) else {"type": "text", "text": "" if block is None else str(block)}
    )
    match fields.get("type"):
        case "text":
            text = cut(str(fields.get("text", "")), longest)
            return {"type": "text", "content": text}, len(text)
        case "tool_use":
            arguments = cut(msgspec.json.encode(fields.get("input")).decode(), longest)
            call = {"type": "tool_call", "id": fields.get("id"), "name": fields.get("name")}
            return {**call, "arguments": arguments}, len(arguments)
        case other:  # an image, a file, reasoning: its kind says enough
            return {"type": str(other)}, 0


def cut(text: str, longest: int) -> str:
    """Return a text of at most so many characters, with a sign where it was cut."""
    return text if len(text) <= longest else f"{text[: max(0, longest - 1)]}…"
