"""A persistent map from whole numbers to values: old versions stay as they were.

A radix tree of tuples, 32 wide. `put` and `drop` copy one tuple per level, so a decider's state with ten
thousand agents changes in O(log n); what is dropped leaves no hole behind, so walking costs what is there.
Used as a map (children by ordinal), as a sequence (a conversation) and as a queue (tickets that grow).
"""

from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar, cast

V = TypeVar("V")
_BITS: Final = 5
_WIDTH: Final = 1 << _BITS
_MASK: Final = _WIDTH - 1
_EMPTY: Final[tuple[Any, ...]] = (None,) * _WIDTH


class IntMap(Generic[V]):
    """An immutable map with keys from 0 up; values must not be None."""

    __slots__ = ("_root", "_shift", "size")

    def __init__(self, _root: tuple[Any, ...] | None = None, _shift: int = 0, size: int = 0) -> None:
        self._root = _root
        self._shift = _shift
        self.size = size

    def __len__(self) -> int:
        return self.size

    def get(self, key: int) -> V | None:
        """The value, or None."""
        node, shift = self._root, self._shift
        if node is None or not 0 <= key >> shift < _WIDTH:
            return None
        while shift:
            node = node[(key >> shift) & _MASK]
            if node is None:
                return None
            shift -= _BITS
        return cast("V | None", node[key & _MASK])

    def put(self, key: int, value: V) -> "IntMap[V]":
        """This map with the value under the key. Raises ValueError for a key below 0, or None."""
        if key < 0 or value is None:
            raise ValueError(f"an IntMap holds values under keys from 0 up, not {value!r} under {key}")
        root, shift = self._root, self._shift
        if root is None:
            while key >> shift >= _WIDTH:
                shift += _BITS
            root = _EMPTY
        while key >> shift >= _WIDTH:
            root = (root, *_EMPTY[1:])
            shift += _BITS
        if not shift:
            is_new = root[key] is None
            return IntMap(_with(root, key, value), 0, self.size + is_new)
        path = []
        node, at_shift = root, shift
        while at_shift:
            at = (key >> at_shift) & _MASK
            path.append((node, at))
            node = node[at] or _EMPTY
            at_shift -= _BITS
        is_new = node[key & _MASK] is None
        node = _with(node, key & _MASK, value)
        for above, at in reversed(path):
            node = _with(above, at, node)
        return IntMap(node, shift, self.size + is_new)

    def drop(self, key: int) -> "IntMap[V]":
        """This map without the key."""
        if self._root is None or self.get(key) is None:
            return self
        return IntMap(_drop(self._root, self._shift, key), self._shift, self.size - 1)

    def first(self) -> tuple[int, V] | None:
        """The lowest key and its value, or None."""
        return next(self.items(), None) if self.size else None

    def items(self) -> Iterator[tuple[int, V]]:
        """Keys and values, in the order of the keys."""
        if self._root is not None:
            yield from _walk(self._root, self._shift, 0)

    def values(self) -> Iterator[V]:
        """The values, in the order of their keys."""
        return (value for _, value in self.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntMap) and list(self.items()) == list(other.items())

    __hash__ = None  # type: ignore[assignment]  # compared by content, and the values may not be hashable

    def __repr__(self) -> str:
        return f"IntMap({dict(self.items())!r})"


def _with(node: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    """The node with one place changed: by way of a list, which takes half the time of joining slices."""
    places = list(node)
    places[at] = value
    return tuple(places)


def _drop(node: tuple[Any, ...], shift: int, key: int) -> tuple[Any, ...] | None:
    at = (key >> shift) & _MASK
    below = _drop(node[at], shift - _BITS, key) if shift else None
    left = _with(node, at, below)
    return None if left == _EMPTY else left


def _walk(node: tuple[Any, ...], shift: int, base: int) -> Iterator[tuple[int, Any]]:
    for at, below in enumerate(node):
        if below is not None:
            key = base | at << shift
            if shift:
                yield from _walk(below, shift - _BITS, key)
            else:
                yield key, below
