"""The access of one tool call to long-term memories: `ctx.memory`.

Rules
  - The names are bounded by the `memory` entry of the agent's bundles, and a rule for a label of the agent or
    of this call can deny the capability. Each use is recorded, as those of files and hosts are.
  - `own` is the memory of the agent's profile, `agent:NAME` in bundles and commands. No agent reaches that of
    another profile.
  - An entry has the labels of its writer, and an agent that reads it has them then.
  - An entry's id is made of the call's idempotency key, so that a call that runs twice remembers once.

The protocol of a long-term memory, and its entries.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

from callboard.actors.protocol.bundle_entries import NAME_CHARS_MAX, name_entry
from callboard.actors.protocol.errors import MemoryFailed, MisuseError, ToolError
from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.labels import Labels, united
from callboard.actors.protocol.near_names import NamedFields
from callboard.runtime.clock import now_ms
from callboard.runtime.sanitize import clean_text
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.tools.access import Access

OWN: Final = "own"
"""The name by which an agent calls the memory of its profile."""
_AGENT: Final = "agent:"
SHARED: Final = "shared"
"""The memory that all agents have in common."""
TEXT_CHARS_MAX: Final = 4_000
"""Characters of one entry."""
QUERY_CHARS_MAX: Final = 1_000
"""Characters of a query."""
HITS_MAX: Final = 50
"""Entries that one query returns, at most."""


class MemoryEntry(Value, frozen=True, metaclass=NamedFields):
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


def entry_of(row: Sequence[object]) -> MemoryEntry:
    """Return a row of a store as an entry. Raises MemoryFailed for one that this program did not write."""
    entry_id, text, labels, by, session_id, at = row
    try:
        parts = (entry_id, text, msgspec.json.decode(str(labels)), by, session_id, at)
        return msgspec.convert(dict(zip(MemoryEntry.__struct_fields__, parts, strict=True)), MemoryEntry)
    except (msgspec.MsgspecError, RecursionError):
        raise MemoryFailed("an entry of the memory is damaged; restore a copy of it", "damaged") from None


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


def memory_of_agent(profile: str) -> str:
    """Return the name of the memory that the agents of a profile have for themselves."""
    return _AGENT + profile


class MemoryAccess:
    """The memories that one call may use.

    store: of the runtime, None for none. profile, session_id, key: of the call; the key is its idempotency
    key. access: the uses and labels of the call. labels: returns those of an entry that is written now.
    """

    def __init__(
        self,
        store: Memory | None,
        *,
        profile: str,
        session_id: str,
        key: str,
        access: Access,
        redactor: Redactor,
        labels: Callable[[], Labels],
    ) -> None:
        self._store, self._profile, self._session_id = store, profile, session_id
        self._key, self._access, self._redactor = key, access, redactor
        self._labels = labels
        self._count = 0

    def remember(self, text: str, *, memory: str = SHARED) -> str:
        """Keep a text and return its id. Secrets of the runtime are kept as `[secret:NAME]`.

        memory: a name, or `own`. Raises MemoryFailed for an empty or too long text, and if the memory cannot
        be written; ToolError for a memory that the agent's permissions withhold.
        """
        store, name = self._place(memory)
        text = self._redactor.text(clean_text(text)).strip()
        if not 0 < len(text) <= TEXT_CHARS_MAX:
            raise MemoryFailed(f"a text to remember has 1 to {TEXT_CHARS_MAX:,} characters", "too_large")
        self._count += 1
        made_of = "\n".join((name, self._key, str(self._count), text)).encode()
        entry_id = hashlib.blake2b(made_of, digest_size=8).hexdigest()
        entry = MemoryEntry(entry_id, text, self._labels(), self._profile, self._session_id, now_ms())
        store.remember(name, entry)
        return entry_id

    def recall(self, query: str = "", *, memory: str = SHARED, limit: int = 10) -> list[MemoryEntry]:
        """Return the entries that match a query, best first; the newest ones for a query without words.

        The agent of this call has the labels of all entries that are returned. limit: 1 to 50 entries.
        Raises as `remember` does.
        """
        store, name = self._place(memory)
        if len(query) > QUERY_CHARS_MAX or not 0 < limit <= HITS_MAX:
            raise MemoryFailed(
                f"a query has up to {QUERY_CHARS_MAX:,} characters, and limit is 1 to {HITS_MAX}", "too_large"
            )
        entries = _checked(store.recall(name, clean_text(query), limit))[:limit]
        self._access.read("memory", name, united(*(entry.labels for entry in entries)))
        return entries

    def forget(self, entry_id: str, *, memory: str = SHARED) -> bool:
        """Remove an entry. Return False for an unknown id. Raises as `remember` does."""
        store, name = self._place(memory)
        return bool(store.forget(name, clean_text(entry_id)))

    def _place(self, memory: str) -> tuple[Memory, str]:
        """Return the store and the full name of a memory that the agent may use."""
        if self._store is None:
            raise MisuseError(
                "this session has no memory: pass Runtime(memory='memory.db'), or ToolContext(memories=...) "
                "in a test"
            )
        name = memory_of_agent(self._profile) if memory == OWN else memory
        if (
            not 0 < len(name) <= NAME_CHARS_MAX
            or not name.isprintable()
            or name != name.strip()
            or "*" in name
        ):
            raise ToolError(f"{memory[:80]!r} is not a name of a memory; there are {SHARED!r} and {OWN!r}")
        if name.startswith(_AGENT) and name != memory_of_agent(self._profile):
            raise ToolError(f"memory {name!r} belongs to another agent")
        self._access.use("memory", name)
        return self._store, name


def _checked(found: Sequence[MemoryEntry]) -> list[MemoryEntry]:
    """Return what a store gave as a list. Raises MemoryFailed for anything but entries."""
    entries = list(found)
    if not all(isinstance(one, MemoryEntry) for one in entries):
        raise MemoryFailed("the memory returned something other than entries", "failed")
    _check_labels(united(*(one.labels for one in entries)))
    return entries


def _check_labels(labels: Labels) -> None:
    """Raise MemoryFailed for a label that is not a name, which an agent cannot have."""
    try:
        for label in labels:
            name_entry(label)
    except (ValueError, AttributeError, TypeError):
        raise MemoryFailed("an entry of the memory has a label that is not a name", "damaged") from None
