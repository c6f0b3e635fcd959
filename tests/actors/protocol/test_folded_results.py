"""The one result that a model reads of an agent tool that failed."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.endings import STATUS, OutcomeKind
from callboard.actors.protocol.folded_results import folded, json_bytes, response_of
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.prompts import delegation_result
from callboard.actors.protocol.value_types import CallMetadata, SchemaProblem
from tests.effort import effort

ABOUT = CallMetadata("finder", "host", "unavailable")
WRONG = (SchemaProblem("/query", "must be string"),)


@pytest.mark.parametrize("kind", [kind for kind in get_args(OutcomeKind) if STATUS[kind] != "ok"])
def test_each_failure_is_one_object_with_its_true_kind(kind: OutcomeKind) -> None:
    end = DelegationEnded(1, 0, kind, text="half of it", metadata=ABOUT)
    text, is_error = delegation_result(end)
    said = msgspec.json.decode(text)
    assert is_error
    assert (said["status"], said["reason"], said["text"]) == ("unavailable", kind, "half of it")


def test_wrong_input_is_told_apart_with_its_problems() -> None:
    end = DelegationEnded(1, 0, "denied", detail="it does not match", problems=WRONG, metadata=ABOUT)
    said = msgspec.json.decode(delegation_result(end)[0])
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


@given(st.text(max_size=300), st.text(min_size=1, max_size=300), st.integers(150, 400))
@settings(max_examples=effort(40, campaign=1_000))
def test_a_failure_is_cut_to_its_room_and_stays_json(text: str, detail: str, room: int) -> None:
    end = DelegationEnded(1, 0, "deadline", text=text, detail=detail, room=room, metadata=ABOUT)
    said = folded(end)
    read = msgspec.json.decode(said)
    assert json_bytes(said) <= room
    assert text.startswith(read.get("text", ""))
    assert detail.startswith(read["detail"])
