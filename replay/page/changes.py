"""The changes that each event made: in the states of agents, and in the files that a call wrote.

A state is folded once, in the order of the log, and compared with the one before. Parts that did not change
are the same objects, so a comparison reads only the changed ones. The supervisor is left out: its state is
as large as the session, and its figures stand in the tree.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import zip_longest
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from callboard.actors.agent.open_calls import OpenCalls
from callboard.actors.agent.request_prefix import RequestPrefix
from callboard.actors.agent.state import AgentState, Unsent, initial_agent
from callboard.actors.agent.tasks import Background
from callboard.actors.protocol.addresses import is_agent
from callboard.actors.protocol.errors import CorruptLog, Diverged
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.intmap import IntMap, Node
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.core import recorded_failure
from callboard.actors.session.file_history import FileHistory
from callboard.replay.file_diffs import line_diff
from callboard.replay.refused_calls import RefusalWatch, RefusedCall
from callboard.replay.states import Fold, Output, to_jsonable
from callboard.runtime.log.file_contents import Contents
from callboard.runtime.log.recorded_files import WHY

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
    if not isinstance(new, msgspec.Struct):
        change.values[path] = _encode(new)
    elif isinstance(new, IntMap) and isinstance(old, IntMap):
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
    for at, (before, after) in enumerate(zip_longest(old, new)):
        if before is after:
            continue
        key = base | at << shift
        if shift:
            yield from _changed(before or (), after or (), shift - _BITS, key)
        elif before != after:
            yield key, after


FILES_MAX: Final = 20
"""Files of one call whose lines a page has."""
CHARS_MAX: Final = 20_000
"""Characters of the lines of one file in a page."""


class FileWrites:
    """The files of a session. Feed it every event in order."""

    def __init__(self) -> None:
        self._history = FileHistory()
        self._contents = Contents()

    def take(self, event: Event) -> Iterator[bytes]:
        """Take an event in. Yield the line with the differences of the files that it names."""
        body = event.body
        if not isinstance(body, ToolReturned) or not body.files:
            return
        self._contents.add(body.contents)
        found: list[tuple[str, str]] = []
        before: dict[str, FileVersion] = {}
        for version in body.files:
            if version.is_found:
                before[version.path] = version
            elif len(found) < FILES_MAX:
                old = before.get(version.path) or self._history.now(version.path)
                found.append((version.path, self._difference(version, old)[:CHARS_MAX]))
        self._history.take(event)
        if found:
            yield b"+" + _encode([event.seq, found])

    def _difference(self, version: FileVersion, old: FileVersion | None) -> str:
        for one in (version, old):
            if one is not None and one.left_out:
                return f"@@ the log does not have the bytes: {WHY[one.left_out]}"
        try:
            before, after = (self._bytes(one) for one in (old, version))
        except CorruptLog as error:
            return f"@@ {error}"
        return "\n".join(line_diff(version.path, before, after)) or "@@ the permission alone"

    def _bytes(self, version: FileVersion | None) -> bytes | None:
        return None if version is None or not version.is_there else self._contents.read(version.digest)
