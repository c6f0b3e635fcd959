"""Parameters that pydantic reads: their schemas, their validators, and the words of a refusal."""

import json
from typing import Annotated, Any

import pydantic
import pytest

from callboard import ToolContext, tool
from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.errors import InvalidAgent
from callboard.runtime.tools.tool import Tool
from tests.runtime.reports import Callback, Finding, Located, Page, Sized, Span, Tree

OWN = Sized(3)


class Elsewhere:
    """Keeps a second model of one name."""

    class Finding(pydantic.BaseModel):
        other: int


@tool(effect="read")
def record(
    finding: Finding, ctx: ToolContext, others: list[Finding] | None = None, count: int = 1
) -> tuple[object, ...]:
    """Record.

    Args:
        finding: What was found.
    """
    return finding, others, count


def bound(made: Tool, **arguments: object) -> object:
    return made.bind(Json(json.dumps(arguments).encode()), ToolContext())()


def test_the_schema_of_a_parameter_is_pydantics_with_its_aliases_and_definitions_at_the_top() -> None:
    schema = json.loads(bytes(record.input_schema))
    assert schema["required"] == ["finding"]
    assert schema["properties"]["finding"]["properties"]["filePath"]["type"] == "string"
    assert schema["properties"]["finding"]["description"] == "What was found."
    assert schema["properties"]["others"]["anyOf"][0]["items"] == {"$ref": "#/$defs/Finding"}
    assert schema["$defs"].keys() == {"Finding"}
    assert schema["properties"]["count"] == {"type": "integer", "default": 1}


def test_arguments_become_models_and_defaults_stay() -> None:
    one = {"filePath": "a", "lines": 1}
    found = Finding.model_validate(one)
    assert bound(record, finding=one, others=[one]) == (found, [found], 1)
    assert bound(record, finding=one) == (found, None, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"finding": {"filePath": "a", "lines": 0}}, "a file has at least one line - at `$.finding.lines`"),
        ({"finding": {"path": "a", "lines": 1}}, "Field required - at `$.finding.filePath`"),
        ({"finding": 5}, "at `$.finding`"),
        ({}, "Missing argument `finding`"),
        ({"finding": {"filePath": "a", "lines": 1}, "other": 1}, "Unknown argument `other`"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_with_its_place(
    arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidPrompt, match=r"Invalid arguments for record: .*It takes finding") as caught:
        bound(record, **arguments)
    assert words in str(caught.value)


def test_dataclasses_of_pydantic_generic_and_recursive_models_and_mixtures_are_read_too() -> None:
    @tool(effect="read")
    def mixed(
        sized: Sized, page: Page[int], tree: Tree, place: Located, span: Span, own: Sized = OWN
    ) -> list[object]:
        """Mix."""
        return [sized, page, tree, place, span, own]

    given = {
        "sized": {"size": 1},
        "page": {"items": [1]},
        "tree": {"name": "a", "below": [{"name": "b"}]},
        "place": {"finding": {"filePath": "a", "lines": 1}},
        "span": {"first": 1, "last": 2},
    }
    assert bound(mixed, **given) == [
        Sized(1),
        Page[int](items=[1]),
        Tree(name="a", below=[Tree(name="b")]),
        Located(Finding(filePath="a", lines=1)),
        Span(1, 2),
        OWN,
    ]
    with pytest.raises(InvalidPrompt, match=r"less than 10 - at `\$\.sized\.size`"):
        bound(mixed, **{**given, "sized": {"size": 11}})


def test_a_model_that_json_cannot_carry_is_refused() -> None:
    with pytest.raises(InvalidAgent, match="parameter 'it' has a type that JSON cannot carry"):

        @tool
        def hook(it: Callback) -> None:
            """Hook."""


def test_two_types_of_one_name_keep_their_own_definitions() -> None:
    @tool(effect="read")
    def both(one: list[Finding], two: list[Elsewhere.Finding], span: Span, place: Located) -> None:
        """Take both."""

    schema = json.loads(bytes(both.input_schema))
    assert schema["properties"]["one"]["items"] == {"$ref": "#/$defs/Finding"}
    assert schema["properties"]["two"]["items"] == {"$ref": "#/$defs/Finding_two"}
    assert schema["$defs"]["Finding_two"]["properties"].keys() == {"other"}
    spans = schema["properties"]["place"]["properties"]["spans"]["items"]
    assert spans == {"$ref": "#/$defs/Span_place"}, "pydantic and msgspec describe one class differently"
    assert {"Span", "Span_place"} <= schema["$defs"].keys()


def test_a_description_beside_the_type_is_kept() -> None:
    @tool(effect="read")
    def look(finding: Annotated[Finding, "The one."]) -> None:
        """Look."""

    assert json.loads(bytes(look.input_schema))["properties"]["finding"]["description"] == "The one."
