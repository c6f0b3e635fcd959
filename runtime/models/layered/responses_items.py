"""The items of a Responses stream while it comes, each found by every key that its events have.

An event names its item by its place (`output_index`), by the item's id, and an item of a call by its
`call_id`, too. Servers leave some of them out, give several items the same, or change them from event to
event. The id of a call is what its result will name, so it decides where it is there.
"""

from collections.abc import Sequence
from typing import Final

from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.models.call_arguments import CONTRADICTED, NAMELESS, NO_NAME, UNCLEAR, Settled, settled

CALL: Final = "function_call"


class Item:
    """An item while it comes.

    kind: its type. place, id, call_id: None or empty until one came. begun, done, last: the item as it was
    added, as it was done, and in the last event. pieces, whole: the arguments of a call. parts: of its
    content and its summary, by field and index.
    """

    def __init__(self, kind: str, place: int | None) -> None:
        self.kind = kind
        self.place = place
        self.ids: set[str] = set()
        self.call_id = ""
        self.begun: JsonObject = {}
        self.done: JsonObject = {}
        self.last: JsonObject = {}
        self.pieces: list[str] = []
        self.wholes: list[str] = []
        self.name = ""
        self.names: set[str] = set()
        self.is_unclear = False
        self.is_contradicted = False
        self.parts: dict[tuple[str, int], JsonObject] = {}

    def note(self, item: JsonObject) -> None:
        """Keep the keys of this item as an event has it."""
        if item.get("id"):
            self.ids.add(item["id"])
        self.call_id = item.get("call_id") or self.call_id
        self.names |= {item.get("name") or ""}

    def _names(self) -> list[str]:
        """Return its names, the most trusted first: the one at its end is whole."""
        told = (self.last.get("name"), self.done.get("name"), self.name, self.begun.get("name"))
        return [name for name in told if name]

    @property
    def named(self) -> str:
        """Return the name of a call, "" if none came."""
        return next(iter(self._names()), "")

    def arguments(self) -> Settled:
        """Return the arguments of a call."""
        wholes = list(self.wholes)
        wholes += [item["arguments"] for item in (self.done, self.last) if item.get("arguments") is not None]
        begun = self.begun.get("arguments") or ""
        if begun.strip() not in ("", "{}") and not any(map(str.strip, (*self.pieces, *wholes))):
            wholes.append(begun)  # of a server that tells all at once
        pieces = () if self.is_unclear else self.pieces
        # One event alone may have lost the text that it repeats.
        is_told = len(self.wholes[:1]) + bool(self.done) + bool(self.last) > 1
        found = settled(pieces, wholes, is_told=is_told and not self.is_unclear)
        if not self.named:
            return Settled(found.text, NAMELESS)
        if self.is_contradicted or (self.names | set(self._names())) - {"", self.named}:
            return Settled(found.text, CONTRADICTED)
        return Settled(found.text, found.why or UNCLEAR) if self.is_unclear and not found.text else found

    def written(self) -> JsonObject:
        """Return the item as a whole answer has it."""
        item = {**self.begun, **self.done, **self.last, "type": self.kind}
        if self.kind == CALL:
            call_id = self.call_id or item.get("call_id") or ""
            text = self.arguments().text
            return {**item, "call_id": call_id, "name": self.named or NO_NAME, "arguments": text}
        fields = {field for field, _ in self.parts}
        return item | {field: item.get(field) or self._built(field) for field in fields}

    def _built(self, field: str) -> list[JsonObject]:
        return [part_written(part) for (name, _), part in sorted(self.parts.items()) if name == field]


def part_written(part: JsonObject) -> JsonObject:
    """Return a part of an item: the whole text if it came, else its pieces."""
    key = "refusal" if part["type"] == "refusal" else "text"
    whole = part.pop("whole", None)
    pieces = part.pop("pieces", ())
    return {**part, key: whole or "".join(pieces)}


