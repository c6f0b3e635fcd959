"""Scripted models that act on what tools return: an inquiry is a generator, run anew on every turn.

    def inquiry(seen):
        yield Step("I look what is there.", [ask("list_files", path=".")])
        listing = seen.read(ask("list_files", path="."), Listing)
        ...
        return {"report": ...}

The conversation in the request is all that such a model knows: `Seen` holds its prompt and the answers to the
calls that stand in it. The generator runs until it asks for something that has no answer yet; that is the
next turn's text and tool calls. When it returns, its value is reported. So a policy is a pure function of
the request, never asks the same thing twice, and ends after as many turns as it has steps.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import Reply, call, say

T = TypeVar("T")

REPORT_BACK: Final = "report_back"
TURNS_MAX: Final = 12
"""An inquiry that is not done by then reports what it has: the answers to come count as missing."""


class Question(NamedTuple):
    """A tool call that is wanted."""

    tool: str
    arguments: Mapping[str, object]


class Answer(NamedTuple):
    """What a tool call came to."""

    text: str
    is_error: bool


class Step(NamedTuple):
    """What to say and what to ask for, all at once, before the inquiry can go on."""

    text: str
    questions: Sequence[Question]


Report: TypeAlias = dict[str, object]
Inquiry: TypeAlias = "Callable[[Seen], Generator[Step, None, Report]]"
Policy: TypeAlias = Callable[[ModelRequest], Reply]


def ask(tool: str, **arguments: object) -> Question:
    """A wish to call this tool with these arguments."""
    return Question(tool, arguments)


class _Block(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, object] = {}
    tool_use_id: str = ""
    content: object = None
    is_error: bool = False


class _Message(msgspec.Struct, frozen=True):
    role: str = ""
    content: str | list[_Block] = ""


class Seen:
    """What a scripted model knows: the prompt, and every call of its with its answer."""

    def __init__(self, conversation: Sequence[Mapping[str, object]]) -> None:
        messages = [message for raw in conversation if (message := _message(raw))]
        self.prompt = next((_text(m.content) for m in messages if m.role == "user"), "")
        self.turns = sum(m.role == "assistant" for m in messages)
        self.calls: list[tuple[Question, Answer]] = []
        self._answers: dict[bytes, Answer] = {}
        asked: dict[str, Question] = {}
        for block in (b for m in messages if isinstance(m.content, list) for b in m.content):
            if block.type == "tool_use":
                asked[block.id] = Question(block.name, block.input)
            elif block.type == "tool_result" and (question := asked.pop(block.tool_use_id, None)):
                answer = Answer(_content_text(block.content), block.is_error)
                self.calls.append((question, answer))
                self._answers[_key(question)] = answer

    def answer(self, question: Question) -> Answer | None:
        """The answer to a call, or None if it was not made."""
        return self._answers.get(_key(question))

    def read(self, question: Question, kind: type[T]) -> T | None:
        """The answer to a call as a value of this type; None for an error or what cannot be read."""
        answer = self.answer(question)
        if answer is None or answer.is_error:
            return None
        try:
            return msgspec.json.decode(answer.text, type=kind)
        except (msgspec.DecodeError, RecursionError):
            return None


def policy_of(inquiry: Inquiry) -> Policy:
    """The scripted model that pursues this inquiry and reports its result."""

    def policy(request: ModelRequest) -> Reply:
        seen = Seen(request.conversation)
        refused = [answer for question, answer in seen.calls if question.tool == REPORT_BACK]
        if refused:
            return say(f"My report was not taken: {refused[-1].text}")
        return _next(inquiry(seen), seen)

    policy.__doc__ = inquiry.__doc__
    return policy


def _next(steps: Generator[Step, None, Report], seen: Seen) -> Reply:
    """The first step with something unasked as a reply, or the report."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            report: Report = end.value
            return Reply(text="That is enough to report.", calls=(call(REPORT_BACK, **report),))
        unasked = {_key(q): q for q in step.questions if seen.answer(q) is None}
        if unasked and seen.turns < TURNS_MAX - 1:
            calls = tuple(call(q.tool, **q.arguments) for q in unasked.values())
            return Reply(text=step.text, calls=calls)


def _key(question: Question) -> bytes:
    return msgspec.json.encode([question.tool, question.arguments], order="deterministic")


def _message(raw: Mapping[str, object]) -> _Message | None:
    try:
        return msgspec.convert(raw, _Message)
    except msgspec.ValidationError:
        return None


def _text(content: str | list[_Block]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if block.type == "text")


def _content_text(content: object) -> str:
    """The text of a tool result, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    try:
        return _text(msgspec.convert(content, list[_Block]))
    except msgspec.ValidationError:
        return ""
