import enum
import functools
import math
import pathlib
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict, Union, cast

import msgspec
import pydantic
import pytest

from callboard.actors.protocol.errors import InvalidAgent, InvalidPrompt
from callboard.runtime.sanitize import check_json
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.signature import (
    DictSignature,
    context_parameter,
    return_hint,
    typed_signature,
)


class Point(msgspec.Struct):
    """A place."""

    x: int
    y: int = 0


class Tree(msgspec.Struct):
    children: list["Tree"]


class Options(TypedDict):
    deep: bool


class Colour(enum.Enum):
    RED = "red"


def schema(function: Callable[..., object]) -> dict[str, Any]:
    return typed_signature(function, "t").schema


def refusal(function: Callable[..., object]) -> str:
    with pytest.raises(InvalidAgent) as caught:
        typed_signature(function, "t")
    return str(caught.value)


def test_the_schema_has_types_defaults_and_what_is_required() -> None:
    def f(a: int, b: str = "x", *, c: list[float] | None = None, d: Literal[1, 2] = 1) -> None: ...

    assert schema(f) == {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "string", "default": "x"},
            "c": {
                "anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}],
                "default": None,
            },
            "d": {"enum": [1, 2], "default": 1},
        },
        "required": ["a"],
        "additionalProperties": False,
    }


def test_descriptions_come_from_annotations_first_and_the_docstring_second() -> None:
    def f(
        a: Annotated[int, msgspec.Meta(ge=0, description="from Meta")],
        b: Annotated[int, "from text"],
        c: int,
        d: int,
    ) -> None:
        """F.

        Args:
            a: not this
            b: not this
            c: from the docstring
        """

    properties = schema(f)["properties"]
    assert properties["a"] == {"type": "integer", "minimum": 0, "description": "from Meta"}
    assert [properties[name].get("description") for name in "bcd"] == [
        "from text",
        "from the docstring",
        None,
    ]


def test_structs_dicts_and_recursive_types_are_referred_to() -> None:
    def f(at: Point, tree: Tree, options: Options, colour: Colour = Colour.RED) -> None: ...

    found = schema(f)
    assert found["properties"]["at"] == {"$ref": "#/$defs/Point"}
    assert set(found["$defs"]) == {"Point", "Tree", "Options", "Colour"}
    assert found["$defs"]["Tree"]["properties"]["children"] == {
        "type": "array",
        "items": {"$ref": "#/$defs/Tree"},
    }


def test_any_and_object_take_everything() -> None:
    def f(a: Any, b: object, c: dict[str, object]) -> object:
        return b

    assert "object" in schema(f)["properties"]["b"]["type"]
    assert schema(f)["properties"]["a"] == {}
    call = typed_signature(f, "t").bind(f, check_json('{"a": 1, "b": [{}], "c": {"d": null}}'), ToolContext())
    assert call() == [{}]


