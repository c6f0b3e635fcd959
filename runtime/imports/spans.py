"""Spans of OpenTelemetry's conventions for generative AI, with their content, as conversations.

    invoke_workflow, invoke_agent    an agent's work; one below another agent's is a sub-agent
    chat                             a reply: `gen_ai.output.messages`, and its usage
    execute_tool                     the result of a call; one that has an agent below it began that agent

The agents at the top with one `gen_ai.conversation.id` are the asks of one session, those without one have a
session for each trace. Calls without a span of their own belong to the sub-agents without one, in order.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from callboard.actors.protocol.errors import InvalidHistory
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.usage import Usage
from callboard.runtime.imports.conversations import Conversation, name_of
from callboard.runtime.imports.items import documents_in, tools_in
from callboard.runtime.imports.traffic import Block, Part, Returned, Said, Words
from callboard.runtime.log.telemetry.spans import (
    AGENT_NAME,
    CACHE_READ_TOKENS,
    CACHE_WRITE_TOKENS,
    CONVERSATION,
    END_SEQ,
    FINISH_REASONS,
    INPUT_MESSAGES,
    INPUT_TOKENS,
    OPERATION,
    OUTPUT_MESSAGES,
    OUTPUT_TOKENS,
    REQUEST_MODEL,
    RESPONSE_MODEL,
    TOOL_ARGUMENTS,
    TOOL_CALL_ID,
    TOOL_NAME,
    TOOL_RESULT,
)
from callboard.runtime.sanitize import clean_json

SYSTEM: Final = "gen_ai.system_instructions"
TOOLS: Final = "gen_ai.tool.definitions"
_AGENTS: Final = frozenset({"invoke_agent", "invoke_workflow"})
_REPLIES: Final = frozenset({"chat", "text_completion", "generate_content"})
_ERROR: Final = 2
_Order: TypeAlias = tuple[int, int, int]
_NAMES: Final = ("traceId", "spanId", "parentSpanId", "name")


class Span(msgspec.Struct, gc=False):
    """A span. start, end: in milliseconds since 1970 UTC; end_ns: in nanoseconds.

    below: the spans whose parent it is, in order.
    """

    trace: str
    id: str
    parent: str
    name: str
    start: int
    end: int
    end_ns: int
    has_failed: bool
    told: JsonObject
    below: list["Span"] = []

    @property
    def operation(self) -> str:
        """Return the kind of a span; empty for another program's."""
        value = self.told.get(OPERATION)
        return value if isinstance(value, str) else ""


def conversations_in(data: bytes) -> list[tuple[str, Conversation]]:
    """Return the conversations in OTLP's JSON, or in a line of it for each batch, with their ids.

    Raises InvalidHistory for data without spans of agents.
    """
    spans = [span for one in documents_in(clean_json(data)) for span in _spans(one)]
    sessions: dict[str, list[Span]] = defaultdict(list)
    for top in _tops(spans):
        sessions[str(top.told.get(CONVERSATION) or top.trace)].append(top)
    if not sessions:
        raise InvalidHistory(0, f"has no span with {OPERATION}: chat, invoke_agent or execute_tool")
    return [(name, _session(tops)) for name, tops in sessions.items()]


def _spans(document: object) -> Iterator[Span]:
    for resource in _list(document, "resourceSpans"):
        for scope in _list(resource, "scopeSpans"):
            for one in _list(scope, "spans"):
                if isinstance(one, dict):
                    yield _span(one)


def _list(value: object, key: str) -> list[object]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _span(one: JsonObject) -> Span:
    status = one.get("status")
    failed = isinstance(status, dict) and status.get("code") in (_ERROR, "STATUS_CODE_ERROR")
    told = {
        each["key"]: _value(each.get("value"))
        for each in _list(one, "attributes")
        if isinstance(each, dict) and isinstance(each.get("key"), str)
    }
    trace, own, above, name = (str(one.get(key) or "") for key in _NAMES)
    start, end = _ms(one.get("startTimeUnixNano")), _ms(one.get("endTimeUnixNano"))
    return Span(trace, own, above, name, start, end, _ns(one.get("endTimeUnixNano")), failed, told, [])


