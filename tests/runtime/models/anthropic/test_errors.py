"""Statuses, error types, waiting times and what may be shown of them."""

import pytest

from callboard.actors.protocol.usage import ZERO
from callboard.runtime.models.anthropic.errors import service_error
from callboard.runtime.models.failures import MESSAGE_CHARS_MAX, UNREPORTED, for_log
from tests.tables import table

STATUSES = [
    (400, "invalid_request_error", False, ZERO),
    (401, "authentication_error", False, ZERO),
    (402, "billing_error", False, ZERO),
    (403, "permission_error", False, ZERO),
    (404, "not_found_error", False, ZERO),
    (408, "timeout_error", True, None),
    (409, "conflict_error", True, ZERO),
    (422, "invalid_request_error", False, ZERO),
    (429, "rate_limit_error", True, ZERO),
    (500, "api_error", True, UNREPORTED),
    (502, "api_error", True, None),
    (503, "api_error", True, ZERO),
    (504, "timeout_error", True, None),
    (529, "overloaded_error", True, ZERO),
]


def _body(kind: str, message: str = "why") -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}}


@table(("status", "kind", "is_retryable", "charge"), STATUSES)
def test_every_status_has_its_outcome(status: int, kind: str, is_retryable: bool, charge: object) -> None:
    found = service_error(status, {"request-id": "req_1"}, _body(kind))
    assert (found.failure.code, found.failure.is_retryable) == (kind, is_retryable)
    assert found.failure.message == f"the service answered {status} {kind}: why (request req_1)"
    assert found.usage == charge


@table(("status", "kind", "is_retryable", "charge"), STATUSES)
@table("body", [None, "<html>", "no", {}, {"error": "x"}, {"error": {"type": 1}}, [1]])
def test_a_status_without_the_services_error_form_is_named_by_its_number(
    status: int, kind: str, is_retryable: bool, charge: object, body: object
) -> None:
    found = service_error(status, {}, body)
    assert (found.failure.code, found.failure.is_retryable) == (f"http_{status}", is_retryable)
    assert found.failure.message.startswith(f"the service answered {status} http_{status}")
    assert "<html" not in found.failure.message


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


def test_the_time_to_wait_is_part_of_the_failure() -> None:
    assert service_error(429, {"retry-after": "2"}, _body("rate_limit_error")).failure.retry_after_ms == 2_000


def test_secrets_are_taken_out_before_a_message_is_cut() -> None:
    secret = "sk-" + "s" * 50
    cut_through = "x" * (MESSAGE_CHARS_MAX - 20) + secret
    assert "sss" not in for_log(cut_through, (secret,))
    assert len(for_log("x" * 10_000, ())) == MESSAGE_CHARS_MAX
