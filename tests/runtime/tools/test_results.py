"""Result types of tools: refused when the tool is made if they cannot become JSON."""

import asyncio
import collections
import datetime
import enum
import pathlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, Protocol, TypeVar
from uuid import UUID

import msgspec
import pytest

from callboard import Agent, Blocks, Runtime, ScriptedModel, call, say, tool
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.errors import InvalidAgent
from callboard.runtime.tools.results import refuse_result
from tests.runtime.reports import Boxed, Counted, Finding, Located, Page, Pair, Plain, Row, Span
from tests.tables import table

T = TypeVar("T")
Name = NewType("Name", str)


class Color(enum.Enum):
    RED = "red"


class Open(Protocol):
    def go(self) -> None: ...


class Base(ABC):
    @abstractmethod
    def go(self) -> None: ...


class Holder(msgspec.Struct):
    inner: list[bytes]


class Kept(msgspec.Struct):
    inner: list[Plain]


class Knot(msgspec.Struct):
    next: "Knot | None"
    tags: set[str]


def returning(hint: object) -> Callable[..., object]:
    def function() -> object:
        """Return something."""

    function.__annotations__["return"] = hint
    return function


@table(
    "hint",
    [
        None, str, int, float, bool, object, Any, T, Name, Color, Blocks, Json, UUID, datetime.date,
        list[int], tuple[int, ...], Sequence[str], Iterable[int], dict, dict[str, Any], Mapping[str, Span],
        dict[Literal["a"], int], collections.OrderedDict[str, int], int | None, Finding | None,
        Literal["a", "b"], Annotated[int, msgspec.Meta(ge=1)], Span, Counted, Row, Pair, Finding, Page[int],
        Located, Boxed[int], Open, Base, list[Finding], "int", "Nowhere",
        bytes, str | bytes, list[bytes], set[str], frozenset, dict[str, set[int]], dict[int, str],
        Mapping[UUID, str], complex, pathlib.Path, Holder, Knot, collections.deque[int], range,
    ],
)  # fmt: skip
def test_a_result_that_can_become_json_or_says_nothing_is_taken(hint: object) -> None:
    assert tool(returning(hint)).name


@table(
    ("hint", "why"),
    [
        (Iterator[str], "return a list"),
        (AsyncIterator[str], "return a list"),
        (Awaitable[str], "async def"),
        (Plain, "Plain is not JSON"),
        (Annotated[Plain, "x"], "Plain is not JSON"),
        (list[Plain | None], "Plain is not JSON"),
        (dict[int, Plain], "Plain is not JSON"),
        (Kept, "Plain is not JSON"),
        (Boxed[Kept] | Kept, "Plain is not JSON"),
        (type[int], "type is not JSON"),
    ],
)
def test_a_result_that_cannot_is_refused_with_what_to_return_instead(hint: object, why: str) -> None:
    with pytest.raises(InvalidAgent, match=r"tool act: its result, .*, cannot become JSON: ") as caught:
        refuse_result(returning(hint), "act")
    assert why in str(caught.value)


def test_the_decorator_refuses_sync_and_async_tools_and_partly_annotated_ones_not() -> None:
    with pytest.raises(InvalidAgent, match=r"tool fetch: its result, tests\.runtime\.reports\.Plain"):

        @tool
        async def fetch() -> Plain:
            """Fetch."""
            return Plain()

    with pytest.raises(InvalidAgent, match="tool names: its result, list"):

        @tool(effect="read")
        def names() -> list[Plain]:
            """List names."""
            return []

    @tool(effect="read")
    def free():  # type: ignore[no-untyped-def]  # a tool without annotations is the subject
        """Return anything."""
        return b""

    assert free.name == "free"


def test_a_result_of_an_unknown_type_is_taken_with_a_note_once_the_tool_has_run() -> None:
    @tool(effect="read")
    def look() -> Any:
        """Look."""
        return {"seen": {2, 1}, "share": float("nan")}

    returned = results_of(look)
    assert returned.status == "ok"
    assert msgspec.json.decode(returned.output) == (
        '{"seen":[1,2],"share":null}\n[note: numbers that are not finite are null: $.share]'
    )


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_pydantic_model_is_a_result_under_its_aliases(is_listed: bool) -> None:
    found = Finding(filePath="a", lines=3, seen=datetime.date(2026, 1, 2))
    shown = '{"filePath":"a","lines":3,"seen":"2026-01-02","folder":"."}'

    @tool(effect="read")
    def look() -> Finding | list[Finding]:
        """Look."""
        return [found] if is_listed else found

    returned = results_of(look)
    assert returned.status == "ok"
    assert msgspec.json.decode(returned.output) == (f"[{shown}]" if is_listed else shown)


def results_of(made: Any) -> ToolReturned:
    async def run() -> ToolReturned:
        model = ScriptedModel([call(made.name), say("done")])
        async with Runtime(":memory:", model=model) as runtime:
            session = await runtime.open(Agent("host", tools=[made]))
            await session.ask("go")
            await session.close()
            async for event in session.events():
                if isinstance(event.body, ToolReturned):
                    return event.body
        raise AssertionError

    return asyncio.run(run())


def test_a_field_whose_type_cannot_be_resolved_is_taken() -> None:
    class Dangling(msgspec.Struct):
        found: "NoSuchType"  # type: ignore[name-defined]  # noqa: F821  # as with an import for type checkers only

    def look() -> Dangling:
        raise NotImplementedError

    refuse_result(look, "look")
