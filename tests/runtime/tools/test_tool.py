import asyncio
import functools
import inspect
import math
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, assert_type

import msgspec
import pytest

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.profiles import CacheRules, ToolSpec
from callboard.runtime.outputs.tool_output import OutputRules
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import FunctionTool, Tool, is_async, tool
from tests.runtime.reports import Plain
from tests.tables import table

EMPTY: dict[str, object] = {"type": "object"}


@tool
def add(a: int, b: int = 1) -> int:
    """Add two
    numbers.

    The second paragraph is for people.

    Args:
        a: The one.
    """
    return a + b


@tool(name="fetch-it", description="Fetch.", effect="read", timeout_s=3, extra={"strict": True})
async def fetch(url: str) -> str:
    return url


def nothing(arguments: dict[str, object]) -> None: ...


def nothing_typed() -> None: ...


def test_a_decorated_function_is_a_tool_and_still_the_function() -> None:
    assert isinstance(add, Tool)
    assert_type(add(1), int)
    assert add(1) == 2
    assert add(1, b=4) == 5
    assert asyncio.run(fetch("x")) == "x"
    assert (inspect.unwrap(add), add.__doc__) == (add.function, add.function.__doc__)
    assert inspect.signature(add) == inspect.signature(add.function)


def test_the_spec_is_what_the_model_is_told() -> None:
    assert (add.name, add.description, add.effect, add.timeout_s, add.is_async) == (
        "add",
        "Add two numbers.",
        "write",
        None,
        False,
    )
    assert msgspec.json.decode(add.input_schema)["properties"]["a"]["description"] == "The one."
    spec = fetch.spec()
    assert spec == ToolSpec("fetch-it", "Fetch.", fetch.input_schema, "read", spec.extra)
    assert bytes(spec.extra) == b'{"strict":true}'
    assert (fetch.timeout_s, fetch.is_async) == (3, True)
    assert add.spec().extra is NULL
    assert repr(fetch) == "Tool('fetch-it', effect='read')"


def test_a_ready_schema_keeps_its_bytes_and_key_order() -> None:
    text = b'{"required": ["b"], "type": "object", "properties": {"b": {}, "a": {}}}'
    made = Tool("raw", "Raw.", Json(text), nothing, "idempotent", extra=Json(b'{"z": 1, "a": 2}'))
    assert bytes(made.input_schema) == text
    assert bytes(made.spec().extra) == b'{"z": 1, "a": 2}'
    assert made.effect == "idempotent"


def test_callable_objects_and_partials_can_be_tools() -> None:
    class Adder:
        """Adds."""

        async def __call__(self, a: int) -> int:
            return a

    async def scale(a: int, by: int) -> int:
        """Scale."""
        return a * by

    assert tool(name="adder")(Adder()).is_async
    made = tool(name="double")(functools.partial(scale, by=2))
    assert made.is_async
    assert made.description == "Scale."


@table("name", ["", "a b", "a.b", "é", "x" * 65, "a\n", "<lambda>"])
def test_names_that_models_cannot_call_are_refused(name: str) -> None:
    with pytest.raises(InvalidAgent, match="1 to 64 letters"):
        Tool(name, "", EMPTY, nothing)


@pytest.mark.parametrize("name", ["task", "report_back"])
def test_the_names_of_the_runtimes_own_tools_are_refused(name: str) -> None:
    with pytest.raises(InvalidAgent, match="rename it"):
        Tool(name, "", EMPTY, nothing)


def test_a_lambda_has_no_name_for_a_model() -> None:
    with pytest.raises(InvalidAgent, match="name="):
        tool(lambda: 1)
    assert tool(name="one")(lambda: 1)() == 1


def test_functions_that_give_no_single_result_are_refused() -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def generator_too() -> AsyncIterator[int]:
        yield 1

    for function in (generator, generator_too):
        with pytest.raises(InvalidAgent, match="return a list instead of yielding"):
            tool(function)
    nonsense: list[Any] = [int, add, 3]
    for no_function in nonsense:
        with pytest.raises(InvalidAgent, match="not a function"):
            Tool("x", "", EMPTY, no_function)


