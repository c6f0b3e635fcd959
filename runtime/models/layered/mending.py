"""The streams of servers as the layer can join them: the calls in them are joined here, from the wire.

The layer joins pieces by one key, which servers leave out, repeat and change. So it never gets pieces: each
call reaches it once, whole, with the reason not to run it beside it.

    dialect            what the layer gets
    chat               the stream, with the calls as one event at its end
    responses          the whole answer that the stream makes
    generate-content   the stream, without the calls that came twice
    converse           the whole answer (`aws_events`)
"""

from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol

import httpx2

from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.layered.chat_stream import ChatStream
from callboard.runtime.models.layered.dialects import CHAT, GENERATE_CONTENT, Dialect
from callboard.runtime.models.layered.events import Mender, Split
from callboard.runtime.models.layered.gemini_stream import GeminiStream
from callboard.runtime.models.layered.responses_stream import ResponsesStream

_WRONG_FORM: Final = (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError)


class Asked(Protocol):
    """The call whose answer is mended, as far as that matters."""

    dialect: Dialect
    tools: frozenset[str]
    refused: list[str]

    def spoil(self, what: str, code: str = "garbage") -> ValueError:
        """Keep the reason why the answer cannot be read, and return it as an error to raise."""


def mended(asked: Asked, response: httpx2.Response) -> httpx2.Response:
    """Return a streamed answer whose events the layer joins rightly."""
    mender: Mender
    if asked.dialect is CHAT:
        mender = ChatStream(asked.tools, asked.refused.extend)
    elif asked.dialect is GENERATE_CONTENT:
        mender = GeminiStream(asked.refused.extend)
    else:
        return response
    stream = _Mended(response.stream, asked, mender)  # type: ignore[arg-type]  # of an async client
    joined = httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=stream,
        request=response.request,
        extensions=response.extensions,
    )
    joined.encoding = "utf-8"
    return joined


class _Mended(httpx2.AsyncByteStream):
    """The bytes of an answer, with other events in the place of those with calls."""

    def __init__(self, stream: httpx2.AsyncByteStream, asked: Asked, mender: Mender) -> None:
        self._stream = stream
        self._asked = asked
        self._mender = mender

    async def __aiter__(self) -> AsyncIterator[bytes]:
        split = Split()
        async for data in self._stream:
            if events := b"".join([self._read(event) for event in split.take(data)]):
                yield events
        yield self._read(split.end()) + self._read(None)

    def _read(self, event: bytes | None) -> bytes:
        """Return the events to read in the place of an event, or of the end of the stream."""
        try:
            return self._mender.end() if event is None else self._mender.take(event)
        except _WRONG_FORM as error:
            raise self._asked.spoil(_wrong_form(self._asked, error)) from error

    async def aclose(self) -> None:
        """Close the connection, or give it back to the pool."""
        await self._stream.aclose()


async def joined_answer(asked: Asked, response: httpx2.Response, on_text: Callable[[str], None]) -> bytes:
    """Return the whole answer that a stream of Responses makes. Raises CallFailed."""
    stream, split = ResponsesStream(on_text), Split()
    try:
        async for data in response.aiter_bytes():
            for event in split.take(data):
                stream.take(event)
        stream.take(split.end())
        answer, reasons = stream.whole()
    except _WRONG_FORM as error:
        raise asked.spoil(_wrong_form(asked, error)) from error
    except CallFailed as error:
        raise asked.spoil(error.failure.message, error.failure.code) from error
    asked.refused.extend(reasons)
    return answer


def _wrong_form(asked: Asked, error: Exception) -> str:
    return f"the stream is not in the form of {asked.dialect.name}: {error}"
