"""Values as people see them: Python values, JSON, a repr without opaque parts, pydantic."""

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given

from callboard.actors.protocol.client_messages import Ask, Cancel, SessionOpened
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, ReportBack
from callboard.actors.protocol.plain_values import PlainValues, plain
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import Usage
from tests.strategies import any_message

REPORT = ReportBack(1, 0, Json(b'{"count":3,"names":["a"]}'))


def test_json_becomes_python_values_and_a_message_has_its_type() -> None:
    assert REPORT.to_dict() == {
        "type": "ReportBack",
        "turn": 1,
        "call": 0,
        "value": {"count": 3, "names": ["a"]},
        "settled": None,
    }
    assert dict(REPORT) == REPORT.to_dict()


def test_an_event_has_its_kind_and_the_values_of_its_body() -> None:
    event = Event(4, 5, "host", "supervisor", 3, REPORT)
    found = event.to_dict()
    assert (found["kind"], found["seq"], found["body"]["value"]["count"]) == ("ReportBack", 4, 3)


def test_a_usage_has_its_sums() -> None:
    found = Usage(1, 2, micro_usd=1_500_000).to_dict()
    assert (found["input_tokens"], found["tokens"], found["cost_usd"]) == (1, 3, 1.5)


def test_the_values_belong_to_the_caller() -> None:
    REPORT.to_dict()["value"]["count"] = 9
    assert REPORT.to_dict()["value"]["count"] == 3


def test_the_repr_shows_json_and_cuts_it() -> None:
    assert repr(REPORT) == 'ReportBack(turn=1, call=0, value={"count":3,"names":["a"]}, settled=None)'
    assert len(repr(Ask("a", text_json("x" * 10_000)))) < 1_000
    opened = SessionOpened(1, "host", (Json(b"{}"), Json(b"[]")), ModelSpec("m"))
    assert "profiles=({}, [])" in repr(opened)
    assert "Raw" not in repr(opened)


class Card(PlainValues, frozen=True):
    """A struct with private fields: JSON with a property, an object without one."""

    also: ClassVar[tuple[str, ...]] = ("label",)
    name: str
    _data: Json
    _hidden: object = None

    @property
    def data(self) -> Any:
        return msgspec.json.decode(self._data)

    @property
    def label(self) -> str:
        return self.name.upper()


def test_a_private_field_is_shown_as_its_property_or_not_at_all() -> None:
    card = Card("a", Json(b'{"x":[1,2]}'), object())
    assert card.to_dict() == {"name": "a", "data": {"x": [1, 2]}, "label": "A"}
    assert repr(card) == """Card(name='a', data={"x":[1,2]})"""


@dataclass
class Point:
    x: int
    y: Json


def test_values_of_any_type_become_json() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", count=(int, ...))
    assert plain({"it": (model(count=1), [model(count=2)])}) == {"it": [{"count": 1}, [{"count": 2}]]}
    assert plain({3: {Usage(1)}})["3"][0]["input_tokens"] == 1
    assert plain(Point(1, Json(b"[2]"))) == {"x": 1, "y": [2]}
    with pytest.raises(NotImplementedError, match="object is not a JSON value"):
        plain(object())


@given(any_message())
def test_every_message_can_be_looked_at(body: AnyMessage) -> None:
    assert "msgspec.Raw" not in repr(body)
    assert json.loads(body.to_json()) == body.to_dict()


def test_pydantic_serialises_a_value_as_it_is() -> None:
    pydantic = pytest.importorskip("pydantic")
    adapter = pydantic.TypeAdapter(dict[str, Usage | Cancel])
    cancel = {"type": "Cancel", "reason": "why", "address": ""}
    assert json.loads(adapter.dump_json({"it": Cancel("why")})) == {"it": cancel}
    assert adapter.json_schema()["type"] == "object"
    with pytest.raises(pydantic.ValidationError):
        adapter.validate_python({"it": 3})


@pytest.mark.parametrize("one", [REPORT, Usage(1, 2), Cancel()])
def test_the_fields_that_openapi_is_told_of_are_those_that_are_shown(one: PlainValues) -> None:
    described = type(one).__get_pydantic_json_schema__({}, None)
    assert list(described["properties"]) == list(one.to_dict())
    assert described["title"] == type(one).__name__
