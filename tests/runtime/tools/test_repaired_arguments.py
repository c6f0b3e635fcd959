"""Arguments that are read as they were meant, and all others, which are left as they are."""

import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard import Agent, Call, ModelRequest, Reply, Runtime, ScriptedModel, Tool, call, say, tool
from callboard.actors.protocol.immutable import Json
from callboard.runtime.tools.repaired_arguments import repaired
from tests.tables import table

DEFS = {"Place": {"type": "object"}, "Loop": {"$ref": "#/$defs/Loop"}}
PARTS: dict[str, Any] = {
    "tags": {"type": "array"},
    "place": {"$ref": "#/$defs/Place"},
    "limit": {"type": "integer"},
    "kind": {"enum": ["a", "b"]},
    "either": {"anyOf": [{"type": "array"}, {"type": "null"}]},
    "both": {"type": ["string", "array"]},
    "any": {},
    "far": {"$ref": "https://example.com/x"},
    "loop": {"$ref": "#/$defs/Loop"},
    "half": {"oneOf": [{"type": "array"}, {}]},
    "needed": {"type": "integer"},
}
SCHEMA = {"type": "object", "properties": PARTS, "required": ["needed"], "$defs": DEFS}


def meant(arguments: object) -> Any:
    """Return the arguments as they were meant; None if they stay."""
    found = repaired(Json(json.dumps(arguments).encode()), SCHEMA)
    return None if found is None else json.loads(bytes(found))


@table(
    ("wrote", "means"),
    [
        ({"tags": '["a", "b"]', "needed": 1}, {"tags": ["a", "b"], "needed": 1}),
        ({"tags": " [] "}, {"tags": []}),
        ({"place": '{"city": "Oslo"}'}, {"place": {"city": "Oslo"}}),
        ({"either": "[1]"}, {"either": [1]}),
        ({"limit": None}, {}),
        ({"kind": None, "limit": 3}, {"limit": 3}),
        ({"tags": None, "place": "{}"}, {"place": {}}),
    ],
)
def test_what_can_mean_one_thing_means_that(wrote: object, means: object) -> None:
    assert meant(wrote) == means


@table(
    "wrote",
    [
        {"tags": ["a"], "needed": 1},
        {"tags": "a, b"},
        {"tags": "[1"},
        {"tags": '{"a": 1}'},
        {"tags": "3"},
        {"place": "[1]"},
        {"limit": "3"},
        {"needed": None},
        {"either": None},
        {"both": "[1]"},
        {"any": None},
        {"any": "[1]"},
        {"far": None},
        {"loop": "[1]"},
        {"half": "[1]"},
        {"unknown": None},
        {"kind": "[1]"},
    ],
)
def test_anything_else_stays(wrote: object) -> None:
    assert meant(wrote) is None


@pytest.mark.parametrize("data", [b"[1]", b"null", b'{"a": ', b"[" * 5_000])
def test_arguments_that_are_no_object_stay(data: bytes) -> None:
    assert repaired(Json(data), SCHEMA) is None
    assert repaired(Json(b"{}"), {}) is None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*PARTS, "unknown"]), values | values.map(json.dumps)))
def test_a_repair_leaves_nothing_to_repair_and_loses_only_nulls(arguments: dict[str, Any]) -> None:
    found = meant(arguments)
    if found is None:
        return
    assert meant(found) is None
    for name in arguments:
        assert name in found or arguments[name] is None
    for name, value in found.items():
        assert value in (arguments[name], json.loads(arguments[name]) if value != arguments[name] else None)


@dataclass
class Place:
    city: str


seen: list[object] = []


@tool(effect="read")
def find(tags: list[str], place: Place | None = None, limit: int = 5, kind: Literal["a", "b"] = "a") -> str:
    """Find."""
    seen.append((tags, place, limit, kind))
    return "found"


def ask(search: Tool, **arguments: object) -> str:
    """Return the result of a call with these arguments."""

    def policy(request: ModelRequest) -> Reply | Call:
        if request.turn == 1:
            return call(search.name, **arguments)
        return say(str(request.conversation[-1]["content"][0]["content"]))

    return (
        Runtime(":memory:", model=ScriptedModel(policy)).run_sync(Agent("host", tools=[search]), "Go.").text
    )


def test_a_tool_gets_what_was_meant() -> None:
    seen.clear()
    assert ask(find, tags='["x"]', place='{"city": "Oslo"}', limit=None, kind=None) == "found"
    assert ask(find, tags=["y"], place=None) == "found"
    assert seen == [(["x"], Place("Oslo"), 5, "a"), (["y"], None, 5, "a")]


def test_an_error_is_that_of_the_arguments_as_they_were_written() -> None:
    told = ask(find, tags='["x", 3]')
    assert "Expected `array`, got `str` - at `$.tags`" in told


def test_a_tool_with_a_ready_schema_gets_what_was_meant() -> None:
    got: list[object] = []

    def note(arguments: dict[str, object]) -> str:
        got.append(arguments)
        return "ok"

    schema = {"type": "object", "properties": PARTS, "$defs": DEFS}
    plain = Tool("plain", "Note.", schema, note, effect="read")
    assert ask(plain, tags="[1]", limit=None, any=None, both="[2]") == "ok"
    assert got == [{"tags": [1], "any": None, "both": "[2]"}]
