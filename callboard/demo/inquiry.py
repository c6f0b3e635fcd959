"""Scripted models as generators: a step says something and calls tools, and gets their answers.

On every turn the generator starts again and gets the answers of the conversation so far, so a policy is a
pure function of the request. The value that it returns is reported; text ends the agent without a report.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import Call, Reply, call, say

T = TypeVar("T")


class Answer(msgspec.Struct, frozen=True, tag="tool_result"):
    """The answer to one call."""

    content: str
    is_error: bool = False

    def read(self, kind: type[T]) -> T:
        """Return the answer as this type; an empty value for an error, or for a text that does not fit."""
        try:
            return kind() if self.is_error else msgspec.json.decode(self.content, type=kind)
        except (msgspec.DecodeError, RecursionError):
            return kind()


Inquiry: TypeAlias = Generator[tuple[str, Sequence[Call]], Sequence[Answer], T]
"""Yields its turns: words, and calls to make at once."""


def ask(text: str, kind: type[T], calls: Sequence[Call]) -> Inquiry[list[T]]:
    """Make all calls at once, if any, and return their answers in the same order."""
    answers = (yield text, calls) if calls else ()
    return [answer.read(kind) for answer in answers]


def look(kind: type[T], tool: str, **arguments: object) -> Inquiry[T]:
    """Make one call, and return its answer."""
    return (yield from ask(f"I need {tool}.", kind, [call(tool, **arguments)]))[0]


def turn(inquiry: Callable[[str], Inquiry[msgspec.Struct | str]], request: ModelRequest) -> Reply:
    """Return the next turn of the scripted model that follows an inquiry."""
    first, *later = request.conversation
    rounds = [message["content"] for message in later if message["role"] == "user"]
    steps = inquiry(str(first["content"]))
    try:
        step = next(steps)
        while rounds:
            step = steps.send(msgspec.convert(rounds.pop(0), list[Answer]))
        return Reply(*step)
    except StopIteration as end:
        if rounds:  # an agent that is done only hears from its report
            return say(f"My report was refused: {rounds[0]}")
        if isinstance(end.value, str):
            return say(end.value)
        return Reply("I report.", [call("report_back", **msgspec.to_builtins(end.value))])
