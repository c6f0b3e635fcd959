"""Outcomes: how they are built from the end of an ask, their texts, and the results of `unwrap`."""

from typing import Any, get_args

import msgspec
import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.endings import STATUS, OutcomeKind
from callboard.actors.protocol.errors import MissingType, OutcomeError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.protocol.value_types import CallMetadata
from callboard.runtime.log.protocol import Head
from callboard.runtime.schemas.output_types import OutputType, output_type
from callboard.runtime.sessions.ended_asks import EndedAsk, EndedDelegation
from callboard.runtime.sessions.outcomes import Outcome, Outcomes, outcome_of, with_head
from callboard.runtime.sessions.session_types import TypeName
from tests.tables import table

HEAD = (9, "ab")
TEXT = TypeName("", NULL)
LIST = output_type(list[int])


class Types:
    """The types of a session: one, under one name."""

    def of(self, recorded: TypeName) -> OutputType:
        if recorded.name == "gone":
            raise MissingType("gone", ("gone",))
        return LIST if recorded.name else OutputType(recorded.schema)

    def of_profile(self, name: str) -> OutputType:
        return LIST if name == "typed" else output_type(None)


TYPES: Any = Types()


def ended(
    kind: OutcomeKind, value: bytes = b"null", text: str = "", *below: EndedDelegation, **more: Any
) -> EndedAsk:
    name = more.pop("name", "")
    return EndedAsk(7, AskEnded("r", kind, Json(value), text, **more), TypeName(name, NULL), below)


def built(*about: Any, types: Any = TYPES, **more: Any) -> Outcome[Any]:
    return outcome_of("s", ended(*about, **more), HEAD, types)


def test_an_outcome_has_every_fact_of_the_end() -> None:
    usage, need = Usage(1, 2), Need(3)
    more = {
        "detail": "why",
        "usage": usage,
        "unsettled": need,
        "by": 5,
        "in_doubt": ("host.1",),
        "labels": ("web",),
    }
    one = built("budget", b"null", "part", **more)
    assert (one.kind, one.status, one.text, one.detail) == ("budget", "failed", "part", "why")
    assert (one.usage, one.unsettled, one.by, one.in_doubt) == (usage, need, 5, ("host.1",))
    assert (one.session_id, one.request_id, one.head, one.labels) == ("s", "r", HEAD, ("web",))
    assert one.structured_output is None
    assert one.report is None


@table("kind", get_args(OutcomeKind))
def test_each_kind_has_its_status_and_only_good_ends_have_a_result(kind: Any) -> None:
    one = built(kind, b"[1]", "text")
    assert one.status == STATUS[kind]
    assert one.is_ok is (kind in ("reported", "answered"))
    if one.is_ok:
        assert one.unwrap() == [1]
    else:
        with pytest.raises(
            OutcomeError, match=rf"session s: the ask ended {one.status} \({kind}\): .+; see"
        ) as info:
            one.unwrap()
        assert info.value.outcome is one


def test_the_reason_of_an_end_is_its_detail_or_the_meaning_of_its_kind() -> None:
    with pytest.raises(OutcomeError, match="mine; see `callboard show s`"):
        built("failed", detail="mine").unwrap()
    with pytest.raises(OutcomeError) as info:
        built("deadline").unwrap()
    assert ": ; see" not in str(info.value)


def test_a_text_is_unwrapped_as_text_and_a_report_as_its_value() -> None:
    assert built("answered", text="hi").unwrap() == "hi"
    assert built("answered", b'{"n":1}', "hi").unwrap() == {"n": 1}
    assert built("reported", b"null").unwrap() is None
    typed = built("reported", b"[1,2]", name="m.T")
    assert typed.structured_output == [1, 2]
    assert typed.report == [1, 2]


def test_a_report_of_a_type_that_is_gone_needs_its_type_unless_plain_values_will_do() -> None:
    with pytest.raises(MissingType):
        built("reported", b"[1]", name="gone")
    assert built("reported", b"[1]", name="gone", types=None).structured_output == [1]


# --- delegations -----------------------------------------------------------------


def below(profile: str, *, is_typed: bool = True, **more: Any) -> EndedDelegation:
    values = {
        "address": "host.2.1",
        "value": Json(b"[1]"),
        "text": "t",
        "detail": "d",
        "usage": Usage(4),
        **more,
    }
    end = DelegationEnded(1, 0, values.pop("kind", "reported"), **values)
    return EndedDelegation(5, profile, is_typed, end)


def test_delegations_are_told_in_their_order() -> None:
    one = built("answered", b"null", "", below("typed"), below("plain", kind="deadline", address="host.1"))
    first, second = one.delegations
    assert (first.address, first.parent, first.profile, first.kind) == (
        "host.2.1",
        "host.2",
        "typed",
        "reported",
    )
    assert (first.text, first.detail, first.usage) == ("t", "d", Usage(4))
    assert (second.address, second.parent, second.kind, second.value) == ("host.1", "host", "deadline", None)


@pytest.mark.parametrize(
    ("profile", "is_typed", "types", "kind"),
    [
        ("typed", True, TYPES, LIST),
        ("typed", False, TYPES, None),
        ("plain", True, TYPES, None),
        ("typed", True, None, None),
    ],
)
def test_the_value_of_a_delegation_has_the_type_of_its_agent_if_it_reported_by_that(
    profile: str, is_typed: bool, types: Any, kind: object
) -> None:
    (one,) = built("answered", b"null", "", below(profile, is_typed=is_typed), types=types).delegations
    assert one.value == [1]
    assert (one._type is kind) is (kind is not None)


def test_the_metadata_of_a_call_are_plain_facts() -> None:
    facts = CallMetadata("kid", "host", "ok", "context")
    (one,) = built("answered", b"null", "", below("plain", metadata=facts)).delegations
    expected = {"subagent": "kid", "supervisor": "host", "response": "ok", "delegation_context": "context"}
    assert one.metadata == expected
    (other,) = built("answered", b"null", "", below("plain")).delegations
    assert other.metadata is None


# --- the outcomes of a session -----------------------------------------------------


def test_the_first_end_of_a_request_counts_and_is_built_once() -> None:
    outcomes = Outcomes("s", TYPES)
    assert not outcomes
    outcomes.add(ended("answered", text="one"), HEAD)
    outcomes.add(ended("answered", text="two"), (10, "cd"))
    assert outcomes
    assert "r" in outcomes
    assert "x" not in outcomes
    assert outcomes.of("r").text == "one"
    assert outcomes.of("r") is outcomes.of("r")
    assert outcomes.of("r").head == HEAD


def test_an_outcome_may_have_a_later_head() -> None:
    one = built("answered")
    assert with_head(one, Head(12, b"\x01\xff")).head == (12, "01ff")
    assert with_head(one, Head(0, b"")) is one
    assert msgspec.structs.asdict(with_head(one, Head(12, b"\x01")))["text"] == one.text