class Items:
    """The items of one answer."""

    def __init__(self) -> None:
        self.all: list[Item] = []

    def of(self, item: JsonObject, place: int | None, *, is_new: bool = False) -> Item:
        """Return the item that an event has as a whole. is_new: the event begins it."""
        kind, ids = item.get("type") or "", {item.get("id") or ""} - {""}
        call_id = item.get("call_id") or ""
        known = [one for one in self.all if one.kind == kind]
        same = [one for one in known if call_id and one.call_id == call_id]
        # Equal ids of calls at other places, under other ids: of a server that gives all calls the same.
        if is_new:
            same = [
                one for one in same if one.ids & ids or (one.place == place and not (place is None and ids))
            ]
        elif len(same) > 1:
            exact = [one for one in same if one.ids & ids]
            exact = exact or [one for one in same if place is not None and one.place == place]
            same = exact or [one for one in reversed(same) if not one.done] or same
        free = [one for one in known if not (call_id and one.call_id and one.call_id != call_id)]
        if is_new and kind == CALL:
            free = [one for one in free if not one.begun]
        at = [one for one in free if place is not None and one.place == place]
        named = [one for one in free if one.ids & ids]
        found = next(iter((*same[:1], *at[-1:], *named[-1:])), None)
        if found is None:
            found = Item(kind, place)
            self.all.append(found)
        found.note(item)
        return found

    def at(self, kind: str, event: JsonObject) -> Item | None:
        """Return the item that a piece belongs to, None if that is unclear: all candidates are marked."""
        place, item_id = event.get("output_index"), event.get("item_id") or ""
        known = [one for one in self.all if one.kind == kind]
        by_place = [one for one in known if place is not None and one.place == place]
        by_id = [one for one in known if item_id in one.ids]
        found = [one for one in by_place if one in by_id]
        if not found:  # one key may be unknown; if they name different items, each of those may be meant
            found = by_place + by_id
        if not found and place is None and not item_id:
            found = known[-1:]
        if not found:
            found = [Item(kind, place)]
            found[0].ids |= {item_id} - {""}
            self.all += found
        if len(found) == 1 or kind != CALL:
            return found[-1]
        for one in found:
            one.is_unclear = True
        return None

    def reconcile(self, output: Sequence[JsonObject]) -> list[Item]:
        """Take the items of the last event. Return all, in their order."""
        left, missing = list(self.all), list(enumerate(output))
        for find in (_by_call, _by_id, _by_content, _by_place, _by_any):
            missing = [
                (at, item)
                for at, item in missing
                if not self._is_last_of(find(item, at, left), item, at, left)
            ]
        calls = [one for one in left if one.kind == CALL]
        for one in calls:
            one.is_contradicted = any(item.get("type") == CALL for item in output)
        known = {one.call_id for one in self.all} - {""}
        for at, item in missing:
            added = Item(item.get("type") or "", at)
            is_doubtful = bool(calls) or item.get("call_id") in known
            added.is_contradicted = added.kind == CALL and is_doubtful
            self.all.append(added)
            self._is_last_of(added, item, at, [added])
        return sorted(self.all, key=lambda one: len(self.all) if one.place is None else one.place)

    def _is_last_of(self, found: Item | None, item: JsonObject, at: int, left: list[Item]) -> bool:
        if found is None:
            return False
        left.remove(found)
        found.note(item)
        found.last, found.place = item, at
        return True


def _by_call(item: JsonObject, at: int, left: Sequence[Item]) -> Item | None:
    same = _of_call(item, at, left)
    named = [one for one in same if item.get("id") in one.ids] or [one for one in same if one.place == at]
    return named[0] if named else same[0] if len(same) == 1 else None


def _of_call(item: JsonObject, at: int, left: Sequence[Item]) -> list[Item]:
    call_id = item.get("call_id")
    return [one for one in left if call_id and one.call_id == call_id and one.kind == item.get("type")]


def _by_any(item: JsonObject, at: int, left: Sequence[Item]) -> Item | None:
    return next(iter(_of_call(item, at, left)), None)


def _by_id(item: JsonObject, at: int, left: Sequence[Item]) -> Item | None:
    same = [one for one in left if item.get("id") in one.ids and _may_be(one, item)]
    return same[0] if len(same) == 1 else None


def _by_content(item: JsonObject, at: int, left: Sequence[Item]) -> Item | None:
    """Return a call of this name with these arguments: some servers give the last event ids of its own."""
    if item.get("type") != CALL:
        return None
    told = item.get("arguments") or ""
    return next((one for one in left if _has_said(one, item.get("name"), told)), None)


def _has_said(one: Item, name: object, told: str) -> bool:
    if one.kind != CALL or name != one.named:
        return False
    found = one.arguments()
    return not found.why and not settled([found.text], [told], is_told=True).why


def _by_place(item: JsonObject, at: int, left: Sequence[Item]) -> Item | None:
    return next((one for one in left if one.place == at and _may_be(one, item)), None)


def _may_be(one: Item, item: JsonObject) -> bool:
    call_id = item.get("call_id") or ""
    return one.kind == item.get("type") and not (call_id and one.call_id and one.call_id != call_id)
