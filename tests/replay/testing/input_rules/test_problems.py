"""The input rules of services, by dialect."""

import inspect

import pytest

from callboard.replay.testing.input_rules.problems import DIALECTS, request_problem
from callboard.testing import request_problem as public


def test_each_dialect_has_rules_and_names_what_it_refuses() -> None:
    assert inspect.unwrap(public) is request_problem
    for dialect in DIALECTS:
        assert request_problem(dialect, {}) != ""
        assert request_problem(dialect, []) == "the body is not a JSON object"


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="known are messages, chat, responses, generate-content, converse"):
        request_problem("morse", {})
