"""One call of a server's tool, from the arguments to the value, with every way in which it can fail.

the server is not there              error, "unavailable ..."; nothing was sent
its schema is not the recorded one   error, "... changed: look again"; nothing was sent
the request may have left            write: interrupted; read and idempotent: sent once more
it answers an error                  error with its text
it asks a person for input           input_required, if the program allows it; else an error
"""

import asyncio
from typing import Any, Final, Protocol

import mcp.types as types
from mcp import MCPError

from callboard.actors.protocol.errors import ToolError, ToolInterrupted
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.profiles import ToolSpec
from callboard.actors.protocol.value_types import InputGiven
from callboard.runtime.mcp.connection import Connection, NotConnected
from callboard.runtime.mcp.content import text_of, value_of
from callboard.runtime.mcp.eliciting import input_needed, params_of
from callboard.runtime.mcp.sending import Sending
from callboard.runtime.mcp.specs import listed, same_schema
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.output import describe
from callboard.runtime.tools.sources import Scope

_TRIES: Final = 2
_POLLS_S: Final = (0.05, 0.1, 0.2, *(0.25,) * 7)  # waits for a server that wants to be asked again
# Codes that the SDK makes up when no answer can come. A server that sends one itself is believed as little.
_LOST: Final = frozenset((types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, types.PARSE_ERROR))
_UNKNOWN: Final = "; whether it had its effect is not known"


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

    async def call(self, arguments: dict[str, Any], ctx: ToolContext) -> object:
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
            raise ToolError(f"{self._spec.name} changed: {self._name} does not list it any more; look again")
        raise ToolError(
            f"{self._spec.name} changed: {self._name} takes other arguments now than were described; the "
            "call was not sent. Look again for what the tools do now, or go on without it"
        )

    async def _finished(
        self, connection: Connection, arguments: dict[str, Any], ctx: ToolContext, sending: Sending
    ) -> types.CallToolResult | types.InputRequiredResult:
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
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Send the call. Raises Lost if no answer can come, and ToolError for the server's own error."""
        try:
            return await connection.call(params, ctx, sending)
        except MCPError as error:
            if sending.failure or sending.status >= 400 or error.code in _LOST:
                raise self._lost(connection, sending, error) from error
            raise ToolError(f"{self._name} answered with an error: {error.message}") from error
        except asyncio.CancelledError:
            if sending.has_left and self._spec.effect != "read":
                raise ToolInterrupted(self._given_up(ctx)) from None
            raise
        except Exception as error:
            raise self._lost(connection, sending, error) from error

    def _lost(self, connection: Connection, sending: Sending, error: Exception) -> Lost:
        if 400 <= sending.status < 500:
            sending.has_left = False  # refused before it was looked at
            return Lost(f"it answered with HTTP status {sending.status}: {describe(error)}")
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

    def _given_up(self, ctx: ToolContext) -> str:
        is_late = ctx.deadline is not None and asyncio.get_running_loop().time() >= ctx.deadline
        how = f"timed out after {ctx.timeout_s:g} s" if is_late else "was cancelled"
        return f"{self._spec.name} {how} before {self._name} answered{_UNKNOWN}"

    def _value(self, result: types.CallToolResult | types.InputRequiredResult) -> object:
        if isinstance(result, types.InputRequiredResult):
            raise input_needed(self._name, self._live.elicits, result)
        if result.is_error:
            raise ToolError(text_of(result) or f"{self._name} answered with an error without a text")
        return value_of(result)

    def _unavailable(self, why: str) -> ToolError:
        return ToolError(f"unavailable: {self._name} cannot be reached, and the call was not sent: {why}")

    @property
    def _name(self) -> str:
        return f"MCP server {self._live.label!r}"
