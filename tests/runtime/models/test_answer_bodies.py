"""Bodies: their form, their documents, their usage, and which are the same."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.usage import Usage
from callboard.runtime.models.answer_bodies import (
    FIELDS_MAX,
    WORDS_MAX,
    Told,
    digest_of,
    documents_of,
    error_in,
    form_of,
    is_error,
    usage_in,
)
from tests.effort import effort
from tests.error_corpus import IN_ANSWERS, WHOLE, Case
from tests.tables import table


@table(
    ("body", "form"),
    [
        (b"", ""),
        (b" \r\n", ""),
        (b'{"a": 1}', "json"),
        (b'\xef\xbb\xbf\n [{"a": 1}]', "json"),
        (b"<!doctype html>", "page"),
        (b"  <html>", "page"),
        (b"data: {}", "events"),
        (b"data:{}", "events"),
        (b"event: ping\n", "events"),
        (b": keep-alive\n", "events"),
        (b"error: {}\n", "events"),
        (b"\x00\x00\x01\x00", "frames"),
        (b"Hello", "text"),
        (b"database: x", "text"),
        (b'"a"', "text"),
    ],
)
def test_the_first_bytes_show_the_form(body: bytes, form: str) -> None:
    assert form_of(body) == form


def test_documents_are_those_of_a_body_or_of_its_events() -> None:
    assert documents_of(b'{"a": 1}') == [{"a": 1}]
    assert documents_of(b'[{"a": 1}, 2]') == [{"a": 1}, 2]
    assert documents_of(b'event: x\r\ndata: {"a": 1}\r\n\r\ndata: [DONE]\n\n') == [{"a": 1}]
    assert documents_of(b'ut off"}\n\ndata: {"b": 2}\n\n') == [{"b": 2}]
    assert documents_of(b"{" * 9) == documents_of(b"no") == []


def test_the_last_error_of_a_stream_counts() -> None:
    first, last = {"error": {"message": "a"}}, {"error": {"message": "b"}}
    assert error_in([first, last, {"choices": [1]}]) == last
    assert error_in([{"choices": [1]}]) is None


@table(
    ("documents", "usage"),
    [
        ([{"usage": {"prompt_tokens": 4, "completion_tokens": 2}}], Usage(4, 2)),
        ([{"response": {"usage": {"input_tokens": 4, "output_tokens": 2}}}], Usage(4, 2)),
        ([{"usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 2}}], Usage(4, 2)),
        ([{"usage": {"inputTokens": 4, "outputTokens": 2, "cacheReadInputTokens": 3}}], Usage(4, 2, 3)),
        (
            [
                {"message": {"usage": {"input_tokens": 4, "output_tokens": 1, "cache_read_input_tokens": 7}}},
                {"usage": {"output_tokens": 9, "input_tokens": None}},
            ],
            Usage(4, 9, 7),
        ),
        ([{"usage": {"prompt_tokens": 0}}], None),
        ([{"usage": {"prompt_tokens": -1, "completion_tokens": 2}}], None),
        ([{"usage": {"prompt_tokens": True}}], None),
        ([{"usage": None}, 3, None], None),
    ],
)
def test_usage_is_found_in_each_dialect(documents: list[object], usage: Usage | None) -> None:
    assert usage_in(documents) == usage


def test_an_answer_is_the_same_but_for_its_ids_and_times() -> None:
    one = b'{"id": "chatcmpl-1", "created": 1, "choices": 3}'
    assert digest_of(one) == digest_of(b'{"id": "chatcmpl-2", "created": 22.5, "choices": 3}')
    assert digest_of(one) != digest_of(b'{"id": "chatcmpl-1", "created": 1, "choices": 4}')
    assert digest_of(b"one") != digest_of(b"two")


@settings(max_examples=effort(60, 600), deadline=None, derandomize=True)
@given(
    st.binary(max_size=60)
    | st.text(max_size=40).map(lambda text: b"data: " + text.encode("utf-8", "replace"))
)
def test_any_bytes_have_a_form_documents_and_a_digest(body: bytes) -> None:
    form_of(body)
    usage_in(documents_of(body))
    assert len(digest_of(body)) == 16


@table("case", IN_ANSWERS, ids=lambda case: case.who)
def test_an_error_is_told_from_an_answer(case: Case) -> None:
    assert is_error(case.document)


@table("document", WHOLE, ids=repr)
def test_an_answer_is_no_error(document: object) -> None:
    assert not is_error(document)


def test_names_are_compared_without_case_and_with_their_last_part() -> None:
    told = Told({"error": {"code": "Throttling.RateQuota", "type": "aws#ThrottlingException:http://x"}})
    assert {"throttlingratequota", "ratequota", "throttlingexception"} <= told.names


def test_numbers_are_names_and_the_first_that_is_a_status_counts() -> None:
    told = Told({"code": "1113", "error": {"status": 429, "code": 503}})
    assert {"1113", "429", "503"} <= told.names
    assert told.status == 429


def test_messages_are_kept_once_and_in_their_order() -> None:
    assert Told({"error": {"message": "a", "raw": "b", "detail": "a"}}).words == "a; b"


def test_a_text_of_json_is_read() -> None:
    inner = json.dumps({"error": {"message": "too long", "code": "context_length_exceeded"}})
    told = Told({"message": inner})
    assert told.words == "too long"
    assert "contextlengthexceeded" in told.names


def test_a_huge_document_is_bounded() -> None:
    told = Told([{"message": str(number) * 50} for number in range(10 * FIELDS_MAX)])
    assert len(told.messages) <= FIELDS_MAX
    assert len(Told({"message": "x" * 10 * WORDS_MAX}).words) == WORDS_MAX


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["error", "code", "message", "choices", "type", "x"]), inner, max_size=4
        )
    ),
)


@settings(max_examples=effort(60, 600), deadline=None, derandomize=True)
@given(JSON)
def test_no_document_breaks_the_search(document: object) -> None:
    assert isinstance(Told(document).words, str)
    assert is_error(document) in (True, False)
