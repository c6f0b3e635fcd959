"""One conversation of the program, as a session that runs while it does.

The agent of the session decides as any agent does. Its model answers with what the service said, and its
tools with the results that the next request brings. So a request goes to the service once its grant is
posted, and one that a budget refuses never does.

Rules
  - Messages that the program sends and that no answer has brought, such as those of an earlier process, are
    enacted first, at no cost.
  - A call to the service that fails stays open: the program may send its request again. If it does not, the
    call ends with that failure when the recording does.
  - A result of a call is given to its tool. Words beside results are told to the agent.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from callboard.actors.protocol.conversation import decoded
from callboard.actors.protocol.errors import CallboardError, TellRefused
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.actors.protocol.limits import TABLE, Limits
from callboard.actors.protocol.messages import Told
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure, Sent
from callboard.runtime.agent import Agent
from callboard.runtime.gateway.dialects import Answered, Asked, conversation_of, reply_of
from callboard.runtime.imports.conversations import name_of
from callboard.runtime.imports.pieces import text_in, without_reasoning
from callboard.runtime.imports.traffic import Block
from callboard.runtime.models.anthropic.answer import encoded
from callboard.runtime.models.failures import UNREPORTED
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_tells import TELL_CHARS_MAX
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import Tool

OPEN_ENDED: Final = Limits(
    **{
        name: 1 if name == "max_model_attempts" else 2**31
        for name, row in TABLE.items()
        if row.default and name != "cancel_grace_s"
    }
)
"""The program has its own limits; those of the recording are a budget above its sessions."""
_ENDING_S: Final = 5.0
_BROUGHT: Final = "it came with a request of the program"
NO_ANSWER: Final = ModelFailure("no_answer", "the program ended before the service had answered")

Upstream = Callable[[], Awaitable[Answered]]


class Refused(Exception):
    """A request that the session does not grant. message: why."""


class Failed(Exception):
    """A request that the service did not answer. The program was told how."""


class OutOfStep(Exception):
    """A question of the program while the agent waits for an answer that the program does not ask for."""


class ToolFailed(Exception):
    """A result that the program marks as an error."""


class Conversation:
    """One conversation. is_limited: True if a budget binds its session."""

    def __init__(self, first: Asked, prices: Prices | None, *, is_limited: bool = False) -> None:
        self.known: list[Block] = []
        self.response = ""  # the id of the last answer, from which a request of the Responses API may go on
        self.is_busy = False
        self.is_over = False
        self.session: Session | None = None
        self._asking: asyncio.Task[Outcome] | None = None
        self._given: asyncio.Queue[Block | Upstream] = asyncio.Queue()
        self._results: dict[str, asyncio.Future[Block]] = {}
        self._tells: set[asyncio.Task[int]] = set()
        self._failure = NO_ANSWER
        self._failures: list[str] = []
        self._answered: asyncio.Future[Answered] | None = None
        self._started = asyncio.Event()
        self._body = b""
        self._sent: list[Block] = []
        self._is_limited = is_limited
        self._dialect = first.dialect
        self._spec = ModelSpec(first.model or "unknown", first.max_tokens or 8_192, prices=prices)
        self._tool_names = set(first.tools)
        self.agent = Agent(
            name_of("program", "program"),
            instructions=first.instructions or "",  # type: ignore[arg-type]  # a text or blocks, as they came
            tools=[self._tool(name, one.description, one.input_schema) for name, one in first.tools.items()],
            model=self,
        )

    # --- the model of the agent ---------------------------------------------------------

    @property
    def spec(self) -> ModelSpec:
        """Return the model that the program asks."""
        return self._spec

    async def aclose(self) -> None:
        """Do nothing: the gateway closes its connections."""

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Answer with the next reply of the traffic."""
        while True:
            given = await self._given.get()
            if isinstance(given, dict):
                blocks = given["content"]
                return ModelAnswer(encoded(blocks), "", ZERO, differs=(_BROUGHT,))
            answer = await self._from_service(request, given)
            if answer is not None:
                return answer

    async def _from_service(self, request: ModelRequest, upstream: Upstream) -> ModelAnswer | None:
        """Send the request on; None if the service did not answer, and the program may ask again."""
        self._started.set()
        waiter = self._answered
        try:
            found = await upstream()
        except Failed as error:
            self._failures.append(str(error))
            self._failure = ModelFailure("service_error", str(error)[:1_000])
            if waiter is not None and not waiter.done():
                waiter.set_exception(error)
            return None
        if waiter is not None and not waiter.done():
            waiter.set_result(found)
        differs = [f"an attempt failed: {one}" for one in self._failures]
        self._failures.clear()
        differs += self._differences(request)
        usage = found.answer.usage
        if self._is_limited and usage == UNREPORTED:
            usage = None  # the whole reservation is charged: nothing may be asked past a limit
        sent = Sent(hashlib.sha256(self._body).hexdigest(), "")
        return ModelAnswer(
            found.answer.content,
            found.answer.stop_reason,
            usage,
            model=found.answer.model,
            sent=sent,
            body=self._body,
            differs=tuple(differs),
        )

    def _differences(self, request: ModelRequest) -> list[str]:
        """Return the first message that the log derives otherwise than the program sent it."""
        derived = conversation_of("messages", decoded(request.messages))
        if self._dialect != "messages":  # messages of the others are compared without reasoning
            derived = [without_reasoning(one) for one in derived]
        for place, (ours, theirs) in enumerate(zip(derived, self._sent, strict=False)):
            if ours != theirs:
                return [f"messages[{place}] was {bytes(encoded(theirs)).decode()}"]
        if len(derived) != len(self._sent):
            return [f"{len(self._sent)} messages were sent, and the log has {len(derived)}"]
        return []

    # --- its tools ----------------------------------------------------------------------

    def _tool(self, name: str, description: str, schema: Json) -> Tool:
        async def run(arguments: JsonObject, ctx: ToolContext) -> Any:
            block = await self._result_of(ctx.call_id)
            content = block.get("content", "")
            if block.get("is_error"):
                raise ToolFailed(text_in(content))
            return content

        return Tool(name, description, schema, run, "write")

    def _result_of(self, call: str) -> "asyncio.Future[Block]":
        return self._results.setdefault(call, asyncio.get_running_loop().create_future())

    # --- requests -----------------------------------------------------------------------

    def goes_on_with(self, request: Asked) -> bool:
        """Return True if a request continues this conversation."""
        if self.is_busy or self.is_over or not set(request.tools) <= self._tool_names:
            return False
        if self._is_limited and request.max_tokens > self._spec.max_tokens:  # more than would be reserved
            return False
        if self._failures:
            return self.is_again(request)
        if request.before:
            return request.before == self.response
        known = self.known
        return len(request.messages) > len(known) and request.messages[: len(known)] == known

    def is_again(self, request: Asked) -> bool:
        """Return True for a request that failed before, and is sent again."""
        return bool(self._failures) and request.messages == self._sent

    async def handle(self, request: Asked, upstream: Upstream) -> Answered:
        """Answer a request with what the service says. Raises Refused, Failed, OutOfStep."""
        self.is_busy = True
        try:
            return await self._handle(request, upstream)
        finally:
            self.is_busy = False

    async def _handle(self, request: Asked, upstream: Upstream) -> Answered:
        again = self.is_again(request)  # the call of its first attempt is open
        whole = request.messages
        if request.before:  # the service has the rest
            whole = conversation_of(None, [*self.known, *request.items])
        new = whole[len(self.known) :]
        self._sent = whole
        self._body = request.body
        self._answered = asyncio.get_running_loop().create_future()
        self._started.clear()
        if not again:
            for place, message in enumerate(new):
                await self._take(message, is_last=place == len(new) - 1)
        self._given.put_nowait(upstream)
        found = await self._wait()
        self.known = [*self._sent, reply_of(request.dialect, found.items)]
        self.response = found.id
        return found

    async def _take(self, message: Block, *, is_last: bool) -> None:
        """Enact one message that came with a request."""
        if message["role"] == "assistant":
            self._given.put_nowait(message)
            return
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results = [block for block in blocks if block.get("type") == "tool_result"]
        words = [block for block in blocks if block.get("type") != "tool_result"]
        if results and words:
            await self._tell(text_in(words))
        for block in results:
            future = self._result_of(block["tool_use_id"])
            if not future.done():
                future.set_result(block)
        if words and not results:
            await self._ask(words)

    async def _ask(self, blocks: list[Block]) -> None:
        if self._asking is not None:
            await asyncio.wait({self._asking}, timeout=_ENDING_S)
            if not self._asking.done():
                self.is_over = True
                raise OutOfStep
        assert self.session is not None
        is_text = len(blocks) == 1 and blocks[0].get("type") == "text"
        prompt = blocks[0]["text"] if is_text else blocks
        self._asking = asyncio.ensure_future(self.session.ask(prompt))

    async def _tell(self, text: str) -> None:
        """Tell the agent something. Return once it has the words: it reads them beside the results."""
        assert self.session is not None
        observers, has_them = self.session._board.observers, asyncio.Event()

        def note(event: Event) -> None:
            if isinstance(event.body, Told):
                has_them.set()

        observers.append(note)
        waiting = asyncio.ensure_future(has_them.wait())
        task = asyncio.ensure_future(self.session.tell("host", text[:TELL_CHARS_MAX]))
        self._tells.add(task)
        task.add_done_callback(self._told)
        try:
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            observers.remove(note)

    def _told(self, task: "asyncio.Task[int]") -> None:
        self._tells.discard(task)
        if not task.cancelled():
            with suppress(TellRefused, CallboardError):
                task.result()

    async def _wait(self) -> Answered:
        """Wait for the answer of the service, or for the refusal of the session."""
        assert self._answered is not None
        waiter = self._answered
        if self._asking is None:
            raise Refused("the request has no message of a user")
        both: set[asyncio.Future[Any]] = {waiter, self._asking}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not waiter.done() and not self._started.is_set():
            self.is_over = True
            outcome = self._asking.result()
            raise Refused(f"{outcome.kind}: {outcome.detail or outcome.text}")
        return await waiter

    # --- the end --------------------------------------------------------------------------

    async def close(self) -> None:
        """End the session: closed if nothing is open, else left as it is."""
        if self.session is None:
            return
        asking = self._asking
        if asking is not None and not asking.done():
            if self._failures:
                self._given.put_nowait(self._give_up)
            if self._failures or not self._has_calls():
                await asyncio.wait({asking}, timeout=_ENDING_S)
        if asking is None or asking.done():
            await self.session.close()
            return
        await self.session.detach(grace_s=0)
        await asyncio.gather(asking, *self._tells, return_exceptions=True)

    def _has_calls(self) -> bool:
        """Return True if the last reply has calls, whose results the program has not sent."""
        return bool(self.known) and any(one.get("type") == "tool_use" for one in self.known[-1]["content"])

    async def _give_up(self) -> Answered:
        return Answered(ModelAnswer(failure=self._failure, usage=ZERO), [])
