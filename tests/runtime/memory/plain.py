"""A memory in plain lists, as a model of the embedded one."""

from collections.abc import Sequence

from callboard.memory import MemoryEntry
from callboard.runtime.memory.sqlite import Term, terms_of, words_of


class PlainMemory:
    """Memories as lists of entries, oldest first."""

    def __init__(self) -> None:
        self.entries: dict[str, list[MemoryEntry]] = {}

    def remember(self, memory: str, entry: MemoryEntry) -> None:
        """Keep an entry, unless the memory has its id already."""
        held = self.entries.setdefault(memory, [])
        if entry.id not in [one.id for one in held]:
            held.append(entry)

    def recall(self, memory: str, query: str, limit: int) -> Sequence[MemoryEntry]:
        """Return the entries that fit a query, best first."""
        held, terms = self.entries.get(memory, [])[::-1], terms_of(query)[:32]
        if not terms:
            return held[:limit]
        ranks = {one.id: sum(self._weight(held, term) for term in terms if _has(one, term)) for one in held}
        fit = sorted((one for one in held if ranks[one.id]), key=lambda one: -ranks[one.id])
        return [one for one in fit[:limit] if ranks[one.id] * 3 >= ranks[fit[0].id]]

    def forget(self, memory: str, entry_id: str) -> bool:
        """Remove an entry."""
        held = self.entries.get(memory, [])
        kept = [one for one in held if one.id != entry_id]
        self.entries[memory] = kept
        return len(kept) < len(held)

    @staticmethod
    def _weight(held: list[MemoryEntry], term: Term) -> int:
        """Return the binary digits of the part of entries that have a term."""
        return len(f"{len(held) // max(sum(_has(one, term) for one in held), 1):b}")


def _has(entry: MemoryEntry, term: Term) -> bool:
    words = words_of(entry.text)
    return any(one.startswith(term.word) for one in words) if term.is_prefix else term.word in words