def test_the_context_is_found_however_it_is_written_and_hidden_from_the_schema() -> None:
    def plain(a: int, ctx: ToolContext) -> None: ...
    def optional(a: int, context: ToolContext | None = None) -> None: ...
    def annotated(a: int, c: Annotated[ToolContext, "x"]) -> None: ...
    def late(a: int, late: "ToolContext") -> None: ...
    def unresolved(a: "NotThere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # the subject of this test

    for function, name in ((plain, "ctx"), (optional, "context"), (annotated, "c"), (late, "late")):
        assert list(schema(function)["properties"]) == ["a"]
        assert context_parameter(function) == name
    assert context_parameter(print) == ""
    assert context_parameter(unresolved) == ""


def test_defaults_that_json_cannot_show_are_kept_for_the_call() -> None:
    sentinel: Any = object()

    def f(a: float = math.inf, b: Any = sentinel, c: list[int] = [7], d: bool = True) -> object:  # noqa: B006  # mutable defaults are the subject of this test
        return a, b, c, d

    assert [part.get("default", "-") for part in schema(f)["properties"].values()] == ["-", "-", "-", True]
    assert typed_signature(f, "t").bind(f, check_json("{}"), ToolContext())() == (
        math.inf,
        sentinel,
        [7],
        True,
    )


def test_a_default_that_the_type_forbids_is_used_when_nothing_is_sent() -> None:
    def f(a: Annotated[int, msgspec.Meta(ge=1)] = 0) -> int:
        return a

    assert "default" not in schema(f)["properties"]["a"]
    assert typed_signature(f, "t").bind(f, check_json("{}"), ToolContext())() == 0


def test_what_a_function_returns_does_not_matter() -> None:
    def f(a: int) -> "NotThere":  # type: ignore[name-defined]  # noqa: F821  # the subject of this test
        ...

    assert list(schema(f)["properties"]) == ["a"]


def test_bound_methods_partials_wrapped_and_callable_objects_have_signatures() -> None:
    class Thing:
        def method(self, a: int) -> None: ...

        def __call__(self, a: int) -> None: ...

    def two(a: int, b: str) -> None: ...

    @functools.wraps(two)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    assert list(schema(Thing().method)["properties"]) == ["a"]
    assert list(schema(Thing())["properties"]) == ["a"]
    assert list(schema(wrapped)["properties"]) == ["a", "b"]
    assert schema(functools.partial(two, b="x"))["required"] == ["a"]


def test_signatures_that_cannot_work_say_what_to_change() -> None:
    def star(*args: int) -> None: ...
    def stars(**kwargs: int) -> None: ...
    def positional(a: int, /) -> None: ...
    def bare(a) -> None: ...  # type: ignore[no-untyped-def]  # the subject of this test
    def method(self, a: int) -> None: ...  # type: ignore[no-untyped-def]  # the subject of this test
    def path(a: pathlib.Path) -> None: ...
    def nested(a: list[complex]) -> None: ...
    def function(a: Callable[[int], int]) -> None: ...
    def none(a: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013  # the subject of this test
    def unknown(a: "NotThere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # the subject of this test
    def twice(a: ToolContext, b: ToolContext) -> None: ...
    def mixed(a: Point | Options) -> None: ...
    def second(a: int, place: dict[str, pathlib.Path]) -> None: ...

    assert "'*args: int' cannot be filled" in refusal(star)
    assert "'**kwargs: int' cannot be filled" in refusal(stars)
    assert "name every parameter" in refusal(positional)
    assert "'a' has no annotation; write its type" in refusal(bare)
    assert "apply tool() to the bound method" in refusal(method)
    for unsuitable in (path, nested, function, mixed):
        assert "use text, numbers" in refusal(unsuitable)
    assert "parameter 'place' has a type" in refusal(second)
    assert f"{pathlib.Path!r} has no form in JSON" in refusal(second)
    assert "add | None" in refusal(none)
    assert "cannot be resolved" in refusal(unknown)
    assert "both want the ToolContext" in refusal(twice)
    assert "signature cannot be read" in refusal(min)


# --- what a model is told, and what a function gets -----------------------------------------


class Deps:
    """An object of the runtime."""


def test_only_texts_of_annotations_are_descriptions_and_plain_defaults_are_shown() -> None:
    def f(*, kind: Literal["a", "b"] = "a", share: float = 1.5, where: "Point", all_: object) -> None: ...

    found = schema(f)
    assert found["properties"]["kind"] == {"enum": ["a", "b"], "default": "a"}
    assert found["properties"]["share"] == {"type": "number", "default": 1.5}
    assert found["properties"]["where"] == {"$ref": "#/$defs/Point"}
    kinds = ["object", "array", "string", "number", "boolean", "null"]
    assert found["properties"]["all_"]["type"] == kinds
    assert found["required"] == ["where", "all_"]


def test_a_context_with_its_deps_or_in_an_old_union_is_one_too() -> None:
    def typed(ctx: ToolContext[Deps]) -> None: ...
    def old(ctx: Union[ToolContext, None] = None) -> None: ...  # noqa: UP007  # the subject of this test

    def noted(ctx: Annotated[ToolContext | None, "a note"] = None) -> None: ...

    for function in (typed, old, noted):
        assert schema(function)["properties"] == {}
        assert context_parameter(function) == "ctx"


def test_a_pydantic_model_is_described_and_built() -> None:
    class Place(pydantic.BaseModel):
        name: str

    def f(at: Place) -> object:
        return at

    signature = typed_signature(f, "t")
    assert "Place" in str(signature.schema)
    assert "name" in str(signature.schema)
    call = signature.bind(f, check_json('{"at": {"name": "Oslo"}}'), ToolContext())
    assert call() == Place(name="Oslo")


def test_class_methods_and_what_is_no_function_are_refused() -> None:
    def method(cls, a: int) -> None: ...  # type: ignore[no-untyped-def]  # the subject of this test

    assert "apply tool() to the bound method" in refusal(method)
    assert "signature cannot be read" in refusal(cast("Any", 5))


def test_the_type_of_results_is_found_through_partials_wrappers_and_objects() -> None:
    def two(a: int, b: str) -> Point:
        return Point(a)

    class Thing:
        def __call__(self, a: int) -> Point:
            return Point(a)

    @functools.wraps(two)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        return 5

    def none(a: int): ...  # type: ignore[no-untyped-def]  # the subject of this test
    def unknown(a: int) -> "NotThere": ...  # type: ignore[name-defined]  # noqa: F821  # the subject of this test

    for function in (two, functools.partial(two, b="x"), Thing(), wrapped):
        assert return_hint(function) is Point
    assert return_hint(none) is object
    assert return_hint(unknown) is object


def corrected(schema: dict[str, object], arguments: str) -> str:
    """Return the correction of wrong arguments of a ready schema."""
    with pytest.raises(InvalidPrompt) as caught:
        DictSignature("t", schema, "").bind(lambda values: values, check_json(arguments), ToolContext())
    return str(caught.value)


def test_unknown_arguments_are_refused_only_where_the_schema_is_closed() -> None:
    known: dict[str, object] = {"properties": {"a": {"type": "string"}}}
    shut = {**known, "additionalProperties": False}
    assert "Unknown argument `b`" in corrected(shut, '{"b": 1}')
    open_: tuple[dict[str, object], ...] = (
        known,
        {**shut, "patternProperties": {"^b": {}}},
        {"additionalProperties": False},
    )
    for schema in open_:
        call = DictSignature("t", schema, "").bind(
            lambda values: values, check_json('{"b": 1}'), ToolContext()
        )
        assert call() == {"b": 1}


def test_a_correction_lists_so_many_choices_and_no_more() -> None:
    many = [f"c{n}" for n in range(30)]
    options = [{"type": f"t{n}"} for n in range(9)]
    told = corrected(
        {"properties": {"a": {"enum": many}, "b": {"anyOf": options}}, "required": ["a"]}, '{"b": 1}'
    )
    assert "'c19'" in told
    assert "'c20'" not in told
    assert "t5" in told
    assert "t6" not in told
    long = corrected({"properties": {"x" * 1_200: {}}, "required": ["a"]}, "{}")
    assert len(long[long.index("It takes") : long.index(" Correct them")]) == 1_000
