"""The body of an answer with status 200: its form by its first bytes, and the parts that outlive a failure.

Content types are set by proxies, frameworks and mistake, so the first bytes decide: a stream of events, a
document, a page, or frames.

An answer that cannot be read may still report its usage, or be an error. A digest tells whether the same
answer came again: it leaves out the ids and times that each answer has of its own.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from callboard.actors.protocol.usage import Usage
from callboard.runtime.models.error_documents import is_error, parsed

Form: TypeAlias = Literal["", "events", "json", "page", "frames", "text"]
"""The form of a body; "" for an empty one."""

TOKENS_MAX: Final = 2**53  # the largest count of tokens that is believed
_BOM: Final = b"\xef\xbb\xbf"
_EVENT: Final = re.compile(rb"(?:data|event|id|retry|error)?[ \t]?:")  # `error:` is llama.cpp's
_OWN: Final = re.compile(
    rb'"(id|created|created_?at|create_?time|response_?id|request_?id|trace_?id|timestamp|system_fingerprint)"'
    rb'\s{0,4}:\s{0,4}(?:"[^"]{0,200}"|[0-9.]{1,30})',
    re.IGNORECASE,
)
# Chat; Responses and Messages; Gemini; Converse.
_USAGES: Final = ("usage", "usageMetadata")
_INPUT: Final = ("prompt_tokens", "input_tokens", "promptTokenCount", "inputTokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens", "candidatesTokenCount", "outputTokens")
# Beside the input; others count it in.
_READ: Final = ("cache_read_input_tokens", "cacheReadInputTokens")
_WRITTEN: Final = ("cache_creation_input_tokens", "cacheWriteInputTokens")


def start_of(data: bytes) -> bytes:
    """Return the first bytes that say something."""
    return data.removeprefix(_BOM).lstrip()


def form_of(data: bytes) -> Form:
    """Return the form of a body by its first bytes. data: with one byte or more that is not white space."""
    start = start_of(data)
    if not start:
        return "frames" if data[:1] == b"\0" else ""
    if start[:1] == b"\0":  # the length of a frame, of less than 16 MB
        return "frames"
    if start[:1] in b"{[":
        return "json"
    if start[:1] == b"<":
        return "page"
    return "events" if _EVENT.match(start) else "text"


def documents_of(body: bytes) -> list[Any]:
    """Return the JSON documents in a body, or in a part of a stream of events."""
    if start_of(body)[:1] in (b"{", b"["):
        whole = parsed(body)
        if whole is not None:
            return whole if isinstance(whole, list) else [whole]
    return list(_documents(body))


def _documents(body: bytes) -> Iterator[Any]:
    for line in body.splitlines():
        kind, _, data = line.partition(b":")
        if line[:1] == b"{":
            kind, data = b"data", line
        if kind in (b"data", b"error") and (document := parsed(data.strip())) is not None:
            yield document


def error_in(documents: list[Any]) -> Any:
    """Return the last document that is an error; None without one."""
    return next(filter(is_error, reversed(documents)), None)


def usage_in(documents: list[Any]) -> Usage | None:
    """Return the usage that the documents report; None if they report none that is believed.

    Counts are totals: a later one takes the place of an earlier one.
    """
    counts: dict[str, Any] = {}
    for document in documents:
        parts = document if isinstance(document, dict) else {}
        for part in (parts, parts.get("response"), parts.get("message")):
            for name in _USAGES:
                told = part.get(name) if isinstance(part, dict) else None
                if isinstance(told, dict):
                    counts |= {key: value for key, value in told.items() if value is not None}
    taken, made = _count(counts, _INPUT), _count(counts, _OUTPUT)
    # No call is without input.
    return Usage(taken, made, _count(counts, _READ), _count(counts, _WRITTEN)) if taken else None


def _count(counts: dict[str, Any], names: tuple[str, ...]) -> int:
    found = next((counts[name] for name in names if name in counts), 0)
    return found if type(found) is int and 0 <= found <= TOKENS_MAX else 0


def digest_of(body: bytes) -> str:
    """Return the digest of an answer without the ids and times of its own."""
    return hashlib.sha256(_OWN.sub(rb"\1", body)).hexdigest()[:16]
