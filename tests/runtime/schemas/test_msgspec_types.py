"""Types of msgspec: the problem of a refused report, with its place."""

from typing import Annotated, Any

import msgspec
import pytest

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.msgspec_types import MsgspecForm
from tests.runtime.reports import Boxed, Counted, Pair, Row, Span


@pytest.mark.parametrize(
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
