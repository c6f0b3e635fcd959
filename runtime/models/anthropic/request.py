"""The body of a Messages API request, made from a `ModelRequest` without decoding its contents.

Tools, system and messages are sent as their bytes in the log. From request to request of one agent they only
grow at the end, so the service finds its prompt cache. A cache mark needs a block, so with caching on, a text
is written as a list of one text block, in every message of every request. To the API they are the same.

Places of the marks (at most four are allowed, and the service looks at most 20 blocks back;
https://platform.claude.com/docs/en/build-with-claude/prompt-caching):
  1. on the last block of the conversation, for the next request to find;
  2. on the last block of the system prompt, else on the last tool, for other agents of the profile;
  3. on the last block of the previous request, because one turn can add more than 20 blocks.
A request with the user's own marks keeps them and gets only the first of these, if four are not used up.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.repairs import InputRules
from callboard.actors.protocol.request import ModelRequest

Cache: TypeAlias = bool | Literal["1h"]  # True sets cache marks that last five minutes, "1h" an hour
# Parameters that callboard sets, and those that are logged with the others and sent as headers.
RESERVED: Final = frozenset({"model", "max_tokens", "messages", "system", "tools", "stream"})
AS_HEADERS: Final = {"api_version": "anthropic-version", "betas": "anthropic-beta"}
MARKS_MAX: Final = 4
# The rules that `callboard.testing.request_problem` states with their sources. Signatures are left to a
# higher repair level: servers that speak this API give and take reasoning without one.
TAKES: Final = InputRules(
    name=re.compile("[a-zA-Z0-9_-]{1,128}"),
    name_chars_max=128,
    use_id=re.compile("[a-zA-Z0-9_-]+"),
    is_unique=True,
    texts="a character",  # blank ones of an assistant were taken, in recorded traffic
    ends_spoken=True,
    server_tools=True,
)
_MARK: Final = b'{"type":"ephemeral"}'
_NO_THINKING: Final = Json(b'{"type":"disabled"}')
_MARK_1H: Final = b'{"type":"ephemeral","ttl":"1h"}'
# Block types known to take a mark. Thinking blocks do not, and an unknown type might not.
_MARKABLE: Final = frozenset({"text", "image", "document", "search_result", "tool_use", "tool_result"})
# Models known to allow a forced tool. Opus 5.5, Sonnet 5.5 and Fable refuse it with a 400, and models with
# thinking on by default do as well ("What's new" pages of platform.claude.com/docs, 2026).
_FORCES: Final = re.compile(r"claude-(3|(opus|sonnet|haiku)-4)(-|$)")
# A mark of the user. Inside a JSON string the quotes would be escaped, so only keys match. A key of that name
# in the arguments of a call matches too; it only costs our own marks.
_OWN_MARK: Final = re.compile(rb'"cache_control"\s*:\s*+(?!null)')
# A call with a text as input. Inside a JSON string the quotes would be escaped.
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])


class _Head(msgspec.Struct):
    type: str = ""
    text: object = None
    role: str = ""


_HEAD: Final = msgspec.json.Decoder(_Head)


def body_of(
    request: ModelRequest,
    said: Sequence[Json],
    *,
    stream: bool,
    cache: Cache,
    force_tools: bool | None,
) -> bytes:
    """Return the request as it is sent. said: the conversation, as this model reads it.

    force_tools: the model accepts a forced tool; None: by its name.
    """
    # Nothing is decoded that need not be: a conversation of a megabyte would hold up the event loop each
    # turn.
    params = params_of(request)
    tools, system, messages = list(request.tools), request.system, list(said)
    if cache:
        tools, system, messages = _with_marks(tools, system, messages, cache, params)
    body: dict[str, object] = {"model": request.model.name, "max_tokens": request.model.max_tokens}
    body.update((key, value) for key, value in params.items() if key not in RESERVED | AS_HEADERS.keys())
    if said is not request.messages and _ends_without_thinking(said, params):
        body["thinking"] = _NO_THINKING
    if request.force_tool and _may_force(request.model.name, params, force_tools):
        body["tool_choice"] = _forced(request.force_tool, params.get("tool_choice", NULL))
    if tools:
        body["tools"] = tools
    if system != NULL:
        body["system"] = system
    body["messages"] = messages
    if stream:
        body["stream"] = True
    return msgspec.json.encode(body)


def params_of(request: ModelRequest) -> dict[str, Json]:
    """Return the further parameters of this call, as they are logged."""
    return {} if request.model.params == NULL else _OBJECT.decode(request.model.params)


def headers_of(request: ModelRequest) -> dict[str, str]:
    """Return the headers among the parameters of this call."""
    headers = {}
    for key, raw in params_of(request).items():
        if key in AS_HEADERS:
            value = msgspec.json.decode(raw, type=str | list[str])
            headers[AS_HEADERS[key]] = value if isinstance(value, str) else ",".join(value)
    return headers


def _may_force(name: str, params: dict[str, Json], force_tools: bool | None) -> bool:
    # The API says: "Thinking may not be enabled when tool_choice forces tool use".
    thinking = params.get("thinking", NULL)
    if thinking != NULL and _HEAD.decode(thinking).type != "disabled":
        return False
    return bool(_FORCES.search(name)) if force_tools is None else force_tools


def _ends_without_thinking(said: Sequence[Json], params: dict[str, Json]) -> bool:
    """Return True if thinking is set, and the calls whose results come last were made without it."""
    # The API wants a message with such calls to start with a thinking block while thinking is enabled. The
    # message of another model has none for this one. After its own next message the model may think again.
    if _HEAD.decode(params.get("thinking", _NO_THINKING)).type != "enabled":
        return False
    last = next((one for one in reversed(said) if _HEAD.decode(one).role == "assistant"), None)
    kinds = [] if last is None else [_HEAD.decode(one).type for one in _blocks(_content(last))]
    return "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking")


def _content(message: Json) -> Json:
    return _OBJECT.decode(message).get("content", NULL)


def _forced(tool: str, choice: Json) -> dict[str, object]:
    """Return the choice of this one tool; the user's choice about parallel calls stays."""
    forced: dict[str, object] = {"type": "tool", "name": tool}
    if choice != NULL and (parallel := _OBJECT.decode(choice).get("disable_parallel_tool_use")):
        forced["disable_parallel_tool_use"] = parallel
    return forced


