"""The bodies of requests as bytes: the part of a conversation that was sent before goes out unchanged.

The layer writes the new messages of a conversation only, and in its own spelling: empty reasoning, other
arguments of calls than the model wrote, and a message of a user before a reply. `split` fixes that.

The conversations that were sent, as bytes: a message is converted once, although every request holds it.

One entry for each running agent. It holds the items that its last request sent, and the length of the part
that the request before that had, which a turn that was taken back begins with. Entries of ended agents go;
beyond a total of bytes the oldest go, and their conversations are converted again when they are needed.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.runtime.models.layered.dialects import CHAT, Dialect
from callboard.runtime.sanitize import check_json

_REASONING: Final = ("reasoning", "reasoning_content")
_DOCUMENT: Final = b'"document":{'
_BODY: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
BYTES_MAX: Final = 64 * 2**20
Key = tuple[str, str]
"""The id of the session and the address of the agent."""


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


def split(dialect: Dialect, items: Sequence[JsonObject], new: New) -> tuple[list[bytes], list[bytes]]:
    """Return the head of a conversation that the layer wrote, and the rest of it, each item as JSON.

    items: of the layer. They are changed.
    """
    head: list[bytes] = []
    rest: list[bytes] = []
    left, documents = list(new.written), new.documents
    # The layer puts an item before a reply that begins.
    for item in items[1:] if new.follows and items[0] == dialect.filler else items:
        if not rest and dialect.is_head(item):
            head.append(msgspec.json.encode(item))
            continue
        _name_documents(dialect, item, documents)
        _mend(dialect, item, left)
        rest.append(msgspec.json.encode(item))
        documents += documents_in(rest[-1])
    return head, rest


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
        last = msgspec.json.decode(items[start:], type=JsonObject) if start >= 0 else {}
    content = last.get("content", [])
    end = len(content)
    while end and "document" in content[end - 1]:  # no mark may follow some of them
        end -= 1
    if not end or last["role"] != "user":
        return items
    last["content"] = [*content[:end], mark, *content[end:]]
    return items[:start] + msgspec.json.encode(last)


def _mend(dialect: Dialect, item: JsonObject, left: list[str]) -> None:
    """Write the arguments of calls as they came, without empty reasoning. left: those of later calls."""
    for name in _REASONING:
        # The layer adds it to some messages of a request, and to others of the next one.
        if item.get(name) == "":
            del item[name]
    for call in dialect.calls_of(item):
        if left:
            call[dialect.arguments] = _arguments(dialect, left.pop(0))


def _arguments(dialect: Dialect, written: str) -> object:
    """Return the arguments of a call in the form of the dialect."""
    return written if dialect.has_text_arguments else check_json(written)


def joined(dialect: Dialect, body: bytes, items: Sequence[bytes], params: Mapping[str, object]) -> bytes:
    """Return a body with these items as its conversation. items: JSON texts with one item or more.

    params: further keys of the body. An object among them is merged with the one of the same key.
    """
    conversation = Json(b"[" + b",".join(filter(None, items)) + b"]")
    return msgspec.json.encode(_merged({**_BODY.decode(body), dialect.key: conversation}, params))


def items_of(dialect: Dialect, body: bytes) -> list[JsonObject]:
    """Return the conversation in a body."""
    items: list[JsonObject] = msgspec.json.decode(_BODY.decode(body)[dialect.key])
    return items


def _merged(values: Mapping[str, object], more: Mapping[str, object]) -> JsonObject:
    found = dict(values)
    for key, value in more.items():
        here = found.get(key)
        plain = msgspec.json.decode(here) if isinstance(here, msgspec.Raw) else here
        if isinstance(plain, dict) and isinstance(value, Mapping):
            found[key] = _merged(plain, value)
        else:
            found[key] = value
    return found


class Known(NamedTuple):
    """The beginning of a conversation that is known. messages: their number. items: as they were sent."""

    messages: int = 0
    items: bytes = b""


class _Entry(NamedTuple):
    messages: tuple[Json, ...]
    items: bytes
    before: Known


class SentConversations:
    """The conversations of one model."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._bytes_max = bytes_max
        self._bytes = 0

    def known(self, key: Key, messages: Sequence[Json]) -> Known:
        """Return the longest known beginning of a conversation."""
        entry = self._entries.get(key)
        if entry is None:
            return Known()
        for found in (Known(len(entry.messages), entry.items), entry.before):
            # The same objects, not equal ones: messages never change, and a comparison would read them all.
            ours, theirs = entry.messages[: found.messages], messages[: found.messages]
            if len(ours) == len(theirs) and all(map(_is, ours, theirs)):
                return found
        return Known()

    def keep(self, key: Key, messages: tuple[Json, ...], items: bytes, before: Known) -> None:
        """Keep a conversation that was sent. before: the beginning of it that was known."""
        self._forget(key)
        if before.messages == len(messages):  # nothing was new
            before = Known()
        self._entries[key] = _Entry(messages, items, before)
        self._bytes += 2 * len(items)
        while self._bytes > self._bytes_max and len(self._entries) > 1:
            self._forget(next(iter(self._entries)))

    def forget(self, session_id: str, address: str) -> None:
        """Forget the conversation of an agent, or without an address all of a session."""
        if address:
            self._forget((session_id, address))
            return
        for key in [key for key in self._entries if key[0] == session_id]:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= 2 * len(entry.items)


def _is(one: Json, other: Json) -> bool:
    return one is other
