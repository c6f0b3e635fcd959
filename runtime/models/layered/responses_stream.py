"""A stream of Responses as the whole answer that the API would give in one piece.

    event                                     its part of the answer
    response.created, .in_progress            the frame: model, id
    response.output_item.added, .done         an item, at its begin and at its end
    response.*.delta, .done                   a piece of an item, and the pieces as a whole
    response.completed, .incomplete, .failed  status, usage, and all items once more
    error                                     the error in the place of an answer
    any other                                 none

Each part may come once or several times, and the last event may hold none of the items or alone have them:
an item is taken from the last event that has it. A stream that ends without such an event broke off.
"""

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.models.call_arguments import DOUBLED, Settled, same_object
from callboard.runtime.models.failures import broken_stream
from callboard.runtime.models.layered.dialects import value_of
from callboard.runtime.models.layered.responses_items import CALL, Item, Items

OnText = Callable[[str], None]

_FRAME: Final[JsonObject] = {
    "id": "", "object": "response", "created_at": 0, "status": None, "error": None,
    "incomplete_details": None, "model": "", "output": [], "usage": None, "background": None,
    "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
}  # fmt: skip
_ENDS: Final = ("completed", "done", "incomplete", "cancelled", "failed")
"""The last word of an event that ends an answer. The later one here counts if several come."""


class _Part(NamedTuple):
    """The place of a piece: the type of its item, the field, the type of the part, the key of its number."""

    item: str
    field: str
    kind: str
    number: str


_PARTS: Final = {
    "response.output_text": _Part("message", "content", "output_text", "content_index"),
    "response.refusal": _Part("message", "content", "refusal", "content_index"),
    "response.reasoning_text": _Part("reasoning", "content", "reasoning_text", "content_index"),
    "response.reasoning_summary_text": _Part("reasoning", "summary", "summary_text", "summary_index"),
}
_ARGUMENTS: Final = "response.function_call_arguments"


class ResponsesStream:
    """The events of one answer. on_text: told of each piece of its text."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._items = Items()
        self._frame: JsonObject = {}
        self._last: JsonObject = {}
        self._output: list[JsonObject] = []
        self._end = -1
        self._told: list[str] = []

    def take(self, event: bytes) -> None:
        """Take an event. Raises what a wrong form raises."""
        if b"data:" not in event or event.rstrip().endswith(b"[DONE]"):
            return
        value = value_of(event)
        kind = value.get("type") or _name_of(event)
        name, _, last = kind.rpartition(".")
        if value.get("error") and not kind.startswith("response."):
            self._fail(value["error"])
        elif kind == "error":
            self._fail(value)
        elif isinstance(value.get("response"), dict):
            self._take_frame(value["response"], last)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._take_item(value, is_new=last == "added")
        elif name == _ARGUMENTS:
            self._take_arguments(value, last)
        elif name in _PARTS:
            self._take_part(_PARTS[name], value, last)
        elif kind == "response.output_text.annotation.added":
            part = self._part(_PARTS["response.output_text"], value)
            part.setdefault("annotations", []).append(value.get("annotation"))

    def _fail(self, error: object) -> None:
        told = error if isinstance(error, dict) else {"message": str(error)}
        code = told.get("code") or told.get("type") or ""
        self._end = len(_ENDS)
        error = {**told, "code": str(code), "message": told.get("message") or ""}
        self._last = {"status": "failed", "error": error}

    def _take_frame(self, response: JsonObject, last: str) -> None:
        if last not in _ENDS:
            self._frame |= response
            return
        status = "completed" if last == "done" else last
        self._output += [item for item in response.get("output") or () if item not in self._output]
        if _ENDS.index(last) >= self._end:
            self._end = _ENDS.index(last)
            self._last = {**response, "status": response.get("status") or status}

    def _take_item(self, event: JsonObject, *, is_new: bool) -> None:
        item = event["item"]
        found = self._items.of(item, event.get("output_index"), is_new=is_new)
        if is_new:
            found.begun = {**found.begun, **item}
        else:
            found.wholes += [found.done["arguments"]] if found.done.get("arguments") is not None else []
            found.done = item

    def _take_arguments(self, event: JsonObject, last: str) -> None:
        found = self._items.at(CALL, event)
        if found is None:
            return
        if last == "delta":
            found.pieces.append(event["delta"] or "")
        else:
            found.wholes.append(event["arguments"] or "")
            found.name = event.get("name") or found.name

    def _part(self, at: _Part, event: JsonObject) -> JsonObject:
        found = self._items.at(at.item, event)
        assert found is not None
        key = (at.field, int(event.get(at.number) or 0))
        empty: JsonObject = {"annotations": []} if at.kind == "output_text" else {}
        return found.parts.setdefault(key, {"type": at.kind, **empty})

    def _take_part(self, at: _Part, event: JsonObject, last: str) -> None:
        part = self._part(at, event)
        if last != "delta":
            part["whole"] = event.get("refusal" if at.kind == "refusal" else "text")
        elif event.get("delta"):
            part.setdefault("pieces", []).append(event["delta"])
            if at.kind == "output_text":
                self._told.append(event["delta"])
                self._on_text(event["delta"])

    def whole(self) -> tuple[bytes, list[str]]:
        """Return the answer, and for each call the reason not to run it. Raises CallFailed."""
        if self._end < 0:
            raise broken_stream("the stream ended before the answer did")
        answer = {**_FRAME, **self._frame, **self._last}
        items = _without_strays(self._items.reconcile(self._output))
        calls = _reasons([item for item in items if item.kind == CALL])
        answer["output"] = _with_own_ids([item.written() for item in items])
        self._tell_rest(answer["output"])
        return json.dumps(answer).encode(), calls

    def _tell_rest(self, output: Sequence[JsonObject]) -> None:
        """Tell the text that did not come in pieces."""
        if self._told:
            return
        parts = (part for item in output if item["type"] == "message" for part in item.get("content") or ())
        for part in parts:
            if part.get("type") == "output_text" and part.get("text"):
                self._on_text(part["text"])


def _name_of(event: bytes) -> str:
    """Return the name of an event whose data does not have its type."""
    names = (line[6:].strip() for line in event.splitlines() if line.startswith(b"event:"))
    return next(names, b"").decode("utf-8", "replace")


def _without_strays(items: Sequence[Item]) -> list[Item]:
    """Return items without those of a call that is another one's, said under a key of its own."""
    named = [item.arguments().text for item in items if item.kind == CALL and item.named]
    return [item for item in items if item.kind != CALL or item.named or not _is_said(item, named)]


def _is_said(item: Item, texts: Sequence[str]) -> bool:
    text = item.arguments().text
    return not text.strip() or any(same_object(text, one) for one in texts)


def _reasons(calls: Sequence[Item]) -> list[str]:
    found: list[str] = []
    seen: set[tuple[str, str, Settled]] = set()
    for call in calls:
        key = (call.call_id, call.named, call.arguments())
        found.append(key[2].why or (DOUBLED if call.call_id and key in seen else ""))
        seen.add(key)
    return found


def _with_own_ids(output: Sequence[JsonObject]) -> list[JsonObject]:
    """Return items without an id that an earlier one has: ids tell items apart when they go back."""
    seen: set[str] = set()
    found = []
    for item in output:
        if item.get("id") in seen:
            item = {key: value for key, value in item.items() if key != "id"}
        seen.add(item.get("id") or "")
        found.append(item)
    return found
