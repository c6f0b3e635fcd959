"""The wait that a service asks for before the next attempt, in all the ways in which services say it.

    place                                             example
    header `retry-after-ms`, `x-ms-retry-after-ms`    150
    header `retry-after`                              20, 1.5s, a date, seconds or milliseconds of the epoch
    a field of the error document                     retryDelay: 38s, retry_after: 20, estimated_time: 20.0
    headers inside of the document (OpenRouter)       X-RateLimit-Reset: 1741305600000
    words                                             Please try again in 6m0s.
    headers of a limit, where one was reached         x-ratelimit-reset-tokens: 6m0s

The first place with a wait above zero decides. A point in time is counted from the answer's own `Date`, so
that the local clock does not matter; `now_ms` is for answers without one. A second is added to it, but not to
a duration: see `_CLOCKS_MS`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

RETRY_AFTER_MS_MAX: Final = 24 * 60 * 60 * 1_000
_TEXT_CHARS: Final = 64  # of one value
_WORDS_CHARS: Final = 4_000

_MS_HEADERS: Final = ("retry-after-ms", "x-ms-retry-after-ms")
_HEADERS: Final = ("retry-after", "x-retry-after")
# Fields of documents, without case and underscores: google.rpc.RetryInfo, Hugging Face, LiteLLM, Vercel.
_MS_FIELDS: Final = frozenset({"retryafterms"})
_FIELDS: Final = frozenset(
    {"retryafter", "retryafterseconds", "retrydelay", "estimatedtime", "retryin", "resetafter"}
)
# x-ratelimit-reset-tokens (OpenAI, Groq), anthropic-ratelimit-input-tokens-reset, x-rate-limit-reset,
# ratelimit-reset (an IETF draft), x-ratelimit-reset-tokens-minute (Cerebras).
_RESET: Final = re.compile(r"(?:[a-z]+-)?rate-?limit(-[a-z-]+)?-reset(-[a-z-]+)?")
_RATELIMIT: Final = re.compile(r"(?:\breset=|;\s*t=)(\d+)")  # of the header `RateLimit`, in both drafts

_SECOND: Final = 1_000
# The service reads a point in time by its own clock. Epoch seconds, HTTP dates and `Date` are cut to the
# second, so the moment may lie up to a second later; clocks that NTP keeps differ by less than a tenth.
_CLOCKS_MS: Final = 1_000
_UNIT_MS: Final[Mapping[str, int]] = {
    "ms": 1, "s": _SECOND, "m": 60 * _SECOND, "h": 3_600 * _SECOND, "d": 86_400 * _SECOND
}  # fmt: skip
_UNIT: Final = r"(?:ms|milliseconds?|msecs?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)"
_PART: Final = rf"(\d{{1,18}}(?:\.\d{{1,18}})?)\s{{0,3}}({_UNIT})(?:\(s\))?(?![a-z])"
_PARTS: Final = re.compile(_PART, re.IGNORECASE)
_SPAN: Final = re.compile(rf"(?:{_PART}[\s,]{{0,3}}(?:and\s)?){{1,5}}", re.IGNORECASE)
_ISO: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))"
# "Please try again in 1.5 minutes", "retry after 30 seconds", "available in 2 seconds", "resets in 5h".
_ASKS: Final = r"\b(?:again|retry|retrying|wait|resets?|available)\b"
_IN_WORDS: Final = re.compile(rf"{_ASKS}[^.;\d\n]{{0,40}}({_SPAN.pattern})", re.IGNORECASE)
_AT_TIME: Final = re.compile(rf"{_ASKS}[^.;\d\n]{{0,40}}({_ISO})", re.IGNORECASE)
_BARE: Final = re.compile(r"\bretry[ _-]?after[\s:=\"']{1,4}(\d{1,13}(?:\.\d{1,9})?)\b", re.IGNORECASE)
# Of the epoch: seconds since 1973, milliseconds, microseconds, nanoseconds.
_EPOCHS: Final = ((10**8, 1_000.0), (10**11, 1.0), (10**14, 1e-3), (10**17, 1e-6))


def wait_of(
    headers: Mapping[str, str], document: object, words: str, now_ms: int, *, is_limit: bool
) -> int | None:
    """Return the wait that an answer asks for in milliseconds, at most a day; None if it asks for none.

    headers: with names in lower case. words: its messages. is_limit: it says that a limit was reached, so
    that the headers about limits say when it ends.
    """
    now = _now(headers, now_ms)
    waits = [*_asked(headers, now), *_of_document(document, now), *_of_words(words[:_WORDS_CHARS], now)]
    if is_limit and not any(wait > 0 for wait in waits):
        waits += _of_limits(headers, now)
    wait = next((wait for wait in waits if wait > 0), 0.0 if waits else None)
    return None if wait is None else min(math.ceil(wait), RETRY_AFTER_MS_MAX)


def _now(headers: Mapping[str, str], now_ms: int) -> float:
    moment = _moment(headers.get("date", ""))
    return now_ms if moment is None else moment


def _asked(headers: Mapping[str, str], now: float) -> Iterator[float]:
    """Yield the waits that headers ask for by name."""
    for names, unit in ((_MS_HEADERS, 1), (_HEADERS, _SECOND)):
        for name in names:
            if (wait := span_ms(headers.get(name), now, unit)) is not None:
                yield wait


def _of_limits(headers: Mapping[str, str], now: float) -> list[float]:
    """Return the longest wait of the limits that are reached, or of all if none is said to be."""
    waits: dict[bool, list[float]] = {True: [], False: []}
    for name, value in headers.items():
        if _RESET.fullmatch(name) and (wait := span_ms(value, now, _SECOND)) is not None:
            waits[headers.get(name.replace("-reset", "-remaining")) == "0"].append(wait)
    both = _RATELIMIT.search(headers.get("ratelimit", "")[:_TEXT_CHARS])
    if both:
        waits[False].append(float(both[1]) * _SECOND)
    found = waits[True] or waits[False]
    return [max(found)] if found else []


def _of_document(value: object, now: float, depth: int = 0) -> Iterator[float]:
    """Yield the waits in the fields of a document."""
    if depth > 6:
        return
    if isinstance(value, list):
        for one in value[:20]:
            yield from _of_document(one, now, depth + 1)
    if not isinstance(value, dict):
        return
    names = {str(key).lower(): one for key, one in list(value.items())[:50]}
    for name, one in names.items():
        field = name.replace("_", "").replace("-", "")
        if field in _MS_FIELDS or field in _FIELDS:
            wait = span_ms(one, now, 1 if field in _MS_FIELDS else _SECOND)
            yield from () if wait is None else (wait,)
        elif isinstance(one, (dict, list)):
            yield from _of_document(one, now, depth + 1)
    inner = {name: str(one) for name, one in names.items() if isinstance(one, (str, int, float))}
    yield from _of_limits(inner, now)


def _of_words(words: str, now: float) -> Iterator[float]:
    if found := _IN_WORDS.search(words):
        yield _sum(found[1])
    elif found := _AT_TIME.search(words):
        moment = _moment(found[1])
        yield from () if moment is None else (_until(moment, now),)
    elif found := _BARE.search(words):
        wait = span_ms(found[1], now, _SECOND)
        yield from () if wait is None else (wait,)


def span_ms(value: object, now: float, unit: int) -> float | None:
    """Return a wait in milliseconds, not below zero; None for a value that says none.

    value: a number of units, a duration as `6m0s`, or a point in time. unit: in milliseconds.
    """
    if isinstance(value, dict):  # google.protobuf.Duration as an object
        return span_ms(value.get("seconds"), now, _SECOND)
    text = "" if value is None or isinstance(value, bool) else str(value).strip()
    if not text or len(text) > _TEXT_CHARS:
        return None
    try:
        number = float(text)
    except ValueError:
        if _SPAN.fullmatch(text):
            return _sum(text)
        moment = _moment(text)
        return None if moment is None else _until(moment, now)
    if not math.isfinite(number):
        return None
    if number < _EPOCHS[unit == 1][0]:
        return max(number * unit, 0.0)
    return _until(number * next(scale for least, scale in reversed(_EPOCHS) if number >= least), now)


def _until(moment: float, now: float) -> float:
    """Return the wait until a point in time that another clock has written. Both in milliseconds."""
    return max(moment + _CLOCKS_MS - now, 0.0)


def _sum(text: str) -> float:
    return sum(float(number) * _unit_ms(unit.lower()) for number, unit in _PARTS.findall(text))


def _unit_ms(unit: str) -> int:
    return _UNIT_MS["ms" if unit.startswith(("ms", "mil")) else unit[0]]


def _moment(text: str) -> float | None:
    """Return a date of HTTP or ISO 8601 in milliseconds of the epoch; None without a time zone."""
    from email.utils import parsedate_to_datetime  # 5 ms that most programs never need

    text = text.strip()[:_TEXT_CHARS].replace(" UTC", "Z")
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
            return moment.timestamp() * 1_000 if moment.tzinfo else None
        except (TypeError, ValueError, OverflowError, IndexError):
            continue
    return None
