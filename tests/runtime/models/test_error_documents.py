"""Error documents: what they say is found wherever it stands, and answers are told from them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.runtime.models.error_documents import FIELDS_MAX, WORDS_MAX, Told, is_error
from tests.effort import effort
from tests.error_corpus import IN_ANSWERS, WHOLE, Case


@pytest.mark.parametrize("case", IN_ANSWERS, ids=lambda case: case.who)
def test_an_error_is_told_from_an_answer(case: Case) -> None:
    assert is_error(case.document)


@pytest.mark.parametrize("document", WHOLE, ids=repr)
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
