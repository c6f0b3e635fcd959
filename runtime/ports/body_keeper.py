"""The bodies of a session's model requests, kept with their answers (`Runtime(keep_requests=True)`).

A body is kept as its difference to the one before it of the same agent. So the last ones are held in memory;
a process that resumes a session reads them from its log.

A warning for each model of which the counts of tokens cannot be right.
"""

import asyncio
import logging
from collections.abc import Iterable

from msgspec.structs import replace

from callboard.actors.agent.input_bound import is_doubted
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.kept_bodies import body_after, shortened
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.runtime.log.protocol import EventLog, Stored, event_of
from callboard.runtime.secrets.registry import Secrets

_PAGE = 1_000
_REPLY = b'{"type":"ModelReplied"'

logger = logging.getLogger("callboard.models")


class BodyKeeper:
    """The bodies that were kept last in one session, by the addresses of their agents."""

    def __init__(self, log: EventLog, session_id: str) -> None:
        self._log = log
        self._session_id = session_id
        self._last: dict[str, bytes] = {}
        self._loading: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Read the bodies that the log has, once. A log that cannot be read lets the next ones be whole."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._read())
        await asyncio.shield(self._loading)

    async def _read(self) -> None:
        found: dict[str, bytes] = {}
        start = 1
        try:
            while rows := await self._log.read(self._session_id, start, _PAGE):
                self._take(rows, found)
                start = rows[-1].seq + 1
        except CallboardError as error:
            logger.warning("the bodies that session %s kept cannot be read: %s", self._session_id, error)
        self._last = {address: body for address, body in found.items() if body}

    def _take(self, rows: Iterable[Stored], found: dict[str, bytes]) -> None:
        """Keep the last body of each agent whose replies are in these rows."""
        for row in rows:
            if row.body.startswith(_REPLY):
                body = event_of(self._session_id, row).body
                assert isinstance(body, ModelReplied)
                found[row.recipient] = body_after(found.get(row.recipient, b""), body)

    def with_body(self, address: str, reply: ModelReplied, body: bytes, secrets: Secrets) -> ModelReplied:
        """Return an answer with the body of its request, without secrets."""
        assert reply.sent is not None
        # Secrets go before the body is cut: half a secret looks like any other text.
        clean = bytes(secrets.redactor.json(Json(body)))
        try:
            kept = shortened(self._last.get(address, b""), clean)
        except UnicodeDecodeError:
            logger.warning("the body of a request of %s is not text, and is not kept", address)
            return reply
        self._last[address] = clean
        return replace(reply, sent=replace(reply.sent, head=kept.head, tail=kept.tail), body=kept.pieces)

    def forget(self, address: str) -> None:
        """Let go of the body of a sub-agent that ended; that of the host begins its next ask's."""
        if address != HOST:
            self._last.pop(address, None)


class CountWatch:
    """Looks at the counts of the models of one runtime, and warns once of each model."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def look(self, state: object, reply: ModelReplied) -> None:
        """Warn of an answer whose count its agent will not believe. state: of the agent that asked."""
        if not isinstance(state, AgentState) or reply.status != "ok" or not is_doubted(state, reply.usage):
            return
        name = state.model.name
        if name in self._told:
            return
        self._told.add(name)
        logger.warning(
            "model %r reports a count of tokens that its prompt cannot have (%s): it is charged, and further "
            "calls are bounded by the bytes of the conversation instead",
            name,
            reply.usage,
        )
