"""The block `program_step`, and what follows it in the reply of a program.

A program's reply is one step. Its first block says which asks the program gave up, and when it wants to go on
without an answer. Blocks `tool_use` are its new asks. A block `text` says that the program has returned; a
block `program_result` holds its value, if that is no text.
"""

from typing import Final

import msgspec

from callboard.actors.protocol.immutable import NULL, Json


class ProgramStep(msgspec.Struct, frozen=True, gc=False):
    """One step.

    cancels: the ids of the open asks that it gave up. wake: its earliest deadline, in milliseconds since 1970
    UTC; None for none. is_last: True if the program has returned. report: its return
    value as JSON, a text as a string. value: the same, null for a text.
    """

    cancels: tuple[str, ...] = ()
    wake: int | None = None
    is_last: bool = False
    report: Json = NULL
    value: Json = NULL


class _Head(msgspec.Struct, frozen=True, tag="program_step", tag_field="type", gc=False):
    wake: int | None = None
    cancels: tuple[str, ...] = ()


class _Typed(msgspec.Struct, frozen=True, gc=False):
    type: str


class _Text(msgspec.Struct, frozen=True, gc=False):
    text: Json


class _Result(msgspec.Struct, frozen=True, gc=False):
    value: Json


_BLOCKS: Final = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_HEAD: Final = msgspec.json.Decoder(_Head)
_TYPE: Final = msgspec.json.Decoder(_Typed)
_TEXT: Final = msgspec.json.Decoder(_Text)
_RESULT: Final = msgspec.json.Decoder(_Result)


def read_step(content: Json) -> ProgramStep | None:
    """Read the step in a reply's content; return None if its first block is no `program_step`."""
    try:
        blocks = _BLOCKS.decode(content)
        head = _HEAD.decode(blocks[0]) if blocks else None
        # What a program returned stands last.
        types = [(_TYPE.decode(block).type, block) for block in blocks[-2:]]
        text = next((_TEXT.decode(block).text for kind, block in types if kind == "text"), None)
        value = next((_RESULT.decode(block).value for kind, block in types if kind == "program_result"), None)
    except (msgspec.DecodeError, RecursionError):
        return None
    if head is None or not -_TOO_LATE < (head.wake or 0) < _TOO_LATE:
        return None
    report = text if value is None else value
    return ProgramStep(head.cancels, head.wake, text is not None, report or NULL, value or NULL)


_TOO_LATE: Final = 2**53
"""Numbers from here on have no exact double, so that other readers of the log would confuse them."""
