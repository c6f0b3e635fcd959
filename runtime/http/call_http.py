"""`ctx.http` of one call: requests within the hosts of the agent's bundles.

Rules
  - Scheme, host and port are checked at every hop of a redirect, and named in the log.
  - A header with credentials never goes to another place than the one that it was given for.
  - Variables for proxies, `.netrc` and cookies of earlier requests are not used.
  - A body is unpacked in pieces, and refused once it is too large. A request has one time limit.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2

from callboard.actors.protocol.bundle_entries import Place
from callboard.actors.protocol.errors import HttpError, MisuseError, ToolError, ToolInterrupted
from callboard.runtime.http.places import CheckedTransport, place_of_url, url_of
from callboard.runtime.http.settings import Http
from callboard.runtime.http.web_encodings import decode, encoding_named
from callboard.runtime.models.watched import unpacked
from callboard.runtime.sanitize import clean_text
from callboard.runtime.tools.access import Access

REQUEST_BYTES_MAX: Final = 10_000_000
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_METHODS: Final = (*_SAFE, "POST", "PUT", "PATCH", "DELETE")
_MOVED: Final = (301, 302, 303, 307, 308)
_PACKED: Final = ("", "identity", "gzip", "x-gzip", "deflate")
_OWN: Final = frozenset(
    ("host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "accept-encoding")
)
_TYPE_CHARS_MAX: Final = 500  # of a content type that are read for its encoding
_CHARSET: Final = re.compile(r""";\s*charset\s*=\s*["']?([^\s"';]++)""", re.IGNORECASE)
_GOES_ALONG: Final = frozenset(("accept", "accept-language", "user-agent", "content-type"))


@dataclass(frozen=True)
class HttpAnswer:
    """An answer of `ctx.http`. url: of the last hop. headers: by names in lower case. content: unpacked.

    encoding: the name of the encoding of the web that the server states, `utf-8` for any other.
    """

    status: int
    url: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)
    encoding: str = field(default="utf-8", repr=False)

    @property
    def text(self) -> str:
        """Return the content as text; other bytes stand as the replacement character."""
        return decode(self.content, self.encoding)

    def json(self) -> Any:
        """Return the JSON that the content is. Raises ToolError for any other content."""
        try:
            return json.loads(self.content)
        except ValueError as error:
            raise ToolError(f"the answer is not JSON: {error}") from None


@dataclass
class _Hop:
    """One request of a chain of redirects."""

    method: str
    url: httpx2.URL
    headers: dict[str, str]
    content: bytes
    place: Place

    def forget_credentials(self) -> None:
        """Keep the headers that may go to another place."""
        self.headers = {name: value for name, value in self.headers.items() if name in _GOES_ALONG}

    def become_get(self) -> None:
        """Ask without a body."""
        if self.method != "HEAD":
            self.method, self.content = "GET", b""
            self.headers.pop("content-type", None)


