"""Repairs of a reply on its way back to the service that made it. Pure: every replay gives the same.

A service may refuse as input a reply that it gave as output. A reply that its input rules take goes back as
it came, byte for byte; in any other the parts that they refuse are changed, and the rest stays. The log keeps
the model's own words.

Rules
  - A repair depends on the reply, and on the ids in earlier ones. It is level 0 of `repair_levels.py`. There
    is one version of these rules so far; another one gets a number.
  - Arguments that are not a JSON object become {"unreadable": "<the text>"}: never an empty object, which
    the model would read as a call that it made so.
  - A server tool's call without a result goes back while the service is to go on with it: right away, or
    with the results of our own tools beside it. Once a user says anything else, it is left out.
"""

import re
from collections import deque
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import msgspec

from callboard.actors.protocol.blocks import (
    as_list,
    content_of,
    kind_of,
    legal_name,
    parts_of,
    starts_with,
    unreadable,
    with_parts,
)
from callboard.actors.protocol.conversation import blocks_of, message, rolled, text_json
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.spoken_calls import NO_WORDS

ID_START: Final = "cb_"
ITEM_ID_CHARS_MAX: Final = 64  # "Invalid 'input[3].id': string too long", Responses

_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_SIGNED: Final = b'"provider_details"'


class InputRules(NamedTuple):
    """The known rules of a service for its own replies that go back.

    name: of a call, of name_chars_max characters at most. use_id: of a call. is_unique: no two calls of a
    conversation have the same. texts: the least that a text must hold. needs_signature: of reasoning.
    ends_spoken: reasoning may not end a reply. item_ids: items have ids of their own, of which each may stand
    only once. server_tools: the service has tools of its own, whose results stand behind their calls.
    signs_next: the signature of reasoning goes back with the block behind it, so that one may be empty.
    """

    name: re.Pattern[str] = re.compile("[a-zA-Z0-9_-]{1,64}")
    name_chars_max: int = 64
    use_id: re.Pattern[str] = re.compile("(?s).+")
    is_unique: bool = False
    texts: Literal["nothing", "a character", "a word"] = "nothing"
    needs_signature: bool = False
    ends_spoken: bool = False
    item_ids: bool = False
    server_tools: bool = False
    signs_next: bool = False


class Mended(NamedTuple):
    """A reply as it goes back.

    said: the same object if nothing was changed. ids: of its calls, in order, by those of the log; empty if
    they are the same. told: what was changed, in words. closed: goes in its place once a user speaks after
    it; None for the same. is_open: a server tool's call, of this reply or of one before, has no result yet.
    """

    said: Json
    ids: dict[str, deque[str]]
    told: tuple[str, ...] = ()
    closed: Json | None = None
    is_open: bool = False


class _Use(msgspec.Struct, gc=False):
    id: str = ""
    name: str = ""
    input: msgspec.Raw = NULL
    part: msgspec.Raw = NULL
    refused: str = ""


class _Part(msgspec.Struct, gc=False):
    id: str | None = None
    tool_call_id: str | None = None
    signature: str | None = None


class _Text(msgspec.Struct, gc=False):
    text: str = ""
    part: msgspec.Raw = NULL


class _Thought(msgspec.Struct, gc=False):
    signature: str | None = None
    part: _Part | None = None


class _Result(msgspec.Struct, gc=False):
    tool_use_id: str = ""


_USE: Final = msgspec.json.Decoder(_Use)
_PART: Final = msgspec.json.Decoder(_Part)
_TEXT: Final = msgspec.json.Decoder(_Text)
_THOUGHT: Final = msgspec.json.Decoder(_Thought)
_RESULT: Final = msgspec.json.Decoder(_Result)
_STRING: Final = msgspec.json.Decoder(str)


