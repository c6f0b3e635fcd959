"""Words for the end of an answer: errors, cuts and refusals are listed, each other word is an end."""

from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.models.answer_bodies import squeezed
from callboard.runtime.models.finishes import (
    ERRORS,
    STOP_REASONS,
    LiveAnswer,
    error_of,
    stop_reason_of,
    tell_usage,
)
from callboard.runtime.secrets.registry import NO_SECRETS
from callboard.runtime.secrets.stream_buffer import StreamBuffer
from tests.effort import effort
from tests.tables import table

SOME = Usage(input_tokens=3)
REQUEST = ModelRequest(
    address="host",
    profile="host",
    model=ModelSpec("m"),
    turn=1,
    attempt=1,
    system=NULL,
    tools=(),
    history=IntMap(),
)


@table(
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


@table(
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


@table(
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


def test_the_last_usage_that_a_stream_told_counts() -> None:
    shown: list[str] = []
    live = LiveAnswer(lambda grant, request: NO_SECRETS.stream(shown.append), 7, REQUEST)
    assert live.usage == ZERO
    tell_usage(live, SOME)
    tell_usage(live, None)
    live("text ")
    live.end()
    assert (live.usage, "".join(shown)) == (SOME, "text ")


def test_a_buffer_is_made_with_the_first_piece_and_only_once() -> None:
    made: list[tuple[int, ModelRequest]] = []

    def buffer_of(grant: int, request: ModelRequest) -> StreamBuffer:
        made.append((grant, request))
        return NO_SECRETS.stream(lambda text: None)

    live = LiveAnswer(buffer_of, 7, REQUEST)
    live.end()
    assert made == []
    for piece in ("a ", "b "):
        live(piece)
    live.end()
    assert made == [(7, REQUEST)]


def test_a_receiver_of_text_alone_is_told_no_usage() -> None:
    shown: list[str] = []
    tell_usage(shown.append, SOME)
    assert shown == []
