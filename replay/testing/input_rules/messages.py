"""The input rules of the Messages API: the requests that it refuses with status 400.

Only rules that an agent runtime can break. Each is documented
(https://platform.claude.com/docs/en/api/messages), or stands in a recorded refusal, or in a public report
that is named beside it. Recorded requests that were answered keep them all.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

JsonObject = Mapping[str, object]

MARKS_MAX = 4
THINKING_TOKENS_MIN = 1_024

_ID = re.compile("[a-zA-Z0-9_-]+")
_NAME = re.compile("[a-zA-Z0-9_-]{1,128}")
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
_ONLY_BY = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
}
"""Blocks that only one role may send."""


def problem_of(body: object, version: str = "2023-06-01") -> str:
    """Return the reason for which this version of the API refuses a request; empty if it accepts it."""
    if not isinstance(body, dict):
        return "the body is not a JSON object"
    rules = _RULES if version < "2026-10-21" else (*_RULES, _since_2026)
    return next((problem for rule in rules for problem in rule(body)), "")


def _fields(body: JsonObject) -> Iterator[str]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: Field required"
    if not isinstance(body.get("max_tokens"), int):
        yield "max_tokens: Field required"
    elif cast(int, body["max_tokens"]) < 1:
        yield "max_tokens: Input should be greater than or equal to 1"
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        yield "messages: at least one message is required"


def _roles(body: JsonObject) -> Iterator[str]:
    roles = [message.get("role") for message in _messages(body)]
    if unknown := set(roles) - {"user", "assistant", "system"}:
        yield f"messages: unexpected roles {unknown}"
    if roles and roles[0] != "user":
        yield "messages: first message must use the user role"


def _contents(body: JsonObject) -> Iterator[str]:
    for at, message in enumerate(_messages(body)):
        content = message.get("content")
        is_last = at == len(_messages(body)) - 1
        if not content and not (is_last and message.get("role") == "assistant"):
            yield f"messages.{at}: all messages must have non-empty content"
        for index, block in enumerate(_blocks(message)):
            if not isinstance(block, dict) or not isinstance(block.get("type"), str):
                yield f"messages.{at}.content.{index}.type: Field required"
            elif block["type"] == "text" and not block.get("text"):
                yield f"messages.{at}.content.{index}: text content blocks must be non-empty"
            elif block["type"] == "text" and not str(block["text"]).strip() and message.get("role") == "user":
                # Recorded requests with such a block in an assistant's message were answered.
                yield f"messages.{at}.content.{index}: text content blocks must contain non-whitespace text"
        if (
            is_last
            and message.get("role") == "assistant"
            and _last_text(message) != _last_text(message).rstrip()
        ):
            yield "messages: final assistant content cannot end with trailing whitespace"


def _last_text(message: JsonObject) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = _blocks(message)
    return str(blocks[-1].get("text", "")) if blocks and blocks[-1].get("type") == "text" else ""


def _blocks_by_role(body: JsonObject) -> Iterator[str]:
    """Check that each block stands in a message of a role that may have it, and that it is whole."""
    for at, message in enumerate(_messages(body)):
        for index, block in enumerate(_blocks(message)):
            kind, place = block.get("type"), f"messages.{at}.content.{index}"
            if kind in _ONLY_BY and message.get("role") != _ONLY_BY[str(kind)]:
                yield f"{place}: `{kind}` blocks can only be in `{_ONLY_BY[str(kind)]}` messages"
            if kind == "tool_use":
                yield from _call(block, place)
            if kind == "tool_result" and not isinstance(block.get("content", ""), str | list):
                yield f"{place}.tool_result.content: Input should be a valid list"


def _ends(body: JsonObject) -> Iterator[str]:
    """Check that no reply ends with reasoning: https://github.com/NousResearch/hermes-agent/pull/13010"""
    for at, message in enumerate(_messages(body)):
        kinds = [block.get("type") for block in _blocks(message)]
        if message.get("role") == "assistant" and kinds and kinds[-1] in ("thinking", "redacted_thinking"):
            yield f"messages.{at}: The final block in an assistant message cannot be `thinking`."