class Mender:
    """Repairs the replies of one conversation, one after the other, by the rules of their service."""

    def __init__(self, rules: InputRules) -> None:
        self._rules = rules
        self._used: set[str] = set()  # ids of calls
        self._items: set[str] = set()  # ids of items
        self._item: tuple[str, str] | None = None  # of the block before: its kind and its id
        self._open: list[str] = []  # the calls of server tools without a result, of the last reply
        self._told: list[str] = []
        self._ids: dict[str, deque[str]] = {}
        self._is_signed = False  # the block before is reasoning with a signature
        self._number = 0
        self._place = 0

    def take(self, place: int, number: int, said: Json, *, goes_on: bool) -> Mended:
        """Repair the next reply. place: its own. number: of the reply. goes_on: of the one right before."""
        has_called = bool(self._ids)  # a server's tool beside calls of ours runs once they have their results
        self._place, self._number, self._told, self._ids = place, number, [], {}
        self._item, self._is_signed = None, False
        before = blocks_of(content_of(said))
        self._open = self._open if goes_on or has_called else []
        pairs = [(block, self._repaired(at, block)) for at, block in enumerate(before)]
        after = self._with_words([one for _, one in pairs if one is not None], len(before))
        is_same = len(after) == len(before) and all(map(_is, before, after))
        mended = said if is_same else message("assistant", as_list(after))
        has_ids = any(theirs != one for theirs, ours in self._ids.items() for one in ours)
        closed = self._closed(after) if any(map(self._is_open, after)) else None
        return Mended(mended, self._ids if has_ids else {}, tuple(self._told), closed, bool(self._open))

    def close(self) -> None:
        """Take no results any more for the server tools that have none: their calls are left out."""
        self._open = []

    def _tell(self, at: int, what: str) -> None:
        self._told.append(f"message {self._place + 1}, block {at + 1}: {what}")

    def _repaired(self, at: int, block: Json) -> Json | None:
        """Return a block as it goes back; None if it is left out."""
        kind = kind_of(block)
        is_signed, self._is_signed = self._is_signed, False
        try:
            if kind == "tool_use":
                return self._call(at, block)
            if kind == "text":
                return self._text(at, block, is_signed=is_signed)
            if kind in _THINKING:
                return self._thinking(at, kind, block)
            if self._rules.server_tools:
                return self._of_server(at, kind, block)
        except msgspec.DecodeError:  # of a form of its own, which only its maker can judge
            pass
        return block

    # --- calls ------------------------------------------------------------------------

    def _call(self, at: int, block: Json) -> Json:
        use = _USE.decode(block)
        changed = self._readable(at, use)
        if use.refused:  # which is our own key, beside arguments that are text
            block = _without(block, "refused")
        if not self._rules.name.fullmatch(use.name):
            name = legal_name(use.name, self._rules.name, self._rules.name_chars_max)
            changed["name"] = text_json(name)
            self._tell(at, f"the name {use.name!r:.100} goes as {name!r}")
        part, known = Json(use.part), _PART.decode(use.part) if use.part != NULL else _Part()
        part = self._without_item_id(at, "tool_use", part, known)
        wire_id = use.id if known.tool_call_id is None else known.tool_call_id
        if not self._may_use(wire_id):
            if known.tool_call_id is not None:
                part = _without(part, "tool_call_id")
            ours = use.id if self._may_use(use.id) else our_id(self._number, at, use.id)
            self._tell(at, f"the id {wire_id!r:.100} goes as {ours!r}")
            wire_id = ours
            if ours != use.id:
                changed["id"] = text_json(ours)
        self._used.add(wire_id)
        self._ids.setdefault(use.id, deque()).append(
            _STRING.decode(changed["id"]) if "id" in changed else use.id
        )
        if part != use.part:
            changed["part"] = part
        return with_parts(block, changed)

    def _readable(self, at: int, use: _Use) -> dict[str, Json]:
        """Return the arguments of a call if they are to be changed."""
        if starts_with(b"{", Json(use.input)):
            return {}
        self._tell(at, "arguments that are not a JSON object stand under the key `unreadable`")
        return {"input": unreadable(Json(use.input))}

    def _may_use(self, use_id: str) -> bool:
        is_new = not self._rules.is_unique or use_id not in self._used
        return is_new and bool(self._rules.use_id.fullmatch(use_id))

    def _without_item_id(self, at: int, kind: str, part: Json, known: _Part) -> Json:
        """Return the part of a block without the id of its item, if the service would refuse that."""
        if not self._rules.item_ids or self._may_stand(kind, known.id):
            return part
        self._tell(
            at, f"the id of its item, {known.id!r:.100}, is left out: another item has it, or it is long"
        )
        return _without(part, "id")

    def _may_stand(self, kind: str, item: str | None) -> bool:
        """Return True for the id of a new item, or for a further text or thought of the item right before."""
        if item is None:
            self._item = None
            return True
        is_same = self._item == (kind, item) and kind != "tool_use"
        self._item = None
        if len(item) > ITEM_ID_CHARS_MAX or (item in self._items and not is_same):
            return False
        self._items.add(item)
        self._item = (kind, item)
        return True

    # --- other blocks -----------------------------------------------------------------

    def _text(self, at: int, block: Json, *, is_signed: bool) -> Json | None:
        text = _TEXT.decode(block)
        held = text.text.strip() if self._rules.texts == "a word" else text.text
        is_held = bool(held) or is_signed or _SIGNED in bytes(text.part)
        if not is_held and self._rules.texts != "nothing":
            self._tell(at, "a text without words is left out")
            return None
        if not self._rules.item_ids or text.part == NULL:
            self._item = None
            return block
        part = self._without_item_id(at, "text", Json(text.part), _PART.decode(text.part))
        return block if part == text.part else with_parts(block, {"part": part})

    def _thinking(self, at: int, kind: str, block: Json) -> Json | None:
        thinking = _THOUGHT.decode(block)
        part = _Part() if thinking.part is None else thinking.part
        if self._rules.needs_signature and kind == "thinking" and not (thinking.signature or part.signature):
            self._tell(at, "reasoning without a signature is left out")
            return None
        self._is_signed = self._rules.signs_next and bool(thinking.signature or part.signature)
        if not self._rules.item_ids or self._may_stand(kind, part.id):
            return block
        self._tell(at, "reasoning with the id of another item, or with a long one, is left out")
        return None

    def _of_server(self, at: int, kind: str, block: Json) -> Json | None:
        if kind in _SERVER_CALLS:
            use = _USE.decode(block)
            use_id = use.id
            if not self._may_use(use_id):
                self._tell(at, "a call of a server's tool under the id of another is left out")
                return None
            self._used.add(use_id)
            self._open.append(use_id)
            return with_parts(block, self._readable(at, use))
        if kind.endswith("_tool_result"):
            call = _RESULT.decode(block).tool_use_id
            if call not in self._open:
                self._tell(at, "the result of a server's tool without its call is left out")
                return None
            self._open.remove(call)
        return block

    # --- the whole reply --------------------------------------------------------------

    def _with_words(self, blocks: list[Json], length: int) -> list[Json]:
        """Return a reply that does not end with reasoning, where that is refused, and holds something."""
        kinds = [kind_of(block) for block in blocks]
        while self._rules.ends_spoken and kinds and kinds[-1] in _THINKING:
            self._tell(len(kinds) - 1, "reasoning at the end of a reply is left out")
            kinds.pop()
        if not kinds:
            self._tell(max(length, 1) - 1, "a reply without words goes as (no words)")
            return [NO_WORDS]
        return blocks[: len(kinds)]

    def _closed(self, after: Iterable[Json]) -> Json:
        """Return the reply without the calls of server tools that have no result."""
        kept = [block for block in after if not self._is_open(block)]
        return message("assistant", as_list(self._with_words(kept, len(kept))))

    def _is_open(self, block: Json) -> bool:
        return kind_of(block) in _SERVER_CALLS and _USE.decode(block).id in self._open


def our_id(reply: int, number: int, theirs: str) -> str:
    """Return an id for a call that every service takes. reply: its number. number: of the call in it."""
    return ID_START + rolled(f"{reply}.{number}", Json(theirs.encode()))


def _without(part: Json, key: str) -> Json:
    parts = parts_of(part)
    parts.pop(key, None)
    return Json(msgspec.json.encode(parts))


def _is(one: Json, other: Json) -> bool:
    return one is other
