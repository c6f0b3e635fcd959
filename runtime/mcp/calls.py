"""One call of a server's tool, from the arguments to the value, with every way in which it can fail.

the server is not there              error, "unavailable ..."; nothing was sent
its schema is not the recorded one   error, "... changed: look again"; nothing was sent
the request may have left, and no
  answer came                        write: interrupted; read and idempotent: sent once more
it answers an error                  error with its text
it answers anything else             error that names the fault of the answer
it asks a person for input           input_required, if the program allows it; else an error

An answer was not lost, even if it cannot be read: its call is not sent again. An error of a
timeout or a lost connection behind the server leaves the effect of a write unknown, and says so.
"""

import asyncio
import re
from typing import Final, Protocol

import mcp.types as types
from pydantic import ValidationError

from callboard.actors.protocol.errors import ToolError, ToolInterrupted
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.profiles import ToolSpec
from callboard.actors.protocol.value_types import InputGiven
from callboard.runtime.mcp.connection import Connection, NotConnected
from callboard.runtime.mcp.content import Result, Unreadable, input_needed, params_of, read_result
from callboard.runtime.mcp.foreign_json import Answer, Sending, shown
from callboard.runtime.mcp.specs import listed, same_schema
from callboard.runtime.mcp.wire import error_of
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.output import describe
from callboard.runtime.tools.sources import Scope

_TRIES: Final = 2
_POLLS_S: Final = (0.05, 0.1, 0.2, *(0.25,) * 7)  # waits for a server that wants to be asked again
_UNKNOWN: Final = "; whether it had its effect is not known"

# Words, since each server has codes of its own: -32001 is a timeout of the TypeScript SDK, a lost session of
# its servers, and a header that does not fit of the protocol 2026-07-28.
_NO_ANSWER: Final = re.compile(
    r"time[ds]?[ _-]?out|deadline.{0,3}exceeded|ETIMEDOUT|ECONNRESET|socket hang up"
    r"|connection (?:was |has been )?(?:closed|lost|reset|aborted)",
    re.IGNORECASE,
)
_NO_ANSWER_CODES: Final = frozenset((408, 504))
# Of statuses that refuse a request, those of one that may have been looked at.
_LOOKED_AT: Final = frozenset((303, 408, 499))


Place = tuple[Scope | None, str]
"""The users of a connection: a session or None for all, and the address of an agent or empty for all."""


class Connections(Protocol):
    """The connections of a server in one runtime."""

    @property
    def label(self) -> str:
        """Return the server's name in the log and in errors."""

    @property
    def elicits(self) -> bool:
        """Return whether a call may ask a person for input."""

    def place_of(self, scope: Scope, ctx: ToolContext) -> Place:
        """Return the place whose connection a call uses."""

    async def connection(self, place: Place, deps: object) -> Connection:
        """Return the connection of a place, and start it if necessary. Raises NotConnected."""

    def answered(self, place: Place) -> None:
        """Note that the server of a place works."""

    def changed(self, place: Place) -> None:
        """Tell the sessions of a place of the tools that its server lists now."""

    def failed(self, place: Place, connection: Connection) -> None:
        """Give a connection up. The next call of its place starts another, some time later."""


class Lost(Exception):
    """A request without an answer; its text says why."""


