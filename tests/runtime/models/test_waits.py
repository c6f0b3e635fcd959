"""Waits: every way in which services say when they can be asked again."""

from datetime import UTC, datetime
from email.utils import format_datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.runtime.models.waits import RETRY_AFTER_MS_MAX, span_ms, wait_of
from tests.effort import effort
from tests.tables import table

NOW = 1_795_845_600_000  # Sat, 28 Nov 2026 06:00:00 GMT
DATE = {"date": "Sat, 28 Nov 2026 06:00:00 GMT"}
LATER = NOW + 3_600_000  # of a local clock that is wrong


def waits(
    headers: dict[str, str] | None = None,
    document: object = None,
    words: str = "",
    now: int = NOW,
    *,
    is_limit: bool = True,
) -> int | None:
    """Return the wait that an answer asks for."""
    return wait_of(headers or {}, document, words, now, is_limit=is_limit)


@table(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20_000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "20s"}, 20_000),
        ({"retry-after": "6m0s"}, 360_000),
        ({"retry-after-ms": "150"}, 150),
        ({"retry-after-ms": "150.2"}, 151),
        ({"retry-after-ms": "150", "retry-after": "20"}, 150),
        ({"retry-after-ms": "0", "retry-after": "20"}, 20_000),
        ({"retry-after-ms": "soon", "retry-after": "20"}, 20_000),
        ({"x-ms-retry-after-ms": "150"}, 150),
        ({"retry-after": "Sat, 28 Nov 2026 06:00:30 GMT", **DATE}, 31_000),
        ({"retry-after": "Sat, 28 Nov 2026 05:00:00 GMT", **DATE}, 0),
        ({"retry-after": "Sat, 28 Nov 2026 06:00:30 GMT"}, 31_000),
        ({"retry-after": "2026-11-28T06:00:30Z"}, 31_000),
        ({"retry-after": "2026-11-28T07:00:30+01:00"}, 31_000),
        ({"retry-after": "1795845602"}, 3_000),
        ({"retry-after": "1795845602200"}, 3_200),
        ({"retry-after-ms": "1795845602200"}, 3_200),
        ({"retry-after": "Sat, 28 Nov 2026 06:00:30", **DATE}, None),
        ({"retry-after": "tomorrow", **DATE}, None),
        ({"retry-after": "Sat, 28 Nov 99999 07:28:30 GMT", **DATE}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e300"}, RETRY_AFTER_MS_MAX),
        ({"retry-after-ms": "1e400"}, None),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 360_000),
        (
            {
                "x-ratelimit-reset-requests": "8.64s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "100",
            },
            8_640,
        ),
        ({"x-ratelimit-reset": "1795845602"}, 3_000),
        ({"x-rate-limit-reset": "12"}, 12_000),
        ({"ratelimit-reset": "12"}, 12_000),
        ({"ratelimit": "limit=100, remaining=0, reset=50"}, 50_000),
        ({"ratelimit": '"default";r=0;t=50'}, 50_000),
        ({"anthropic-ratelimit-tokens-reset": "2026-11-28T06:00:30Z"}, 31_000),
        ({"retry-after": "0", "x-ratelimit-reset-tokens": "2s"}, 2_000),
    ],
)
def test_headers_ask_for_a_wait_in_every_form(headers: dict[str, str], expected: int | None) -> None:
    assert waits(headers) == expected


def test_a_point_in_time_is_counted_from_the_date_of_the_answer() -> None:
    assert waits({"retry-after": "1795845602", **DATE}, now=LATER) == 3_000


