"""Questions for a person: may this call run? They are shown only once they are durable."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import Effect


class Answer(NamedTuple):
    """What a person says: whether the call may run, and why, which the model reads if it may not."""

    is_approved: bool
    note: str = ""


@dataclass(frozen=True)
class Approval:
    """A call that waits for a person, as `Session.approvals()` and `Runtime(approve=...)` show it.

    address, profile: the agent that wants to call. arguments: as the model wrote them, not checked yet.
    is_repeat: the call was interrupted by a crash, its effect is unknown, and it would run again. seq,
    digest: of the request in the log; the answer that is logged names the digest of what was shown.
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
        """Whether nobody has answered yet, and the call is still wanted."""
        return not self._answer.done()

    def approve(self, note: str = "") -> bool:
        """Let the call run. False: it was answered before, or is not wanted any more."""
        return self._settle(Answer(True, note))

    def deny(self, note: str = "") -> bool:
        """Do not let it run; the model reads the note. False as in `approve`."""
        return self._settle(Answer(False, note))

    def _settle(self, answer: Answer) -> bool:
        if self._answer.done():
            return False
        self._answer.set_result(answer)
        return True


Said: TypeAlias = bool | str | None
"""What an approver returns: True lets the call run; False, or a text for the model, does not; None leaves it
to others, such as `Session.approvals()`."""

Approver: TypeAlias = Callable[[Approval], Said | Awaitable[Said]]
