"""Parameters that pydantic reads: their schemas, their validators, and the words of a refusal."""

import json
from typing import Annotated, Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard import ToolContext, tool
from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.errors import InvalidAgent
from callboard.runtime.tools.docstrings import described
from callboard.runtime.tools.tool import Tool
from tests.runtime.reports import Callback, Finding, Located, Page, Sized, Span, Tree
from tests.tables import table

GOOGLE = """Find text
    in files.

    It reads every file.

    Args:
        pattern: What to look for.
        limit (int, optional): The most
            that is given.
        **options: More.

    Returns:
        matches: not a parameter
    """

NUMPY = """Find text.

    Parameters
    ----------
    pattern : str
        What to look for.
    limit
        The most
        that is given.

    Returns
    -------
    list
        Not a parameter.
    """

REST = """Find text.

    :param pattern: What to look for.
    :param int limit: The most
        that is given.
    :returns: a list
    """


def test_google_numpy_and_rest_say_the_same() -> None:
    expected = {"pattern": "What to look for.", "limit": "The most that is given."}
    google = described(GOOGLE)
    assert google.summary == "Find text in files."
    assert google.parameters == {**expected, "options": "More."}
    assert described(NUMPY) == ("Find text.", expected)
    assert described(REST) == ("Find text.", expected)


def test_a_section_ends_where_the_next_begins_or_the_indentation_does() -> None:
    text = "S.\n\nArgs:\n    a: One.\n\n    b: Two.\nRaises:\n    c: no\nArgs:\n    d: Three."
    assert described(text).parameters == {"a": "One.", "b": "Two.", "d": "Three."}


@table(
    ("text", "parameters"),
    [
        # Sections without indentation end at a heading, and at an underlined line, but at no other word.
        ("S.\n\nArgs:\na: One.\nReturns:\nb: no", {"a": "One."}),
        ("S.\n\nParameters\n----------\na\n    One.\nOthers\n------\nb\n    no", {"a": "One."}),
        ("S.\n\nArgs:\n    a: One.\n    Returns:\n    b: Two.", {"a": "One.", "b": "Two."}),
        # An underline stands on the next line, also in a section, and has three dashes.
        ("S.\n\nArgs:\n    a: One.\n    b: Two.\n    ---\n    c: no", {"a": "One."}),
        ("S.\n\nArgs:\n    a: One.\n    b: Two.\n    ---", {"a": "One."}),
        ("S.\n\nParameters\n--\na: One.\n", {"a": "One."}),
        # The text of a field goes on in the lines that are indented, if by one place.
        (":param a: One\n and more\nnot this", {"a": "One and more"}),
        (":param a: One\n\n    not this", {"a": "One"}),
    ],
)
def test_a_section_has_the_lines_up_to_its_end_and_no_others(text: str, parameters: dict[str, str]) -> None:
    assert described(text).parameters == parameters


def test_a_docstring_that_starts_with_its_parameters_has_no_summary() -> None:
    assert described("Args:\n    a: One.") == ("", {"a": "One."})
    assert described(":param a: One.") == ("", {"a": "One."})


def test_no_docstring_says_nothing() -> None:
    assert described(None) == ("", {})
    assert described("") == ("", {})


@given(st.text(st.sampled_from("ab :\n-\t*()Args:Parmets"), max_size=200))
def test_any_docstring_can_be_read(text: str) -> None:
    summary, parameters = described(text)
    assert {*summary} | {char for said in parameters.values() for char in said} <= {*text, " "}


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


@table(
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
