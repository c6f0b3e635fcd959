"""The bodies of requests as bytes: the part of a conversation that was sent before goes out unchanged.

The layer writes the new messages of a conversation only, and in its own spelling: empty reasoning, other
arguments of calls than the model wrote, and a message of a user before a reply. `split` mends that.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.runtime.models.layered.dialects import CHAT, Dialect, JsonObject
from callboard.runtime.sanitize import check_json

_REASONING: Final = ("reasoning", "reasoning_content")
_DOCUMENT: Final = b'"document":{'
_BODY: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])


class New(NamedTuple):
    """The new messages that the layer writes.

    written: the arguments of the calls in them, in order, as the model wrote them. follows: they begin with a
    reply, after messages that the layer does not see. documents: the number of documents before them.
    """

    written: Sequence[str] = ()
    follows: bool = False
    documents: int = 0


NOTHING_NEW: Final = New()


def with_ids(dialect: Dialect, body: bytes) -> bytes | None:
    """Return the body of an answer with an empty id for each call that has none; None if all have one.

    The layer refuses a whole completion with such a call, which some servers send.
    """
    if dialect is not CHAT or b'"tool_calls"' not in body:
        return None
    try:
        answer: JsonObject = msgspec.json.decode(body)
        bare = _without_ids(answer)
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError):
        return None  # the layer names the fault
    for call in bare:
        call["id"] = ""
    return msgspec.json.encode(answer) if bare else None


def _without_ids(answer: JsonObject) -> list[JsonObject]:
    calls = chain.from_iterable(choice["message"].get("tool_calls") or () for choice in answer["choices"])
    return [call for call in calls if call.get("id") is None]


def split(
    dialect: Dialect, body: bytes, new: New, conversation: bytes = b""
) -> tuple[JsonObject, list[Json], Json]:
    """Split a body into its keys, the head of its conversation, and the rest of the conversation.

    conversation: in place of the one in the body. The rest is the items as JSON, without the brackets of
    their list.
    """
    keys: JsonObject = dict(_BODY.decode(body))
    head: list[Json] = []
    rest: list[bytes] = []
    left, documents = list(new.written), new.documents
    conversation = conversation or bytes(keys[dialect.key])
    is_plain = dialect.is_plain(conversation)
    for raw in _items(dialect, conversation, new):
        if rest and (is_plain or dialect.is_plain(bytes(raw))):
            rest.append(bytes(raw))
            continue
        item = msgspec.json.decode(raw)
        if not rest and dialect.is_head(item):
            head.append(Json(bytes(raw)))
        else:
            _name_documents(dialect, item, documents)
            rest.append(_with_arguments(dialect, item, bytes(raw), left))
            documents += documents_in(rest[-1])
    return keys, head, Json(b",".join(rest))


def documents_in(items: bytes) -> int:
    """Return the number of documents in items, or more: each name is used only once."""
    return items.count(_DOCUMENT)


def _name_documents(dialect: Dialect, item: JsonObject, before: int) -> None:
    """Name documents by their place in the conversation: the layer counts those that it writes."""
    for number, document in enumerate(dialect.documents_of(item), before + 1):
        document["name"] = f"Document {number}"


def with_mark(items: bytes, mark: JsonObject) -> bytes:
    """Return items with a cache mark at the end of the last message, before the documents there."""
    start = items.rfind(b'{"role":')
    last: JsonObject = {}
    with suppress(msgspec.DecodeError):
        last = msgspec.json.decode(items[start:], type=dict[str, Any]) if start >= 0 else {}
    content = last.get("content", [])
    end = len(content)
    while end and "document" in content[end - 1]:  # no mark may follow some of them
        end -= 1
    if not end or last["role"] != "user":
        return items
    last["content"] = [*content[:end], mark, *content[end:]]
    return items[:start] + msgspec.json.encode(last)


def _items(dialect: Dialect, conversation: bytes, new: New) -> list[msgspec.Raw]:
    """Return the items that the layer wrote, without one that it has put before them."""
    items = _ITEMS.decode(conversation)
    is_filled = new.follows and msgspec.json.decode(items[0]) == dialect.filler
    return items[1:] if is_filled else items


def _without_empty_reasoning(item: JsonObject) -> bool:
    """Drop empty reasoning from an item. Return whether there was some."""
    # The layer adds it to some messages of a request, and to others of the next one.
    empty = [name for name in _REASONING if item.get(name) == ""]
    for name in empty:
        del item[name]
    return bool(empty)


def _with_arguments(dialect: Dialect, item: JsonObject, raw: bytes, left: list[str]) -> bytes:
    """Return an item with the arguments of its calls as they were written. left: those of later calls."""
    is_changed = _without_empty_reasoning(item) or any(dialect.documents_of(item))
    for call in dialect.calls_of(item):
        if left:
            written = _arguments(dialect, left.pop(0))
            is_changed |= call.get(dialect.arguments) != written
            call[dialect.arguments] = written
    return msgspec.json.encode(item) if is_changed else raw


def _arguments(dialect: Dialect, written: str) -> object:
    """Return the arguments of a call in the form of the dialect."""
    if dialect.has_text_arguments:
        return written
    try:
        checked = check_json(written)
    except InvalidPrompt:
        return {"arguments": written}
    return checked if bytes(checked).startswith(b"{") else {"arguments": written}


def joined(dialect: Dialect, keys: JsonObject, items: Sequence[bytes], params: Mapping[str, object]) -> bytes:
    """Return the body with these items as its conversation. items: JSON texts with one item or more.

    params: further keys of the body. An object among them is merged with the one of the same key.
    """
    conversation = Json(b"[" + b",".join(filter(None, map(bytes, items))) + b"]")
    return msgspec.json.encode(_merged({**keys, dialect.key: conversation}, params))


def _merged(values: Mapping[str, Any], more: Mapping[str, object]) -> JsonObject:
    found = dict(values)
    for key, value in more.items():
        here = found.get(key)
        plain = msgspec.json.decode(here) if isinstance(here, msgspec.Raw) else here
        if isinstance(plain, dict) and isinstance(value, Mapping):
            found[key] = _merged(plain, value)
        else:
            found[key] = value
    return found
