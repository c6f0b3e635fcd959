"""Conversations as JSON: items of the Messages API, of Chat Completions, or of the Responses API.

    [item, ...]                           one conversation
    {"messages": [item, ...], ...}        one, with `system`, `tools`, `model` beside it; also `input`
    a line of JSON for each item          one conversation
    a line of JSON for each conversation  a session for each

Items that an assistant makes one after the other are one reply. An item may have `usage`, `model` and a time.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.errors import InvalidHistory
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.profiles import ToolSpec
from callboard.actors.protocol.usage import Usage
from callboard.runtime.histories.content import Repairs, blocks_in
from callboard.runtime.histories.shapes import Call, Reader, Result
from callboard.runtime.imports.conversations import Conversation, name_of, tool_of
from callboard.runtime.imports.pieces import reasoning_in
from callboard.runtime.imports.traffic import Block, Part, Returned, Said, Words
from callboard.runtime.models.answer_bodies import usage_in as counts_in
from callboard.runtime.sanitize import clean_json

_LISTS: Final = ("messages", "input", "items", "conversation", "history")
_TIMES: Final = ("timestamp", "created_at", "created", "ts", "time")
_SYSTEM: Final = ("system", "developer")
_YEAR_2001_S: Final = 10**9
_YEAR_2001_MS: Final = 10**12


def conversations_in(data: bytes) -> list[tuple[str, Conversation]]:
    """Return the conversations of a file, each with the id that it states; empty for none.

    Raises InvalidHistory for data that has no conversation.
    """
    values = _values(data)
    if all(_list_in(one) is not None for one in values) and values:
        return [_whole(one) for one in values]
    if not all(isinstance(one, dict) and _is_item(one) for one in values) or not values:
        raise InvalidHistory(0, "is no message of the Messages API, Chat Completions or the Responses API")
    return [_whole({"messages": values})]


def _values(data: bytes) -> list[Any]:
    """Return the JSON values of a file: one, those of one list, or one on each line."""
    found = documents_in(data)
    is_list = len(found) == 1 and isinstance(found[0], list) and _list_in(found[0]) is None
    return found[0] if is_list else found


def documents_in(data: bytes) -> list[Any]:
    """Return the JSON values of a file: one, or one on each line. Raises InvalidHistory."""
    data = clean_json(data)
    try:
        return [msgspec.json.decode(data)]
    except (msgspec.DecodeError, RecursionError):
        pass  # perhaps one value a line
    try:
        return [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidHistory(0, f"cannot be read: {error}") from None


def is_conversation(value: object) -> bool:
    """Return True for an item, a list of items, or an object with one."""
    items = value if isinstance(value, list) else _list_in(value)
    if items is None:
        return _is_item(value)
    return bool(items) and all(map(_is_item, items))


def _is_item(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    role, kind = value.get("role"), value.get("type")
    is_item = "call_id" in value or isinstance(value.get("summary"), list)
    return isinstance(role, str) or (isinstance(kind, str) and is_item)


def _list_in(value: object) -> list[Any] | None:
    """Return the items under a key of an object; None for any other value."""
    if not isinstance(value, dict) or isinstance(value.get("role"), str):
        return None
    found = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
    if found is None and isinstance(value.get("input"), str):
        found = [{"role": "user", "content": value["input"]}]
    return found


def _whole(value: JsonObject) -> tuple[str, Conversation]:
    items = [*(_list_in(value) or ()), *_output(value)]
    made = Conversation(name_of(value.get("agent") or value.get("name"), "agent"), [], {})
    system = value.get("system") or value.get("instructions")
    while items and isinstance(items[0], dict) and items[0].get("role") in _SYSTEM and not system:
        system = items.pop(0).get("content")
    made.instructions = system if isinstance(system, str) else blocks_in(system) or None
    made.tools = tools_in(value.get("tools"))
    made.parts = _parts(items, _text(value.get("model")))
    made.model = next((one.model for one in made.parts if isinstance(one, Said) and one.model), "")
    ids = (value.get(key) for key in ("session_id", "conversation_id", "id"))
    return next((one for one in ids if isinstance(one, str) and one), ""), made


def _output(value: JsonObject) -> list[Any]:
    """Return the answer beside a request: the items of a response, or the message of a completion."""
    output, choices = value.get("output"), value.get("choices")
    if isinstance(output, list):
        return output
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return [choices[0].get("message")]
    return []


def tools_in(listed: object) -> dict[str, ToolSpec]:
    """Return the tools of a request, in the shape of any of the three APIs, by name."""
    found = {}
    for one in listed if isinstance(listed, list) else ():
        told = one.get("function", one) if isinstance(one, dict) else {}
        name = told.get("name") if isinstance(told, dict) else None
        if isinstance(name, str) and name:
            schema = told.get("input_schema") or told.get("parameters")
            found[name] = tool_of(name, told.get("description"), schema)
    return found


def _parts(items: Iterable[Any], model: str) -> list[Part]:
    """Return the parts of the items of one conversation."""
    reader, joined = Reader(None, Repairs()), Joined(model)
    for index, item in enumerate(items):
        about = item if isinstance(item, dict) else {}
        joined.begin(about)
        if thoughts := reasoning_in(about):
            joined.said().blocks += thoughts
        for one in reader.read(item, index):
            if isinstance(one, Call):
                joined.call(one)
            elif isinstance(one, Result):
                joined.result(one)
            elif one.role == "assistant":
                joined.said().blocks.append(one.block)
            else:
                joined.parts.append(Words(joined.at, [one.block]))
    return joined.parts


class Joined:
    """The parts so far. model: that answers where an item names none. at: the time of the item."""

    def __init__(self, model: str) -> None:
        self.parts: list[Part] = []
        self.at = 0
        self._model = model
        self._about: Block = {}
        self._names: dict[str, str] = {}  # the open calls of the last reply, with the names of their tools
        self._calls = 0

    def begin(self, item: Block) -> None:
        """Begin an item."""
        self.at, self._about = max(self.at, time_in(item)), item

    def said(self) -> Said:
        """Return the reply under way, or a new one."""
        last = self.parts[-1] if self.parts else None
        if not isinstance(last, Said):
            last = Said(self.at, [], model=self._model)
            self.parts.append(last)
            self._names = {}
        last.usage = usage_in(self._about.get("usage")) or last.usage
        last.model = _text(self._about.get("model")) or last.model
        last.stop_reason = _text(self._about.get("stop_reason")) or last.stop_reason
        return last

    def call(self, call: Call) -> None:
        """Add a call to the reply."""
        said = self.said()
        self._calls += 1
        name = call.id or f"call_{self._calls}"
        self._names[name] = call.name
        said.blocks.append({"type": "tool_use", "id": name, "name": call.name, "input": call.arguments})

    def result(self, result: Result) -> None:
        """Add a result: of the call with its id, else of the first open one of its name, or of any."""
        named = (call for call, name in self._names.items() if result.name in ("", name))
        call = result.id or next(named, "")
        self._names.pop(call, None)
        self.parts.append(Returned(self.at, call, result.content, result.is_error))


def usage_in(usage: object) -> Usage | None:
    """Return the usage of a call in the words of any of the three APIs; None for none.

    Where the cached tokens are part of the input, they are taken out of it.
    """
    if not isinstance(usage, dict) or (found := counts_in([{"usage": usage}])) is None:
        return None
    cached = _cached_in(usage)
    if cached > found.input_tokens:
        return found
    read = found.cache_read_tokens + cached
    return replace(found, input_tokens=found.input_tokens - cached, cache_read_tokens=read)


def _cached_in(usage: JsonObject) -> int:
    told = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    cached = told.get("cached_tokens") if isinstance(told, dict) else 0
    return cached if type(cached) is int and cached > 0 else 0


def time_in(item: JsonObject) -> int:
    """Return the time of an item in milliseconds since 1970 UTC; 0 for none."""
    value = next((item[key] for key in _TIMES if item.get(key) is not None), None)
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value)
        except ValueError:
            return 0
        return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1_000)
    if isinstance(value, bool) or not isinstance(value, int | float) or not _YEAR_2001_S <= value < 2**53:
        return 0
    return int(value if value >= _YEAR_2001_MS else value * 1_000)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