class CallHttp:
    """The requests of one call. deadline_s: seconds that the call still has, None without a limit.

    `await ctx.http.send("GET", url)` in async tools, `ctx.http.request("GET", url)` in the others.
    """

    def __init__(self, settings: Http, access: Access, deadline_s: float | None = None) -> None:
        self._settings = settings
        self._access = access
        self._deadline_s = deadline_s

    def request(self, method: str, url: str, **options: Any) -> HttpAnswer:
        """Send a request from a tool that is not async. Arguments and errors are those of `send`."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.send(method, url, **options))
        raise MisuseError(
            "an async tool awaits ctx.http.send(...); ctx.http.request(...) would block the event loop"
        )

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | str = b"",
        json: object = None,
    ) -> HttpAnswer:
        """Send a request, follow its redirects, and return the answer of any status.

        headers: for the place of `url` only. content, json: the body, one of the two.
        Raises HttpError, which the model reads; ToolInterrupted if a request that changes something failed
        after it may have been sent.
        """
        hop = self._first(method, url, headers or {}, content, json)
        limit_s = min(self._settings.timeout_s, self._deadline_s or self._settings.timeout_s)
        # A task of its own: a timeout that cancels the task of the tool would count as a stop of the tool.
        work = asyncio.create_task(self._followed(hop))
        try:
            done, _ = await asyncio.wait([work], timeout=limit_s)
            if not done:
                late = HttpError(f"{hop.place} did not answer within {limit_s:g} s", "timeout")
                raise _after(hop, late)
            return work.result()
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise _failed(hop, error) from None
        finally:
            work.cancel()

    def _first(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | str, body: object
    ) -> _Hop:
        if method.upper() not in _METHODS:
            raise HttpError(f"{method[:20]!r} is not a method; use {', '.join(_METHODS)}", "bad_url")
        given = _checked_headers(headers)
        data = clean_text(content).encode() if isinstance(content, str) else content
        if body is not None:
            data, given = json.dumps(body).encode(), {"content-type": "application/json", **given}
        if len(data) > REQUEST_BYTES_MAX:
            raise HttpError(f"a request has at most {REQUEST_BYTES_MAX:,} bytes, not {len(data):,}", "large")
        read = url_of(url)
        return _Hop(method.upper(), read, given, data, self._checked(read))

    def _checked(self, url: httpx2.URL) -> Place:
        """Return the place of a hop that the rights permit. Raises HttpError."""
        place = place_of_url(url)
        try:
            self._access.use("hosts", str(place))
        except ToolError as error:
            raise HttpError(str(error), "denied") from None
        return place

    async def _followed(self, hop: _Hop) -> HttpAnswer:
        for _ in range(self._settings.max_redirects + 1):
            answer = await self._answered(hop)
            if answer.status not in _MOVED or "location" not in answer.headers:
                return answer
            self._move(hop, answer)
        raise HttpError(f"more than {self._settings.max_redirects} redirects", "redirect")

    def _move(self, hop: _Hop, answer: HttpAnswer) -> None:
        """Turn a hop into the one that a redirect leads to. Raises HttpError."""
        url = _target(hop, answer)
        place = self._checked(url)
        if hop.place.scheme == "https" != place.scheme:
            raise HttpError(f"{hop.place} redirects from https to http", "redirect")
        if place != hop.place:
            hop.forget_credentials()
        if answer.status == 303 or (answer.status in (301, 302) and hop.method == "POST"):
            hop.become_get()
        hop.url, hop.place = url, place

    async def _answered(self, hop: _Hop) -> HttpAnswer:
        settings = self._settings
        own = {"accept-encoding": "gzip, deflate", "user-agent": "callboard", **hop.headers}
        request = httpx2.Request(hop.method, hop.url, headers=own, content=hop.content or None)
        async with CheckedTransport(settings) as transport:
            response = await transport.handle_async_request(request)
            response.request = request
            try:
                content = await _read(response, hop.place, settings.max_bytes)
            finally:
                await response.aclose()
        found = {name.lower(): value for name, value in response.headers.items()}
        stated = _CHARSET.search(found.get("content-type", "")[:_TYPE_CHARS_MAX])
        encoding = encoding_named(stated[1] if stated else None)
        return HttpAnswer(response.status_code, str(hop.url), found, content, encoding)


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers by their names in lower case. Raises HttpError for one that would name another host."""
    given = {name.lower(): value for name, value in headers.items()}
    if own := _OWN.intersection(given):
        raise HttpError(f"the header {min(own)!r} is set by ctx.http itself", "bad_url")
    return given


def _target(hop: _Hop, answer: HttpAnswer) -> httpx2.URL:
    """Return the address that a redirect leads to. Raises HttpError."""
    try:
        return hop.url.join(url_of(answer.headers["location"]))
    except (httpx2.InvalidURL, ValueError) as error:
        raise HttpError(
            f"{hop.place} redirects to an invalid address: {str(error)[:200]}", "redirect"
        ) from None


async def _read(response: httpx2.Response, place: Place, max_bytes: int) -> bytes:
    """Return an unpacked body. Raises HttpError for a large one, or one that is packed in another way."""
    packed = response.headers.get("content-encoding", "").strip().lower()
    if packed not in _PACKED:  # several layers, too: each could be a thousand times larger than the one above
        raise HttpError(
            f"{place} answers in the encoding {packed[:50]!r}, which is not supported", "encoding"
        )
    parts: list[bytes] = []
    size = 0
    pieces: AsyncIterator[bytes] = unpacked(response)
    async for piece in pieces:
        size += len(piece)
        if size > max_bytes:
            raise HttpError(f"{place} answers with more than {max_bytes:,} bytes", "large")
        parts.append(piece)
    return b"".join(parts)


def _failed(hop: _Hop, error: Exception) -> ToolError:
    return _after(
        hop, HttpError(f"{hop.place}: {type(error).__name__} {str(error)[:200]}".rstrip(), "failed")
    )


def _after(hop: _Hop, error: HttpError) -> ToolError:
    """Return an error as it is, or as one after which the effect of the request is unknown."""
    return error if hop.method in _SAFE else ToolInterrupted(f"{error}; it may have had its effect")