@table(
    ("arguments", "advice"),
    [
        ({"effect": "delete"}, "effect is read, idempotent or write"),
        ({"timeout_s": 0}, "positive number"),
        ({"timeout_s": float("inf")}, "positive number"),
        ({"timeout_s": float("nan")}, "positive number"),
        ({"description": None}, "description is text"),
        ({"extra": {"name": "x"}}, "extra may not hold name"),
        ({"extra": [1]}, "extra is not a JSON object"),
        ({"input_schema": {"type": "string"}}, 'needs "type": "object"'),
        ({"input_schema": True}, "not a JSON object"),
        ({"input_schema": Json(b"true")}, "give a dict"),
        ({"input_schema": Json(b'{"type": "object", "type": 1}')}, "twice"),
        ({"input_schema": {"type": "object", "x": {1, 2}}}, r"\$.x"),
        ({"input_schema": Json(b"{")}, "tool x: input_schema is not a JSON object"),
        ({"extra": {"effect": 1, "name": "x"}}, "extra may not hold name"),
        ({"capabilities": 7}, "tool x: capabilities is a tuple of names, not 7"),
        ({"capabilities": ("files/*",)}, r"tool x: capabilities are single names, not \('files/\*',\)"),
        ({"labels": ("a\nb",)}, "tool x: labels is a tuple of names"),
        ({"cache_over_writes": True}, "tool x: cache_over_writes=True needs cache=True, or seconds"),
        ({"cache": True}, "tool x: only results of read tools are cached"),
        ({"cache": True, "effect": "idempotent"}, "only results of read tools are cached"),
        *(
            (
                {"cache": cache, "effect": "read"},
                f"tool x: cache is True, or a positive number of seconds, not {cache!r}",
            )
            for cache in (0, 0.0, -1, math.inf, math.nan, "1")
        ),
    ],
)
def test_arguments_that_cannot_work_are_refused_when_the_tool_is_made(
    arguments: dict[str, object], advice: str
) -> None:
    with pytest.raises(InvalidAgent, match=advice):
        Tool(**{"name": "x", "description": "", "input_schema": EMPTY, "function": nothing, **arguments})  # type: ignore[arg-type]  # a wrong value on purpose


@table(
    ("cache", "over_writes", "rules"),
    [
        (False, False, None),
        (True, False, CacheRules(0, False)),
        (True, True, CacheRules(0, True)),
        (1, False, CacheRules(1_000, False)),
        (0.5, True, CacheRules(500, True)),
        (0.0001, False, CacheRules(1, False)),
        (90.2504, False, CacheRules(90_250, False)),
    ],
)
def test_the_time_of_a_cached_result_is_in_whole_milliseconds_and_at_least_one(
    cache: bool | float, over_writes: bool, rules: CacheRules | None
) -> None:
    made = Tool("x", "", EMPTY, nothing, "read", cache=cache, cache_over_writes=over_writes)
    assert made.spec().cache == rules


def test_the_spec_has_names_in_one_order_each_once_and_times_in_milliseconds() -> None:
    made = tool(
        capabilities=["b", "a", "b"],
        labels=["web"],
        untrusted=True,
        version="7",
        approval="before",
        approval_timeout_s=1.5,
        description="Go.",
    )(nothing_typed)
    expected = ToolSpec(
        "nothing_typed",
        "Go.",
        made.input_schema,
        "write",
        approval="before",
        approval_timeout_ms=1_500,
        capabilities=("a", "b"),
        labels=("untrusted", "web"),
        version="7",
    )
    assert made.spec() == expected
    assert Tool("x", "", EMPTY, nothing, capabilities="files").spec().capabilities == ("files",)
    assert Tool("x", "", EMPTY, nothing, output=(rules := OutputRules("concise"))).output is rules
    assert inspect.unwrap(made) is nothing_typed


def test_partials_and_objects_of_async_functions_are_async() -> None:
    class Fetches:
        async def __call__(self) -> None: ...

    assert all(is_async(one) for one in (fetch.function, functools.partial(fetch.function), Fetches()))
    assert not any(is_async(one) for one in (nothing, functools.partial(nothing), Town("Ulm").__repr__))


def test_attributes_of_the_function_do_not_become_the_tools() -> None:
    def f(a: int) -> None: ...

    f.effect = "read"  # type: ignore[attr-defined]  # the subject of this test
    assert isinstance(made := tool(f), FunctionTool)
    assert made.effect == "write"


def test_a_tool_without_a_description_warns_at_the_line_that_makes_it() -> None:
    with pytest.warns(UserWarning, match="tool silent has no description") as caught:

        @tool(effect="read")
        def silent() -> str:
            return ""

    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("error")
