"""The meaning of errors: what each service says is sorted by all of its words."""

import json

import pytest

from callboard.actors.protocol.failures import is_refused_request
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.models.failures import UNREPORTED, Answered, service_error
from tests.error_corpus import ACCOUNT, CASES, FULL, REFUSED, Case
from tests.tables import table


def failed(case: Case) -> tuple[str, bool, int | None]:
    """Return the meaning of an answer."""
    failure = service_error(Answered(case.status, case.headers, case.document)).failure
    return failure.code, failure.is_retryable, failure.retry_after_ms


def name(case: Case) -> str:
    return f"{case.who} {case.status}"


@table("case", CASES, ids=name)
def test_an_error_has_the_meaning_of_all_its_words(case: Case) -> None:
    assert failed(case) == (case.code, case.retry, case.wait_ms)


def test_the_corpus_has_thirty_services_and_more() -> None:
    services = {case.who.partition(",")[0].partition(" ")[0] for case in CASES}
    assert len(services) >= 30


@table("case", REFUSED, ids=name)
def test_a_refused_request_is_told_from_all_others(case: Case) -> None:
    assert is_refused_request(failed(case)[0])


@table("case", [*FULL, *ACCOUNT], ids=name)
def test_a_full_context_and_an_account_are_no_refused_request(case: Case) -> None:
    assert not is_refused_request(failed(case)[0])


@table("case", [case for case in FULL if case.status != 413], ids=name)
@table("status", [400, 500])
def test_a_gateway_that_wraps_an_error_changes_nothing(case: Case, status: int) -> None:
    raw = json.dumps(case.document)
    wrapped = {"error": {"message": "upstream failed", "details": [{"raw": raw}]}}
    failure = service_error(Answered(status, {}, wrapped)).failure
    assert (failure.code, failure.is_retryable) == ("context_full", False)


@table(
    ("status", "charge"),
    [
        (400, ZERO), (409, ZERO), (424, ZERO), (429, ZERO), (503, ZERO), (529, ZERO),
        (500, UNREPORTED), (501, UNREPORTED), (521, UNREPORTED),
        (408, None), (499, None), (502, None), (504, None), (520, None), (524, None),
    ],
)  # fmt: skip
def test_only_a_lost_answer_is_charged_its_whole_reservation(status: int, charge: Usage | None) -> None:
    assert service_error(Answered(status, {}, {})).usage == charge


@table(
    ("code", "has_begun", "charge"),
    [(401, False, ZERO), (500, False, UNREPORTED), (504, False, None), (401, True, None), (500, True, None)],
)
def test_an_error_in_an_answer_is_charged_by_what_came_before(
    code: int, has_begun: bool, charge: Usage | None
) -> None:
    answered = Answered(200, {}, {"error": {"code": code, "message": "no"}}, has_begun)
    assert service_error(answered).usage == charge


def test_usage_that_an_error_reports_is_charged() -> None:
    assert service_error(Answered(500, {}, {}, usage=Usage(3))).usage == Usage(3)


@pytest.mark.parametrize(
    ("status", "told", "may_retry"), [(400, "true", True), (429, "false", False), (413, "true", False)]
)
def test_a_service_decides_about_another_attempt_but_not_of_a_full_context(
    status: int, told: str, may_retry: bool
) -> None:
    failure = service_error(Answered(status, {"x-should-retry": told}, {"message": "no"})).failure
    assert failure.is_retryable == may_retry


def test_the_words_of_a_provider_are_shown_beside_those_of_the_gateway() -> None:
    body = {"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "Disk full"}}}
    message = service_error(Answered(502, {"x-request-id": "r1"}, body)).failure.message
    assert message == "the service answered 502 api_error: Provider returned error; Disk full (request r1)"


def test_a_redirect_is_not_followed_and_its_target_is_named() -> None:
    moved = Answered(307, {"location": "https://b.example/v1"}, "<html>Moved</html>")
    message = service_error(moved).failure.message
    words = "it points to https://b.example/v1, and redirects are not followed; check base_url"
    assert message == f"the service answered 307 http_307: {words}"


def test_a_page_is_not_shown() -> None:
    message = service_error(Answered(502, {}, "<!doctype html><html>Sorry</html>")).failure.message
    assert message == "the service answered 502 api_error: a web page; check base_url"
