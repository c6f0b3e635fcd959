"""The replies of a scripted model: pure values, of which the model port makes logged answers.

A policy is a function of the request. It says the same to the same request, or a run cannot be replayed.
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.prompts import REPORT_BACK, TASK
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage
from callboard.actors.protocol.value_types import ModelFailure

Use: TypeAlias = tuple[str, object]
"""A tool call: the tool's name and its arguments, anything that can be JSON."""

NOMINAL = Usage(input_tokens=10, output_tokens=5)
"""The usage of a reply that states none."""

_encode = msgspec.json.Encoder().encode


class Reply(msgspec.Struct, frozen=True):
    """One reply."""

    text: str = ""
    calls: tuple[Use, ...] = ()
    stop_reason: str = "end_turn"
    usage: Usage | None = NOMINAL  # an unknown one is charged in full
    failure: ModelFailure | None = None
    content: bytes | None = None  # the blocks as they are, instead of text and calls
    percent: int | None = None  # instead of usage, so much of what the call may use at most
    is_lost: bool = False  # to a crash

    def used(self, need: Need, max_tokens: int) -> Usage | None:
        """Return the usage of a call whose bound is `need`, of which max_tokens are the answer's."""
        if need == NOTHING:  # a program's step
            return ZERO
        if self.percent is None:
            return self.usage
        return Usage((need.tokens - max_tokens) * self.percent // 100, max_tokens * self.percent // 100)

    def blocks(self, turn: int) -> Json:
        """Return the content blocks, as in the Messages API; ids of calls are unique in an agent's life."""
        if self.content is not None:
            return Json(self.content)
        parts: list[dict[str, object]] = [{"type": "text", "text": self.text}] if self.text else []
        for index, (name, arguments) in enumerate(self.calls):
            parts.append({"type": "tool_use", "id": f"c{turn}.{index}", "name": name, "input": arguments})
        return Json(_encode(parts))


Policy: TypeAlias = Callable[[ModelRequest], Reply]
"""Returns a model's reply to a request."""


def calls(*uses: Use, text: str = "") -> Reply:
    """Make a reply with these tool calls."""
    return Reply(text, uses, "tool_use")


def report(value: object) -> Reply:
    """Make a reply that reports: an object as it is, any other value under `value`."""
    return calls((REPORT_BACK, value if isinstance(value, dict) else {"value": value}))


def task(agent: str, prompt: str = "work", **more: object) -> Use:
    """Make a delegation. more: `output_schema`, `copies`, `agents`."""
    return TASK, {"agent": agent, "prompt": prompt, **more}
