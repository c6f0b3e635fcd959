"""Kinds of failures: the codes of services fall under a fixed set."""

from typing import get_args

import pytest

from callboard.actors.protocol.failures import PASSING, FailureKind, is_refused_request, kind_of
from tests.tables import table


@table(
    ("code", "kind"),
    [
        ("rate_limit_error", "rate_limit"),
        ("http_429", "rate_limit"),
        ("overloaded_error", "overload"),
        ("http_529", "overload"),
        ("http_503", "overload"),
        ("connection", "connection"),
        ("timeout", "timeout"),
        ("http_504", "timeout"),
        ("http_499", "timeout"),
        ("http_524", "timeout"),
        ("broken_stream", "broken_stream"),
        ("api_error", "server_error"),
        ("http_500", "server_error"),
        ("http_502", "server_error"),
        ("context_full", "context_full"),
    ],
)
def test_the_codes_of_services_fall_under_the_kinds(code: str, kind: str) -> None:
    assert kind_of(code) == kind


@table(
    "code",
    [
        "invalid_request_error",
        "authentication_error",
        "not_found_error",
        "http_400",
        "http_401",
        "garbage",
        "unknown_model",
        "model_crashed",
        "cancelled",
        "",
        "http_",
    ],
)
def test_a_request_that_no_model_would_take_has_no_kind(code: str) -> None:
    assert kind_of(code) is None


def test_a_full_context_and_a_refusal_are_no_passing_failures() -> None:
    assert set(get_args(FailureKind)) - set(PASSING) == {"context_full", "refusal"}


@pytest.mark.parametrize("code", ["invalid_request_error", "http_400", "http_422"])
def test_a_request_that_was_refused_as_it_was_written_is_told_from_other_failures(code: str) -> None:
    assert is_refused_request(code)


@table(
    "code", ["context_full", "authentication_error", "not_found_error", "rate_limit_error", "http_500", ""]
)
def test_a_key_a_model_and_a_service_that_fail_are_no_refused_request(code: str) -> None:
    assert not is_refused_request(code)
