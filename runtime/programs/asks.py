"""The asks of a program, their answers, and the blocks of a step, as they stand in the conversation."""

from hashlib import blake2b
from typing import Final

import msgspec

from callboard.actors.protocol.endings import OwnKind
from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.usage import Usage
from callboard.runtime.sanitize import MAX_DEPTH

STEP: Final = "program_step"
RESULT: Final = "program_result"
# Short: the search for secrets looks closely at 20 characters of words and numbers in a row. Two asks with
# equal digests count as equal, and their occurrences keep their ids apart.
_DIGEST_BYTES: Final = 6

VALUE_DEPTH_MAX: Final = MAX_DEPTH - 2
"""Levels of an argument or result, which stands in a block, in the list of blocks of a reply."""

_encode = msgspec.json.Encoder().encode


class Ask(msgspec.Struct, frozen=True, gc=False, tag="tool_use", tag_field="type"):
    """One ask: a call of a tool, of `task` or of `ask_model`. id: the digest of its name and input."""

    id: str
    name: str
    input: Json

    def __str__(self) -> str:
        return f"{self.name}({bytes(self.input).decode()})"


class Reply(msgspec.Struct, frozen=True, gc=False):
    """The end of a model's reply: why it stopped, and the usage of all attempts."""

    stop_reason: str
    usage: Usage


class Answer(msgspec.Struct, frozen=True, gc=False, tag="tool_result", tag_field="type"):
    """The answer to an ask: a `tool_result` block of the conversation.

    status: `ok`, `error`, `interrupted`, `denied`, `cancelled`, or the kind of a delegation's end.
    content: in the form for models; of a report its JSON, as text. ends: the kind of the end that the program
    cannot avert from here on, so that the step is its last one; empty for none.
    value, reply: of a question with a whole request: the blocks of the reply, and the facts about it.
    changed: the arguments that a person gave the call instead of the program's; null for none.
    """

    tool_use_id: str
    content: Json = NULL
    is_error: bool = False
    status: str = ""
    ends: str = ""
    value: Json = NULL
    reply: Reply | None = None
    changed: Json = NULL

    @property
    def text(self) -> str:
        """Return the text of the answer; of content blocks, their texts."""
        return text_of_blocks(self.content)


class Head(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag=STEP, tag_field="type"):
    """The first block of each step.

    run, step: the run, and the number of the step in it, from 1 up. at: the time of the step. wake: the
    program's earliest deadline; None for none. Both are in milliseconds since 1970 UTC. cancels: the ids of
    open asks that the program gave up. marks: the names that `ctx.since` was first asked about. state: the
    values of the shared state that the step has read. undeclared: of the other keys that it has looked up,
    the words of the error. left_out_ms: the sum of the times up to this step that timeouts do not count.
    """

    run: str
    step: int
    at: int
    wake: int | None
    cancels: tuple[str, ...]
    marks: dict[str, bool]
    state: dict[str, Json] = {}
    undeclared: dict[str, str] = {}
    left_out_ms: int = 0


class TextBlock(msgspec.Struct, frozen=True, gc=False, tag="text", tag_field="type"):
    """The text that a program returned."""

    text: str


class ResultBlock(msgspec.Struct, frozen=True, gc=False, tag=RESULT, tag_field="type"):
    """The value that a program returned."""

    value: Json


class FailureBlock(msgspec.Struct, frozen=True, gc=False, tag="program_failure", tag_field="type"):
    """The end that a program chose for itself. text: its reason."""

    kind: OwnKind
    text: str


class Ending(msgspec.Struct, frozen=True, gc=False):
    """The returned value of a program. value: None for a text.

    failure: the kind of end that it chose for itself, with the text as its reason; None for a return.
    """

    text: str
    value: Json | None = None
    failure: OwnKind | None = None

    @property
    def blocks(self) -> tuple[TextBlock | ResultBlock | FailureBlock, ...]:
        """Return the blocks that the last step has of it."""
        if self.failure is not None:
            return (FailureBlock(self.failure, self.text),)
        text = TextBlock(self.text)
        return (text,) if self.value is None else (text, ResultBlock(self.value))

    @property
    def size(self) -> int:
        """Return the bytes of these blocks."""
        return len(_encode(self.blocks))


class ProgramFailed(CallboardError):
    """The end that a program chooses for itself: `raise ctx.fail("...")`. kind: of the end."""

    def __init__(self, text: str, kind: OwnKind) -> None:
        super().__init__(text)
        self.text = text
        self.kind = kind


class Step(msgspec.Struct, frozen=True, gc=False):
    """A step: its head, its new asks in order, and the end if the program has ended."""

    head: Head
    asks: tuple[Ask, ...] = ()
    ending: Ending | None = None

    def content(self) -> Json:
        """Return the step as the content blocks of a reply."""
        blocks: list[object] = [self.head, *self.asks]
        if self.ending is not None:
            blocks += self.ending.blocks
        return Json(_encode(blocks))


def run_name(number: int, session_id: str, address: str) -> str:
    """Return the name of a run. number: among the runs of this agent, from 1 up."""
    data = f"{session_id}\0{address}\0{number}".encode()
    where = blake2b(data, digest_size=_DIGEST_BYTES, person=b"callboard/run")
    return f"{number}-{where.hexdigest()}"


def number_of(run: str) -> int:
    """Return the number in a run's name; 0 for another text."""
    number = run.partition("-")[0]
    return int(number) if number.isdigit() else 0


def salt_of(run: str) -> int:
    """Return a number below 2**28 that few runs share."""
    return int(run.partition("-")[2][:7] or "0", 16)


def ask_key(run_number: int, name: str, arguments: Json) -> bytes:
    """Return the digest that equal asks of a run share."""
    head = b"%d %s\0" % (run_number, name.encode())
    return blake2b(head + bytes(arguments), digest_size=_DIGEST_BYTES, person=b"callboard/ask").digest()


def ask_id(key: bytes, occurrence: int) -> str:
    """Return the id of an ask. occurrence: its number among the equal asks of the run, from 1 up."""
    return f"p{key.hex()}_{occurrence}"


class _Block(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    text: str = ""


_BLOCKS: Final = msgspec.json.Decoder(str | tuple[_Block, ...])


def text_of_blocks(content: Json) -> str:
    """Return the text of a JSON string or of a list of content blocks; empty for none."""
    if content == NULL:
        return ""
    found = _BLOCKS.decode(content)
    if isinstance(found, str):
        return found
    return "\n".join(block.text for block in found if block.type == "text")