class Caller:
    """Calls one tool of a server for one session."""

    def __init__(self, live: Connections, spec: ToolSpec, scope: Scope) -> None:
        assert spec.origin is not None
        self._live = live
        self._spec = spec
        self._scope = scope
        self._remote = spec.origin.name
        self._checked: types.Tool | None = None  # the last listed tool that was compared and is the same

    async def call(self, arguments: dict[str, object], ctx: ToolContext) -> object:
        """Call the tool. Raises ToolError and ToolInterrupted, with texts for the model."""
        place = self._live.place_of(self._scope, ctx)
        for tries_left in reversed(range(_TRIES)):
            sending = Sending()
            try:
                connection = await self._live.connection(place, ctx.deps)
                await self._check(connection, place)
            except NotConnected as error:
                raise self._unavailable(str(error)) from error
            try:
                result = await self._finished(connection, arguments, ctx, sending)
            except Lost as error:
                self._live.failed(place, connection)
                self._give_up(sending, error, tries_left)
            else:
                self._live.answered(place)
                return self._value(result)
        raise AssertionError("the last try raises")

    async def _check(self, connection: Connection, place: Place) -> None:
        """Compare the recorded schema with the server's. Raises ToolError, NotConnected."""
        tool = await connection.current(self._remote)
        if tool is not None and tool is self._checked:
            return
        now = None if tool is None else listed(tool)
        if now is not None and same_schema(now.schema, self._spec.input_schema):
            self._checked = tool
            return
        self._live.changed(place)
        if now is None:
            raise ToolError(f"{self._spec.name} changed: {self._name} no longer lists it; look again")
        raise ToolError(
            f"{self._spec.name} changed: {self._name} now takes other arguments than were described; the "
            "call was not sent. Look again for what the tools do now, or go on without it"
        )

    async def _finished(
        self, connection: Connection, arguments: dict[str, object], ctx: ToolContext, sending: Sending
    ) -> Result | types.InputRequiredResult:
        """Send the call, and again while the server wants nothing but that. Raises as `_answer`."""
        given = ctx.given
        for delay_s in _POLLS_S:
            result = await self._answer(connection, params_of(self._remote, arguments, given), ctx, sending)
            if not isinstance(result, types.InputRequiredResult) or result.input_requests:
                return result
            given = InputGiven(0, NULL, result.request_state or "")
            await asyncio.sleep(delay_s)
        raise ToolError(f"{self._name} is not ready after {len(_POLLS_S)} tries; call again later")

    async def _answer(
        self,
        connection: Connection,
        params: types.CallToolRequestParams,
        ctx: ToolContext,
        sending: Sending,
    ) -> Result | types.InputRequiredResult:
        """Send the call. Raises Lost if no answer came, and ToolError for one that is not a result."""
        try:
            answer = await connection.call(params, ctx, sending)
        except asyncio.CancelledError:
            if sending.answer is None:
                if sending.has_left and self._spec.effect != "read":
                    raise ToolInterrupted(self._given_up(ctx, sending)) from None
                raise
            result = self._read(sending.answer)  # it came with the end of the time
            if isinstance(result, Result):
                return result
            raise
        except Exception as error:
            raise self._lost(connection, sending, error) from error
        return self._read(answer)

    def _read(self, answer: Answer) -> Result | types.InputRequiredResult:
        """Read an answer. Raises ToolError for an error, and for one that cannot be read."""
        try:
            match answer:
                case Answer("error", value):
                    raise ToolError(self._said(error_of(value)))
                case Answer("unreadable", why):
                    raise Unreadable(str(why))
                case Answer("result", {"resultType": "input_required"} as result):
                    return types.InputRequiredResult.model_validate(result, by_name=False)
                case Answer(_, result):
                    return read_result(result)
        except (Unreadable, ValidationError) as error:
            why = str(error) if isinstance(error, Unreadable) else describe(error)
            raise ToolError(
                f"{self._name} answered, but the answer cannot be read: {why}; the call was made and is not "
                "sent again"
            ) from error

    def _said(self, error: types.ErrorData) -> str:
        """Return the words of a server's error."""
        more = "" if error.data is None else f" ({shown(error.data)})"
        text = (error.message.strip() or f"code {error.code}, without a text") + more
        is_late = _NO_ANSWER.search(text) or error.code in _NO_ANSWER_CODES
        if not error.message.strip() and error.code == types.REQUEST_TIMEOUT:
            is_late = True
        doubt = _UNKNOWN if is_late and self._spec.effect == "write" else ""
        return f"{self._name} answered with an error: {text}{doubt}"

    def _lost(self, connection: Connection, sending: Sending, error: Exception) -> Lost:
        if 300 <= sending.status < 500 and sending.status not in _LOOKED_AT:
            sending.has_left = False  # refused before it was looked at
            return Lost(
                sending.failure or f"it answered with HTTP status {sending.status}: {describe(error)}"
            )
        return Lost(f"{sending.failure or describe(error)}{connection.told()}")

    def _give_up(self, sending: Sending, error: Lost, tries_left: int) -> None:
        """Return if the call may be sent again. Raises ToolError, ToolInterrupted."""
        if sending.has_left and self._spec.effect == "write":
            raise ToolInterrupted(f"{self._name} was lost during the call: {error}{_UNKNOWN}") from error
        if tries_left:
            return
        if sending.has_left:
            raise ToolError(f"{self._name} was lost during the call, twice: {error}") from error
        raise self._unavailable(str(error)) from error

    def _given_up(self, ctx: ToolContext, sending: Sending) -> str:
        is_late = ctx.deadline is not None and asyncio.get_running_loop().time() >= ctx.deadline
        how = f"timed out after {ctx.timeout_s:g} s" if is_late else "was cancelled"
        doubt = f"; {sending.doubt}" if sending.doubt else ""
        return f"{self._spec.name} {how} before {self._name} answered{doubt}{_UNKNOWN}"

    def _value(self, result: Result | types.InputRequiredResult) -> object:
        if isinstance(result, types.InputRequiredResult):
            raise input_needed(self._name, self._live.elicits, result)
        if result.is_error:
            raise ToolError(result.text or f"{self._name} answered with an error without a text")
        return result.value

    def _unavailable(self, why: str) -> ToolError:
        return ToolError(f"unavailable: {self._name} cannot be reached, and the call was not sent: {why}")

    @property
    def _name(self) -> str:
        return f"MCP server {self._live.label!r}"