def test_an_empty_description_on_purpose_warns_of_nothing() -> None:
    @tool(description="")
    def silent() -> str:
        return ""

    assert silent.description == ""


@dataclass
class Town:
    name: str


def test_a_context_with_the_type_of_its_deps_is_filled_like_any() -> None:
    @tool(effect="read")
    def look(ctx: ToolContext[Town], street: str = "") -> str:
        """Look at a town."""
        return ctx.deps.name + street

    assert "ctx" not in bytes(look.input_schema).decode()
    bound = look.bind(Json(b'{"street":" Mill Lane"}'), ToolContext(deps=Town("Ulm")))
    assert bound() == "Ulm Mill Lane"
    assert ToolContext().deps is None


def test_a_decorated_function_with_a_result_or_an_output_that_cannot_work_is_refused() -> None:
    def made() -> object:
        return object()

    made.__annotations__["return"] = Plain
    with pytest.raises(InvalidAgent, match=r"tool made: its result, .* cannot become JSON"):
        tool(effect="read")(made)
    wrong: Any = "xyz"
    with pytest.raises(InvalidAgent, match=r"tool look: output: .*; or give OutputRules"):
        tool(effect="read", name="look", output=wrong)(lambda: "")


# --- every option, and every refusal ----------------------------------------------------------


def described_by(**options: Any) -> FunctionTool[..., Any]:
    @tool(effect="read", **options)
    def look(at: str) -> str:
        """Look."""
        return at

    return look


def test_every_option_of_the_decorator_is_one_of_the_tool() -> None:
    made = described_by(
        timeout_s=2.5, approval="before", approval_timeout_s=7, capabilities=["network"], labels=["mail"],
        untrusted=True, version="3", cache=5, cache_over_writes=True, extra={"strict": True},
    )  # fmt: skip
    spec = made.spec()
    assert (made.name, made.timeout_s, made.effect) == ("look", 2.5, "read")
    assert (spec.approval, spec.approval_timeout_ms, spec.version) == ("before", 7_000, "3")
    assert (spec.capabilities, spec.labels) == (("network",), ("mail", "untrusted"))
    assert (spec.cache, spec.extra) == (CacheRules(5_000, True), Json(b'{"strict":true}'))
    plain = described_by(cache=None, extra=NULL)
    assert (plain.spec().cache, plain.spec().extra, plain.timeout_s) == (None, NULL, None)


def test_a_tool_takes_the_context_if_its_function_or_its_output_does() -> None:
    def plain(arguments: dict[str, object]) -> str:
        return "plain"

    def with_context(arguments: dict[str, object], ctx: ToolContext) -> str:
        return ctx.address

    assert not Tool("plain", "", EMPTY, plain).takes_context
    ready = Tool("ready", "", EMPTY, with_context)
    assert ready.takes_context
    assert ready.bind(Json(b"{}"), ToolContext(address="host.1"))() == "host.1"
    rich = Tool("rich", "", EMPTY, plain, output="raw")
    assert rich.takes_context
    found = rich.bind(Json(b"{}"), ToolContext())()
    assert found != "plain", "it is measured and rendered"


@table(
    ("options", "words"),
    [
        ({"approval": "sometimes"}, "approval is"),
        ({"approval_timeout_s": 0}, "approval_timeout_s is a positive"),
        ({"extra": {"description": "d"}}, "extra may not hold description"),
        ({"extra": {"input_schema": {}}}, "extra may not hold input_schema"),
        ({"extra": 7}, "extra is not a JSON object"),
        ({"extra": {"a": object()}}, "extra is not a JSON object"),
        ({"extra": Json(b"[]")}, "extra is not a JSON object"),
        ({"name": "x" * 65}, "cannot be named"),
    ],
)
def test_an_option_that_cannot_work_is_refused_by_its_name(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidAgent, match=words):
        described_by(**options)


def test_a_name_is_text_and_a_partial_of_an_async_object_is_async() -> None:
    wrong: Any = 7
    with pytest.raises(InvalidAgent, match="cannot be named 7"):
        Tool(wrong, "", EMPTY, lambda given: given)

    class Thing:
        async def __call__(self, a: int, b: int) -> int:
            return a + b

    assert is_async(functools.partial(Thing(), b=1))
