"""`History`: the messages of another product, from which a sub-agent goes on.

def from_elsewhere(view: ContextRequest) -> History:
    return History(json.loads(Path("messages.json").read_text()), repair=True)

Agent("helper", context=from_elsewhere)

The messages of a history from its words, calls and results: each call has its result, at its place.

Rules
  - The results of a message's calls begin the next message, in the order of the calls, wherever they stood.
  - A result belongs to the first open call with its id in the newest message that has one. Without an id on
    either side it belongs so to an open call of its name, where it has one, or to any.
  - Two messages of a user in a row are one, and so are two of one maker.
  - A call has an id of its own within its message.
"""

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.handed_history import FOREIGN
from callboard.actors.protocol.conversation import message
from callboard.actors.protocol.histories import history_of, origins_of
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.makers import maker_of
from callboard.actors.protocol.origin import Makers, Origin
from callboard.runtime.foreign_values import taken
from callboard.runtime.histories.content import Block, Repair, Repairs, blocks_in, text_of
from callboard.runtime.histories.shapes import Call, Reader, Result, Said, Shape
from callboard.runtime.sanitize import MAX_DEPTH, clean_text, to_json

REPAIRS_RECORDED_MAX: Final = 100
"""Repairs of one history that the log names."""
_DEPTH_MAX: Final = 2 * MAX_DEPTH
_LOG = logging.getLogger("callboard.histories")
NO_RESULT: Final = "No result: the turn was broken off. Whether this call had its effect is not known."
BEGINNING: Final = "(The conversation begins here.)"


class History:
    """A conversation in any common format, as the beginning of a sub-agent's own.

    given: the messages, oldest first: dicts, objects of an SDK, or JSON in any spelling, in the shapes of the
        Messages API, Chat Completions or the Responses API; or the JSON of them all, as a list or in lines.
    makers: of the assistant messages: the origin of those from a place on, as `WholeHistory` states them. By
        default a model reads them as another's: without reasoning and signatures.
    note: a text or content blocks before the prompt; None for none.
    shape: of the messages; None for the one that each of them has.
    repair: True repairs broken turns; `repairs` says how, and so do the log and the logger
        `callboard.histories`.

    Raises InvalidHistory for a broken history, unless it is repaired.

    >>> History([{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}])
    History(2 messages)
    """

    def __init__(
        self,
        given: Iterable[object] | str | bytes = (),
        makers: Makers = (),
        note: object = None,
        *,
        shape: Shape | None = None,
        repair: bool = False,
    ) -> None:
        repairs = Repairs()
        reader, joiner, maker = Reader(shape, repairs), Joiner(repairs), maker_of(origins_of(makers))
        for index, item in enumerate(_items(given)):
            joiner.take(index, reader.read(_plain(item), index), maker(index) or FOREIGN)
        said = joiner.messages()
        if not repair:
            repairs.refuse()
        before = to_json(note, what="The note")
        self.repairs: tuple[Repair, ...] = repairs.made
        self.handed = replace(
            history_of(said, before), repairs=tuple(map(str, self.repairs[:REPAIRS_RECORDED_MAX]))
        )
        if self.repairs:
            told = "; ".join(map(str, self.repairs[:5]))
            _LOG.warning("a history was repaired in %d places: %s", len(self.repairs), told)

    @property
    def messages(self) -> tuple[Json, ...]:
        """Return the messages in the format of the Messages API, each with its own JSON."""
        return self.handed.messages

    @property
    def makers(self) -> Makers:
        """Return the makers of the assistant messages: place -> the origin from there on."""
        return self.handed.makers

    @property
    def note(self) -> Json:
        """Return the content before the prompt, null for none."""
        return self.handed.note

    def __repr__(self) -> str:
        repaired = f", {len(self.repairs)} repairs" if self.repairs else ""
        return f"History({len(self.messages)} messages{repaired})"


def _items(given: Iterable[object] | str | bytes) -> Iterable[object]:
    """Return the items of a history, which may be the JSON of a list, or a line of JSON for each of them."""
    if not isinstance(given, str | bytes | msgspec.Raw | Mapping):
        return given
    found = _plain(given)
    if isinstance(found, str):
        return [line for line in found.splitlines() if line.strip()]
    return found if isinstance(found, list) else [found]


def _plain(item: object) -> object:
    """Return an item as plain values; a text that is not JSON stays a text."""
    if isinstance(item, str | bytes):
        item = Json(clean_text(item).encode() if isinstance(item, str) else item)
    return msgspec.json.decode(taken(item, max_depth=_DEPTH_MAX).json)


class _Made:
    """A call of a message, and its result, None until it is found. index: of its item among those given."""

    def __init__(self, name: str, use_id: str, index: int) -> None:
        self.name, self.id, self.index = name, use_id, index
        self.result: Result | None = None