def _server_tools(body: JsonObject) -> Iterator[str]:
    """Check that the service's own tools have their results, but for a turn that it is to go on with.

    https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons (pause_turn)
    https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools (beside a call of ours)
    """
    waiting: list[object] = []
    for at, (role, blocks) in enumerate(_turns(body)):
        # The service runs them once the calls beside them have their results; any word ends the turn early.
        if role == "user" and waiting and not all(block.get("type") == "tool_result" for block in blocks):
            yield f"turn {at}: server tool use was found without a corresponding result block"
            return
        for block in blocks:
            if block.get("type") in _SERVER_CALLS:
                waiting.append(block.get("id"))
            elif _is_server_result(block):
                if block.get("tool_use_id") not in waiting:
                    yield f"turn {at}: unexpected `tool_use_id` found in server tool results"
                    return
                waiting.remove(block.get("tool_use_id"))


def _is_server_result(block: JsonObject) -> bool:
    return str(block.get("type")).endswith("_tool_result")


def _unique_ids(body: JsonObject) -> Iterator[str]:
    """Check the ids of calls over the whole request: https://github.com/anthropics/claude-code/issues/28515"""
    seen: set[object] = set()
    for at, message in enumerate(_messages(body)):
        for block in _blocks(message):
            if block.get("type") in ("tool_use", *_SERVER_CALLS):
                if block.get("id") in seen:
                    yield f"messages.{at}: `tool_use` ids must be unique"
                seen.add(block.get("id"))


def _call(block: JsonObject, place: str) -> Iterator[str]:
    if not isinstance(block.get("input"), dict):
        yield f"{place}.tool_use.input: Input should be a valid dictionary"
    if not _ID.fullmatch(str(block.get("id", ""))):
        yield f"{place}.tool_use.id: String should match pattern '{_ID.pattern}'"
    if not _NAME.fullmatch(str(block.get("name", ""))):
        yield f"{place}.tool_use.name: String should match pattern '{_NAME.pattern}'"


def _results_first(body: JsonObject) -> Iterator[str]:
    """Check that no other block stands before a result: the service looks for them at the beginning."""
    for at, (_, blocks) in enumerate(_turns(body)):
        kinds = [block.get("type") == "tool_result" for block in blocks]
        if sorted(kinds, reverse=True) != kinds:
            yield f"turn {at}: `tool_use` ids were found without `tool_result` blocks immediately after"


def _tool_results(body: JsonObject) -> Iterator[str]:
    """Check that each call has one result in the next turn, and each result a call in the turn before."""
    turns = _turns(body)
    for at, (role, blocks) in enumerate(turns):
        called = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
        returned = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
        if role == "assistant":
            after = turns[at + 1][1] if at + 1 < len(turns) else None
            found = [block.get("tool_use_id") for block in after or [] if block.get("type") == "tool_result"]
            if after is not None and (missing := [id for id in called if id not in found]):
                yield f"messages: `tool_use` ids were found without `tool_result` blocks: {missing}"
        before = turns[at - 1][1] if at else []
        known = {block.get("id") for block in before if block.get("type") == "tool_use"}
        if unknown := [id for id in returned if id not in known]:
            yield f"messages: unexpected `tool_use_id` found in `tool_result` blocks: {unknown}"
        if len(set(called)) < len(called) or len(set(returned)) < len(returned):
            yield "messages: `tool_use` ids must be unique"


