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
    THOUGHTS,
    UNKNOWN,
    as_list,
    content_of,
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

_SIGNS: Final = "abcdefghijklmnopqrstuvwxyz234567"  # of a short id
_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_SIGNED: Final = b'"provider_details"'


class InputRules(NamedTuple):
    """The known rules of a service for its own replies that are sent back.

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


class _Block(msgspec.Struct, gc=False):
    """A block of a reply, with all that decides on its repair."""

    type: str = UNKNOWN
    id: str = ""
    name: str = ""
    input: msgspec.Raw = NULL
    part: msgspec.Raw = NULL
    refused: str = ""
    text: str = ""
    signature: str | None = None
    tool_use_id: str = ""


class _Reply(msgspec.Struct, gc=False):
    content: tuple[_Block, ...]


class _Part(msgspec.Struct, gc=False):
    id: str | None = None
    tool_call_id: str | None = None
    signature: str | None = None


_REPLY: Final = msgspec.json.Decoder(_Reply)
_BLOCK: Final = msgspec.json.Decoder(_Block)
_PART: Final = msgspec.json.Decoder(_Part)
_STRING: Final = msgspec.json.Decoder(str)
_NO_PART: Final = _Part()


class Mender:
    """Repairs the replies of one conversation, one after the other, by the rules of their service."""

    def __init__(self, rules: InputRules) -> None:
        self._rules = rules
        self._used: set[str] = set()  # ids of calls
        self._items: set[str] = set()  # ids of items
        self._open: list[str] = []  # the calls of server tools without a result, of the last reply
        self._ids: dict[str, deque[str]] = {}  # of its other calls: by their id, those they go back under
        # Set by `take`, of the reply that is repaired now
        self._item: tuple[str, str] | None  # of the block before: its kind and its id
        self._is_signed: bool  # the block before is reasoning with a signature
        self._said: Json
        self._number: int
        self._place: int
        self._told: list[str]
        self._changed: dict[int, Json | None]  # by place: another block, or None for none
        self._raw: tuple[Json, ...] | None  # its blocks as they came, once one is to be changed

    def take(self, place: int, number: int, said: Json, *, goes_on: bool) -> Mended:
        """Repair the next reply. place: its own. number: of the reply. goes_on: of the one right before."""
        has_called = bool(self._ids)  # a server's tool beside calls of ours runs once they have their results
        if not (goes_on or has_called):
            self._open = []
        self._item, self._is_signed, self._ids = None, False, {}
        blocks = _blocks_in(said)
        if not self._open and self._is_words(blocks):
            return Mended(said, {})
        self._place, self._number, self._told = place, number, []
        self._said, self._changed, self._raw = said, {}, None
        for at, block in enumerate(blocks):
            self._repair(at, block)
        left = [at for at in range(len(blocks)) if at not in self._changed or self._changed[at] is not None]
        left = self._spoken(blocks, left)
        is_same = left and len(left) == len(blocks) and not self._changed
        mended = said if is_same else self._message(left)
        has_ids = any(theirs != one for theirs, ours in self._ids.items() for one in ours)
        closed = self._closed(blocks, left) if self._open else None
        return Mended(mended, self._ids if has_ids else {}, tuple(self._told), closed, bool(self._open))

    def _is_words(self, blocks: tuple[_Block, ...]) -> bool:
        """Return True for one text that any service takes, as most replies are."""
        if len(blocks) != 1 or blocks[0].type != "text":
            return False
        text = blocks[0].text
        return bool(text) and not text.isspace() and (not self._rules.item_ids or blocks[0].part == NULL)

    def close(self) -> None:
        """Take no results any more for the server tools that have none: their calls are left out."""
        self._open = []

    def _tell(self, at: int, what: str) -> None:
        self._told.append(f"message {self._place + 1}, block {at + 1}: {what}")

    def _came(self, at: int) -> Json:
        """Return a block of the reply as it came."""
        if self._raw is None:
            self._raw = blocks_of(content_of(self._said))
        return self._raw[at]

    def _repair(self, at: int, block: _Block) -> None:
        """Note under `_changed` how a block goes back, if not as it came."""
        kind = block.type
        is_signed, self._is_signed = self._is_signed, False
        try:
            if kind == "text":
                self._text(at, block, is_signed=is_signed)
            elif kind == "tool_use":
                self._call(at, block)
            elif kind in THOUGHTS:
                self._thinking(at, block)
            elif self._rules.server_tools:
                self._of_server(at, block)
        except msgspec.DecodeError:  # of a form of its own, which only its maker can judge
            pass

    def _leave_out(self, at: int, why: str) -> None:
        self._changed[at] = None
        self._tell(at, f"{why} is left out")

    # --- calls ------------------------------------------------------------------------

    def _call(self, at: int, use: _Block) -> None:
        changed = self._readable(at, use)
        if not self._rules.name.fullmatch(use.name):
            name = legal_name(use.name, self._rules.name, self._rules.name_chars_max)
            changed["name"] = text_json(name)
            self._tell(at, f"the name {use.name!r:.100} goes as {name!r}")
        known = _part_of(use)
        part = self._without_item_id(at, use, known)
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
        if changed or use.refused:
            came = self._came(at)
            # The reason not to run it is our own key, beside arguments that are text.
            self._changed[at] = with_parts(_without(came, "refused") if use.refused else came, changed)

    def _readable(self, at: int, use: _Block) -> dict[str, Json]:
        """Return the arguments of a call if they are to be changed."""
        if starts_with(b"{", Json(use.input)):
            return {}
        self._tell(at, "arguments that are not a JSON object stand under the key `unreadable`")
        return {"input": unreadable(Json(use.input))}

    def _may_use(self, use_id: str) -> bool:
        is_new = not self._rules.is_unique or use_id not in self._used
        return is_new and bool(self._rules.use_id.fullmatch(use_id))

    def _without_item_id(self, at: int, block: _Block, known: _Part) -> Json:
        """Return the part of a block without the id of its item, if the service would refuse that."""
        part = Json(block.part)
        if not self._rules.item_ids or self._may_stand(block.type, known.id):
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

    def _text(self, at: int, block: _Block, *, is_signed: bool) -> None:
        rules = self._rules
        if rules.texts != "nothing":
            is_held = block.text and (rules.texts == "a character" or not block.text.isspace())
            if not (is_held or is_signed or _SIGNED in bytes(block.part)):
                self._leave_out(at, "a text without words")
                return
        if not rules.item_ids or block.part == NULL:
            self._item = None
            return
        part = self._without_item_id(at, block, _PART.decode(block.part))
        if part != block.part:
            self._changed[at] = with_parts(self._came(at), {"part": part})

    def _thinking(self, at: int, block: _Block) -> None:
        part = _part_of(block)
        is_signed = bool(block.signature or part.signature)
        if self._rules.needs_signature and block.type == "thinking" and not is_signed:
            self._leave_out(at, "reasoning without a signature")
            return
        self._is_signed = self._rules.signs_next and is_signed
        if self._rules.item_ids and not self._may_stand(block.type, part.id):
            self._leave_out(at, "reasoning with the id of another item, or with a long one,")

    def _of_server(self, at: int, block: _Block) -> None:
        if block.type in _SERVER_CALLS:
            if not self._may_use(block.id):
                self._leave_out(at, "a call of a server's tool under the id of another")
                return
            self._used.add(block.id)
            self._open.append(block.id)
            if changed := self._readable(at, block):
                self._changed[at] = with_parts(self._came(at), changed)
        elif block.type.endswith("_tool_result"):
            if block.tool_use_id not in self._open:
                self._leave_out(at, "the result of a server's tool without its call")
                return
            self._open.remove(block.tool_use_id)

    # --- the whole reply --------------------------------------------------------------

    def _message(self, left: Iterable[int]) -> Json:
        """Return the reply with the blocks at these places, as they go back."""
        blocks = [self._changed.get(at) or self._came(at) for at in left]
        return message("assistant", as_list(blocks or [NO_WORDS]))

    def _spoken(self, blocks: tuple[_Block, ...], left: list[int]) -> list[int]:
        """Return the places of a reply that does not end with reasoning, where that is refused."""
        while self._rules.ends_spoken and left and blocks[left[-1]].type in THOUGHTS:
            self._tell(left[-1], "reasoning at the end of a reply is left out")
            left = left[:-1]
        if not left:
            self._tell(max(len(blocks), 1) - 1, "a reply without words goes as (no words)")
        return left

    def _closed(self, blocks: tuple[_Block, ...], left: list[int]) -> Json | None:
        """Return the reply without the calls of server tools that have no result; None if it has none."""
        kept = [at for at in left if not self._is_open(blocks[at])]
        return None if kept == left else self._message(self._spoken(blocks, kept))

    def _is_open(self, block: _Block) -> bool:
        return block.type in _SERVER_CALLS and block.id in self._open


def _blocks_in(said: Json) -> tuple[_Block, ...]:
    """Return the blocks of a reply. One in a form that its type does not have is of an unknown type."""
    try:
        return _REPLY.decode(said).content
    except msgspec.DecodeError:
        return tuple(map(_block_in, blocks_of(content_of(said))))


def _block_in(block: Json) -> _Block:
    try:
        return _BLOCK.decode(block)
    except msgspec.DecodeError:
        return _Block()


def _part_of(block: _Block) -> _Part:
    return _NO_PART if block.part == NULL else _PART.decode(block.part)


def our_id(reply: int, number: int, theirs: str, *, is_short: bool = False) -> str:
    """Return an id for a call. reply: its number. number: of the call in it.

    is_short: as Mistral's models ask for: "must be a-z, A-Z, 0-9, with a length of 9".
    """
    digest = rolled(f"{reply}.{number}", Json(theirs.encode()))
    if not is_short:
        return ID_START + digest
    bits = int(digest, 16)
    return "".join(_SIGNS[bits >> 5 * at & 31] for at in range(9))


def _without(part: Json, key: str) -> Json:
    parts = parts_of(part)
    parts.pop(key, None)
    return Json(msgspec.json.encode(parts))
