"""The runs of a program in its conversation: the prompt, and the recorded steps with their answers."""

import contextlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.runtime.programs.asks import (
    Answer,
    Ask,
    Ending,
    FailureBlock,
    Head,
    ResultBlock,
    Step,
    TextBlock,
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
    place: of the prompt, among the messages.
    """

    number: int
    prompt: Json
    steps: tuple[RecordedStep, ...] = ()
    answers: tuple[Answer, ...] = ()
    place: int = 0


class EarlierRun(msgspec.Struct, frozen=True, gc=False):
    """A run of the same agent that returned: for an earlier ask of its session.

    prompt: its text. text, value: as it returned; a value of None for a text alone.
    """

    prompt: str
    text: str
    value: Any = None


class _Message(msgspec.Struct, frozen=True, gc=False):
    role: str
    content: Json


class _Answers(msgspec.Struct, frozen=True, gc=False):
    content: tuple[Answer, ...]


class _Typed(msgspec.Struct, frozen=True, gc=False):
    type: str


NO_HEAD: Final = Head("", 0, 0, None, (), {})
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_ANSWERS: Final = msgspec.json.Decoder(_Answers)
_ANSWER: Final = msgspec.json.Decoder(Answer)
_STEP: Final = msgspec.json.Decoder(tuple[Head | Ask | TextBlock | ResultBlock | FailureBlock, ...])
_RAW_BLOCKS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TYPED: Final = msgspec.json.Decoder(_Typed)


def last_run(length: int, message: Callable[[int], Json]) -> RecordedRun | None:
    """Read the last run of a conversation; None without a prompt.

    length: its messages. message: returns the one at a place. Raises msgspec.ValidationError for a
    conversation that is not a program's.
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
        answers = answers if pending is None else pending
        return RecordedRun(number, prompt, tuple(reversed(steps)), answers, place)
    return None


def runs_before(place: int, message: Callable[[int], Json], most: int) -> tuple[EarlierRun, ...]:
    """Read the last runs before a message that returned, the oldest first.

    most: as many. A reply of a model, from the time before the agent was a program, ends the reading.
    """
    found: list[EarlierRun] = []
    ending: Ending | None = None
    for at in range(place - 1, -1, -1):
        said = _MESSAGE.decode(message(at))
        try:
            if said.role == "assistant":
                ending = ending or read_step(said.content).ending
                continue
            _, prompt = _read_user(said.content)
        except msgspec.ValidationError:
            break
        if prompt is not None:
            if ending is not None:
                value = None if ending.value is None else msgspec.json.decode(ending.value)
                found.append(EarlierRun(text_of_blocks(prompt), ending.text, value))
            ending = None
        if len(found) == most:
            break
    return tuple(reversed(found))


def answers_from(place: int, length: int, message: Callable[[int], Json]) -> tuple[Answer, ...] | None:
    """Read the answers in the messages from a place on; None if there is another message among them."""
    found: tuple[Answer, ...] = ()
    for at in range(place, length):
        try:
            found += _ANSWERS.decode(message(at)).content
        except msgspec.ValidationError:
            return None
    return found


def read_step(content: Json) -> Step:
    """Read the blocks of a reply as a step. Raises msgspec.ValidationError for another reply."""
    head, asks, text, value, failure = NO_HEAD, [], None, None, None
    for block in _STEP.decode(content):
        if isinstance(block, Ask):
            asks.append(block)
        elif isinstance(block, Head):
            head = block
        elif isinstance(block, TextBlock):
            text = block.text
        elif isinstance(block, FailureBlock):
            text, failure = block.text, block.kind
        else:
            value = block.value
    return Step(head, tuple(asks), None if text is None else Ending(text, value, failure))


def _number_before(place: int, message: Callable[[int], Json]) -> int:
    """Return the number of the last run before a message; 0 without one."""
    for at in range(place - 1, -1, -1):
        said = _MESSAGE.decode(message(at))
        if said.role == "assistant":
            with contextlib.suppress(msgspec.ValidationError):  # of a model, before the agent was a program
                return number_of(read_step(said.content).head.run)
    return 0


def _read_user(content: Json) -> tuple[tuple[Answer, ...], Json | None]:
    """Return the answers of a user's message, and the prompt behind them; None without one."""
    if bytes(content).startswith(b'"'):
        return (), content
    answers: list[Answer] = []
    rest: list[msgspec.Raw] = []
    for raw in _RAW_BLOCKS.decode(content):
        if _TYPED.decode(raw).type == "tool_result":
            answers.append(_ANSWER.decode(raw))
        else:
            rest.append(raw)
    return tuple(answers), Json(msgspec.json.encode(rest)) if rest else None
