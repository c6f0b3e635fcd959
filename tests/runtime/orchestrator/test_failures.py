"""The reasons of specialists that failed."""

import msgspec
import pytest

from callboard.errors import DelegationFailed
from callboard.runtime.orchestrator.failures import WORDS_CHARS_MAX, reason_of


def failed(kind: str, text: str) -> DelegationFailed:
    return DelegationFailed("it failed", text, kind)


@pytest.mark.parametrize(
    ("folded", "reason"),
    [
        ({"status": "unavailable", "reason": "crashed", "detail": "KeyError"}, "crashed: KeyError"),
        (
            {"status": "unavailable", "reason": "deadline", "detail": "late", "text": "half"},
            "deadline: late; half",
        ),
        (
            {
                "status": "invalid_input",
                "reason": "denied",
                "detail": "wrong",
                "problems": ["/query: a", "b"],
            },
            "denied: wrong; /query: a; b",
        ),
    ],
)
def test_a_folded_result_gives_its_words(folded: dict[str, str], reason: str) -> None:
    kind = folded["reason"]
    assert reason_of(failed(kind, msgspec.json.encode(folded).decode())) == reason


@pytest.mark.parametrize(
    ("text", "reason"), [("", "cancelled"), ("why", "cancelled: why"), ("[1]", "cancelled: [1]")]
)
def test_another_text_is_told_as_it_is(text: str, reason: str) -> None:
    assert reason_of(failed("cancelled", text)) == reason


def test_long_words_are_cut() -> None:
    long = {"status": "unavailable", "reason": "no_report", "detail": "none", "text": "x" * 10_000_000}
    reason = reason_of(failed("no_report", msgspec.json.encode(long).decode()))
    assert reason == f"no_report: none; {'x' * WORDS_CHARS_MAX}..."
