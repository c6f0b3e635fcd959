"""The recorder of a program: it tells conversations apart, and opens a session for each.

A request continues the conversation whose messages it begins with, the longest of them. One that changes what
was said before, asks the same once more, or has other tools, begins a session that names the one it is like.
A conversation whose request is under way is continued by no other one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from callboard.actors.protocol.client_messages import RECORDED
from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.profiles import Prices
from callboard.runtime.clock import new_session_id
from callboard.runtime.gateway.conversation import OPEN_ENDED, Conversation, OutOfStep, Refused
from callboard.runtime.gateway.dialects import Answered, Asked
from callboard.runtime.models.anthropic.model import KNOWN
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.live_sessions import NewSession

TAG: Final = "recording:"
_SHARED_MIN: Final = 2  # messages from which on a conversation is like another one


class Counts(msgspec.Struct):
    """The requests so far. passed: those that are not recorded, by method and path."""

    recorded: int = 0
    refused: int = 0
    failed: int = 0
    unread: int = 0
    passed: dict[str, int] = {}


class Unrecordable(Exception):
    """A request of which no session can be made, such as one with a tool of an odd name. message: why."""


class Recorder:
    """Records the conversations of one program in the sessions of a runtime.

    name: of the recording, which is in the tag of its sessions. prices: of models, by name. is_limited: True
    if a budget of the runtime binds them.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        prices: Mapping[str, Prices] | None = None,
        *,
        is_limited: bool = False,
    ) -> None:
        self._runtime, self.name = runtime, name
        self._is_limited = is_limited
        self._prices = {**KNOWN, **(prices or {})}
        self.conversations: list[Conversation] = []
        self.counts = Counts(passed={})
        self._opening = asyncio.Lock()

    @property
    def tag(self) -> str:
        """Return the tag of the sessions of this recording."""
        return f"{TAG}{self.name}"

    @property
    def sessions(self) -> list[str]:
        """Return the ids of the sessions so far."""
        return [one.session.session_id for one in self.conversations if one.session is not None]

    async def handle(self, request: Asked, upstream: Callable[[], Awaitable[Answered]]) -> Answered:
        """Answer a request with what the service says. Raises Refused, Failed, Unrecordable."""
        async with self._opening:
            found = max(
                (one for one in self.conversations if one.goes_on_with(request)),
                key=lambda one: len(one.known),
                default=None,
            )
            conversation = found or await self._new(request)
            conversation.is_busy = True
        self.counts.recorded += 1
        try:
            try:
                return await conversation.handle(request, upstream)
            except OutOfStep:
                async with self._opening:
                    conversation = await self._new(request)
                    conversation.is_busy = True
                return await conversation.handle(request, upstream)
        except Refused:
            self.counts.refused += 1
            raise

    async def _new(self, request: Asked) -> Conversation:
        about: dict[str, object] = {"format": RECORDED, "recording": self.name, "api": request.dialect}
        if (like := self._like(request)) is not None and like.session is not None:
            about["continues"] = like.session.session_id
        new = NewSession(new_session_id(), OPEN_ENDED, tags=(self.tag,), metadata=about, imported=RECORDED)
        try:
            prices = self._prices.get(request.model)
            made = Conversation(request, prices, is_limited=self._is_limited)
            made.session = await self._runtime._started().open(made.agent, new)
        except CallboardError as error:
            if not self._is_limited:  # the program works on, as it would without a recording
                raise Unrecordable(str(error)) from error
            self.counts.refused += 1
            raise Refused(str(error)) from error
        self.conversations.append(made)
        return made

    def _like(self, request: Asked) -> Conversation | None:
        """Return the conversation that shares the most first messages; None for none that shares enough."""
        shared = [(_shared(one.known, request.messages), one) for one in self.conversations]
        most, like = max(shared, key=lambda pair: pair[0], default=(0, None))
        return like if most >= _SHARED_MIN else None

    async def close(self) -> None:
        """End all sessions."""
        for one in self.conversations:
            await one.close()


def _shared(known: list[dict[str, object]], messages: list[dict[str, object]]) -> int:
    count = 0
    for ours, theirs in zip(known, messages, strict=False):
        if ours != theirs:
            break
        count += 1
    return count