def _with_marks(
    tools: list[Json], system: Json, messages: list[Json], cache: Cache, params: dict[str, Json]
) -> tuple[list[Json], Json, list[Json]]:
    system, messages = _as_blocks(system), [_with_blocks(message) for message in messages]
    own = sum(len(_OWN_MARK.findall(part)) for part in [*tools, system, *messages])
    own += params.get("cache_control", NULL) != NULL
    mark = _MARK_1H if cache == "1h" and not own else _MARK
    if own < MARKS_MAX:
        marked_at = _mark_last(messages, len(messages), mark)
        previous = _end_of_previous(messages)
        if not own and previous < marked_at:
            _mark_last(messages, previous + 1, mark)
    if not own:
        tools, system = _mark_fixed(tools, system, mark)
    return tools, system, messages


def _mark_fixed(tools: list[Json], system: Json, mark: bytes) -> tuple[list[Json], Json]:
    blocks = _blocks(system)
    if blocks and _is_markable(blocks[-1]):
        blocks[-1] = _marked(blocks[-1], mark)
        return tools, _joined(blocks)
    for index in reversed(range(len(tools))):
        if "defer_loading" not in _OBJECT.decode(tools[index]):
            return [*tools[:index], _marked(tools[index], mark), *tools[index + 1 :]], system
    return tools, system


def _mark_last(messages: list[Json], below: int, mark: bytes) -> int:
    """Mark the last markable block in the messages below an index. Return its message's index, or -1."""
    for at in reversed(range(below)):
        message = _OBJECT.decode(messages[at])
        blocks = _blocks(message.get("content", NULL))
        for index in reversed(range(len(blocks))):
            if _is_markable(blocks[index]):
                blocks[index] = _marked(blocks[index], mark)
                messages[at] = Json(msgspec.json.encode({**message, "content": _joined(blocks)}))
                return at
    return -1


def _end_of_previous(messages: list[Json]) -> int:
    said = (at for at in reversed(range(len(messages))) if _HEAD.decode(messages[at]).role == "assistant")
    return next(said, 0) - 1


def _with_blocks(message: Json) -> Json:
    parts = _OBJECT.decode(message)
    content = parts.get("content", NULL)
    if _HEAD.decode(message).role != "system":
        content = _as_blocks(content)
    if blocks := _blocks(content):
        content = _joined(blocks)
    return Json(msgspec.json.encode({**parts, "content": content}))


def _as_blocks(content: Json) -> Json:
    """Write a text as a list of one text block. An empty text stays: the API refuses an empty block."""
    text = bytes(content).strip()
    return Json(b'[{"type":"text","text":' + text + b"}]") if text[:1] == b'"' and text != b'""' else content


def _blocks(content: Json) -> list[Json]:
    return _LIST.decode(content) if bytes(content).lstrip()[:1] == b"[" else []


def _is_markable(block: Json) -> bool:
    head = _HEAD.decode(block)
    return head.type in _MARKABLE and not (head.type == "text" and head.text == "")


def _marked(block: Json, mark: bytes) -> Json:
    text = bytes(block).rstrip()
    if b'"cache_control"' in text and "cache_control" in (parts := _OBJECT.decode(block)):
        is_free = parts["cache_control"] == NULL
        return Json(msgspec.json.encode({**parts, "cache_control": Json(mark)})) if is_free else block
    return Json(text[:-1] + b',"cache_control":' + mark + b"}")


def _joined(blocks: list[Json]) -> Json:
    return Json(b"[" + b",".join(map(bytes, blocks)) + b"]")
