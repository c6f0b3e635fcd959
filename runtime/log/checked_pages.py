"""Reading a session and checking its hash chain in one pass, page by page."""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final

from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import Head, Sealed

PAGE_EVENTS: Final = 2_000
"""Rows in memory at a time. Larger pages are no faster: 1,000 to 10,000 differ by less than the noise."""


def checked_pages(
    hash_chain: HashChain,
    session_id: str,
    origin: bytes,
    read: Callable[[int, int], list[Sealed]],
    upto: int,
    known: Head | None,
) -> Iterator[list[Sealed]]:
    """Yield pages of checked rows; see `LogReader.checked_pages`.

    read: returns up to so many rows (second argument) from a seq on (first), with large values under the
    digests that their bytes have.
    """
    if known is not None and known.seq > upto:
        known = None
    rows = chain.from_iterable(_pages(read, upto))
    checked = hash_chain.checked(session_id, origin, rows, upto, known)
    while page := list(islice(checked, PAGE_EVENTS)):
        yield page


def _pages(read: Callable[[int, int], list[Sealed]], upto: int) -> Iterator[list[Sealed]]:
    start = 1
    while start <= upto and (rows := read(start, min(PAGE_EVENTS, upto - start + 1))):
        yield rows
        start = rows[-1].seq + 1
