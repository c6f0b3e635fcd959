"""A port of a fork: it gives recorded answers where they fit, and lets the real port work elsewhere."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias

from callboard.actors.protocol.addresses import TOOLS
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, ToolReturned
from callboard.actors.session.recorded_answers import RecordedAnswers, Reusable
from callboard.runtime.forks.playback import Playback
from callboard.runtime.sessions.port_protocol import Port

Effects: TypeAlias = Literal["recorded", "live"]
"""The choice for tools with an effect that have no recorded result: answered `needs_effect`, or run."""

_NOT_RUN = "Not run: {tool} has an effect, and this fork has no recorded result for the call."


class EffectsPolicy:
    """The choice for the tools of one fork. is_after_effect: a tool with an effect has run in it."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.is_after_effect = False

    def may_reuse(self, request: Event) -> bool:
        """Return False for a `read` tool once a tool with an effect has run: it may read something else."""
        is_read = isinstance(request.body, CallTool) and request.body.effect == "read"
        return not (is_read and self.is_after_effect)

    def refusal(self, request: Event) -> Post | None:
        """Return the answer to a call that does not run, or None."""
        call = request.body
        if not isinstance(call, CallTool) or call.effect == "read":
            return None
        if self.effects == "live":
            self.is_after_effect = True
            return None
        output = text_json(_NOT_RUN.format(tool=call.tool))
        return Post(request.sender, ToolReturned(call.turn, call.call, "needs_effect", output))


class ReusingPort:
    """A port behind the recorded answers of a fork. answer: posts an answer to a request."""

    def __init__(
        self,
        port: Port,
        playback: Playback,
        recorded: RecordedAnswers,
        policy: EffectsPolicy,
        answer: Callable[[Event, Post], None],
    ) -> None:
        self._port = port
        self._playback = playback
        self._recorded = recorded
        self._policy = policy
        self._post = answer

    def start(self, request: Event) -> None:
        """Hold the recorded answer to a request until its turn, or act on the request."""
        found = self._playback.find(request)
        begin = partial(self.begin, request)
        if found is not None and self._policy.may_reuse(request) and self._is_whole(request, found):
            self._playback.hold(request, found, begin)
            if not found.is_step:
                return
        begin()

    def _is_whole(self, request: Event, found: Reusable) -> bool:
        """Return False for an approval of a call that has no recorded result."""
        given = found.body
        is_approval = isinstance(given, ApprovalGiven) and given.verdict == "approved"
        return not is_approval or self._recorded.has_result(request, given)  # type: ignore[arg-type]  # is_approval

    def begin(self, request: Event) -> None:
        """Let the real port act on a request, or refuse a tool with an effect."""
        refusal = self._policy.refusal(request) if request.recipient == TOOLS else None
        if refusal is not None:
            self._post(request, refusal)
            return
        self._playback.work(request)
        self._port.start(request)

    def abort(self, request: Event) -> bool:
        """Give up a request: its recorded answer comes in its turn. Return False if it never started."""
        if self._playback.has(request):
            self._playback.schedule()
            return True
        return self._port.abort(request)

    def detach(self) -> None:
        """Detach the real port. Requests that wait for their recorded answers stay open."""
        self._port.detach()

    @property
    def running(self) -> "set[asyncio.Task[Any]]":
        """Return the tasks of the real port."""
        return self._port.running

    async def aclose(self) -> None:
        """Close the real port."""
        await self._port.aclose()
