"""Arrays as PostgreSQL takes them in binary form, made in a few calls however many items they have.

A batch goes over as one array for each column. psycopg's own lists take 1 to 2 us an item; these take 0.2.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any, Final

_LENGTHS: Final = [struct.pack(">i", size) for size in range(4_096)]


class Int8s(bytes):
    """An array of `bigint`."""


class Texts(bytes):
    """An array of `text`."""


class Byteas(bytes):
    """An array of `bytea`."""


class Bytea(bytes):
    """One `bytea`, in binary form."""


OIDS: Final[dict[type, int]] = {Int8s: 1016, Texts: 1009, Byteas: 1001, Bytea: 17}
"""The types of the server, whose numbers never change."""


def int8s(items: Sequence[int]) -> Int8s:
    """Return an array of whole numbers of 64 bits."""
    count = len(items)
    pairs = chain.from_iterable(zip(repeat(8, count), items, strict=True))
    return Int8s(_header(20, count) + struct.pack(">" + "iq" * count, *pairs))


def texts(items: Iterable[str]) -> Texts:
    """Return an array of texts."""
    return Texts(_items(25, [item.encode() for item in items]))


def byteas(items: Sequence[bytes]) -> Byteas:
    """Return an array of byte strings."""
    return Byteas(_items(17, items))


def _items(oid: int, items: Sequence[bytes]) -> bytes:
    sizes = [_LENGTHS[size] if size < 4_096 else struct.pack(">i", size) for size in map(len, items)]
    return _header(oid, len(items)) + b"".join(chain.from_iterable(zip(sizes, items, strict=True)))


def _header(oid: int, count: int) -> bytes:
    # Number of dimensions, whether it holds NULL, type of the items, then size and first index of each.
    return struct.pack(">iiIii", 1, 0, oid, count, 1) if count else struct.pack(">iiI", 0, 0, oid)


def register(adapters: Any) -> None:
    """Teach a connection of psycopg these types."""
    from psycopg.adapt import Dumper  # here: only those who have the extra get so far
    from psycopg.pq import Format

    class _Sent(Dumper):
        format = Format.BINARY

        def dump(self, obj: bytes) -> bytes:
            return bytes(obj)

    for kind, number in OIDS.items():
        adapters.register_dumper(kind, type(f"{kind.__name__}Dumper", (_Sent,), {"oid": number}))