class _Message:
    """A message that is being made. maker: None for a user. calls: those of an assistant, by their ids."""

    def __init__(self, maker: Origin | None) -> None:
        self.maker = maker
        self.blocks: list[Block] = []
        self.calls: dict[str, _Made] = {}


class _OpenCalls:
    """The calls without a result, under each key by which a result may name them."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, str], list[tuple[_Message, deque[_Made]]]] = {}

    def add(self, said: _Message, call: Call, made: _Made) -> None:
        """Add a call of a message."""
        for key in (("id", call.id), ("name", call.name), ("any", "")):
            lines = self._by_key.setdefault(key, [])
            if not lines or lines[-1][0] is not said:
                lines.append((said, deque()))
            lines[-1][1].append(made)

    def answered_by(self, result: Result) -> _Made | None:
        """Return the call that a result belongs to; None without one."""
        if result.id:
            return self._first("id", result.id) or self._first("id", "")
        return self._first("name", result.name) if result.name else self._first("any", "")

    def _first(self, what: str, name: str) -> _Made | None:
        lines = self._by_key.get((what, name), [])
        while lines:
            line = lines[-1][1]
            while line and line[0].result is not None:  # found under another key
                line.popleft()
            if line:
                return line[0]
            lines.pop()
        return None


class Joiner:
    """Joins the parts of a conversation to messages."""

    def __init__(self, repairs: Repairs) -> None:
        self._repairs = repairs
        self._messages: list[_Message] = []
        self._open = _OpenCalls()
        self._ended: set[str] = set()  # ids of calls that have a result
        self._is_over = False  # results have ended the last message

    def take(self, index: int, said: Iterable[Said], maker: Origin) -> None:
        """Take the words of one item. maker: of an assistant's."""
        for one in said:
            if isinstance(one, Call):
                self._take_call(index, one, self._last(maker))
            elif isinstance(one, Result):
                self._take_result(index, one)
            else:
                self._last(maker if one.role == "assistant" else None).blocks.append(one.block)

    def _last(self, maker: Origin | None) -> _Message:
        """Return the last message if it is of this maker, else a new one."""
        if not self._messages or self._messages[-1].maker != maker or (self._is_over and maker is not None):
            self._messages.append(_Message(maker))
        self._is_over = False
        return self._messages[-1]

    def _take_call(self, index: int, call: Call, said: _Message) -> None:
        number = len(said.calls)
        use_id = call.id or f"call_{number}"
        if use_id in said.calls:
            use_id = next(one for n in count(number) if (one := f"{use_id}_{n}") not in said.calls)
        made = said.calls[use_id] = _Made(call.name, use_id, index)
        said.blocks.append({"type": "tool_use", "id": use_id, "name": call.name, "input": call.arguments})
        self._open.add(said, call, made)

    def _take_result(self, index: int, result: Result) -> None:
        if (found := self._open.answered_by(result)) is not None:
            found.result = result
            self._ended.add(result.id)
            self._is_over = True
            return
        if result.id and result.id in self._ended:
            fault, done = f"has another result of the call {result.id!r:.80}", "the first one is kept"
        else:
            fault, done = f"has a result without its call ({result.id!r:.80})", "it is written as text"
            self._last(None).blocks += [text_of("[result of a call that is not here:]"), *_blocks(result)]
        self._repairs.add(index, fault, done)

    def messages(self) -> list[tuple[Json, Origin | None]]:
        """Return the messages with their makers."""
        made: list[tuple[Json, Origin | None]] = []
        results: list[Block] = []
        if self._messages and self._messages[0].maker is not None:
            self._repairs.add(0, "is an assistant's, and none of a user is before it", "one was put there")
            results = [text_of(BEGINNING)]
        for said in self._messages:
            if said.maker is not None and results:
                made.append((_user(results), None))
                results = []
            if said.maker is None:
                made.append((_user([*results, *said.blocks]), None))
            else:
                made.append((message("assistant", _json(said.blocks)), said.maker))
            results = [self._result_of(one) for one in said.calls.values()]
        return [*made, (_user(results), None)] if results else made

    def _result_of(self, one: _Made) -> Block:
        block: dict[str, object] = {"type": "tool_result", "tool_use_id": one.id}
        if one.result is None:
            fault = f"has the call {one.id!r:.80} of {one.name:.80}, which has no result"
            self._repairs.add(one.index, fault, "it got one that says so")
            return {**block, "content": NO_RESULT, "is_error": True}
        block["content"] = one.result.content
        return {**block, "is_error": True} if one.result.is_error else block


def _blocks(result: Result) -> list[Block]:
    return blocks_in(result.content)


def _user(blocks: list[Block]) -> Json:
    return message("user", _json(blocks))


def _json(blocks: list[Block]) -> Json:
    return Json(msgspec.json.encode(blocks))