def _ms(nanos: object) -> int:
    return _ns(nanos) // 1_000_000


def _ns(nanos: object) -> int:
    try:
        return max(0, int(str(nanos)))
    except ValueError:
        return 0


def _value(value: object) -> object:
    """Return the value of an attribute as plain JSON."""
    if not isinstance(value, dict) or not value:
        return value
    kind, inner = next(iter(value.items()))
    if kind == "intValue":
        return int(inner) if str(inner).lstrip("-").isdigit() else 0
    if kind == "arrayValue":
        return [_value(one) for one in _list(inner, "values")]
    if kind == "kvlistValue":
        pairs = [one for one in _list(inner, "values") if isinstance(one, dict)]
        return {one.get("key"): _value(one.get("value")) for one in pairs}
    return inner


def _tops(spans: Sequence[Span]) -> list[Span]:
    """Tie spans to their parents. Return those that belong to no other of the kinds that count."""
    by_id = {(span.trace, span.id): span for span in spans}
    tops = []
    for span in sorted(spans, key=lambda one: (one.start, one.end)):
        if span.operation not in (*_AGENTS, *_REPLIES, "execute_tool"):
            continue
        above, seen = by_id.get((span.trace, span.parent)), 0
        while above is not None and above.operation not in (*_AGENTS, "execute_tool") and seen < len(spans):
            above, seen = by_id.get((above.trace, above.parent)), seen + 1
        if above is None or above is span or seen == len(spans):
            tops.append(span)
        else:
            above.below.append(span)
    return tops


def _session(tops: Iterable[Span]) -> Conversation:
    """Return the conversation of the asks of one session."""
    whole: Conversation | None = None
    for top in tops:
        agent = top
        while (inner := _only_agent_below(agent)) is not None:
            agent = inner
        one = _agent(agent, "agent")
        if whole is None:
            whole = one
            continue
        whole.parts += one.parts
        whole.agents |= one.agents
        whole.tools = {**one.tools, **whole.tools}
    assert whole is not None
    return whole


def _only_agent_below(span: Span) -> Span | None:
    """Return the agent that a workflow consists of; None for more than one, or another span."""
    if span.operation != "invoke_workflow" or len(span.below) != 1:
        return None
    return span.below[0] if span.below[0].operation in _AGENTS else None


def _agent(span: Span, otherwise: str) -> Conversation:
    """Return the conversation of an agent, with those of its sub-agents."""
    spans = span.below if span.operation in _AGENTS else [span]
    chats = [one for one in spans if one.operation in _REPLIES]
    first = chats[0].told if chats else {}
    made = Conversation(name_of(span.told.get(AGENT_NAME) or first.get(AGENT_NAME), otherwise), [], {})
    made.model = str(first.get(REQUEST_MODEL) or first.get(RESPONSE_MODEL) or "")
    made.instructions = _blocks(_json(first.get(SYSTEM) or span.told.get(SYSTEM))) or None
    made.tools = tools_in(_json(first.get(TOOLS) or span.told.get(TOOLS)))
    prompt = _words(_json(span.told.get(INPUT_MESSAGES))) or _words(_json(first.get(INPUT_MESSAGES)))
    parts: list[tuple[_Order, Part]] = [((0, 0, 0), Words(span.start, prompt))] if prompt else []
    alone: list[Span] = []
    for one in spans:
        if one.operation in _REPLIES:
            parts.append((_order(one, 1), _said(one)))
        elif one.operation == "execute_tool":
            call = str(one.told.get(TOOL_CALL_ID) or one.id)
            parts.append((_order(one, 2), _returned(one, call)))
            for agent in (below for below in one.below if below.operation in _AGENTS):
                made.agents[call] = _agent(agent, "agent")
        else:
            alone.append(one)
    made.parts = [part for _, part in sorted(parts, key=lambda found: found[0])]
    _with_calls(made, spans)
    _tie(made, alone)
    return made


def _order(span: Span, kind: int) -> "_Order":
    """Return the place of a span's end: several may end within one tick of a clock."""
    return span.end_ns, _count(span.told.get(END_SEQ)), kind


