"""The input rules of the Gemini API: the requests that it refuses.

Only rules that an agent runtime can break. Made of the published reference of generateContent
(https://ai.google.dev/api/generate-content), and of the guides to function calling, thought signatures and
JSON Schema (https://ai.google.dev/gemini-api/docs). The API takes names in camelCase and with underscores.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from callboard.replay.testing.input_rules.breaking import Broken, first_broken, need

JsonObject = Mapping[str, object]
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")  # https://github.com/kaitranntt/ccs/issues/219
BODY = {
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "labels",
}
CONFIG = {
    "maxOutputTokens", "temperature", "topP", "topK", "stopSequences", "seed", "responseModalities",
    "thinkingConfig", "presencePenalty", "frequencyPenalty", "mediaResolution", "responseMimeType",
    "responseJsonSchema",
}  # fmt: skip
DATA = {"text", "inlineData", "fileData", "functionCall", "functionResponse"}
PART = DATA | {"thought", "thoughtSignature"}
SCHEMA = {
    "type", "description", "format", "enum", "items", "prefixItems", "minItems", "maxItems", "minimum",
    "maximum", "anyOf", "properties", "additionalProperties", "required", "$ref", "$defs",
}  # fmt: skip
TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}


def problem_of(body: JsonObject) -> str:
    """Return the first rule that a request breaks, or "" for none."""
    return first_broken(lambda: _check(camel(body)))


def camel(value: object, *, inside: str = "") -> Any:
    """Return a body with its names in camelCase. inside: the key of the value: some hold names of users."""
    if isinstance(value, list):
        return [camel(one, inside=inside) for one in value]
    if not isinstance(value, dict) or inside in ("args", "response", "parametersJsonSchema"):
        return value
    named = {re.sub(r"_([a-z])", lambda found: found[1].upper(), key): one for key, one in value.items()}
    return {key: camel(one, inside=key) for key, one in named.items()}


def _only(value: JsonObject, keys: set[str], where: str) -> None:
    unknown = sorted(value.keys() - keys)
    name = unknown[0] if unknown else ""
    need(not unknown, f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}'")


def _objects(value: object, where: str) -> Sequence[JsonObject]:
    is_list = isinstance(value, list) and all(isinstance(one, dict) for one in value)
    need(is_list and bool(value), f"{where} must be a list of objects that is not empty")
    return cast(Sequence[JsonObject], value)


def _check(body: JsonObject) -> None:
    _only(body, BODY, "body")
    _only(cast(JsonObject, body.get("generationConfig", {})), CONFIG, "generation_config")
    names = [name for tool in _objects(body.get("tools", [{}]), "tools") for name in _check_tool(tool)]
    need(len(names) == len(set(names)), "Duplicate function declaration found")
    _check_choice(cast(JsonObject, body.get("toolConfig", {})), names)
    if "systemInstruction" in body:
        parts = _objects(cast(JsonObject, body["systemInstruction"]).get("parts"), "system_instruction")
        need(all(part.keys() == {"text"} for part in parts), "system_instruction: text only")
    _check_contents(_objects(body.get("contents"), "contents"))


def _check_tool(tool: JsonObject) -> list[str]:
    _only(tool, {"functionDeclarations"}, "tools")
    return [_check_function(one) for one in cast(Sequence[JsonObject], tool.get("functionDeclarations", []))]


def _check_function(function: JsonObject) -> str:
    _only(function, {"name", "description", "parametersJsonSchema"}, "tools[0].function_declarations[0]")
    need(bool(NAME.fullmatch(str(function.get("name", "")))), "Invalid function name")
    schema = cast(JsonObject, function.get("parametersJsonSchema"))
    need(schema.get("type") == "object", "parameters schema should be of type OBJECT")
    _check_schema(schema, cast(JsonObject, schema.get("$defs", {})))
    return str(function["name"])


def _check_schema(schema: object, definitions: JsonObject) -> None:
    if not isinstance(schema, dict):
        raise Broken(f"a schema must be an object, not {schema!r}")
    _only(schema, SCHEMA, "parameters_json_schema")
    if "$ref" in schema:
        need(schema.keys() <= {"$ref", "$defs"}, "$ref must stand alone")
        need(str(schema["$ref"]).removeprefix("#/$defs/") in definitions, f"reference to {schema['$ref']}")
    kinds = schema.get("type", [])
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    need(kinds <= TYPES, f"type {kinds!r}")
    need("array" not in kinds or "items" in schema, "items: missing field")
    plain = (str, int, float)
    need(all(isinstance(one, plain) and one is not True for one in schema.get("enum", [])), "enum of words")
    for key in ("anyOf", "prefixItems"):
        for one in schema.get(key, ()):
            _check_schema(one, definitions)
    for key in ("properties", "$defs"):
        for one in schema.get(key, {}).values():
            _check_schema(one, definitions)
    for key in ("items", "additionalProperties"):
        if not isinstance(schema.get(key, True), bool):
            _check_schema(schema[key], definitions)


def _check_choice(config: JsonObject, names: list[str]) -> None:
    _only(config, {"functionCallingConfig"}, "tool_config")
    if "functionCallingConfig" not in config:
        return
    need(bool(names), "Function calling config is set without function_declarations")
    choice = cast(JsonObject, config["functionCallingConfig"])
    _only(choice, {"mode", "allowedFunctionNames"}, "function_calling_config")
    need(choice.get("mode") in ("AUTO", "ANY", "NONE", "VALIDATED"), f"mode {choice.get('mode')!r}")
    allowed = cast(list[str], choice.get("allowedFunctionNames", []))
    need(not allowed or choice["mode"] != "AUTO", "allowed_function_names should not be set with AUTO")
    need(set(allowed) <= set(names), f"allowed_function_names {allowed} are not declared")


# --- the conversation ---------------------------------------------------------------


def _check_contents(contents: Sequence[JsonObject]) -> None:
    calls: list[tuple[str, str]] = []
    for at, content in enumerate(contents):
        _only(content, {"role", "parts"}, f"contents[{at}]")
        need(content.get("role") in ("user", "model"), "Please use a valid role: user, model.")
        parts = _objects(content.get("parts"), f"contents[{at}].parts")
        for part in parts:
            _check_part(part, str(content["role"]), at)
        answers = [_named(part["functionResponse"]) for part in parts if "functionResponse" in part]
        need(
            sorted(answers) == sorted(calls),
            f"contents[{at}]: the number of function response parts must be equal to the number of function "
            f"call parts of the function call turn: {answers} for {calls}",
        )
        need(not answers or len(answers) == len(parts), f"contents[{at}]: responses beside other parts")
        calls = [_named(part["functionCall"]) for part in parts if "functionCall" in part]
        need(not calls or at > 0, "a function call turn comes after a user turn or a function response turn")
        _check_signatures(parts, at)
    need(contents[0].get("role") == "user", "the first content must be by the user")
    need(contents[-1].get("role") == "user", "Please ensure that the last content is by the user")


def _named(call: object) -> tuple[str, str]:
    found = cast(JsonObject, call)
    return str(found.get("id")), str(found.get("name"))


def _check_part(part: JsonObject, role: str, at: int) -> None:
    where = f"contents[{at}].parts"
    _only(part, PART, where)
    data = part.keys() & DATA
    need(len(data) == 1, f"{where}: required oneof field 'data' must have one initialized field: {data}")
    # An empty text is not an answer: https://github.com/router-for-me/CLIProxyAPI/issues/3485.
    # The service sends some of its signatures in such parts, and takes those.
    has_data = part.get("text") != "" or "thoughtSignature" in part
    need(has_data, f"{where}: required oneof field 'data' must have one initialized field")
    is_models = bool(part.keys() & {"functionCall", "thought", "thoughtSignature"})
    need(role == "model" or not is_models, f"{where}: a user has no {sorted(part)}")
    need(role == "user" or not part.keys() & {"functionResponse", "fileData"}, f"{where}: not by a model")
    for key, check in _CHECKS.items():
        if key in part:
            need(check(part[key]), f"{where}.{key}")


def _is_call(call: Any) -> bool:
    return call.keys() <= {"id", "name", "args"} and bool(NAME.fullmatch(call["name"])) and _is(call, "args")


def _is(value: Any, key: str) -> bool:
    return isinstance(value.get(key), dict)


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda text: isinstance(text, str),
    "inlineData": lambda data: data.keys() == {"data", "mimeType"} and _is_base64(data["data"]),
    "fileData": lambda data: (
        data.keys() <= {"fileUri", "mimeType"} and str(data["fileUri"])[:8] == "https://"
    ),
    "functionCall": _is_call,
    "functionResponse": lambda one: one.keys() <= {"id", "name", "response"} and _is(one, "response"),
    "thoughtSignature": lambda signature: _is_base64(signature),
    "thought": lambda thought: thought is True,
}


def _is_base64(value: object) -> bool:
    try:
        # The API takes the alphabet for URLs, too.
        return bool(base64.b64decode(str(value).replace("-", "+").replace("_", "/"), validate=True))
    except binascii.Error:
        return False


def _check_signatures(parts: Sequence[JsonObject], at: int) -> None:
    first = next((part for part in parts if "functionCall" in part), {"thoughtSignature": ""})
    need("thoughtSignature" in first, f"contents[{at}]: Function call is missing a thought_signature")
