"""The protocol of a long-term memory, and its entries."""

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from callboard.actors.protocol.immutable import Value

SHARED: Final = "shared"
"""The memory that all agents have in common."""

TEXT_CHARS_MAX: Final = 4_000
"""Characters of one entry."""

QUERY_CHARS_MAX: Final = 1_000
"""Characters of a query."""

HITS_MAX: Final = 50
"""Entries that one query returns, at most."""


class MemoryEntry(Value, frozen=True):
    """One remembered text.

    id: of the entry in its memory. labels: those of the agent that wrote it, for the agents that read it.
    by, session_id: the profile of the writer, and its session. at: milliseconds since 1970 UTC.
    """

    id: str
    text: str
    labels: tuple[str, ...] = ()
    by: str = ""
    session_id: str = ""
    at: int = 0


@runtime_checkable
class Memory(Protocol):
    """A store of texts under the names of memories. Its methods are called from any thread.

    They raise `MemoryFailed`, or any exception: the model reads a failed call, and the session goes on.
    """

    def remember(self, memory: str, entry: MemoryEntry) -> None:
        """Store an entry, unless the memory already has its id, because a call may run twice."""
        ...

    def recall(self, memory: str, query: str, limit: int) -> Sequence[MemoryEntry]:
        """Return the entries that match a query, best first; the newest ones for a query without words."""
        ...

    def forget(self, memory: str, entry_id: str) -> bool:
        """Remove an entry. Return False if the memory has none of this id."""
        ...
