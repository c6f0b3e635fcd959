"""Output types: names, schemas, and the refusal of types that have none."""

import json
import subprocess
import sys
from typing import Annotated, Any, Literal

import msgspec
import pytest

from callboard.actors.protocol.errors import InvalidSchema, MissingType
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.output_types import NO_TYPE, MsgspecForm, OutputType, name_of, output_type
from tests.runtime import reports
from tests.runtime.reports import Boxed, Counted, Finding, Located, Page, Pair, Row, Span, Tree
from tests.tables import table

HERE = "tests.runtime.reports"


def schema_of(kind: object) -> dict[str, Any]:
    found = json.loads(bytes(output_type(kind).schema))
    assert isinstance(found, dict)
    return found


@table(
    ("kind", "name"),
    [
        (Finding, f"{HERE}.Finding"),
        (Page[Finding], f"{HERE}.Page[{HERE}.Finding]"),
        (Page[int], f"{HERE}.Page[int]"),
        (Boxed[int], f"{HERE}.Boxed[int]"),
        (list[Span], f"list[{HERE}.Span]"),
        (dict[str, Row], f"dict[str, {HERE}.Row]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Counted | None, f"{HERE}.Counted | None"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Annotated[int, msgspec.Meta(ge=1)], "int"),
        (int, "int"),
        (None, "None"),
    ],
)
def test_a_type_is_named_by_its_module_and_qualified_name(kind: object, name: str) -> None:
    assert name_of(kind) == name


def test_a_dict_is_its_own_schema_and_none_is_no_schema() -> None:
    assert output_type({"type": "integer"}) == OutputType(Json(b'{"type":"integer"}'))
    assert output_type(None) is NO_TYPE
    assert NO_TYPE.schema == NULL


def test_a_type_may_be_any_that_pydantic_or_msgspec_describes() -> None:
    assert schema_of(Finding)["properties"]["filePath"] == {"title": "Filepath", "type": "string"}
    assert schema_of(Span)["required"] == ["first", "last"]
    assert schema_of(Counted)["properties"]["files"] == {"type": "integer", "minimum": 0}
    assert schema_of(Row)["required"] == ["name"]
    assert schema_of(Pair)["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert schema_of(list[int]) == {"type": "array", "items": {"type": "integer"}}
    assert schema_of(Literal["a", "b"]) == {"enum": ["a", "b"]}
    assert schema_of(int | None) == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert schema_of(Annotated[int, msgspec.Meta(ge=1)]) == {"type": "integer", "minimum": 1}
    assert schema_of(Annotated[list[int], []]) == {"type": "array", "items": {"type": "integer"}}
    assert list(schema_of(Located)["$defs"]) == ["Finding", "Span"]


@pytest.mark.parametrize("kind", [Tree, Counted])
def test_a_type_that_contains_itself_keeps_its_definition_beside_an_object_at_the_top(kind: type) -> None:
    schema = schema_of(kind)
    assert schema["type"] == "object"
    assert "$ref" not in schema
    assert schema["$defs"][kind.__name__]["properties"] == schema["properties"]


def test_a_definition_that_only_the_top_needed_is_gone() -> None:
    assert "$defs" not in schema_of(Span)
    assert schema_of(list[Span])["$defs"].keys() == {"Span"}


@table(
    ("kind", "why"),
    [
        (reports.Plain, "tests.runtime.reports.Plain"),
        (complex, "complex"),
        (reports.Callback, "Callable"),
        (reports.Unknown, "not fully defined"),
        (list[reports.Plain], "Plain"),
        ("Finding", "'Finding'"),
        (5, "5"),
        ([int], "int"),
        (Span(1, 2), "Span"),
        (print, "print"),
    ],
)
def test_a_type_without_a_schema_is_refused_with_what_to_pass_instead(kind: object, why: str) -> None:
    with pytest.raises(InvalidSchema, match=r"no JSON schema describes it \(.*pass a JSON schema") as caught:
        output_type(kind)
    assert why in str(caught.value)
    assert "https://" not in str(caught.value)


@pytest.mark.parametrize("wrap", [None, list, Page])
def test_a_type_that_only_a_function_can_name_is_refused(wrap: Any) -> None:
    with pytest.raises(InvalidSchema, match=r"<locals>.*at the top of a module"):
        output_type(wrap[reports.local_type()] if wrap else reports.local_type())


def test_a_dict_that_is_no_json_is_refused() -> None:
    with pytest.raises(InvalidSchema, match=r"The output schema at `\$.minimum` is nan"):
        output_type({"minimum": float("nan")})


def test_a_type_is_described_once() -> None:
    assert output_type(Finding) is output_type(Finding)
    assert output_type(output_type(Finding)) is output_type(Finding)


def test_a_report_becomes_a_value_of_its_type_and_without_one_plain_values() -> None:
    assert output_type(Span).build(Json(b'{"first":1,"last":2}')) == Span(1, 2)
    assert output_type({"type": "object"}).build(Json(b'{"a":[1]}')) == {"a": [1]}


def test_a_report_that_no_longer_fits_its_type_is_an_error_that_names_the_type() -> None:
    with pytest.raises(MissingType, match=r"does not fit tests\.runtime\.reports\.Span .*`last`") as caught:
        output_type(Span).build(Json(b'{"first":1}'))
    assert caught.value.names == (f"{HERE}.Span",)


@pytest.mark.slow
def test_pydantic_is_imported_only_for_types_of_pydantic() -> None:
    script = (
        "import sys, callboard.runtime.runtime\n"
        "from callboard.runtime.schemas.output_types import output_type\n"
        "output_type(list[int]); assert 'pydantic' not in sys.modules, 'for a list'\n"
        "import dataclasses\n"
        "Span = dataclasses.make_dataclass('Span', [('a', int)]); output_type(Span)\n"
        "assert 'pydantic' not in sys.modules, 'for a dataclass'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@table(
    ("kind", "report", "problem"),
    [
        (Span, b'{"first":2,"last":1}', ("", "last is before first")),
        (list[Span], b'[{"first":1,"last":2},{"first":2,"last":1}]', ("/1", "last is before first")),
        (dict[str, Span], b'{"a":{"first":2,"last":1}}', ("/...", "last is before first")),
        (Boxed[Span], b'{"inner":{"first":2,"last":1}}', ("/inner", "last is before first")),
        (Counted, b'{"files":1,"next":{"files":-1}}', ("/next/files", "Expected `int` >= 0")),
        (Annotated[int, msgspec.Meta(multiple_of=2)], b"3", ("", "Expected `int` that's a multiple of 2")),
    ],
)
def test_a_refusal_has_the_words_of_msgspec_or_of_the_type_and_the_place(
    kind: Any, report: bytes, problem: tuple[str, str]
) -> None:
    assert MsgspecForm(kind).problems(report) == (SchemaProblem(*problem),)


class Documented(msgspec.Struct):
    """A part.

    size: in bytes.
    """

    size: Annotated[int, msgspec.Meta(description="  as it is\n    given")]


def test_a_description_has_no_indentation_of_its_docstring() -> None:
    for kind in (Documented, list[Documented]):
        schema = MsgspecForm(kind).schema()
        part = schema["$defs"]["Documented"]  # type: ignore[index]  # msgspec writes it
        assert part["description"] == "A part.\n\nsize: in bytes."
        assert part["properties"]["size"]["description"] == "  as it is\n    given"


def test_a_report_that_fits_has_no_problem_and_becomes_a_value() -> None:
    form = MsgspecForm(Counted)
    assert form.problems(b'{"files":1,"next":{"files":0}}') == ()
    assert form.build(b'{"files":1,"next":{"files":0}}') == Counted(1, Counted(0))
    assert MsgspecForm(Pair).build(b'[1,"a"]') == Pair(1, "a")
    assert MsgspecForm(Row).build(b'{"name":"a"}') == {"name": "a"}
