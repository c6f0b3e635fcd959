"""Contracts made of types: the schema of the tool, presets, wrong definitions, and inputs of clients."""

import dataclasses
import socket
from typing import Annotated, Any

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import Agent
from callboard.actors.protocol.contracts import callees_of
from callboard.actors.protocol.errors import InvalidAgent, InvalidPrompt
from callboard.actors.protocol.prompts import agent_tool
from callboard.runtime.agent import prompt_for
from callboard.runtime.contracts import contract_of
from tests.effort import effort
from tests.tables import table


class AsStruct(msgspec.Struct):
    tenant: str
    query: Annotated[str, msgspec.Meta(min_length=1)]
    depth: int = 3


@dataclasses.dataclass
class AsDataclass:
    tenant: str
    query: str
    depth: int = 3

    def __post_init__(self) -> None:
        if self.query == self.tenant:
            raise ValueError("the query is the tenant")


class AsModel(pydantic.BaseModel):
    tenant: str
    query: str
    depth: int = 3


class Renamed(msgspec.Struct, rename="camel"):
    the_query: str


class Aliased(pydantic.BaseModel):
    query: str = pydantic.Field(alias="Query")


class WithSocket(msgspec.Struct):
    query: str
    line: socket.socket


class Empty(msgspec.Struct):
    pass


ALL = (AsStruct, AsDataclass, AsModel)


def tool_schema(agent: Agent) -> dict[str, Any]:
    """Return the input schema of the tool that a caller's model sees."""
    (callee,) = callees_of([agent.profile()])
    schema: dict[str, Any] = msgspec.json.decode(agent_tool(callee, ""))["input_schema"]
    return schema


_TYPES = st.sampled_from([int, str, bool, float, list[int], dict[str, int], int | None, AsStruct])
_FIELDS = st.lists(
    st.tuples(st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True), _TYPES, st.booleans()),
    unique_by=lambda one: one[0],
    max_size=6,
)


@given(_FIELDS, st.sampled_from(["struct", "dataclass"]))
@settings(max_examples=effort(25, campaign=500), deadline=None)
def test_the_tool_has_the_contracts_fields_in_order_and_requires_the_same(
    fields: list[tuple[str, Any, bool]], how: str
) -> None:
    needed = [(name, kind) for name, kind, is_optional in fields if not is_optional]
    optional = [(name, kind | None, None) for name, kind, is_optional in fields if is_optional]
    fields_given: list[Any] = [*needed, *optional]
    try:
        if how == "struct":
            kind: type = msgspec.defstruct("Fields", fields_given)
        else:
            kind = dataclasses.make_dataclass("Fields", fields_given)
    except (TypeError, ValueError):  # a keyword of Python
        return
    schema = tool_schema(Agent("finder", input=kind))
    assert list(schema["properties"]) == [one[0] for one in fields_given]
    assert schema.get("required", []) == [name for name, _ in needed]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("kind", ALL)
def test_a_preset_leaves_the_tool_and_stays_in_the_prompt(kind: type) -> None:
    agent = Agent("finder", input=kind).preset(tenant="acme")
    schema = tool_schema(agent)
    assert (list(schema["properties"]), schema["required"]) == (["query", "depth"], ["query"])
    assert agent.contract is not None
    told = msgspec.json.decode(agent.contract.prompt({"query": "q"}))
    assert told == {"tenant": "acme", "query": "q", "depth": 3}
    with pytest.raises(InvalidPrompt, match="/tenant: is not a field of the contract"):
        agent.contract.prompt({"query": "q", "tenant": "other"})


def test_presets_add_up_and_may_name_another_agent() -> None:
    base = Agent("finder", input=AsStruct)
    one = base.preset("acme_finder", tenant="acme").preset(depth=1)
    assert (base.name, one.name, list(tool_schema(one)["properties"])) == ("finder", "acme_finder", ["query"])
    assert msgspec.json.decode(one.profile().presets) == {"tenant": "acme", "depth": 1}
    assert list(tool_schema(base)["properties"]) == ["tenant", "query", "depth"], "the first is unchanged"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"tenannt": "acme"}, "has no field 'tenannt' to preset; there are: tenant, query, depth"),
        ({"depth": "deep"}, "the preset depth='deep' does not fit"),
        ({"tenant": object()}, "the preset tenant=<object .* does not fit"),
    ],
)
def test_a_preset_that_does_not_exist_or_fit_is_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidAgent, match=why):
        Agent("finder", input=AsDataclass).preset(**values)


