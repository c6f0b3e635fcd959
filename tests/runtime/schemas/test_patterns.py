import time

import pytest

from callboard.runtime.schemas.limits import INLINE_PATTERN_WORK
from callboard.runtime.schemas.patterns import Pattern, Unfit, estimate


@pytest.mark.parametrize(
    ("pattern", "text", "is_there"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^[A-Z]{2}-\\d+$", "AB-12", True),
        ("^a$", "a\n", False),
        ("^\\u0061\\u00e9$", "aé", True),
        ("\\\\u0061", "\\u0061", True),
        ("^\\p{L}+$", "Ünï", True),
        ("^.$", "\U0001f600", True),
        ("", "", True),
    ],
)
def test_expressions_match_anywhere_as_json_schema_wants(pattern: str, text: str, is_there: bool) -> None:
    assert Pattern(pattern).is_in(text) is is_there


@pytest.mark.parametrize(
    "pattern",
    ["(?=a)", "(?!a)", "(?<=a)b", "(a)\\1", "[", "(", "*", "a{1001}", "\ud800", "a" * 2_001, "\\u12"],
)
def test_what_re2_cannot_compile_is_unfit(pattern: str) -> None:
    with pytest.raises(Unfit):
        Pattern(pattern)


def test_the_reason_is_a_sentence_and_not_bytes() -> None:
    with pytest.raises(Unfit, match=r"^invalid perl operator: \(\?=$"):
        Pattern("(?=a)")


def test_a_pattern_is_its_own_text() -> None:
    assert Pattern("^a") == "^a"
    assert {Pattern("^a"): 1} == {"^a": 1}


def test_patterns_that_hold_python_for_minutes_take_no_time() -> None:
    started = time.process_time()
    assert not Pattern("^(a+)+$").is_in("a" * 100_000 + "!")
    assert not Pattern("(a|b)*" * 300 + "c").is_in("ab" * 50_000)
    assert Pattern("(a|b)*" * 300).is_in("ab" * 5_000), "2.5 s with captures"
    assert time.process_time() - started < 0.5


def test_the_steps_of_a_search_grow_with_the_text_and_the_expression() -> None:
    short, long = Pattern("^a$"), Pattern("(.{50}){5}")
    assert short.steps("x") == 1
    assert short.steps("x" * 10_000) < long.steps("x" * 10_000)


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z]{1,64}$",
        "^\\d{4}-\\d{2}-\\d{2}$",
        "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    ],
)
def test_everyday_patterns_are_cheap_enough_for_the_loop(pattern: str) -> None:
    assert estimate(pattern) <= INLINE_PATTERN_WORK


@pytest.mark.parametrize("pattern", ["^\\p{L}{1,100}$", "((a{30}){30}){30}", "^.{0,1000}$", "(.{100}){10}"])
def test_patterns_that_take_long_to_compile_are_not(pattern: str) -> None:
    assert estimate(pattern) > INLINE_PATTERN_WORK
