"""Forms by which a call asks for input: any values are refused, or reach the call as the person gave them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.immutable import NULL, Json
from callboard.errors import InvalidPrompt
from callboard.runtime.tools.input_forms import (
    FORMS_BYTES_MAX,
    Form,
    InputNeeded,
    checked_forms,
    checked_values,
    forms_of,
    secret_values,
    without_secrets,
)

FIELDS: dict[str, dict[str, Any]] = {
    "city": {"type": "string", "minLength": 2},
    "nights": {"type": "integer", "minimum": 1, "maximum": 30},
    "class": {"type": "string", "enum": ["first", "second"]},
    "token": {"type": "string", "format": "password"},
    "pin": {"type": "string", "writeOnly": True},
    "key": {"type": "string", "x-secret": True},
    "warm": {"type": "boolean"},
}
JOURNEY = {"message": "Where to?", "schema": {"type": "object", "properties": FIELDS, "required": ["city"]}}
PAY = {"message": "Pay.", "url": "https://pay.example"}


def values_in(data: Json) -> Any:
    return json.loads(bytes(data))


FITTING = st.fixed_dictionaries(
    {"city": st.text("ab\u2603", min_size=2)},
    optional={
        "nights": st.integers(1, 30),
        "class": st.sampled_from(["first", "second"]),
        "warm": st.booleans(),
        "token": st.text("abc"),
    },
)


@given(FITTING)
def test_values_that_fit_come_back_under_the_name_of_their_form(values: dict[str, Any]) -> None:
    forms = checked_forms({"go": JOURNEY, "pay": PAY})
    assert values_in(checked_values(forms, values)) == {"go": values, "pay": {}}
    assert values_in(checked_values(forms, {"go": values})) == {"go": values, "pay": {}}


@given(
    st.dictionaries(st.sampled_from(["nights", "class", "warm"]), st.text("xy") | st.none() | st.integers(31))
)
def test_values_that_do_not_fit_are_refused_with_their_place(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidPrompt, match="do not fit the form"):
        checked_values(checked_forms({"go": JOURNEY}), values)


def test_a_form_with_a_url_alone_needs_no_values() -> None:
    assert values_in(checked_values(checked_forms({"pay": PAY}), None)) == {"pay": {}}
    with pytest.raises(InvalidPrompt, match="there is no form 'other'"):
        checked_values(checked_forms({"pay": PAY}), {"other": {}})


def test_secret_fields_are_found_and_only_placeholders_are_left() -> None:
    forms = checked_forms({"go": JOURNEY})
    (form,) = forms_of(forms)
    assert form.secrets == ["token", "pin", "key"]
    values = checked_values(forms, {"city": "Oslo", "token": "t", "key": "k"})
    assert secret_values(forms, values) == {("go", "token"): "t", ("go", "key"): "k"}
    kept = {"city": "Oslo", "token": "[secret:token]", "key": "[secret:key]"}
    assert values_in(without_secrets(forms, values)) == {"go": kept}
    plain = checked_values(forms, {"city": "Oslo"})
    assert without_secrets(forms, plain) is plain


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "object", "properties": {"a": {"$ref": "https://example.com/a"}}}, "cannot be checked"),
        ({"type": "nothing"}, "cannot be checked"),
        ({"type": "object", "description": "x" * FORMS_BYTES_MAX}, "at most 65,536 may be shown"),
    ],
)
def test_forms_that_no_person_can_fill_in_are_refused(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidPrompt, match=words):
        checked_forms({"go": {"message": "", "schema": schema}})


def test_a_call_that_asks_for_no_input_has_no_forms() -> None:
    assert forms_of(NULL) == []


def test_fields_of_a_strange_schema_are_none() -> None:
    (form,) = forms_of(Json(b'{"go":{"message":"m","schema":{"properties":[1]}}}'))
    assert form.fields == {}
    assert form.secrets == []


def test_a_form_has_its_parts_or_nothing_for_them() -> None:
    journey, pay, bare = forms_of(checked_forms({"go": JOURNEY, "pay": PAY, "bare": {}}))
    assert (journey.message, journey.required, journey.fields) == ("Where to?", ["city"], FIELDS)
    assert pay == Form("pay", "Pay.", None, "https://pay.example")
    assert (pay.fields, pay.required, pay.secrets) == ({}, [], [])
    assert bare == Form("bare", "", None, "")
    (strange,) = forms_of(Json(b'{"go":{"schema":{"required":"city"}}}'))
    assert strange.required == []


def test_values_are_refused_by_name_and_for_what_no_check_can_read() -> None:
    form = {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    forms = checked_forms({"go": form})
    with pytest.raises(InvalidPrompt, match="too large to be checked"):
        checked_values(forms, {"n": 10**19})
    with pytest.raises(InvalidPrompt, match="The values"):
        checked_values(forms, {"n": object()})
    with pytest.raises(InvalidPrompt, match="The values"):
        checked_values(checked_forms({"pay": PAY}), {"pay": object()})
    with pytest.raises(InvalidPrompt, match="The form"):
        checked_forms({"go": {"message": object()}})
    assert secret_values(checked_forms({"go": JOURNEY}), NULL) == {}
    assert secret_values(checked_forms({"go": JOURNEY}), Json(b'{"go":null}')) == {}


def test_a_form_of_the_largest_size_is_shown() -> None:
    def sized(count: int) -> dict[str, Any]:
        return {"go": {"message": "x" * count}}

    room = FORMS_BYTES_MAX - len(checked_forms(sized(0)))
    assert len(checked_forms(sized(room))) == FORMS_BYTES_MAX
    with pytest.raises(InvalidPrompt, match="may be shown"):
        checked_forms(sized(room + 1))


def test_the_wish_for_input_has_its_text_and_its_question() -> None:
    asked: Any = object()
    error = InputNeeded("it needs a city", asked)
    assert (str(error), error.asked) == ("it needs a city", asked)
