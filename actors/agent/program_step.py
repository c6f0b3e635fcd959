"""The block `program_step`, and what follows it in the reply of a program.

A program's reply is one step. Its first block says which asks the program gave up, and when it wants to go on
without an answer. Blocks `tool_use` are its new asks. A block `text` says that the program has returned; a
block `program_result` holds its value, if that is no text. In place of both, a block `program_failure` says
that it ended itself, with the kind of the end and its words.
"""

from typing import Final

import msgspec

from callboard.actors.protocol.endings import OwnKind
from callboard.actors.protocol.immutable import NULL, Json


class ProgramStep(msgspec.Struct, frozen=True, gc=False):
    """One step.

    cancels: the ids of the open asks that it gave up. wake: its earliest deadline, in milliseconds since 1970
    UTC; None for none. is_last: True if the program has returned. report: its return
    value as JSON, a text as a string. value: the same, null for a text. failure: the end that it chose for
    itself, None for a return.
    """

    cancels: tuple[str, ...] = ()
    wake: int | None = None
    is_last: bool = False
    report: Json = NULL
    value: Json = NULL
    failure: "Failure | None" = None


class Failure(msgspec.Struct, frozen=True, tag="program_failure", tag_field="type", gc=False):
    """An end that a program chose for itself. text: its reason."""

    kind: OwnKind
    text: str = ""


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
_FAILURE: Final = msgspec.json.Decoder(Failure)


def is_step(content: Json) -> bool:
    """Return whether the content of a reply is a step of a program, and no model's."""
    return bytes(content).startswith(b'[{"type":"program_step"')


def read_step(content: Json) -> ProgramStep | None:
    """Read the step in a reply's content; return None if its first block is no `program_step`."""
    try:
        blocks = _BLOCKS.decode(content)
        head = _HEAD.decode(blocks[0]) if blocks else None
        # What a program returned stands last.
        types = [(_TYPE.decode(block).type, block) for block in blocks[-2:]]
        text = next((_TEXT.decode(block).text for kind, block in types if kind == "text"), None)
        value = next((_RESULT.decode(block).value for kind, block in types if kind == "program_result"), None)
        failure = next((_FAILURE.decode(block) for kind, block in types if kind == "program_failure"), None)
    except (msgspec.DecodeError, RecursionError):
        return None
    if head is None or not -_TOO_LATE < (head.wake or 0) < _TOO_LATE:
        return None
    report = text if value is None else value
    is_last = text is not None or failure is not None
    return ProgramStep(head.cancels, head.wake, is_last, report or NULL, value or NULL, failure)


_TOO_LATE: Final = 2**53
"""Numbers from here on have no exact double, so that other readers of the log would confuse them."""
