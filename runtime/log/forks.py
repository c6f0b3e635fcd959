"""Trees of forks: sessions that share events, by the rows of a store."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from callboard.runtime.log.session_rows import SessionRow

ForksChoice: TypeAlias = Literal["refuse", "delete", "keep"]
"""For the deletion of a session with forks: refuse it, delete them too, or keep them with what they share."""


def with_forks(rows: Iterable[SessionRow], session_id: str) -> list[str]:
    """Return the ids of a session and of all its forks, and theirs, each before its parent."""
    children: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        children[row.parent].append(row.session_id)
    found = [session_id]
    for name in found:  # which grows
        found += children.get(name, ())
    return found[::-1]


def whole_trees(rows: Iterable[SessionRow], is_chosen: Callable[[SessionRow], bool]) -> list[SessionRow]:
    """Return the rows of the trees of forks of which every session is chosen, each before its parent.

    A session without parent and forks is a tree of its own.
    """
    known = {row.session_id: row for row in rows}
    trees: defaultdict[str, list[SessionRow]] = defaultdict(list)
    for row in known.values():
        root = row
        while root.parent in known:
            root = known[root.parent]
        # Forks of a session that was deleted are one tree, too: its id is their parent.
        trees[root.parent or root.session_id].append(row)
    whole = (tree for tree in trees.values() if all(map(is_chosen, tree)))
    # A fork has a higher number than its parent.
    return sorted((row for tree in whole for row in tree), key=lambda row: row.number, reverse=True)


def parents_first(rows: Sequence[SessionRow]) -> list[SessionRow]:
    """Return rows in their order, but each behind the session that it is a fork of."""
    known = {row.session_id: row for row in rows}
    found: dict[str, SessionRow] = {}
    for row in rows:
        lineage = [row]
        while (parent := known.get(lineage[-1].parent)) is not None:
            lineage.append(parent)
        for one in reversed(lineage):
            found.setdefault(one.session_id, one)
    return list(found.values())
