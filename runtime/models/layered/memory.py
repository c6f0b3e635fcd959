"""The conversations that were sent, as bytes: a message is converted once, although every request holds it.

One entry for each running agent. It holds the items that its last request sent, and the length of the part
that the request before that had, which a turn that was taken back begins with. Entries of ended agents go;
beyond a total of bytes the oldest go, and their conversations are converted again when they are needed.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from callboard.actors.protocol.immutable import Json

BYTES_MAX: Final = 64 * 2**20

Key = tuple[str, str]
"""The id of the session and the address of the agent."""


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