def _tools(body: JsonObject) -> Iterator[str]:
    tools = cast(Sequence[JsonObject], body.get("tools") or [])
    names = [tool.get("name") for tool in tools]
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."
    for at, tool in enumerate(tools):
        if tool.get("type", "custom") == "custom":
            yield from _own_tool(tool, f"tools.{at}.custom")
    choice, thinking = body.get("tool_choice"), body.get("thinking")
    if choice is not None and not tools:
        yield "tool_choice: tool_choice may only be specified while providing tools"
    if not isinstance(choice, dict):
        return
    if choice.get("type") == "tool" and choice.get("name") not in names:
        yield f"tool_choice: tool {choice.get('name')!r} not found"
    is_thinking = isinstance(thinking, dict) and thinking.get("type") != "disabled"
    if choice.get("type") in ("tool", "any") and is_thinking:
        yield "Thinking may not be enabled when tool_choice forces tool use."


def _own_tool(tool: JsonObject, place: str) -> Iterator[str]:
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        yield f"{place}.input_schema: Field required"
    elif schema.get("type") != "object":
        yield f"{place}.input_schema.type: Input should be 'object'"
    if not _NAME.fullmatch(str(tool.get("name", ""))):
        yield f"{place}.name: String should match pattern '{_NAME.pattern}'"


def _thinking(body: JsonObject) -> Iterator[str]:
    thinking, most = body.get("thinking"), body.get("max_tokens")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int) or budget < THINKING_TOKENS_MIN:
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    elif isinstance(most, int) and most <= budget:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`"
    said = [blocks for role, blocks in _turns(body) if role == "assistant"]
    kinds = [block.get("type") for block in said[-1]] if said else []
    if "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking"):
        yield f"Expected `thinking` or `redacted_thinking`, but found `{kinds[0]}`."


def _marks(body: JsonObject) -> Iterator[str]:
    marked = [block for block in _everything(body) if isinstance(block, dict) and block.get("cache_control")]
    if len(marked) + bool(body.get("cache_control")) > MARKS_MAX:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}."
    for block in marked:
        if block.get("type") in ("thinking", "redacted_thinking"):
            yield "thinking.cache_control: Extra inputs are not permitted"
        if block.get("type") == "text" and not block.get("text"):
            yield "cache_control cannot be set for empty text blocks"
        if block.get("defer_loading"):
            yield "Tools with defer_loading cannot have cache_control"


def _since_2026(body: JsonObject) -> Iterator[str]:
    """Check the rules of https://platform.claude.com/docs/en/api/migration-2026-10-21"""
    if gone := {"temperature", "top_p", "top_k"} & body.keys():
        yield f"{gone}: Extra inputs are not permitted"
    for message in _messages(body):
        for block in _blocks(message):
            if message.get("role") == "assistant" and block.get("type") == "document":
                yield "document blocks are not permitted in assistant messages"
            if message.get("role") == "user" and block.get("type") == "text" and block.get("citations"):
                yield "citations are not permitted in user messages"


_RULES = (
    _fields,
    _roles,
    _contents,
    _blocks_by_role,
    _tool_results,
    _unique_ids,
    _server_tools,
    _ends,
    _results_first,
    _tools,
    _thinking,
    _marks,
)


def _messages(body: JsonObject) -> Sequence[JsonObject]:
    return cast(Sequence[JsonObject], body.get("messages") or [])


def _blocks(message: JsonObject) -> Sequence[JsonObject]:
    content = message.get("content")
    return cast(Sequence[JsonObject], content) if isinstance(content, list) else []


def _turns(body: JsonObject) -> list[tuple[str, list[JsonObject]]]:
    """Merge neighbours of the same role, as the API does, and leave out system messages."""
    turns: list[tuple[str, list[JsonObject]]] = []
    for message in _messages(body):
        role = str(message.get("role"))
        if role == "system":
            continue
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        turns[-1][1].extend(_blocks(message))
    return turns


def _everything(body: JsonObject) -> Iterator[JsonObject]:
    yield from cast(Sequence[JsonObject], body.get("tools") or [])
    if isinstance(body.get("system"), list):
        yield from cast(Sequence[JsonObject], body["system"])
    for message in _messages(body):
        for block in _blocks(message):
            yield block
            if block.get("type") == "tool_result":
                yield from _blocks(block)
