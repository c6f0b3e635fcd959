"""The part of a log's contents that its owner remembers, so that it need not be read again."""

from collections.abc import Collection, Mapping
from typing import Final

from callboard.runtime.log.sqlite.batch import KnownHead
from callboard.runtime.log.sqlite.tables import Tables

REMEMBERED_MAX: Final = 10_000  # sessions, and digests of large values, give or take one batch


class Remembered:
    """The heads of sessions, by id, and the digests of large values that the file certainly has."""

    def __init__(self) -> None:
        self.heads: dict[str, KnownHead] = {}
        self.blobs: set[bytes] = set()

    def head_of(self, tables: Tables, session_id: str) -> KnownHead:
        """Return the head of a session, from its file if it is not remembered."""
        known = self.heads.get(session_id)
        if known is None:
            entry = tables.entry(session_id)
            head = tables.head_of(entry)
            known = self.heads[session_id] = KnownHead(entry.number, entry.epoch, *head, entry.has_title)
        return known

    def add(self, heads: Mapping[str, KnownHead], blobs: Collection[bytes] = ()) -> None:
        """Remember heads and digests. Forget all others if they get too many."""
        if max(len(self.heads) + len(heads), len(self.blobs) + len(blobs)) > REMEMBERED_MAX:
            self.forget()
        self.heads.update(heads)
        self.blobs.update(blobs)

    def forget(self) -> None:
        """Forget everything: the file was changed, or a statement has failed."""
        self.heads.clear()
        self.blobs.clear()
