"""Contracts: the prompt of an input, the schema in a call, and the agents that have one."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.contracts import Callee, callees_of, input_prompt, input_text, schema_in
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.profiles import Profile
from tests.effort import effort

FIELDS = Json(
    b'{"type":"object","properties":{"query":{"type":"string"},"depth":{"type":"integer","default":3},'
    b'"any":true,"note":{"type":"string"}},"required":["query"]}'
)
PRESETS = Json(b'{"tenant":"acme"}')


def test_the_prompt_has_presets_then_fields_in_the_contracts_order() -> None:
    text = input_text(FIELDS, PRESETS, Json(b'{"note":"n","query":"q","any":[1]}'))
    assert text.splitlines()[:3] == ["{", '  "tenant": "acme",', '  "query": "q",']
    assert list(msgspec.json.decode(text)) == ["tenant", "query", "depth", "any", "note"]
    assert msgspec.json.decode(text)["depth"] == 3, "a default is told"


def test_a_field_without_value_and_default_is_left_out() -> None:
    assert msgspec.json.decode(input_text(FIELDS, NULL, Json(b'{"query":"q"}'))) == {"query": "q", "depth": 3}


def test_a_call_never_changes_a_preset() -> None:
    told = msgspec.json.decode(input_text(FIELDS, PRESETS, Json(b'{"query":"q","tenant":"other"}')))
    assert told["tenant"] == "acme"


def test_the_prompt_is_a_json_text() -> None:
    prompt = input_prompt(FIELDS, NULL, Json(b'{"query":"q"}'))
    assert msgspec.json.decode(prompt) == input_text(FIELDS, NULL, Json(b'{"query":"q"}'))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["query", "depth", "note", "odd", "x\n"]), _VALUES))
@settings(max_examples=effort(30, campaign=1_000))
def test_the_prompt_tells_every_field_of_the_call_unchanged(fields: dict[str, object]) -> None:
    told = msgspec.json.decode(input_text(FIELDS, PRESETS, Json(msgspec.json.encode(fields))))
    assert {**told, **fields} == told
    assert told.keys() - fields.keys() <= {"tenant", "depth"}


def test_a_schema_is_read_by_the_name_of_its_argument() -> None:
    arguments = Json(b'{"form":{"type":"integer"},"none":null}')
    assert bytes(schema_in(arguments, "form")) == b'{"type":"integer"}'
    assert schema_in(arguments, "none") == schema_in(arguments, "other") == schema_in(arguments, "") == NULL


def test_only_agents_that_are_not_called_as_any_other_are_told_of() -> None:
    people = [Profile("plain"), Profile("closed", schema_arg=""), Profile("tool", input_schema=FIELDS)]
    assert callees_of(people) == (Callee("closed", schema_arg=""), Callee("tool", FIELDS))
    assert [one.is_tool for one in callees_of(people)] == [False, True]