def _with_calls(made: Conversation, spans: Iterable[Span]) -> None:
    """Add the calls of tools to the replies before them that do not have them."""
    known = {use["id"] for use in _uses(made)}
    for one in spans:
        call = str(one.told.get(TOOL_CALL_ID) or one.id)
        if one.operation != "execute_tool" or call in known:
            continue
        before = [part for part in made.parts if isinstance(part, Said) and part.at <= one.end]
        given = _json(one.told.get(TOOL_ARGUMENTS))
        use = {"type": "tool_use", "id": call, "name": str(one.told.get(TOOL_NAME) or one.name)}
        if before:
            before[-1].blocks.append({**use, "input": given if isinstance(given, dict) else {}})


def _uses(made: Conversation) -> list[Block]:
    said = (block for part in made.parts if isinstance(part, Said) for block in part.blocks)
    return [block for block in said if block.get("type") == "tool_use"]


def _tie(made: Conversation, alone: Iterable[Span]) -> None:
    """Tie the sub-agents that no call's span has above them to the calls without a span."""
    answered = {part.call for part in made.parts if isinstance(part, Returned)}
    uses = [use["id"] for use in _uses(made)]
    free = iter([call for call in uses if call not in answered and call not in made.agents])
    for span in alone:
        call = next(free, None)
        if call is not None:
            made.agents[call] = _agent(span, "agent")


def _said(span: Span) -> Said:
    told = span.told
    messages = _json(told.get(OUTPUT_MESSAGES))
    blocks = [block for one in _dicts(messages) for block in _blocks(one.get("parts") or one.get("content"))]
    reasons = told.get(FINISH_REASONS)
    read, written = _count(told.get(CACHE_READ_TOKENS)), _count(told.get(CACHE_WRITE_TOKENS))
    given = max(0, _count(told.get(INPUT_TOKENS)) - read - written)  # which has the cached ones
    usage = Usage(given, _count(told.get(OUTPUT_TOKENS)), read, written) if INPUT_TOKENS in told else None
    reason = str(reasons[0]) if isinstance(reasons, list) and reasons else ""
    model = str(told.get(RESPONSE_MODEL) or told.get(REQUEST_MODEL) or "")
    failure = str(told.get("error.type") or "the call failed") if span.has_failed and not blocks else ""
    return Said(span.end, blocks, span.id, reason, usage, model, failure)


def _returned(span: Span, call: str) -> Returned:
    result = span.told.get(TOOL_RESULT)
    value = _json(result)
    if not isinstance(value, str):
        value = result if isinstance(result, str) else msgspec.json.encode(value).decode()
    return Returned(span.end, call, "" if result is None else value, span.has_failed)


def _words(messages: object) -> list[Block]:
    """Return the words of the user behind the last answer."""
    found: list[Block] = []
    for one in _dicts(messages):
        if one.get("role") == "user":
            found += _blocks(one.get("parts") or one.get("content"))
        elif one.get("role") == "assistant":
            found = []
    return [block for block in found if block["type"] != "tool_use"]


def _blocks(parts: object) -> list[Block]:
    """Return the parts of a message as blocks of the Messages API."""
    if isinstance(parts, str):
        return [{"type": "text", "text": parts}] if parts else []
    return [block for one in _dicts(parts) if (block := _block(one)) is not None]


def _block(part: Block) -> Block | None:
    kind, content = part.get("type"), part.get("content")
    if kind == "tool_call":
        given = _json(part.get("arguments"))
        arguments = given if isinstance(given, dict) else {}
        name, call = str(part.get("name") or "unnamed"), str(part.get("id") or "")
        return {"type": "tool_use", "id": call, "name": name, "input": arguments}
    if kind == "tool_call_response":
        return None
    if kind == "reasoning":
        return {"type": "thinking", "thinking": str(content or ""), "signature": ""}
    text = content if isinstance(content, str) else msgspec.json.encode(part).decode()
    return {"type": "text", "text": text}


def _dicts(value: object) -> list[Block]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _json(value: object) -> object:
    """Return a value that an attribute may hold as JSON in a text."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 2**53 else 0
