"""The text and the tool calls in a model's reply.

The conversation keeps the blocks themselves, byte for byte, with thinking signatures and unknown types. This
module reads the parts that the agent needs. An unreadable reply is garbage, never an exception.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.blocks import THOUGHTS
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.profiles import ToolSpec
from callboard.actors.protocol.value_types import InputAsked, InputGiven


class ToolUse(msgspec.Struct, frozen=True, gc=False):
    """One tool call of a reply.

    input: its arguments: a JSON object, or a JSON string with arguments that are not one, as the model wrote
        them; null once a `Delegate` has them.
    spec: the tool as it was when the call was started; None if it is no tool.
    asked, given: the input that it has asked for last, and was given for its next round; None for none.
    declined: the words, for the model, for the input that a person did not give it; empty for none.
    refused: the reason why it must not run, if its arguments are not those that the model wrote for certain.
    """

    id: str
    name: str
    input: Json
    spec: ToolSpec | None = None
    asked: InputAsked | None = None
    given: InputGiven | None = None
    declined: str = ""
    refused: str = ""

    @property
    def unread(self) -> str | None:
        """Return the arguments as written if they are not a JSON object, or not certain, else None."""
        if bytes(self.input)[:1] == b'"':
            return _TEXT.decode(self.input)
        return bytes(self.input).decode() if self.refused else None


class Said(msgspec.Struct, frozen=True, gc=False):
    """The text and the tool calls of one reply, in order.

    is_blank: it holds blank text and nothing else. is_empty: the same, with thoughts or without.
    """

    text: str = ""
    uses: tuple[ToolUse, ...] = ()
    is_blank: bool = False
    is_empty: bool = False


class _Block(msgspec.Struct, frozen=True, gc=False):
    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Json = NULL
    refused: str = ""


class _Typed(msgspec.Struct, frozen=True, gc=False):
    type: str


_BLOCKS: Final = msgspec.json.Decoder(tuple[_Block, ...])
_RAW_BLOCKS: Final = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_TYPE: Final = msgspec.json.Decoder(_Typed)
_BLOCK: Final = msgspec.json.Decoder(_Block)
_TEXT: Final = msgspec.json.Decoder(str)
BLANKS_SINCE: Final = 2
"""The rules since which a blank text is no words: those that an agent said before stay its last ones."""

_COMPACTION_SINCE: Final = 2
"""The rules since which a model goes on with a reply after its service has compacted the conversation."""

READ: Final = frozenset({"text", "tool_use"})
_NO_SPECS: Final[Mapping[str, ToolSpec]] = MappingProxyType({})


def is_paused(stop_reason: str, rules: int) -> bool:
    """Return True if a model is asked again for the rest of its reply. rules: of the session."""
    return stop_reason == "pause_turn" or (stop_reason == "compaction" and rules >= _COMPACTION_SINCE)


def read(content: Json, specs: Mapping[str, ToolSpec] = _NO_SPECS) -> Said | None:
    """Read the text and the calls of a list of content blocks; return None for garbage.

    specs: the agent's tools as they are now. A call keeps its own, since they may change while it waits.
    """
    try:
        blocks = _BLOCKS.decode(content)
    except (msgspec.DecodeError, RecursionError):
        found = _read_one_by_one(content)
        if found is None:
            return None
        blocks = found
    uses: list[ToolUse] = []
    texts: list[str] = []
    is_text_only = is_thought_only = True
    for block in blocks:
        kind = block.type
        if kind == "text":
            if block.text:
                texts.append(block.text)
        elif kind == "tool_use":
            is_text_only = is_thought_only = False
            if not block.name or not bytes(block.input).startswith((b"{", b'"')):
                return None
            spec = specs.get(block.name)
            name = block.name if spec is None else spec.name  # one text for all calls of a tool
            use = ToolUse(block.id, name, block.input, spec)
            uses.append(replace(use, refused=block.refused) if block.refused else use)
        else:
            is_text_only = False
            is_thought_only = is_thought_only and kind in THOUGHTS
    text = "\n".join(texts)
    is_empty = is_thought_only and not text.strip()
    return Said(text, tuple(uses), is_text_only and is_empty, is_empty)


def _read_one_by_one(content: Json) -> tuple[_Block, ...] | None:
    """Read only the blocks of known types; return None for garbage."""
    # Blocks of other types may have any shape, also in fields that have the names of ours.
    try:
        raw = _RAW_BLOCKS.decode(content)
        types = [(_TYPE.decode(block).type, block) for block in raw]
        return tuple(_BLOCK.decode(block) if kind in READ else _Block(kind) for kind, block in types)
    except (msgspec.DecodeError, RecursionError):
        return None


def last_words(before: str, said: Said, rules: int) -> str:
    """Return the last words of an agent after a reply. before: those that it had said. rules: of its ask."""
    if rules < BLANKS_SINCE:
        return said.text or before
    return said.text if said.text.strip() else before
