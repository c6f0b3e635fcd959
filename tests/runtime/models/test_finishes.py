"""Words for the end of an answer: errors, cuts and refusals are listed, each other word is an end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.runtime.models.error_documents import squeezed
from callboard.runtime.models.finishes import ERRORS, STOP_REASONS, error_of, stop_reason_of
from tests.effort import effort


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("length", "max_tokens"),
        ("MAX_TOKENS", "max_tokens"),
        ("model_length", "max_tokens"),
        ("content_filter", "refusal"),
        ("SAFETY", "refusal"),
        ("guardrail_intervened", "refusal"),
        ("model_context_window_exceeded", "model_context_window_exceeded"),
    ],
)
def test_a_cut_and_a_refusal_are_known_in_every_spelling(word: str, reason: str) -> None:
    assert stop_reason_of(word) == reason


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("error", "api_error"),
        ("MALFORMED_FUNCTION_CALL", "garbage"),
        ("insufficient_system_resource", "overloaded_error"),
        ("network_error", "api_error"),
        ("abort", "api_error"),
    ],
)
def test_an_error_has_a_code(word: str, code: str) -> None:
    assert error_of(word) == code


@pytest.mark.parametrize(
    "word",
    ["stop", "STOP", "end_turn", "eos", "eos_token", "COMPLETE", "stop_sequence", "tool_calls", "", "x"],
)
def test_any_other_word_is_an_end(word: str) -> None:
    assert (stop_reason_of(word), error_of(word)) == ("", "")


@settings(max_examples=effort(40, 400), deadline=None, derandomize=True)
@given(st.text(max_size=30))
def test_no_word_has_two_meanings(word: str) -> None:
    assert not (stop_reason_of(word) and error_of(word))
    assert not STOP_REASONS.keys() & ERRORS.keys()
    assert all(squeezed(name) == name for name in (*STOP_REASONS, *ERRORS))
