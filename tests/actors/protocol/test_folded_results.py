"""The one result that a model reads of an agent tool that failed."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard.actors.protocol.endings import EXPLAINED, STATUS, OutcomeKind
from callboard.actors.protocol.folded_results import (
    FOLDED_BYTES_MIN,
    fits_folded,
    folded,
    json_bytes,
    response_of,
    with_problems_cut,
)
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.prompts import delegation_result
from callboard.actors.protocol.value_types import CallMetadata, SchemaProblem
from tests.effort import effort
from tests.tables import table

ABOUT = CallMetadata("finder", "host", "unavailable")
FAILURES = [kind for kind in get_args(OutcomeKind) if STATUS[kind] != "ok"]
WRONG = (SchemaProblem("/query", "must be string"),)


@table("kind", FAILURES)
def test_each_failure_is_one_object_with_its_true_kind(kind: OutcomeKind) -> None:
    end = DelegationEnded(1, 0, kind, text="half of it", metadata=ABOUT)
    text, is_error = delegation_result(end)
    said = msgspec.json.decode(text)
    assert is_error
    assert (said["status"], said["reason"], said["text"]) == ("unavailable", kind, "half of it")


def test_wrong_input_is_told_apart_with_its_problems() -> None:
    end = DelegationEnded(1, 0, "denied", detail="it does not match", problems=WRONG, metadata=ABOUT)
    said = msgspec.json.decode(delegation_result(end)[0])
    assert delegation_result(replace(end, metadata=replace(ABOUT, response="invalid_input")))[0] == folded(
        end
    )
    assert said == {
        "status": "invalid_input",
        "reason": "denied",
        "detail": "it does not match",
        "problems": ["/query: must be string"],
    }


def test_a_result_is_told_as_it_is_and_metadata_never() -> None:
    end = DelegationEnded(1, 0, "answered", text="Paris", metadata=CallMetadata("finder", "host", "ok"))
    assert (delegation_result(end), response_of(end, is_folded=True)) == (("Paris", False), "ok")
    failed = DelegationEnded(1, 0, "deadline", metadata=ABOUT)
    assert not {"finder", "host", "metadata"} & set(msgspec.json.decode(folded(failed)).values())


def test_the_shortest_result_fits_from_its_room_on() -> None:
    wrong = (SchemaProblem("/q" * 300, "is missing" * 300),)
    sizes = {
        json_bytes(folded(with_problems_cut(DelegationEnded(1, 0, kind, room=1, problems=problems))))
        for kind in FAILURES
        for problems in ((), wrong)
    }
    assert max(sizes) == FOLDED_BYTES_MIN
    rooms = (0, FOLDED_BYTES_MIN - 1, FOLDED_BYTES_MIN)
    assert [fits_folded(DelegationEnded(1, 0, "denied", room=room)) for room in rooms] == [True, False, True]


@given(st.text(max_size=300), st.text(min_size=1, max_size=300), st.integers(150, 400))
@settings(max_examples=effort(40, campaign=1_000))
def test_a_failure_is_cut_to_its_room_and_stays_json(text: str, detail: str, room: int) -> None:
    end = DelegationEnded(1, 0, "deadline", text=text, detail=detail, room=room, metadata=ABOUT)
    said = folded(end)
    read = msgspec.json.decode(said)
    assert json_bytes(said) <= room
    assert text.startswith(read.get("text", ""))
    assert detail.startswith(read["detail"])


PROBLEMS = st.lists(st.builds(SchemaProblem, st.text(max_size=60), st.text(max_size=200)), max_size=12)


@given(st.text(max_size=80), PROBLEMS, st.integers(FOLDED_BYTES_MIN, 600), st.sampled_from(FAILURES))
@settings(max_examples=effort(60, campaign=2_000))
def test_problems_are_cut_to_their_room_and_one_is_always_told(
    detail: str, problems: list[SchemaProblem], room: int, kind: OutcomeKind
) -> None:
    whole = DelegationEnded(1, 0, kind, "", detail=detail, room=room, problems=tuple(problems))
    end = with_problems_cut(whole)
    said = folded(end)
    read = msgspec.json.decode(said)
    assert json_bytes(said) <= room
    assert (read["status"] == "invalid_input") == bool(problems) == bool(read.get("problems"))
    told = [str(one) for one in problems]
    for one, before in zip(read.get("problems", [])[:-1], told, strict=False):
        assert one == before
    if json_bytes(folded(replace(whole, room=0))) <= room:
        assert end is whole


def test_of_a_problem_that_is_too_long_as_much_is_told_as_fits() -> None:
    end = DelegationEnded(1, 0, "denied", problems=(SchemaProblem("/q", "m" * 900),))
    kept = [with_problems_cut(replace(end, room=room)).problems[0].message for room in (300, 301, 400)]
    assert [len(one) - len(kept[0]) for one in kept] == [0, 1, 100]
    assert kept[0].strip("m") == ""


def test_in_each_room_the_most_of_the_problems_is_told() -> None:
    problems = (
        SchemaProblem("/a", "is wrong"),
        SchemaProblem("/b", "too"),
        SchemaProblem("", "and " * 9),
        SchemaProblem("/d", "it"),
    )
    whole = DelegationEnded(1, 0, "denied", problems=problems)

    def size(told: tuple[SchemaProblem, ...]) -> int:
        said = {"status": "invalid_input", "reason": "denied", "detail": "", "problems": [*map(str, told)]}
        return json_bytes(msgspec.json.encode(said).decode())

    first, text = problems[0], str(problems[0])
    some = [problems[:count] for count in (4, 3, 2, 1)]
    some += [(replace(first, message=first.message[:chars]),) for chars in range(len(first.message), -1, -1)]
    some += [(SchemaProblem("", text[:chars]),) for chars in range(len(first.path) + 1, -1, -1)]
    for room in range(size(some[-1]), size(problems) + 2):
        most = next(told for told in some if size(told) <= room)
        assert with_problems_cut(replace(whole, room=room)).problems == most, room
    assert with_problems_cut(whole) is whole, "without a bound on the room"


def test_in_each_room_the_most_of_the_words_is_told_and_the_detail_before_the_text() -> None:
    def said(detail: str, text: str) -> str:
        end = {"status": "unavailable", "reason": "deadline", "detail": detail}
        return msgspec.json.encode(end | ({"text": text} if text else {})).decode()

    detail, text = 'it said "no"', "Half é of it."
    some = [(detail, text[:chars]) for chars in range(len(text), -1, -1)]
    some += [(detail[:chars], "") for chars in range(len(detail), -1, -1)]
    whole = DelegationEnded(1, 0, "deadline", text=text, detail=detail)
    for room in range(json_bytes(said("", "")), json_bytes(said(*some[0])) + 2):
        most = next(words for words in some if json_bytes(said(*words)) <= room)
        assert folded(replace(whole, room=room)) == said(*most), room
    assert folded(replace(whole, detail="", text="")) == said(EXPLAINED["deadline"], "")
    assert [json_bytes(one) for one in ("", "a", "é", '"')] == [0, 1, 2, 2]


def test_ten_problems_are_told_at_most() -> None:
    for count in (9, 10, 11):
        end = DelegationEnded(1, 0, "denied", problems=WRONG * count)
        assert len(msgspec.json.decode(folded(end))["problems"]) == min(count, 10)


@pytest.mark.parametrize(
    "words", [{"text": "x" * 900}, {"detail": "x" * 900}, {"text": "x", "detail": "y" * 900}]
)
def test_of_the_words_of_a_failure_as_much_is_told_as_fits(words: dict[str, Any]) -> None:
    whole = DelegationEnded(1, 0, "deadline", room=300, metadata=ABOUT, **words)
    assert json_bytes(folded(whole)) == 300
    assert json_bytes(folded(replace(whole, room=0))) > 900


def test_an_end_is_ok_an_error_or_folded_by_whose_result_it_is() -> None:
    for kind, problems, is_folded, response in (
        ("answered", (), True, "ok"),
        ("reported", (), False, "ok"),
        ("denied", WRONG, False, "error"),
        ("denied", WRONG, True, "invalid_input"),
        ("denied", (), True, "unavailable"),
        ("budget", (), False, "error"),
    ):
        end = DelegationEnded(1, 0, kind, problems=problems)  # type: ignore[arg-type]  # a kind
        assert response_of(end, is_folded=is_folded) == response