def test_an_agent_without_a_contract_has_nothing_to_preset() -> None:
    with pytest.raises(InvalidAgent, match="has no contract to preset"):
        Agent("finder").preset(tenant="acme")


def test_a_field_without_a_schema_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidAgent, match=r"field 'line' of .*WithSocket has no JSON schema; its type is"):
        Agent("finder", input=WithSocket)


@table("kind", [int, dict, "text", list[int], 5])
def test_a_type_without_fields_is_no_contract(kind: Any) -> None:
    with pytest.raises(InvalidAgent, match="has no fields; pass a msgspec Struct"):
        Agent("finder", input=kind)


def test_a_contract_may_be_empty() -> None:
    assert tool_schema(Agent("finder", input=Empty))["properties"] == {}


def test_names_in_json_are_those_of_the_type() -> None:
    assert list(tool_schema(Agent("finder", input=Renamed))["properties"]) == ["theQuery"]
    aliased = Agent("finder", input=Aliased).preset(query="q")
    assert tool_schema(aliased)["properties"] == {}
    assert msgspec.json.decode(aliased.profile().presets) == {"Query": "q"}


@pytest.mark.parametrize("kind", ALL)
def test_a_client_gives_a_value_or_a_dict_of_its_fields(kind: Any) -> None:
    contract = contract_of("finder", kind)
    fields = {"tenant": "acme", "query": "q"}
    assert contract.prompt(kind(**fields)) == contract.prompt(fields)
    assert contract.value_of(contract.prompt(fields)) == kind(**fields)


def test_a_value_of_an_agent_with_presets_repeats_them() -> None:
    contract = contract_of("finder", AsStruct).preset("finder", {"tenant": "acme"})
    assert msgspec.json.decode(contract.given(AsStruct("acme", "q"))) == {"query": "q", "depth": 3}
    with pytest.raises(InvalidPrompt, match="tenant"):
        contract.prompt(AsStruct("other", "q"))


def test_a_validator_sees_the_presets() -> None:
    contract = contract_of("finder", AsDataclass).preset("finder", {"tenant": "acme"})
    with pytest.raises(InvalidPrompt, match="the query is the tenant"):
        contract.prompt({"query": "acme"})


@pytest.mark.parametrize("wrong", [5, ["x"], object()])
def test_another_value_is_no_input(wrong: object) -> None:
    with pytest.raises(InvalidPrompt, match=r"takes a .*AsStruct, or a dict of its fields"):
        contract_of("finder", AsStruct).given(wrong)
    with pytest.raises(InvalidPrompt, match="and its prompt is none"):
        contract_of("finder", AsStruct).value_of("no JSON")


def test_a_host_with_a_contract_takes_text_too() -> None:
    agent = Agent("finder", input=AsStruct)
    assert msgspec.json.decode(prompt_for(agent, "just text")) == "just text"
    with pytest.raises(InvalidPrompt, match="a prompt is a text"):
        prompt_for(Agent("plain"), {"query": "q"})


@table(
    ("options", "why"),
    [
        ({"output_schema_arg": "nope", "input": AsStruct}, "'nope' is not a field of its contract"),
        ({"output_schema_arg": "prompt"}, "is taken by another argument"),
        ({"output_schema_arg": "a b"}, "is the name of an argument"),
        ({"output_schema_arg": 5}, "is the name of an argument"),
        ({"on_broken": "maybe"}, 'on_broken is "refuse" or "unavailable"'),
        ({"model_reason": 5}, "model_reason cannot be 5"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidAgent, match=why):
        Agent("finder", **options)


def test_an_agent_tool_may_not_have_the_name_of_another_tool() -> None:
    with pytest.raises(InvalidAgent, match="is a tool of that name, and there is another one"):
        Agent("host", agents=[Agent("task", input=AsStruct)])
