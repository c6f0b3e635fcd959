"""The input rules of Bedrock's Converse API: the requests that it refuses.

Only rules that an agent runtime can break. Made of the published reference of Converse and ConverseStream
(https://docs.aws.amazon.com/bedrock/latest/APIReference), of the guide to reasoning, and of public reports
that are named beside their rules.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from callboard.replay.testing.input_rules.breaking import Broken, first_broken, need

JsonObject = Mapping[str, object]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
USE_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
BODY = {
    "messages", "system", "inferenceConfig", "toolConfig", "additionalModelRequestFields", "guardrailConfig",
    "additionalModelResponseFieldPaths", "requestMetadata", "performanceConfig", "promptVariables",
    "serviceTier",
}  # fmt: skip
INFERENCE = {"maxTokens", "temperature", "topP", "stopSequences"}
USERS = {"text", "image", "document", "toolResult", "cachePoint"}
MODELS = {"text", "toolUse", "reasoningContent"}
MARK = {"cachePoint": {"type": "default"}}
DOCUMENT_NAME = re.compile(r"(?!.*\s\s)[a-zA-Z0-9\s()\[\]-]{1,200}")
DOCUMENTS = {"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"}
FORMATS = {"png", "jpeg", "gif", "webp"}
NOT_AT_TOP = {"anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref"}


def problem_of(body: JsonObject) -> str:
    """Return the first rule that a request breaks, or "" for none."""
    return first_broken(lambda: _check(body))


def _only(value: JsonObject, keys: set[str], where: str) -> None:
    unknown = sorted(value.keys() - keys)
    need(not unknown, f"extraneous key [{unknown[0] if unknown else ''}] is not permitted at {where}")


def _objects(value: object, where: str) -> Sequence[JsonObject]:
    is_list = isinstance(value, list) and all(isinstance(one, dict) for one in value)
    need(is_list and bool(value), f"{where} must be a list of objects that is not empty")
    return cast(Sequence[JsonObject], value)


def _check(body: JsonObject) -> None:
    _only(body, BODY, "body")
    _only(cast(JsonObject, body.get("inferenceConfig", {})), INFERENCE, "inferenceConfig")
    system = cast(Sequence[JsonObject], body.get("system", []))
    for block in system:
        is_text = block.keys() == {"text"} and bool(block["text"])
        need(is_text or block == MARK, "system: a text that is not blank")
    _objects(body.get("messages"), "messages")
    _check_marks(body, system)
    _check_tools(cast(JsonObject, body.get("toolConfig", {"tools": []})))
    _check_messages(_objects(body.get("messages"), "messages"), "toolConfig" in body)


def _check_tools(config: JsonObject) -> None:
    _only(config, {"tools", "toolChoice"}, "toolConfig")
    listed = [tool for tool in cast(Sequence[Any], config["tools"]) if tool != MARK]
    tools = [cast(JsonObject, tool["toolSpec"]) for tool in listed]
    for tool in tools:
        _only(tool, {"name", "description", "inputSchema"}, "toolSpec")
        need(bool(NAME.fullmatch(str(tool["name"]))), "toolSpec.name")
        need(tool.get("description") != "", "toolSpec.description: at least 1 character")
        schema = cast(Mapping[str, JsonObject], tool["inputSchema"])["json"]
        need(schema.get("type") == "object", "The value at inputSchema.json.type must be: object")
        need(not NOT_AT_TOP & schema.keys(), f"inputSchema.json: {sorted(schema)}")
    choice = cast(JsonObject, config.get("toolChoice", {"auto": {}}))
    need(len(choice) == 1 and choice.keys() <= {"auto", "any", "tool"}, f"toolChoice {choice}")
    if "tool" in choice:
        named = cast(JsonObject, choice["tool"])["name"]
        need(named in [tool["name"] for tool in tools], f"toolChoice names {named!r}")


def _check_messages(messages: Sequence[JsonObject], has_tools: bool) -> None:
    calls: list[str] = []
    names: list[str] = []
    used: set[str] = set()
    for at, message in enumerate(messages):
        where = f"messages.{at}"
        _only(message, {"role", "content"}, where)
        is_users = message.get("role") == "user"
        need(is_users or message.get("role") == "assistant", f"{where}.role")
        if at:
            need(message["role"] != messages[at - 1]["role"], f"{where}: roles must alternate")
        blocks = _objects(message.get("content"), f"{where}.content")
        names += _documents(blocks, where)
        for block in blocks:
            need(len(block) == 1, f"{where}: one member in a block, not {sorted(block)}")
            need(block.keys() <= (USERS if is_users else MODELS), f"{where}: {sorted(block)} by this role")
            _CHECKS[next(iter(block))](next(iter(block.values())), where)
        calls = _paired(blocks, calls, where)
        # "toolUse blocks contain duplicate Ids" in a message: https://github.com/BerriAI/litellm/pull/20049;
        # over the request, of Claude: https://github.com/musistudio/claude-code-router/issues/599
        need(len({*calls}) == len(calls) and not used & {*calls}, f"{where}: duplicate Ids: {calls}")
        used |= {*calls}
        need(has_tools or not calls, "The toolConfig field must be defined when using toolUse")
    need(len(names) == len(set(names)), f"Messages content contains duplicate document file names: {names}")
    need(not calls, f"Expected toolResult blocks for the following ids: {calls}")
    need(messages[0]["role"] == messages[-1]["role"] == "user", "begins and ends with a user message")


def _check_marks(body: JsonObject, system: Sequence[JsonObject]) -> None:
    """Check the cache marks: at most four, none at a beginning, none right behind a document."""
    tools = cast(Sequence[JsonObject], cast(JsonObject, body.get("toolConfig", {})).get("tools", []))
    messages = cast(Sequence[JsonObject], body["messages"])
    lists = [system, tools, *(cast(Sequence[JsonObject], one["content"]) for one in messages)]
    marks = [(one, at) for one in lists for at, block in enumerate(one) if "cachePoint" in block]
    need(len(marks) <= 4, f"{len(marks)} cachePoint blocks, at most 4 are allowed")
    for one, at in marks:
        need(one[at] == MARK and at > 0, "cachePoint: a type, behind something to keep")
        need(not one[at - 1].keys() & {"document", "cachePoint"}, "cachePoint: right behind a document")


def _documents(blocks: Sequence[JsonObject], where: str) -> list[str]:
    """Return the names of the documents of a message."""
    found = [cast(JsonObject, one["document"]) for one in blocks if "document" in one]
    need(len(found) <= 5, f"{where}: {len(found)} documents, at most 5 are allowed")
    need(not found or any("text" in one for one in blocks), f"{where}: a text must be beside a document")
    return [str(one["name"]) for one in found]


def _document(value: Any, where: str) -> None:
    _only(value, {"name", "format", "source"}, f"{where}.document")
    need(bool(DOCUMENT_NAME.fullmatch(value["name"])), f"{where}: document.name {value['name']!r}")
    need(value["format"] in DOCUMENTS and value["source"].keys() == {"bytes"}, f"{where}: document")
    data = base64.b64decode(value["source"]["bytes"], validate=True)
    need(0 < len(data) <= 4_500_000, f"{where}: document of {len(data)} bytes")


def _paired(blocks: Sequence[JsonObject], calls: list[str], where: str) -> list[str]:
    """Check that the results of a message are those of the calls before it. Return its own calls."""
    results = [str(cast(JsonObject, one["toolResult"])["toolUseId"]) for one in blocks if "toolResult" in one]
    need(sorted(results) == sorted(calls), f"{where}: toolResult for {results}, toolUse were {calls}")
    return [str(cast(JsonObject, one["toolUse"])["toolUseId"]) for one in blocks if "toolUse" in one]


def _text(value: object, where: str) -> None:
    need(isinstance(value, str) and bool(value.strip()), f"{where}: text content blocks must be non-empty")


def _image(value: Any, where: str) -> None:
    need(value["format"] in FORMATS and value["source"].keys() == {"bytes"}, f"{where}: image")
    try:
        base64.b64decode(value["source"]["bytes"], validate=True)
    except binascii.Error:
        raise Broken(f"{where}: image.source.bytes") from None


def _tool_use(value: Any, where: str) -> None:
    _only(value, {"toolUseId", "name", "input"}, f"{where}.toolUse")
    need(bool(USE_ID.fullmatch(value["toolUseId"])), f"{where}: toolUseId {value['toolUseId']!r}")
    need(bool(NAME.fullmatch(value["name"])), f"{where}: toolUse.name {value['name']!r}")
    need(isinstance(value["input"], dict), f"{where}: toolUse.input must be a JSON object")


def _tool_result(value: Any, where: str) -> None:
    _only(value, {"toolUseId", "content", "status"}, f"{where}.toolResult")
    need(value.get("status", "success") in ("success", "error"), f"{where}: status")
    for block in _objects(value["content"], f"{where}.toolResult.content"):
        need(len(block) == 1 and block.keys() <= {"text", "json", "image", "document"}, f"{where}: result")


def _reasoning(value: Any, where: str) -> None:
    need(value.keys() <= {"reasoningText", "redactedContent"} and len(value) == 1, f"{where}: reasoning")
    if "reasoningText" in value:
        text = value["reasoningText"]
        need(bool(text.get("signature")) and "text" in text, f"{where}: reasoning without a signature")


_CHECKS = {
    "text": _text,
    "image": _image,
    "document": _document,
    "cachePoint": lambda value, where: None,
    "toolUse": _tool_use,
    "toolResult": _tool_result,
    "reasoningContent": _reasoning,
}
