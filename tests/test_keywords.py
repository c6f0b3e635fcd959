"""Unknown keyword arguments of public calls."""

import asyncio
import inspect
from typing import Any
from unittest.mock import create_autospec

import pytest

from callboard import (
    Agent,
    Budget,
    Capacity,
    Limits,
    Runtime,
    ScriptedModel,
    Session,
    ToolContext,
    program,
    tool,
)
from callboard.keywords import checked, known_names
from callboard.models import Prices
from callboard.permissions import Allowed
from callboard.testing import explore


@pytest.mark.parametrize(
    ("call", "arguments", "wrong", "said"),
    [
        (Agent, ("a",), "instruction", "Agent() has no argument 'instruction'; did you mean 'instructions'?"),
        (Runtime, (), "modle", "Runtime() has no argument 'modle'; did you mean 'model'?"),
        (tool, (), "efect", "tool() has no argument 'efect'; did you mean 'effect'?"),
        (program, (), "modell", "program() has no argument 'modell'; did you mean 'model'"),
        (explore, (Agent("a"),), "run", "explore() has no argument 'run'; did you mean 'runs'?"),
        (ToolContext, (), "adress", "ToolContext() has no argument 'adress'; did you mean 'address'?"),
        (Limits, (), "token", "Limits() has no argument 'token'; did you mean 'tokens'?"),
        (Capacity, (), "call", "Capacity() has no argument 'call'; did you mean 'calls'?"),
        (Prices, (1, 2), "tier", "Prices() has no argument 'tier'; did you mean 'tiers'?"),
        (Budget, (), "token", "Budget() has no argument 'token'; did you mean 'tokens'?"),
        (Allowed, (), "tool", "Allowed() has no argument 'tool'; did you mean 'tools'?"),
        (ScriptedModel, ([],), "zzz", "ScriptedModel() has no argument 'zzz'; there are: script, name,"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_nearest_name(
    call: Any, arguments: tuple[object, ...], wrong: str, said: str
) -> None:
    with pytest.raises(TypeError) as error:
        call(*arguments, **{wrong: None})
    assert str(error.value).startswith(said)


def test_methods_and_those_of_base_classes_have_it_and_so_have_options_of_a_typed_dict() -> None:
    async def work() -> None:
        async with Runtime(":memory:", model=ScriptedModel(["a"])) as runtime:
            with pytest.raises(TypeError, match=r"run\(\) has no argument 'dep'; did you mean 'deps'"):
                await runtime.run(Agent("a"), "go", dep=3)  # type: ignore[call-overload]  # what is refused
            session = await runtime.open(Agent("a"))
            with pytest.raises(TypeError, match=r"Session.ask\(\) has no argument 'request'"):
                await session.ask("go", request="r")  # type: ignore[call-overload]  # what is refused
            assert (await session.ask("go", request_id="r")).text == "a"

    asyncio.run(work())


def test_signatures_and_kinds_of_functions_stay_as_they_are() -> None:
    assert list(inspect.signature(Agent).parameters)[:3] == ["name", "description", "instructions"]
    assert list(inspect.signature(Session.ask).parameters)[:3] == ["self", "prompt", "output_schema"]
    assert asyncio.iscoroutinefunction(Session.ask)
    assert asyncio.iscoroutinefunction(create_autospec(Session).ask)
    assert not asyncio.iscoroutinefunction(Session.events)


def test_a_function_that_takes_any_keyword_is_left_alone() -> None:
    def any_keyword(a: int, **more: object) -> None: ...
    def by_place(a: int, /) -> None: ...

    assert known_names(any_keyword) == {}  # type: ignore[arg-type]  # mypy knows it as a Callable
    assert checked(any_keyword) is any_keyword
    assert checked(by_place) is by_place
    assert checked(3) == 3
