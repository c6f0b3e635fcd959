"""An MCP server on loopback over HTTP: a random token, the Host and the Origin are checked."""

import hmac
import secrets
import socket
from typing import Final

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from callboard.cli.output import talk

_HOST: Final = "127.0.0.1"


class Guard:
    """An ASGI app that lets only requests with the token through."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 to a request without the token."""
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)


def guarded(server: MCPServer, token: str) -> ASGIApp:
    """Return the app of a server, for any port of loopback."""
    allowed = TransportSecuritySettings(
        allowed_hosts=[f"{_HOST}:*", "localhost:*"],
        allowed_origins=[f"http://{_HOST}:*", "http://localhost:*"],
    )
    return Guard(server.streamable_http_app(transport_security=allowed, host=_HOST), token)


async def serve_http(server: MCPServer, port: int) -> None:
    """Serve on loopback until the process is told to end. port: 0 for a free one."""
    token = secrets.token_urlsafe(32)
    with socket.create_server((_HOST, port)) as held:
        talk(f"http://{_HOST}:{held.getsockname()[1]}/mcp")
        talk(f"authorization: Bearer {token}")
        config = uvicorn.Config(guarded(server, token), log_level="warning", ws="none")
        await uvicorn.Server(config).serve(sockets=[held])
