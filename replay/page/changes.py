"""The changes that each event made in the states of agents, as paths of fields and their new values.

A state is folded once, in the order of the log, and compared with the one before. Parts that did not change
are the same objects, so a comparison reads only the changed ones. The supervisor is left out: its state is
as large as the session, and its figures stand in the tree.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from callboard.actors.agent.open_calls import OpenCalls
from callboard.actors.agent.request_prefix import RequestPrefix
from callboard.actors.agent.state import AgentState, Unsent, initial_agent
from callboard.actors.agent.tasks import Background
from callboard.actors.protocol.addresses import is_agent
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.intmap import IntMap, Node
from callboard.actors.session.core import recorded_failure
from callboard.replay.refused_calls import RefusalWatch, RefusedCall
from callboard.replay.states import Fold, Output, to_jsonable

_encode: Final = msgspec.json.Encoder().encode
_BITS: Final = 5  # of a level of an IntMap
_OPENED: Final = (Background, OpenCalls)  # structs that are compared field by field


class Change(NamedTuple):
    """The change that one event made in its recipient's state.

    values: the new JSON by path. dropped: the paths that are gone.
    """

    seq: int
    values: dict[str, bytes]
    dropped: list[str]


class Changes:
    """The changes of all agents. Feed it every event of a session in order.

    diverged: the reason by agent, where this code decides differently than the log; its changes end there.
    refused: the calls that agents refused by themselves, as far as the changes are known.
    """

    def __init__(self) -> None:
        self.diverged: dict[str, str] = {}
        self.refused: list[RefusedCall] = []
        self._folds: dict[str, _Watched] = {}
        self._found: list[Change] = []

    def take(self, event: Event) -> list[Change]:
        """Take the next event in and return the changes that are known now, oldest first of each agent."""
        if event.sender in self._folds:
            self._give(event.sender, Output(event.cause, recorded_failure((event,))))
        if is_agent(event.recipient):
            self._give(event.recipient, event)
        return self._taken()

    def finish(self) -> list[Change]:
        """Return the changes of the events that are the last of their agents."""
        for actor, fold in self._folds.items():
            if actor not in self.diverged:
                self._try(actor, partial(fold.finish, lambda event: ""))
        return self._taken()

    def _give(self, actor: str, item: Event | Output) -> None:
        if actor in self.diverged:
            return
        fold = self._folds.get(actor)
        if fold is None:
            fold = self._folds[actor] = _Watched(actor, self._found, self.refused)
        self._try(actor, partial(fold.take, item))

    def _try(self, actor: str, fold: Callable[[], object]) -> None:
        try:
            fold()
        except Diverged as error:
            self.diverged[actor] = str(error)

    def _taken(self) -> list[Change]:
        found = self._found[:]
        self._found.clear()
        return found


class _Watched(Fold):
    """A fold that notes the changes of each decision, and the calls that were refused."""

    def __init__(self, actor: str, found: list[Change], refused: list[RefusedCall]) -> None:
        super().__init__(actor)
        self._found = found
        self.watch(RefusalWatch(refused).note)
        self._before = initial_agent(actor)

    def _decide(self, event: Event, failure: str = "") -> None:
        super()._decide(event, failure)
        after = self.state
        if isinstance(after, AgentState):
            change = Change(event.seq, {}, [])
            _compare_fields("", self._before, after, change)
            self._before = after
            if change.values or change.dropped:
                self._found.append(change)


def _compare_fields(path: str, before: Any, after: Any, change: Change) -> None:
    """Note the fields of a struct that differ."""
    names, values_of = _fields(after.__class__)
    for name, old, new in zip(names, values_of(before), values_of(after), strict=True):
        if old is not new and old != new:
            _compare(path + name, old, new, change)


@cache
def _fields(kind: Any) -> tuple[tuple[str, ...], Callable[[object], tuple[object, ...]]]:
    """Return the names of a struct's fields, of which there are several, and what reads them all at once."""
    names = kind.__struct_fields__
    return names, attrgetter(*names)


def _compare(path: str, old: object, new: object, change: Change) -> None:
    if isinstance(new, IntMap) and isinstance(old, IntMap):
        for key, value in changed_entries(old, new):
            if value is None:
                change.dropped.append(f"{path}.{key}")
            else:
                change.values[f"{path}.{key}"] = _encode(to_jsonable(value))
    elif isinstance(new, _OPENED) and type(new) is type(old):
        _compare_fields(f"{path}.", old, new, change)
    else:
        change.values[path] = _encode(_shown(new))


def _shown(value: object) -> object:
    """Return a value as the page has it. Parts that stand elsewhere in the state are left out."""
    if isinstance(value, RequestPrefix):
        changed = {"own": value.own, "others": value.others} if value.is_changed else {}
        return {"profile": value.profile.name, "system": value.system, "tools": value.tools, **changed}
    if isinstance(value, Unsent):
        return {"messages": len(value.history), "context_tokens": value.context_tokens}
    return to_jsonable(value)


def changed_entries(old: "IntMap[Any]", new: "IntMap[Any]") -> Iterator[tuple[int, Any]]:
    """Yield the keys whose values differ, with the new value; None for a key that is gone."""
    shift = max(old.shift, new.shift)
    yield from _changed(_raised(old, shift), _raised(new, shift), shift, 0)


def _raised(entries: "IntMap[Any]", shift: int) -> Node:
    """Return the root of a map as if the map had more levels."""
    root = entries.root
    for _ in range(entries.shift, shift, _BITS):
        root = (root,) if root else root
    return root


def _changed(old: Node, new: Node, shift: int, base: int) -> Iterator[tuple[int, object]]:
    for at in range(max(len(old), len(new))):
        before = old[at] if at < len(old) else None
        after = new[at] if at < len(new) else None
        if before is after or before == after:
            continue
        key = base | at << shift
        if shift:
            yield from _changed(before or (), after or (), shift - _BITS, key)
        else:
            yield key, after
