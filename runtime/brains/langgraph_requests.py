"""What a call of a chat model asks for beside its messages, in the forms of many services, as a question.

    given                         becomes
    tools                         definitions, from the form of OpenAI, Anthropic, Bedrock or a function
    tool_choice                   the tool that is forced, if it names one, or there is but one
    response_format               a tool of that schema, whose input is the text of the reply
    temperature, top_p, top_k     the same settings
    max_tokens                    the most tokens of the reply, which its grant reserves
    other settings                refused: services name them in their own ways

A tool that the service runs is refused by its name: no call of it would be in the log.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from langchain_core.utils.function_calling import convert_to_openai_tool

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.brains.common import settings_of
from callboard.runtime.programs.model_reply import ModelReply

_MEANINGLESS: Final = (
    "ls_structured_output_format",
    "structured_output_format",
    "parallel_tool_calls",
    "strict",
    "stream",
    "stream_usage",
    "timeout",
)
_ANY: Final = frozenset({"any", "required", True})
_FUNCTION_TYPES: Final = frozenset({None, "function", "object"})


class Wanted(NamedTuple):
    """What a question asks for. output: the name of the tool that stands for a response format."""

    tools: list[JsonObject]
    force_tool: str
    settings: dict[str, object]
    max_tokens: int | None
    output: str


def wanted_of(given: Mapping[str, Any]) -> Wanted:
    """Return what a call of a chat model asks for. Raises MisuseError for what no question can ask."""
    left = {key: value for key, value in given.items() if key not in _MEANINGLESS}
    choice = left.pop("tool_choice", None)
    tools = [] if choice == "none" else [definition(one) for one in left.pop("tools", None) or ()]
    left.pop("tools", None)
    most = left.pop("max_tokens", None)
    form = left.pop("response_format", None)
    force, output = _forced(choice, tools), ""
    if form:
        tools = [*tools, own := _output_tool(form)]
        output = own["name"]
        force = force or (output if len(tools) == 1 else "")
    settings = settings_of(left, (), "the call of a chat model")
    return Wanted(tools, force, settings, most if isinstance(most, int) else None, output)


def definition(tool: Any) -> JsonObject:
    """Return the definition of a tool, as of the Messages API. Raises MisuseError for a hosted tool."""
    kind = tool.get("type") if isinstance(tool, Mapping) else None
    if kind not in _FUNCTION_TYPES:
        raise MisuseError(
            f"the service itself would run the tool {kind!r:.60}, and no call of it would be in the log: "
            "leave it out, or give the session a tool that does the same"
        )
    try:
        made = convert_to_openai_tool(tool)
    except (TypeError, ValueError) as error:
        raise MisuseError(f"the tool {tool!r:.100} has no name and schema of arguments: {error}") from None
    function = made.get("function", made)
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }


def _forced(choice: Any, tools: list[JsonObject]) -> str:
    """Return the name of the tool that the reply must call; empty for a free choice."""
    names = [tool["name"] for tool in tools]
    if isinstance(choice, Mapping):
        named = choice.get("name") or (choice.get("function") or {}).get("name")
        choice = named or choice.get("type")
    if isinstance(choice, str) and choice in names:
        return choice
    return str(names[0]) if choice in _ANY and len(names) == 1 else ""


def _output_tool(form: Any) -> JsonObject:
    if isinstance(form, type):  # a model of pydantic, as OpenAI's client takes it
        return {**definition(form), "description": "Give the answer."}
    if not isinstance(form, Mapping) or form.get("type") != "json_schema":
        raise MisuseError(
            f"response_format={form!r:.80} is no JSON schema: give a schema, as `with_structured_output` does"
        )
    return _named_output(form.get("json_schema") or {})


def _named_output(told: JsonObject) -> JsonObject:
    name = str(told.get("name") or "output")
    return {"name": name, "description": "Give the answer.", "input_schema": dict(told.get("schema") or {})}


def told_in_format(reply: ModelReply, output: str) -> tuple[ModelReply, JsonObject | None]:
    """Return a reply as the response format asks for it, and its value if it has one."""
    value = next((call["input"] for call in reply.calls if call["name"] == output), None) if output else None
    if not isinstance(value, dict):
        return reply, None
    blocks = [{"type": "text", "text": json.dumps(value, ensure_ascii=False)}]
    return dataclasses.replace(reply, blocks=blocks, stop_reason="end_turn"), value
