"""The wire dialects: where a request holds its conversation, and how a call looks in it.

A body holds the conversation as a list under one key. The list grows only at its end, apart from its head
(the system prompt, where the dialect has it in the list), so the part that was sent before is kept as bytes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.immutable import Json

JsonObject: TypeAlias = dict[str, Any]
"""An object of JSON whose form is known to the reader only."""


class Dialect(NamedTuple):
    """One way to write a request.

    name: in origins. key: of the conversation in the body. is_head: tells an item of the head. calls_of:
    returns the objects of an item that hold `arguments` as text. has_files_in_results: True if the result of
    a tool may hold images.
    """

    name: str
    key: str
    is_head: Callable[[JsonObject], bool]
    calls_of: Callable[[JsonObject], Iterator[JsonObject]]
    has_files_in_results: bool = False


def _chat_calls(item: JsonObject) -> Iterator[JsonObject]:
    for call in item.get("tool_calls") or ():
        yield call["function"]


def _responses_calls(item: JsonObject) -> Iterator[JsonObject]:
    if item.get("type") == "function_call":
        yield item


CHAT: Final = Dialect(
    "chat",
    "messages",
    lambda item: item.get("role") in ("system", "developer"),
    _chat_calls,
)
RESPONSES: Final = Dialect("responses", "input", lambda item: False, _responses_calls, True)

_REASONING: Final = ("reasoning", "reasoning_content")
_BODY: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])


def with_ids(dialect: Dialect, body: bytes) -> bytes | None:
    """Return the body of an answer with an empty id for each call that has none; None if all have one.

    The layer refuses a whole completion with such a call, which some servers send.
    """
    if dialect is not CHAT or b'"tool_calls"' not in body:
        return None
    try:
        answer: JsonObject = msgspec.json.decode(body)
        bare = [call for call in _calls_in(answer) if call.get("id") is None]
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError):
        return None  # the layer names the fault
    for call in bare:
        call["id"] = ""
    return msgspec.json.encode(answer) if bare else None


def _calls_in(answer: JsonObject) -> Iterator[JsonObject]:
    for choice in answer["choices"]:
        yield from choice["message"].get("tool_calls") or ()


def split(dialect: Dialect, body: bytes, written: Sequence[str]) -> tuple[JsonObject, list[Json], Json]:
    """Split a body into its keys, the head of its conversation, and the rest of the conversation.

    written: the arguments of the calls in it, in order, as the model wrote them: the layer has its own
    spelling. The rest is the items as JSON, without the brackets of their list.
    """
    keys: JsonObject = dict(_BODY.decode(body))
    head: list[Json] = []
    rest: list[bytes] = []
    left = list(written)
    for raw in _ITEMS.decode(keys[dialect.key]):
        item = msgspec.json.decode(raw)
        if not rest and dialect.is_head(item):
            head.append(Json(bytes(raw)))
        else:
            rest.append(_with_arguments(dialect, item, bytes(raw), left))
    return keys, head, Json(b",".join(rest))


def _without_empty_reasoning(item: JsonObject) -> bool:
    """Drop empty reasoning from an item. Return whether there was some."""
    # The layer adds it to some messages of a request, and to others of the next one.
    empty = [name for name in _REASONING if item.get(name) == ""]
    for name in empty:
        del item[name]
    return bool(empty)


def _with_arguments(dialect: Dialect, item: JsonObject, raw: bytes, left: list[str]) -> bytes:
    """Return an item with the arguments of its calls as they were written. left: those of later calls."""
    is_changed = _without_empty_reasoning(item)
    for call in dialect.calls_of(item):
        written = left.pop(0) if left else call["arguments"]
        is_changed |= call["arguments"] != written
        call["arguments"] = written
    return msgspec.json.encode(item) if is_changed else raw


def joined(dialect: Dialect, keys: JsonObject, items: Sequence[bytes]) -> bytes:
    """Return the body with these items as its conversation. items: JSON texts with one item or more."""
    conversation = Json(b"[" + b",".join(filter(None, map(bytes, items))) + b"]")
    return msgspec.json.encode({**keys, dialect.key: conversation})
