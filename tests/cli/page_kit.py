"""A page server without a network: requests go to its app in this process."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from callboard.cli.page_acts import Acts, Owned
from callboard.cli.page_guard import Guard
from callboard.cli.page_server import PageServer
from callboard.cli.page_views import PageViews, Place
from callboard.cli.recordings import keyed_log
from callboard.runtime.log.reading import open_reader

PORT, TOKEN, ACT_TOKEN = 8_000, "address-token", "act-token"
ORIGIN = f"http://127.0.0.1:{PORT}"
HEADERS = {"Host": f"127.0.0.1:{PORT}"}
ACT_HEADERS = {
    **HEADERS,
    "Origin": ORIGIN,
    "Content-Type": "application/json",
    "X-Callboard-Act": ACT_TOKEN,
}


class Got(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes

    @property
    def value(self) -> Any:
        """Return the value in an answer to an act."""
        return json.loads(self.body)["value"]

    @property
    def error(self) -> str:
        """Return the words of a refused act."""
        return str(json.loads(self.body)["error"])


class Site:
    """A server that shows and acts on logs. owned: the runtime of `--with`."""

    def __init__(
        self, *logs: Path, owned: Owned | None = None, acts: bool = True, shown: Place | None = None
    ) -> None:
        names = [str(log) for log in logs]
        words: dict[str, object] = {"token": ACT_TOKEN} if acts else {}
        views = PageViews(names, [partial(open_reader, name) for name in names], shown, words)
        guard = Guard(PORT, TOKEN, ACT_TOKEN if acts else "")
        self.app = PageServer(guard, views, Acts(names, keyed_log, owned) if acts else None)
        self._numbers = 0

    async def get(self, name: str = "", query: str = "") -> Got:
        """Ask for something."""
        return await self.asked("GET", f"/{TOKEN}/{name}", HEADERS, query=query)

    async def act(
        self, command: str, *, id: str = "", seen: int = 10_000, log: int = 0, **fields: Any
    ) -> Got:
        """Act, under a new request id or this one."""
        self._numbers += 1
        name = id or f"request-{self._numbers}"
        does = {"command": command, "seen": seen, **fields}
        return await self.post({"id": name, "log": log, "does": does})

    async def post(self, body: object, **headers: str | None) -> Got:
        """Post a body as a page does; headers: others, with `_` for `-`, or None to leave one out."""
        given = {**ACT_HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {name: value for name, value in given.items() if value is not None}
        return await self.asked("POST", f"/{TOKEN}/act", sent, data)

    async def asked(
        self, method: str, path: str, headers: dict[str, str], body: bytes = b"", query: str = ""
    ) -> Got:
        """Return the answer to a request."""
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = {"method": method, "path": path, "query_string": query.encode(), "headers": pairs}
        sent: list[dict[str, Any]] = []
        parts = [body[at : at + 65_536] for at in range(0, max(1, len(body)), 65_536)]

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        return Got(sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:]))


def rows_of(got: Got) -> Sequence[dict[str, Any]]:
    """Return the rows of a list of sessions, by column."""
    found = json.loads(got.body)
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
