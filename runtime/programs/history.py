"""The runs of a program in its conversation: the prompt, and the recorded steps with their answers."""

from collections.abc import Callable
from typing import Final

import msgspec

from callboard.actors.protocol.immutable import NULL, Json
from callboard.runtime.programs.asks import (
    RESULT,
    STEP,
    Answer,
    Ask,
    Ending,
    Head,
    Step,
    number_of,
    text_of_blocks,
)


class RecordedStep(msgspec.Struct, frozen=True, gc=False):
    """A step of the conversation, and the answers that it was handed."""

    answers: tuple[Answer, ...]
    step: Step


class RecordedRun(msgspec.Struct, frozen=True, gc=False):
    """The last run of a conversation.

    number: among the runs of the agent, from 1 up. answers: those that no step was handed yet.
    """

    number: int
    prompt: Json
    steps: tuple[RecordedStep, ...] = ()
    answers: tuple[Answer, ...] = ()


class _Message(msgspec.Struct, frozen=True, gc=False):
    role: str
    content: Json


class _Any(msgspec.Struct, frozen=True, gc=False):
    type: str
    tool_use_id: str = ""
    content: Json = NULL
    is_error: bool = False
    status: str = ""
    id: str = ""
    name: str = ""
    input: Json = NULL
    run: str = ""
    step: int = 0
    at: int = 0
    wake: int | None = None
    cancels: tuple[str, ...] = ()
    marks: dict[str, bool] = {}  # msgspec copies it for each instance
    text: str = ""
    value: Json = NULL


_MESSAGE: Final = msgspec.json.Decoder(_Message)
_BLOCKS: Final = msgspec.json.Decoder(tuple[_Any, ...])
_RAW_BLOCKS: Final = msgspec.json.Decoder(list[msgspec.Raw])


def last_run(length: int, message: Callable[[int], Json]) -> RecordedRun | None:
    """Read the last run of a conversation; None without a prompt.

    length: its messages. message: returns the one at a place.
    """
    steps: list[RecordedStep] = []
    step: Step | None = None
    answers: tuple[Answer, ...] = ()
    pending: tuple[Answer, ...] | None = None
    for place in range(length - 1, -1, -1):
        said = _MESSAGE.decode(message(place))
        if said.role == "assistant":
            if step is None:
                pending = answers
            else:
                steps.append(RecordedStep(answers, step))
            step, answers = read_step(said.content), ()
            continue
        found, prompt = _read_user(said.content)
        if prompt is None:
            answers = found + answers
            continue
        if step is not None:
            steps.append(RecordedStep(answers, step))
        number = _number_before(place, message) + 1
        return RecordedRun(number, prompt, tuple(reversed(steps)), answers if pending is None else pending)
    return None


def answers_from(place: int, length: int, message: Callable[[int], Json]) -> tuple[Answer, ...] | None:
    """Read the answers in the messages from a place on; None if there is another message among them."""
    found: tuple[Answer, ...] = ()
    for at in range(place, length):
        said = _MESSAGE.decode(message(at))
        answers, prompt = _read_user(said.content) if said.role == "user" else ((), said.content)
        if prompt is not None:
            return None
        found += answers
    return found


def read_step(content: Json) -> Step:
    """Read the blocks of a reply as a step."""
    head, asks, text, value = Head("", 0, 0, None, (), {}), [], None, None
    for block in _BLOCKS.decode(content):
        if block.type == STEP:
            head = Head(block.run, block.step, block.at, block.wake, block.cancels, block.marks)
        elif block.type == "tool_use":
            asks.append(Ask(block.id, block.name, block.input))
        elif block.type == "text":
            text = block.text
        elif block.type == RESULT:
            value = block.value
    return Step(head, tuple(asks), None if text is None else Ending(text, value))


def prompt_text(prompt: Json) -> str:
    """Return the text of a prompt; of content blocks, their texts."""
    return text_of_blocks(prompt)


def _number_before(place: int, message: Callable[[int], Json]) -> int:
    """Return the number of the last run before a message; 0 without one."""
    for at in range(place - 1, -1, -1):
        said = _MESSAGE.decode(message(at))
        if said.role == "assistant":
            return number_of(read_step(said.content).head.run)
    return 0


def _read_user(content: Json) -> tuple[tuple[Answer, ...], Json | None]:
    """Return the answers of a user's message, and the prompt behind them; None without one."""
    if bytes(content).startswith(b'"'):
        return (), content
    blocks = _BLOCKS.decode(content)
    answers = tuple(
        Answer(block.tool_use_id, block.content, block.is_error, block.status)
        for block in blocks
        if block.type == "tool_result"
    )
    if len(answers) == len(blocks):
        return answers, None
    rest = [
        raw
        for raw, block in zip(_RAW_BLOCKS.decode(content), blocks, strict=True)
        if block.type != "tool_result"
    ]
    return answers, Json(msgspec.json.encode(rest))
