"""Approval questions for a person: may this call run? A question is shown only once it is durable."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import Effect


class Answer(NamedTuple):
    """The answer of a person. note: the reason; the model reads it if the call may not run."""

    is_approved: bool
    note: str = ""


@dataclass(frozen=True)
class Approval:
    """A call that waits for a person, as `Session.approvals()` and `Runtime(approve=...)` show it.

    address, profile: the agent that makes the call.
    arguments: the arguments as the model wrote them, not checked yet.
    is_repeat: a crash interrupted the call; its effect is unknown, and it would run again.
    seq, digest: the request in the log. The logged answer names this digest, so it proves what was shown.
    """

    session_id: str
    address: str
    profile: str
    tool: str
    effect: Effect
    arguments: Json
    is_repeat: bool
    seq: int
    digest: str
    _answer: "asyncio.Future[Answer]" = field(repr=False, compare=False)

    @property
    def is_open(self) -> bool:
        """Return whether the question has no answer yet and the call is still wanted."""
        return not self._answer.done()

    def approve(self, note: str = "") -> bool:
        """Let the call run. Return False if it was answered before, or is no longer wanted."""
        return self._settle(Answer(True, note))

    def deny(self, note: str = "") -> bool:
        """Refuse the call; the model reads the note. Return False as `approve` does."""
        return self._settle(Answer(False, note))

    def _settle(self, answer: Answer) -> bool:
        if self._answer.done():
            return False
        self._answer.set_result(answer)
        return True


Said: TypeAlias = bool | str | None
"""The result of an approver: True lets the call run; False, or a text for the model, refuses it; None leaves
the question to `Session.approvals()`."""

Approver: TypeAlias = Callable[[Approval], Said | Awaitable[Said]]