@settings(max_examples=effort(60, 600), deadline=None, derandomize=True)
@given(st.integers(NOW, NOW + 999), st.integers(1, 90_000), st.sampled_from(["seconds", "date", "ms"]))
def test_a_point_in_time_is_never_waited_for_too_short(sent: int, until: int, form: str) -> None:
    """Whatever a service cuts off the moment at which it sends, and the one at which it is free again."""
    free = sent + until
    cut = datetime.fromtimestamp(free // 1_000, UTC)
    written = {"seconds": str(free // 1_000), "date": format_datetime(cut, usegmt=True), "ms": str(free)}
    wait = waits({"retry-after": written[form], **DATE})
    assert wait is not None
    assert until <= wait <= until + 2_000


def test_a_point_in_time_that_has_passed_by_a_second_is_no_wait() -> None:
    assert waits({"retry-after": "1795845599"}) == 0
    assert waits({"retry-after": "1795845599500"}) == 500


def test_headers_about_limits_count_only_where_a_limit_was_reached() -> None:
    assert waits({"x-ratelimit-reset-tokens": "6m0s"}, is_limit=False) is None
    assert waits({"retry-after": "2"}, is_limit=False) == 2_000


@table(
    ("document", "expected"),
    [
        ({"error": {"details": [{"@type": "x.RetryInfo", "retryDelay": "38s"}]}}, 38_000),
        ({"error": {"details": [{"retryDelay": {"seconds": 38}}]}}, 38_000),
        ({"error": {"retry_after": 1.5}}, 1_500),
        ({"error": {"retry_after_ms": 150}}, 150),
        ({"retryAfterSeconds": "7"}, 7_000),
        ({"error": "loading", "estimated_time": 20.0}, 20_000),
        ({"error": {"metadata": {"headers": {"X-RateLimit-Reset": "1795845602200"}}}}, 3_200),
        ({"error": {"metadata": {"headers": {"Retry-After": 3}}}}, 3_000),
        ({"error": {"retry_after": None}}, None),
        ({"error": {"retry_after": True}}, None),
        ({"reset": 5}, None),
        ([{"retry_after": 1}], 1_000),
    ],
)
def test_a_document_asks_for_a_wait_in_its_fields(document: object, expected: int | None) -> None:
    assert waits(document=document) == expected


@table(
    ("words", "expected"),
    [
        ("Please try again in 6m0s.", 360_000),
        ("Please try again in 20s", 20_000),
        ("Please try again in 644ms.", 644),
        ("try again in 1.5 minutes", 90_000),
        ("retry after 30 seconds", 30_000),
        ("Please retry in 36.429760048s.", 36_430),
        ("Try again in 17 second(s)", 17_000),
        ("try again in 1h2m3.5s", 3_723_500),
        ("Expected available in 2 seconds.", 2_000),
        ("Please wait 5 seconds before the next request", 5_000),
        ("The limit resets in 2 hours and 5 minutes.", 7_500_000),
        ("Retry-After: 12", 12_000),
        ("try again at 2026-11-28T06:00:30Z", 31_000),
        ("Your limit resets at 2026-11-28 06:00:30 UTC.", 31_000),
        ("Try again in 3 days", RETRY_AFTER_MS_MAX),
        ("The request timed out after 600 seconds", None),
        ("1 request per 20 s; please try again later", None),
        ("Please wait before trying again.", None),
        ("Used 10m of 20m", None),
        ("", None),
    ],
)
def test_words_ask_for_a_wait(words: str, expected: int | None) -> None:
    assert waits(words=words) == expected


def test_a_header_decides_before_fields_and_words() -> None:
    assert waits({"retry-after": "2"}, {"retry_after": 3}, "try again in 4s") == 2_000
    assert waits({}, {"retry_after": 3}, "try again in 4s") == 3_000
    assert waits({"retry-after": "0"}, {}, "try again in 4s") == 4_000


FIELDS = st.sampled_from(["retry_after", "RetryDelay", "x", "X-RateLimit-Reset"])
DOCUMENTS = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=70),
    lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner),
)


@settings(max_examples=effort(60, 600), deadline=None, derandomize=True)
@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "date", "x-ratelimit-reset", "ratelimit"]),
        st.text(max_size=80),
    ),
    DOCUMENTS,
    st.text(max_size=80),
)
def test_no_answer_breaks_the_search_for_a_wait(
    headers: dict[str, str], document: object, words: str
) -> None:
    wait = waits(headers, document, words)
    assert wait is None or 0 <= wait <= RETRY_AFTER_MS_MAX


@settings(max_examples=effort(40, 400), deadline=None, derandomize=True)
@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_a_duration_is_the_sum_of_its_parts(hours: int, minutes: int, seconds: int, ms: int) -> None:
    text = f"{hours}h{minutes}m{seconds}s{ms}ms"
    assert span_ms(text, NOW, 1_000) == ((hours * 60 + minutes) * 60 + seconds) * 1_000 + ms
