"""Errors without an id: each reaches the request that it answers, and no other one."""

from random import Random

import pytest

from callboard.runtime.mcp.nameless import NamelessErrors
from tests.effort import effort


def with_open(*requests: object) -> NamelessErrors:
    """Return the errors of a connection on which these requests are open."""
    errors = NamelessErrors()
    for request in requests:
        errors.sent(request)
    return errors


def test_an_error_answers_the_only_open_request() -> None:
    assert with_open(1).came("no") == [(1, "no")]


def test_an_error_without_an_open_request_is_dropped() -> None:
    errors = with_open(1)
    assert errors.answered(1) == []
    assert errors.came("no") == []
    errors.sent(2)
    assert errors.answered(2) == []


def test_an_error_waits_for_the_answers_to_the_other_requests() -> None:
    errors = with_open(1, 2, 3)
    assert errors.came("no") == []
    assert errors.answered(2) == []
    errors.sent(4)  # after the error, so it does not mean this one
    assert errors.answered(1) == [(3, "no")]
    assert errors.answered(4) == []


def test_as_many_errors_as_requests_answer_all_of_them() -> None:
    errors = with_open(1, 2)
    assert errors.came("a") == []
    assert errors.came("b") == [(1, "a"), (2, "b")]


def test_a_later_error_that_means_more_requests_leaves_the_earlier_one_decided() -> None:
    errors = with_open(1, 2)
    assert errors.came("a") == []
    errors.sent(3)
    assert errors.came("b") == []
    assert errors.answered(3) == [(1, "a"), (2, "b")]


def test_an_error_may_answer_a_notification_until_a_later_request_is_answered() -> None:
    errors = with_open(None, 1)
    assert errors.came("no such method") == []
    assert errors.answered(1) == []
    errors.sent(2)
    assert errors.came("no") == [(2, "no")]


def test_an_error_that_may_answer_a_request_given_up_is_told_with_it_and_answers_no_other() -> None:
    errors = with_open(1, 2)
    assert errors.came("no") == []
    assert errors.given_up(1) == "no"
    assert errors.answered(2) == []
    errors.sent(3)
    assert errors.came("later") == []  # 1 was given up after 2 was sent
    assert errors.answered(3) == []
    assert with_open(1).given_up(1) is None


def test_a_request_that_was_given_up_is_out_of_the_question_after_a_later_answer() -> None:
    errors = with_open(1)
    assert errors.given_up(1) is None
    errors.sent(2)
    assert errors.answered(2) == []
    errors.sent(3)
    assert errors.came("no") == [(3, "no")]


@pytest.mark.parametrize("notes", [0.0, 0.2])
def test_each_error_of_a_random_server_reaches_the_request_that_it_answers(notes: float) -> None:
    """The server answers requests in any order, and notifications before the requests after them."""
    for seed in range(effort(200, 5_000)):
        chance = Random(seed)
        errors = NamelessErrors()
        fails: dict[int, bool] = {}  # of each open request whether it will
        told: list[int] = []  # the notifications that are not yet answered
        found: dict[object, object] = {}
        failed = set()
        for number in range(60):
            if number < 30 and chance.random() < 0.6:
                is_note = chance.random() < notes
                errors.sent(None if is_note else number)
                told += [number] if is_note else []
                fails |= {} if is_note else {number: chance.random() < 0.5}
            elif fails:
                request = chance.choice(list(fails))
                for note in [one for one in told if one < request]:
                    told.remove(note)
                    found |= dict(errors.came(note)) if chance.random() < 0.5 else {}
                is_failed = fails.pop(request)
                failed |= {request} if is_failed else set()
                found |= dict(errors.came(request) if is_failed else errors.answered(request))
                assert found.keys() <= failed, seed
        assert notes or found.keys() == failed, seed
