"""The gateway of one Claude client, on loopback: its requests become questions of the session.

Rules
  - Only its own client is answered: each request carries the token of the run.
  - A question without an answer is a 403 with the words of the session and `x-should-retry: false`.
  - Any path but the one for messages is a 404: nothing goes on to a service.
"""

import hmac
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import msgspec

from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.brains.claude_requests import message_of, stream_of, written_of
from callboard.runtime.gateway.dialects import refusal
from callboard.runtime.gateway.server import Answering, LoopbackServer, Request
from callboard.runtime.programs.asks import Answer
from callboard.runtime.programs.kept_requests import Written
from callboard.runtime.programs.model_reply import reply_of

Ask = Callable[[Written], Awaitable[Answer]]


class ClientGateway(LoopbackServer):
    """Serves one client. ask: puts a question, and returns its answer."""

    def __init__(self, token: str, ask: Ask) -> None:
        super().__init__()
        self._token, self._ask = token.encode(), ask

    def _is_own(self, key: str) -> bool:
        return hmac.compare_digest(key.encode(), self._token)

    async def _serve(self, request: Request, answer: Answering) -> None:
        headers = {name.lower(): value for name, value in request.headers}
        if "origin" in headers or not self._is_own(headers.get("x-api-key", "")):
            await _refuse(answer, "the gateway is for the client of another run")
            return
        if request.method != "POST" or urlsplit(request.path).path != "/v1/messages":
            await answer.whole(404, refusal("messages", "not_found_error", f"no {request.path}"))
            return
        try:
            body = msgspec.json.decode(request.body, type=JsonObject)
            found = await self._ask(written_of(body))
        except (msgspec.MsgspecError, CallboardError) as error:
            await _refuse(answer, str(error))
            return
        if found.is_error or found.reply is None:
            await _refuse(answer, found.text or f"the question ended as {found.status}")
            return
        said = message_of(reply_of(found), str(body.get("model", "")), found.tool_use_id)
        is_stream = body.get("stream") is True
        kind = "text/event-stream" if is_stream else "application/json"
        await answer.begin(200, [("content-type", kind)])
        await answer.part(stream_of(said) if is_stream else msgspec.json.encode(said))
        await answer.end()


async def _refuse(answer: Answering, why: str) -> None:
    body = refusal("messages", "permission_error", why)
    await answer.whole(403, body, [("x-should-retry", "false")])
