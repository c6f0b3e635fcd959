"""The input rules of APIs in OpenAI's form: the requests that one of these services refuses.

Only rules that an agent runtime can break. Made of the published reference of Chat Completions and Responses
(https://platform.openai.com/docs/api-reference), and of public reports that are named beside their rules.
They hold for other servers of these APIs as well, such as vLLM and llama.cpp.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from callboard.replay.testing.input_rules.breaking import Broken, first_broken, need

JsonObject = Mapping[str, object]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID_CHARS_MAX = 64
CHAT_KEYS = {
    "model", "messages", "stream", "stream_options", "max_completion_tokens", "max_tokens", "tools",
    "tool_choice", "parallel_tool_calls", "temperature", "top_p", "seed", "stop", "reasoning_effort", "store",
    "user", "metadata", "options", "reasoning", "response_format", "prompt_cache_key", "service_tier",
    "provider", "usage", "verbosity", "frequency_penalty", "presence_penalty",
}  # fmt: skip
RESPONSES_KEYS = {
    "model", "input", "stream", "stream_options", "instructions", "max_output_tokens", "tools", "tool_choice",
    "parallel_tool_calls", "temperature", "top_p", "reasoning", "include", "store", "text", "truncation",
    "user", "metadata", "prompt_cache_key", "service_tier", "context_management",
}  # fmt: skip
PARTS = {"text": {"type", "text"}, "image_url": {"type", "image_url"}, "file": {"type", "file"}}
REASONING = {"reasoning_content", "reasoning", "reasoning_details"}
ROLES = {
    "system": {"role", "content"},
    "developer": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", *REASONING},
    "tool": {"role", "tool_call_id", "content"},
}
ITEMS = {
    "message": {"type", "id", "role", "content", "status", "phase"},
    "function_call": {"type", "id", "call_id", "name", "arguments", "status"},
    "function_call_output": {"type", "id", "call_id", "output"},
    "reasoning": {"type", "id", "summary", "encrypted_content", "content", "status"},
    "compaction": {"type", "id", "encrypted_content"},
}
INPUT_PARTS = {"input_text", "input_image", "input_file", "output_text"}


def problem_of(dialect: str, body: JsonObject) -> str:
    """Return the first rule that a request of this dialect breaks, or "" for none."""
    check = _check_chat if dialect == "chat" else _check_responses
    return first_broken(lambda: check(body))


def _only(value: JsonObject, keys: set[str], where: str) -> None:
    unknown = sorted(value.keys() - keys)
    need(not unknown, f"Unknown parameter: '{where}.{unknown[0] if unknown else ''}'.")


def _objects(value: object, where: str) -> Sequence[JsonObject]:
    need(isinstance(value, list) and all(isinstance(one, dict) for one in value), f"{where}: need objects")
    return cast(Sequence[JsonObject], value)


# --- Chat Completions ---------------------------------------------------------------


def _check_chat(body: JsonObject) -> None:
    _only(body, CHAT_KEYS, "body")
    need(isinstance(body.get("model"), str), "you must provide a model parameter")
    need("stream_options" not in body or body.get("stream") is True, "stream_options needs stream")
    need(not {"max_tokens", "max_completion_tokens"} <= body.keys(), "two limits of the answer")
    tools = _objects(body.get("tools", []), "tools")
    for tool in tools:
        _only(tool, {"type", "function"}, "tools")
        _check_function(cast(JsonObject, tool.get("function", {})))
    _check_choice(body, [str(cast(JsonObject, tool["function"])["name"]) for tool in tools])
    _check_messages(_objects(body.get("messages"), "messages"))


def _check_function(function: JsonObject) -> None:
    _only(function, {"name", "description", "parameters", "strict"}, "function")
    need(bool(NAME.fullmatch(str(function.get("name", "")))), "Invalid 'tools[].function.name'")
    parameters = function.get("parameters")
    need(isinstance(parameters, dict) and parameters.get("type") == "object", "schema must be an object")
    _check_arrays(parameters)
    if function.get("strict") is True:
        _check_strict(cast(JsonObject, parameters))


def _check_arrays(schema: object) -> None:
    if not isinstance(schema, dict):
        return
    kinds = schema.get("type")
    is_array = kinds == "array" or (isinstance(kinds, list) and "array" in kinds)
    need(not is_array or "items" in schema, "array schema missing items")
    for key, value in schema.items():
        for one in value if isinstance(value, list) and key != "enum" else [value]:
            if key not in ("const", "default"):
                _check_arrays(one)


def _check_strict(schema: JsonObject) -> None:
    if schema.get("type") == "object":
        names = cast(JsonObject, schema.get("properties", {}))
        need(schema.get("additionalProperties") is False, "strict: additionalProperties must be false")
        need(set(names) == set(cast(list[str], schema.get("required", []))), "strict: all must be required")
    for value in schema.values():
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
            if isinstance(inner, dict):
                _check_strict(inner)


def _check_choice(body: JsonObject, names: list[str]) -> None:
    choice = body.get("tool_choice")
    need(choice is None or bool(names), "tool_choice is only allowed when tools are specified")
    if isinstance(choice, dict):
        named = cast(JsonObject, choice.get("function", choice)).get("name")
        need(named in names, f"tool_choice names {named!r}, which is not a tool")
    else:
        need(choice in (None, "auto", "none", "required"), f"Invalid tool_choice {choice!r}")


def _check_messages(messages: Sequence[JsonObject]) -> None:
    need(bool(messages), "messages is empty")
    open_calls: list[str] = []
    has_begun = False
    for at, message in enumerate(messages):
        role = str(message.get("role"))
        need(role in ROLES, f"messages[{at}].role {role!r}")
        _only(message, ROLES[role], f"messages[{at}]")
        need(role != "system" or not has_begun, "System message must be at the beginning.")
        has_begun = has_begun or role != "system"
        if role == "tool":
            _answer(open_calls, message.get("tool_call_id"), at)
        else:
            need(not open_calls, f"messages[{at}]: tool_call_ids without response messages: {open_calls}")
        _check_content(message, role, at)
        open_calls += _calls_of(message, at)
    need(not open_calls, f"tool_call_ids did not have response messages: {open_calls}")
    need(messages[-1].get("role") in ("user", "tool"), "the last message is the assistant's")


def _answer(open_calls: list[str], name: object, at: int) -> None:
    need(name in open_calls, f"messages[{at}]: tool_call_id {name!r} answers no call")
    open_calls.remove(str(name))


def _check_content(message: JsonObject, role: str, at: int) -> None:
    content = message.get("content")
    if role == "assistant" and message.get("tool_calls"):
        need(content is None or isinstance(content, str), f"messages[{at}].content")
        return
    if isinstance(content, list):
        for part in _objects(content, f"messages[{at}].content"):
            need(part.get("type") in PARTS, f"messages[{at}]: no part {part.get('type')!r}")
            _only(part, PARTS[str(part["type"])], f"messages[{at}].content")
        return
    need(isinstance(content, str), f"messages[{at}].content: expected a string, got {content!r}")


def _calls_of(message: JsonObject, at: int) -> list[str]:
    found = []
    for call in _objects(message.get("tool_calls", []), "tool_calls"):
        _only(call, {"id", "type", "function"}, f"messages[{at}].tool_calls")
        function = cast(JsonObject, call.get("function", {}))
        _only(function, {"name", "arguments"}, f"messages[{at}].tool_calls.function")
        _check_call(function.get("name"), function.get("arguments"), f"messages[{at}].tool_calls")
        need(isinstance(call.get("id"), str) and bool(call["id"]), "a tool call needs an id")
        found.append(str(call["id"]))
    return found


def _check_call(name: object, arguments: object, where: str) -> None:
    """Check a call of an earlier turn.

    vLLM and llama.cpp read its arguments as an object, for templates of models:
    https://github.com/vllm-project/vllm/issues/43995, https://github.com/vllm-project/vllm/pull/48922
    """
    need(isinstance(name, str) and bool(NAME.fullmatch(name)), f"Invalid '{where}.name': {name!r}")
    need(isinstance(arguments, str), f"{where}: arguments must be a string")
    try:
        value = json.loads(cast(str, arguments), parse_constant=_no_number, object_pairs_hook=_unique)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is not text
    except ValueError as error:
        raise Broken(f"{where}: arguments: {error}") from None
    need(isinstance(value, dict), f"{where}: arguments must be a JSON object")


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object whose names differ: readers disagree about any other (RFC 8259, section 4)."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)


# --- Responses ----------------------------------------------------------------------


def _check_responses(body: JsonObject) -> None:
    _only(body, RESPONSES_KEYS, "body")
    need(isinstance(body.get("model"), str), "Missing required parameter: 'model'.")
    tools = _objects(body.get("tools", []), "tools")
    for tool in tools:
        _only(tool, {"type", "name", "description", "parameters", "strict"}, "tools")
        need(isinstance(tool.get("strict"), bool), "strict is on where it is left out")
        _check_function({key: value for key, value in tool.items() if key != "type"})
    _check_choice(body, [str(tool["name"]) for tool in tools])
    includes = cast(Sequence[object], body.get("include", []))
    seals = body.get("store") is not False or "reasoning.encrypted_content" in includes
    _check_input(_objects(body.get("input"), "input"), seals)


def _check_input(items: Sequence[JsonObject], seals: bool) -> None:
    calls: list[str] = []
    for at, item in enumerate(items):
        kind = str(item.get("type", "message"))
        need(kind in ITEMS, f"input[{at}].type {kind!r}")
        _only(item, ITEMS[kind], f"input[{at}]")
        if kind == "reasoning":
            need(seals and bool(item.get("encrypted_content")), f"Item '{item.get('id')}' not found.")
            following = items[at + 1] if at + 1 < len(items) else {}
            is_own = following.get("type") in ("function_call", "reasoning") or (
                following.get("role") == "assistant"
            )
            need(is_own, f"reasoning '{item.get('id')}' was provided without its required following item")
        _check_item(kind, item, calls, at)
    need(not calls, f"No tool output found for function call {calls}.")
    ids = [item["id"] for item in items if item.get("id")]
    # https://github.com/can1357/oh-my-pi/issues/284
    need(all(len(str(one)) <= ID_CHARS_MAX for one in ids), "Invalid 'input[].id': string too long.")
    need(len(ids) == len(set(map(str, ids))), f"Duplicate item: {json.dumps(ids)}")


def _check_item(kind: str, item: JsonObject, calls: list[str], at: int) -> None:
    if kind == "function_call":
        _check_call(item.get("name"), item.get("arguments"), f"input[{at}]")
        call_id = str(item.get("call_id") or "")
        # https://github.com/decolua/9router/issues/393
        need(0 < len(call_id) <= ID_CHARS_MAX, f"Invalid 'input[{at}].call_id': {call_id!r}")
        calls.append(str(item["call_id"]))
    elif kind == "function_call_output":
        need(item.get("call_id") in calls, f"No tool call found for {item.get('call_id')!r}")
        calls.remove(str(item["call_id"]))
    elif kind == "message":
        need(item.get("role") in ("user", "assistant", "system", "developer"), f"input[{at}].role")
        content = item.get("content")
        if not isinstance(content, str):
            for part in _objects(content, f"input[{at}].content"):
                need(part.get("type") in INPUT_PARTS, f"input[{at}]: no part {part.get('type')!r}")
