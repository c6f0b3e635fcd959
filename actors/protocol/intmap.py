"""A persistent map from whole numbers to values: a change makes a new map, and old ones stay valid.

The map is a radix tree of tuples, each at most 32 wide. A tuple ends with its last entry, and the tree is no
higher than its last key needs. So equal maps are equal trees, in any order of filling, and a map
of three entries is a tuple of three. `put` and `drop` copy one tuple per level: a state with ten thousand
agents changes in O(log n).
Uses: a map (children by ordinal), a sequence (a conversation), a queue (tickets that grow).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

V = TypeVar("V")
_BITS: Final = 5
_WIDTH: Final = 1 << _BITS
_MASK: Final = _WIDTH - 1

Node: TypeAlias = tuple[Any, ...]
"""Values at the lowest level, nodes above it. A missing entry is a None, or lies behind the tuple's end."""


class IntMap(msgspec.Struct, Generic[V], frozen=True, gc=False):
    """An immutable map with keys from 0 up. Values must not be None. size: the number of entries."""

    root: Node = ()
    shift: int = 0
    size: int = 0

    def __len__(self) -> int:
        return self.size

    def get(self, key: int) -> V | None:
        """Return the value under a key; None if the key is missing."""
        root, shift = self.root, self.shift
        if not shift:  # most maps have one level
            return root[key] if 0 <= key < len(root) else None
        if key < 0:
            return None
        try:  # half the steps of comparing lengths; few keys that are asked for are missing
            node = root[key >> shift]
            value: V | None = (node if shift == _BITS else _leaf(node, shift - _BITS, key))[key & _MASK]
            return value
        except (IndexError, TypeError):  # behind the end of a node, or below a missing one
            return None

    def put(self, key: int, value: V) -> "IntMap[V]":
        """Return this map with the value under the key. Raises ValueError for None and for a key below 0."""
        if key < 0 or value is None:
            raise ValueError(f"an IntMap holds values under keys from 0 up, not {value!r} under {key}")
        root, shift, size = self.root, self.shift, self.size
        if shift == _BITS and (top := key >> _BITS) < len(root):
            # Two levels with room, as in most conversations: faster without recursion.
            leaf, at = root[top] or (), key & _MASK
            is_new = at >= len(leaf) or leaf[at] is None
            return IntMap(_with(root, top, _with(leaf, at, value)), shift, size + is_new)
        if not shift and key < _WIDTH:
            if key == len(root):  # the next one, as nearly always
                return IntMap((*root, value), 0, size + 1)
            is_new = key >= len(root) or root[key] is None
            return IntMap(_with(root, key, value), 0, size + is_new)
        while key >> shift >= _WIDTH:
            root = (root,) if root else root
            shift += _BITS
        is_new = self.get(key) is None
        return IntMap(_put(root, shift, key, value), shift, size + is_new)

    def append(self, value: V) -> "IntMap[V]":
        """Return this sequence with one more value."""
        root, shift, size = self.root, self.shift, self.size
        if not shift and size == len(root) < _WIDTH and value is not None:
            return IntMap((*root, value), 0, size + 1)
        if shift == _BITS and (at := size & _MASK) and value is not None:
            # Two levels with room in the last leaf, as in most conversations: half the steps of `put`.
            leaf = root[-1]
            if len(leaf) == at and len(root) == (size >> _BITS) + 1:
                return IntMap((*root[:-1], (*leaf, value)), shift, size + 1)
        return self.put(size, value)

    def update(self, values: Mapping[int, V]) -> "IntMap[V]":
        """Return this map with other values under some of its keys. Raises KeyError for a missing key."""
        shift, span = self.shift, _WIDTH << self.shift
        for key in values:
            if not 0 <= key < span:
                raise KeyError(key)
        return IntMap(_update(self.root, shift, list(values.items())), shift, self.size)

    def drop(self, key: int) -> "IntMap[V]":
        """Return this map without the key."""
        root, shift, size = self.root, self.shift, self.size
        if not shift:
            if not 0 <= key < len(root) or root[key] is None:
                return self
            if size == 1:
                return _NO_ENTRIES
            if key < len(root) - 1:
                return IntMap(_with(root, key, None), 0, size - 1)
        elif self.get(key) is None:
            return self
        root = _drop(root, shift, key)
        # No higher than the last key needs: `put` would not build that level, and equal maps are equal trees.
        while shift and len(root) < 2:
            root, shift = root[0] if root else (), shift - _BITS
        return IntMap(root, shift, size - 1)

    def first(self) -> tuple[int, V] | None:
        """Return the lowest key and its value; None for an empty map."""
        if not self.size:
            return None
        node, shift, key = self.root, self.shift, 0
        while True:
            at = 0
            while node[at] is None:
                at += 1
            key |= at << shift
            if not shift:
                return key, node[at]
            node, shift = node[at], shift - _BITS

    def last(self) -> V:
        """Return the value under the highest key. Raises IndexError for an empty map."""
        node = self.root
        for _ in range(0, self.shift, _BITS):
            node = node[-1]
        value: V = node[-1]
        return value

    def last_until(self, is_past: Callable[[V], bool]) -> V | None:
        """Return the last value that is not past a place; None if all are.

        is_past: false for some values at the lowest keys, and true for the values at all further keys. It is
        called for O(log n) values.
        """
        node, shift = self.root, self.shift
        while True:
            found = None
            for below in node:
                if below is not None:
                    if is_past(_first_value(below, shift)):
                        break
                    found = below
            if found is None or not shift:
                return found
            node, shift = found, shift - _BITS

    def items(self) -> Iterator[tuple[int, V]]:
        """Return keys and values, in the order of the keys."""
        found: list[tuple[int, V]] = []
        _walk(self.root, self.shift, 0, found)
        return iter(found)

    def values(self) -> Iterator[V]:
        """Return the values, in the order of their keys."""
        nodes = self.root
        if not self.shift and len(nodes) == self.size:  # a sequence
            return iter(nodes)
        for _ in range(0, self.shift, _BITS):
            nodes = tuple([below for node in nodes if node is not None for below in node])
        return iter([value for value in nodes if value is not None])

    __hash__ = None  # type: ignore[assignment]  # compared by content, and the values may not be hashable

    def __repr__(self) -> str:
        return f"IntMap({dict(self.items())!r})"


