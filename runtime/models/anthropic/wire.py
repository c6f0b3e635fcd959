"""One exchange with the Messages API: a request goes out as bytes, and its answer is read as it arrives.

Only documented parts of the SDK are used: `post(..., cast_to=httpx2.Response)`, which returns a raw response,
and `AsyncStream.raw_events`, which splits a stream into events without interpreting them.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final, Protocol, cast

from msgspec.structs import replace

from callboard.actors.protocol.value_types import Sent
from callboard.runtime.models.anthropic.answer import StreamedMessage, answer_of_body, parsed
from callboard.runtime.models.anthropic.errors import failure_of
from callboard.runtime.models.failures import CallFailed, broken_stream, garbage_answer
from callboard.runtime.models.finishes import tell_usage, unreadable
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.translator import endpoint_of, made_by

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

    from callboard.runtime.models.watched import Watched

_UNREADABLE: Final = frozenset({"garbage", "broken_stream"})
ENDING_S: Final = 1.0  # for the end of a stream after its message is complete, to keep the connection


class _Event(Protocol):
    """The used part of the SDK's ServerSentEvent, whose module is private."""

    @property
    def data(self) -> str: ...


async def exchange(
    client: "AsyncAnthropic", body: bytes, headers: dict[str, str], on_text: OnText
) -> ModelAnswer:
    """Send a request and read its answer. Raises CallFailed, and what the SDK and its HTTP client raise."""
    from callboard.runtime.models.watched import watch

    posted = await _post(client, body, headers)
    # From the HTTP client, which has the bytes that went out, whatever the SDK did to those it was given.
    sent = posted.request.content
    response, watched = watch(posted, lambda failed: failed)
    try:
        answer = await _read(response, watched, on_text)
        return replace(answer, sent=sent_as(sent), body=sent)
    finally:
        # An error while the connection closes must not spoil a whole answer.
        with suppress(Exception):
            await watched.close()


async def _read(response: "httpx2.Response", watched: "Watched", on_text: OnText) -> ModelAnswer:
    """Read the answer, as its first bytes show it: some proxies always stream, some never."""
    form = await watched.form()
    says_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    try:
        if form == "page":
            at = endpoint_of(str(response.request.url))
            raise garbage_answer(f"{at} answered with a web page: check base_url")
        if form == "events" or (form in ("", "text") and says_stream):
            return await _read_stream(response, on_text)
        return answer_of_body(await response.aread())
    except CallFailed as error:
        code, what = error.failure.code, error.failure.message
        if code not in _UNREADABLE or error.__cause__ is not None:
            raise
        await watched.rest()
        raise unreadable(what, watched, error.usage, code=code, is_page=form == "page") from error


def sent_as(body: bytes) -> Sent:
    """Return the digest of a body, and the libraries that made it."""
    return Sent(hashlib.sha256(body).hexdigest(), made_by("anthropic"))


async def _post(client: "AsyncAnthropic", body: bytes, headers: dict[str, str]) -> "httpx2.Response":
    import httpx2
    from anthropic import AsyncStream

    response: object = await client.post(
        "/v1/messages",
        cast_to=httpx2.Response,
        content=body,
        options={"headers": headers, "max_retries": 0},
        stream=True,
        stream_cls=AsyncStream[object],
    )
    # The overloads say AsyncStream; with cast_to=Response the SDK returns the raw response, unread.
    return cast("httpx2.Response", response)


async def _read_stream(response: "httpx2.Response", on_text: OnText) -> ModelAnswer:
    from anthropic import AsyncStream

    message = StreamedMessage()
    raw = cast("AsyncGenerator[_Event, None]", AsyncStream.raw_events(response))
    async with aclosing(raw) as events:
        try:
            await _take_events(events, message, on_text)
        except CallFailed as error:
            # With a cause it is one of the connection.
            if error.__cause__ is None or not message.is_complete:
                raise
        except UnicodeDecodeError as error:
            if not message.is_complete:
                raise broken_stream(f"the stream is not UTF-8: {error.reason}") from error
        except Exception as error:
            if not message.is_complete:
                raise CallFailed(failure_of(error).failure) from error
        if message.has_ended:
            # To the end of the stream, so that its connection can be used again.
            with suppress(Exception):
                async with asyncio.timeout(ENDING_S):
                    async for _ in events:
                        pass
    return message.answer()


async def _take_events(
    events: AsyncGenerator[_Event, None], message: StreamedMessage, on_text: OnText
) -> None:
    async for event in events:
        if text := message.take(_data_of(event, message)):
            on_text(text)
        else:  # the usage comes with events that have no text
            tell_usage(on_text, message.usage_so_far)
        if message.has_ended:
            return


def _data_of(event: _Event, message: StreamedMessage) -> object:
    """Decode the data of an event. An event without data (a proxy's keep-alive) counts as empty."""
    if not event.data.strip():
        return {}
    try:
        return parsed(event.data)
    except ValueError:
        raise garbage_answer(
            f"an event of the stream is not JSON: {event.data[:80]!r}", message.usage
        ) from None
