"""The bodies of model requests, as the log keeps them: each as its difference to the one before it.

The requests of one agent grow at their end, so a body begins, and often ends, as the body before it. Only the
bytes between are kept, as texts that are cut where a message of the conversation begins. So the bodies of a
conversation grow with it, and equal long messages of several agents are stored once.
"""

from itertools import pairwise
from typing import AnyStr, Final, NamedTuple

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ModelReplied

CONVERSATIONS: Final = ("messages", "input", "contents")
"""The keys under which services have a conversation, as a list."""

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str)


class KeptBody(NamedTuple):
    """A body without the bytes that it shares with the one before it.

    head, tail: the number of shared bytes at its beginning and at its end. pieces: the bytes between, as JSON
    texts; there is always one.
    """

    head: int
    tail: int
    pieces: tuple[Json, ...]


def shortened(before: bytes, body: bytes) -> KeptBody:
    """Return a body as its difference to the one before it. Raises UnicodeDecodeError if it is not UTF-8."""
    places = _messages(body)
    shared = shared_head(before, body)
    head = max((end for place in places for end in place if end <= shared), default=0)
    tail = _shared_tail(before, body, head)
    end = len(body) - tail
    cuts = [head, *(start for start, _ in places if head < start < end), end]
    parts = (body[start:stop] for start, stop in pairwise(cuts))
    return KeptBody(head, tail, tuple(Json(msgspec.json.encode(part.decode())) for part in parts))


def restored(before: bytes, kept: KeptBody) -> bytes:
    """Return the body that was shortened."""
    middle = "".join(map(_TEXT.decode, kept.pieces)).encode()
    return before[: kept.head] + middle + before[len(before) - kept.tail :]


def body_after(before: bytes, reply: ModelReplied) -> bytes:
    """Return the body that was kept last, up to and with an answer. before: the one before the answer."""
    if reply.sent is None or not reply.body:
        return before
    return restored(before, KeptBody(reply.sent.head, reply.sent.tail, reply.body))


def _messages(body: bytes) -> list[tuple[int, int]]:
    """Return the start and the end of each message of a conversation; none in a body of an unknown form."""
    try:
        keys = _OBJECT.decode(body)
        found = next((keys[name] for name in CONVERSATIONS if name in keys), msgspec.Raw(b"[]"))
        items = list(map(bytes, _LIST.decode(found)))
    except msgspec.DecodeError:
        return []
    places, at = [], body.find(bytes(found))
    for item in items:
        at = body.find(item, at)
        places.append((at, at := at + len(item)))
    return places


def shared_head(one: AnyStr, other: AnyStr) -> int:
    """Return the number of bytes or characters with which both begin."""
    # Halves are compared as wholes: a loop over the bytes of a megabyte would hold the event loop.
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _shared_tail(before: bytes, body: bytes, head: int) -> int:
    """Return the number of bytes with which both end, behind a shared head. A character is never cut."""
    most = min(len(before), len(body)) - head
    tail = shared_head(before[::-1][:most], body[::-1][:most])
    while tail and body[-tail] & 0xC0 == 0x80:
        tail -= 1
    return tail
