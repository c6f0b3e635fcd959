"""The sizes of pages of a long read: many small events, or few large ones, so that memory stays bounded."""

from collections.abc import Sequence
from typing import Final

from callboard.runtime.log.protocol import Sealed, Stored

FIRST_EVENTS: Final = 100
PAGE_BYTES: Final = 4 << 20
"""The bytes that a page is meant to hold. One event may hold more, and the sizes of events may change."""


class PageSizes:
    """The number of events of the next page. most: of any page."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.events = min(FIRST_EVENTS, most)

    def note(self, page: Sequence[Stored | Sealed]) -> None:
        """Learn from a page that was read: the next one grows to at most four times its events."""
        held = sum([len(row.body) for row in page])
        held += sum([len(one.data) for row in page if row.cuts for one in row.cuts])
        wanted = len(page) * PAGE_BYTES // max(held, 1)
        self.events = max(1, min(self._most, 4 * self.events, wanted))