_NO_ENTRIES: Final[IntMap[Any]] = IntMap()


def _leaf(node: Node, shift: int, key: int) -> Node:
    """Return the lowest node below this one on the way to a key, or an empty one."""
    while shift:
        at = key >> shift & _MASK
        node = (node[at] if at < len(node) else None) or ()
        shift -= _BITS
    return node


def _first_value(entry: Any, shift: int) -> Any:
    """Return the value at the lowest key of an entry. shift: of the node that holds it."""
    while shift:
        entry = next(below for below in entry if below is not None)
        shift -= _BITS
    return entry


def _put(node: Node, shift: int, key: int, value: object) -> Node:
    at = key >> shift & _MASK
    if shift:
        value = _put((node[at] if at < len(node) else None) or (), shift - _BITS, key, value)
    return _with(node, at, value)


def _update(node: Node, shift: int, items: list[tuple[int, object]]) -> Node:
    """Return the node with all these values, copied once."""
    places = list(node)
    if not shift:
        for key, value in items:
            at = key & _MASK
            if at >= len(places) or places[at] is None or value is None:
                raise KeyError(key)
            places[at] = value
        return tuple(places)
    below: dict[int, list[tuple[int, Any]]] = {}
    for item in items:
        below.setdefault(item[0] >> shift & _MASK, []).append(item)
    for at, inner in below.items():
        if at >= len(places) or places[at] is None:
            raise KeyError(inner[0][0])
        places[at] = _update(places[at], shift - _BITS, inner)
    return tuple(places)


def _with(node: Node, at: int, value: object) -> Node:
    if at < len(node):
        places = list(node)  # which takes half the time of joining slices
        places[at] = value
        return tuple(places)
    return (*node, *(None,) * (at - len(node)), value)


def _drop(node: Node, shift: int, key: int) -> Node:
    """Return the node without the key, no longer than its last entry."""
    at = key >> shift & _MASK
    if shift and (below := _drop(node[at], shift - _BITS, key)):
        return _with(node, at, below)
    if at < len(node) - 1:
        return _with(node, at, None)
    while at and node[at - 1] is None:
        at -= 1
    return node[:at]


def _walk(node: Node, shift: int, base: int, found: list[tuple[int, Any]]) -> None:
    for at, below in enumerate(node):
        if below is not None:
            key = base | at << shift
            if shift:
                _walk(below, shift - _BITS, key, found)
            else:
                found.append((key, below))
