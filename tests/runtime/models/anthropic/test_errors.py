"""Statuses, error types, waiting times and what may be shown of them."""

import pytest

from callboard.actors.protocol.usage import ZERO
from callboard.runtime.models.anthropic.errors import service_error
from callboard.runtime.models.failures import (
    MESSAGE_CHARS_MAX,
    RETRY_AFTER_MS_MAX,
    for_log,
    retry_after_ms,
)

STATUSES = [
    (400, "invalid_request_error", False, True),
    (401, "authentication_error", False, True),
    (402, "billing_error", False, True),
    (403, "permission_error", False, True),
    (404, "not_found_error", False, True),
    (408, "timeout_error", True, False),
    (409, "conflict_error", True, True),
    (422, "invalid_request_error", False, True),
    (429, "rate_limit_error", True, True),
    (500, "api_error", True, False),
    (502, "api_error", True, False),
    (503, "api_error", True, True),
    (504, "timeout_error", True, False),
    (529, "overloaded_error", True, True),
]


def _body(kind: str, message: str = "why") -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}}


@pytest.mark.parametrize(("status", "kind", "is_retryable", "is_free"), STATUSES)
def test_every_status_has_its_outcome(status: int, kind: str, is_retryable: bool, is_free: bool) -> None:
    found = service_error(status, {"request-id": "req_1"}, _body(kind))
    assert (found.failure.code, found.failure.is_retryable) == (kind, is_retryable)
    assert found.failure.message == f"the service answered {status} {kind}: why (request req_1)"
    assert found.usage == (ZERO if is_free else None)


@pytest.mark.parametrize(("status", "kind", "is_retryable", "is_free"), STATUSES)
@pytest.mark.parametrize("body", [None, "<html>", {}, {"error": "x"}, {"error": {"type": 1}}, [1]])
def test_a_status_without_the_services_error_form_is_named_by_its_number(
    status: int, kind: str, is_retryable: bool, is_free: bool, body: object
) -> None:
    found = service_error(status, {}, body, text="<html>")
    assert (found.failure.code, found.failure.is_retryable) == (f"http_{status}", is_retryable)
    assert "<html>" in found.failure.message


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 209353 tokens > 199999 maximum",
        "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length",
    ],
)
def test_a_full_context_is_told_from_other_bad_requests(message: str) -> None:
    found = service_error(400, {"x-should-retry": "true"}, _body("invalid_request_error", message))
    assert (found.failure.code, found.failure.is_retryable, found.usage) == ("context_full", False, ZERO)


def test_a_request_too_large_is_a_full_context() -> None:
    assert service_error(413, {}, _body("request_too_large")).failure.code == "context_full"
    assert service_error(413, {}, "413 Request Entity Too Large").failure.code == "context_full"


@pytest.mark.parametrize(
    ("status", "told", "is_retryable"), [(400, "true", True), (429, "false", False), (500, "maybe", True)]
)
def test_the_service_decides_whether_to_retry_where_it_says_so(
    status: int, told: str, is_retryable: bool
) -> None:
    assert service_error(status, {"x-should-retry": told}, _body("e")).failure.is_retryable is is_retryable


DATE = {"date": "Wed, 21 Oct 2026 07:28:00 GMT"}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20_000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-3"}, 0),
        ({"retry-after-ms": "150"}, 150),
        ({"retry-after-ms": "150.2"}, 151),
        ({"retry-after-ms": "150", "retry-after": "20"}, 150),
        ({"retry-after-ms": "soon", "retry-after": "20"}, 20_000),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", **DATE}, 30_000),
        ({"retry-after": "Wed, 21 Oct 2026 07:00:00 GMT", **DATE}, 0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30", **DATE}, None),
        ({"retry-after": "tomorrow", **DATE}, None),
        ({"retry-after": "Wed, 21 Oct 99999 07:28:30 GMT", **DATE}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e300"}, RETRY_AFTER_MS_MAX),
        ({"retry-after-ms": "1e400"}, None),
    ],
)
def test_the_time_to_wait_is_read_in_every_form(headers: dict[str, str], expected: int | None) -> None:
    assert retry_after_ms(headers) == expected


def test_the_time_to_wait_is_part_of_the_failure() -> None:
    assert service_error(429, {"retry-after": "2"}, _body("rate_limit_error")).failure.retry_after_ms == 2_000


def test_secrets_are_taken_out_before_a_message_is_cut() -> None:
    secret = "sk-" + "s" * 50
    cut_through = "x" * (MESSAGE_CHARS_MAX - 20) + secret
    assert "sss" not in for_log(cut_through, (secret,))
    assert len(for_log("x" * 10_000, ())) == MESSAGE_CHARS_MAX
