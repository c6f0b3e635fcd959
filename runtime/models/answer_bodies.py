"""The body of an answer with status 200: its form by its first bytes, and the parts that outlive a failure.

Content types are set by proxies, frameworks and mistake, so the first bytes decide: a stream of events, a
document, a page, or frames.

An answer that cannot be read may still report its usage, or be an error. A digest tells whether the same
answer came again: it leaves out the ids and times that each answer has of its own.

The parts of an error document that say what the error is, in the forms in which services write it.

Services put them at the top, below `error`, `errors` or `detail`, and gateways wrap the document of another
service, as JSON or as a text of JSON. So the whole document is walked, up to a bound, and its fields are
known by their names.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.usage import Usage

DEPTH_MAX: Final = 16
FIELDS_MAX: Final = 400
WORDS_MAX: Final = 8_000  # characters of messages

# Names of fields without case and underscores.
_NAMES: Final = frozenset(
    {
        "code", "type", "status", "statuscode", "reason", "errortype", "errorcode", "errcode",
        "kind", "error", "httpcode", "providercode", "quotaid",
    }
)  # fmt: skip
_MESSAGES: Final = frozenset(
    {
        "message", "msg", "detail", "details", "errormsg", "errormessage", "statusmsg", "description",
        "title", "errordescription", "raw", "error", "errors", "faultstring", "providermessage",
    }
)  # fmt: skip
_ANSWERS: Final = ("choices", "candidates", "output", "content", "response", "message")
_PUNCTUATION: Final = re.compile(r"[^a-z0-9]+")
_PARTS: Final = re.compile(r"[#/.]")


class Told:
    """An error document. names: codes, types and statuses, squeezed. messages: in their order."""

    def __init__(self, document: object) -> None:
        self.names: set[str] = set()
        self.raw_names: list[str] = []
        self.messages: list[str] = []
        self.status = 0
        self._left = FIELDS_MAX
        self._walk(document, "message", 0)

    @property
    def words(self) -> str:
        """Return all messages."""
        return "; ".join(self.messages)[:WORDS_MAX]

    def name(self, text: str) -> None:
        """Take a name: as a whole, and its last part, as of `Throttling.RateQuota` or `aws#Throttling`."""
        head = text.partition(":")[0].strip()
        self.raw_names.append(head)
        self.names |= {squeezed(head), squeezed(_PARTS.split(head)[-1])} - {""}

    def _walk(self, value: object, field: str, depth: int) -> None:
        self._left -= 1
        if depth > DEPTH_MAX or self._left < 0:
            return
        if isinstance(value, dict):
            for name, one in value.items():
                self._walk(one, squeezed(str(name)), depth + 1)
        elif isinstance(value, list):
            for one in value[:50]:
                self._walk(one, field, depth + 1)
        elif isinstance(value, str):
            self._take_text(value.strip(), field, depth)
        elif type(value) is int and field in _NAMES:
            self._take_number(value)

    def _take_text(self, text: str, field: str, depth: int) -> None:
        if not text:
            return
        if text[0] in "{[" and (inner := parsed(text)) is not None:
            self._walk(inner, field, depth + 1)
        elif field in _NAMES and len(text) <= 100 and not re.search(r"\s", text):
            if text.isdecimal():
                self._take_number(int(text))
            else:
                self.name(text)
            if field == "error":
                self._say(text)
        elif field in _MESSAGES or (field == "type" and " " in text):
            self._say(text)

    def _take_number(self, number: int) -> None:
        self.names.add(str(number))
        if 400 <= number < 600 and not self.status:
            self.status = number

    def _say(self, text: str) -> None:
        if text not in self.messages:
            self.messages.append(text[:WORDS_MAX])


def squeezed(name: str) -> str:
    """Return a name without case and punctuation: services write one name in three ways."""
    return _PUNCTUATION.sub("", name[:200].lower())


def parsed(text: str | bytes) -> Any:
    """Return the value of a JSON text; None for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_error(document: object) -> bool:
    """Return whether a document with status 200 is an error in the place of an answer, or of an event."""
    if isinstance(document, list):  # Gemini puts it in a list where a stream was asked for
        return bool(document) and all(map(is_error, document))
    if not isinstance(document, dict):
        return False
    if document.get("error") or document.get("Error") or document.get("type") == "error":
        return True
    if document.get("object") == "error":  # vLLM, SGLang
        return True
    if _is_failed(document.get("base_resp")) or _has_error(document):
        return True
    if any(document.get(name) for name in _ANSWERS if name != "message"):
        return False
    told = {squeezed(str(name)) for name, value in document.items() if value}
    is_answer = isinstance(document.get("message"), dict)
    return not is_answer and bool(told & (_MESSAGES - {"title", "description", "raw"}))


def _is_failed(status: object) -> bool:
    """Return whether the field of MiniMax for the status says that the call failed."""
    return isinstance(status, Mapping) and status.get("status_code") not in (None, 0)


def _has_error(document: dict[str, object]) -> bool:
    """Return whether the error is one step down: in a failed response, or a choice of OpenRouter."""
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    inner = (document.get("response"), choice)
    return any(isinstance(one, dict) and bool(one.get("error")) for one in inner)


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


def _documents(body: bytes) -> Iterator[object]:
    for line in body.splitlines():
        kind, _, data = line.partition(b":")
        if line[:1] == b"{":
            kind, data = b"data", line
        if kind in (b"data", b"error") and (document := parsed(data.strip())) is not None:
            yield document


def error_in(documents: list[object]) -> Any:
    """Return the last document that is an error; None without one."""
    return next(filter(is_error, reversed(documents)), None)


def usage_in(documents: list[object]) -> Usage | None:
    """Return the usage that the documents report; None if they report none that is believed.

    Counts are totals: a later one takes the place of an earlier one.
    """
    counts: JsonObject = {}
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


def _count(counts: dict[str, object], names: tuple[str, ...]) -> int:
    found = next((counts[name] for name in names if name in counts), 0)
    return found if type(found) is int and 0 <= found <= TOKENS_MAX else 0


BOTH: Final = frozenset({"prompt_tokens", "completion_tokens"})
"""The counts without which a usage of Chat tells nothing: no answer is made of one of them alone."""


def counts_of(usage: object) -> JsonObject:
    """Return a usage of Chat with its counts as whole numbers, and without those that cannot be read.

    usage: none is read from a value of another type.

    >>> counts_of({"prompt_tokens": 4.0, "completion_tokens": "3", "total_tokens": None, "cost": 0.5})
    {'prompt_tokens': 4, 'completion_tokens': 3, 'cost': 0.5}
    """
    found: JsonObject = {}
    for name, value in usage.items() if isinstance(usage, dict) else ():
        if name.endswith("_details"):
            found[name] = counts_of(value)
        elif not name.endswith("_tokens"):
            found[name] = value
        elif (count := _whole(value)) is not None:
            found[name] = count
    return found


def _whole(value: object) -> int | None:
    """Return a count that a server may have written as 4.0 or "4"; None for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 17:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return math.ceil(value)


def digest_of(body: bytes) -> str:
    """Return the digest of an answer without the ids and times of its own."""
    return hashlib.sha256(_OWN.sub(rb"\1", body)).hexdigest()[:16]
