"""The calls of a stream of generateContent: each part holds a whole one, so only doubles and pieces matter.

A call that comes again under its id is the same one, and is left out. If its arguments have grown meanwhile,
both are kept and none runs; any other arguments are those of another call. Without ids, an equal call in a
later event may be the same one or another: it is kept and does not run. Nor does a call that comes in pieces
(`partialArgs`), which callboard never asks for.
"""

import json
from collections.abc import Callable
from typing import NamedTuple

from callboard.runtime.models.call_arguments import CONTRADICTED, DOUBLED, UNFINISHED
from callboard.runtime.models.layered.dialects import JsonObject
from callboard.runtime.models.layered.events import event_of, value_of


class _Said(NamedTuple):
    """A call with an id. said: as a text. at: its number."""

    call: JsonObject
    said: str
    at: int


class GeminiStream:
    """The calls of one stream. on_calls: told of each one's reason not to run it, "" to run it."""

    def __init__(self, on_calls: Callable[[list[str]], None]) -> None:
        self._on_calls = on_calls
        self._reasons: list[str] = []
        self._by_id: dict[str, list[_Said]] = {}
        self._seen: set[str] = set()  # calls without ids of earlier events

    def take(self, event: bytes) -> bytes:
        """Take an event. Return the events to read in its place. Raises what a wrong form raises."""
        if b'"functionCall"' not in event:
            return event
        chunk = value_of(event)
        content = (chunk.get("candidates") or [{}])[0].get("content") or {}
        parts = content.get("parts") or []
        new: set[str] = set()
        kept = [
            part for part in parts if "functionCall" not in part or self._is_kept(part["functionCall"], new)
        ]
        self._seen |= new
        if len(kept) == len(parts):
            return event
        content["parts"] = kept
        return event_of(chunk)

    def end(self) -> bytes:
        """Tell of the calls."""
        self._on_calls(self._reasons)
        return b""

    def _is_kept(self, call: JsonObject, new: set[str]) -> bool:
        is_piece = bool(call.get("willContinue") or call.get("partialArgs"))
        if not call.get("name"):  # a further piece
            self._reasons[-1:] = [UNFINISHED] if self._reasons else []
            return False
        why = UNFINISHED if is_piece else ""
        said = json.dumps([call["name"], call.get("args") or {}], sort_keys=True)
        if call_id := call.get("id"):
            same = [one for one in self._by_id.setdefault(call_id, []) if one.call["name"] == call["name"]]
            if any(one.said == said for one in same):
                return False
            for one in same:
                if _has_grown(one.call.get("args"), call.get("args")):
                    self._reasons[one.at] = why = CONTRADICTED
            self._by_id[call_id].append(_Said(call, said, len(self._reasons)))
        elif said in self._seen:
            why = why or DOUBLED
        else:
            new.add(said)
        self._reasons.append(why)
        return True


def _has_grown(before: object, after: object) -> bool:
    """Return True if the arguments so far are the beginning of later ones."""
    if isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) <= len(after) and all(map(_has_grown, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() <= after.keys() and all(_has_grown(before[key], after[key]) for key in before)
    return before == after or before is None or before == {}
