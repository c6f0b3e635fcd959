"""Unknown keyword arguments of public calls."""

import asyncio
import inspect
from collections.abc import Iterator
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
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Message
from callboard.keywords import checked, known_names
from callboard.models import Prices
from callboard.permissions import Allowed
from callboard.testing import explore
from tests.tables import table
from tools.public_names import public_modules


@table(
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


def _public_calls() -> Iterator[tuple[str, Any]]:
    """Yield each function and class of the public modules that can be called, with its name."""
    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) or (isinstance(value, type) and not _is_for_the_runtime(value)):
                yield f"{module.__name__}.{name}", value


def _is_for_the_runtime(cls: type) -> bool:
    """Return whether only the runtime makes values of a class: a check would cost each of its events."""
    return issubclass(cls, Message | Event) or bool(getattr(cls, "_is_protocol", False))


_NOTHING_BY_NAME = ("takes no keyword arguments", "takes no arguments")
_BARE = {
    "callboard.outputs.unified": "its parameters go by place",
    "callboard.outputs.metrics": "any keyword is the name of a metric",
    "callboard.Call": "any keyword is an argument of the tool",
    "callboard.call": "as Call",
    "callboard.brains.HostAnswer": "a dict, which only `as_function` makes",
    "callboard.brains.SessionChatModel": "its fields are those of every chat model of LangChain",
    "callboard.cluster.ray.ray_call": "it has no parameter",
    "callboard.replay.ToolCollector": "it has no parameter",
    "callboard.replay.Tree": "it has no parameter",
    "callboard.testing.SessionMachine": "Hypothesis makes it",
}
"""Public calls without the check, and why."""


@pytest.mark.slow
def test_every_public_call_names_the_arguments_that_there_are() -> None:
    calls = dict(_public_calls())
    said = {name: _answer(call) for name, call in calls.items()}
    bare = {
        name
        for name, text in said.items()
        if f"{_own_name(calls[name])}() has no argument 'no_such_argument'" not in text
        and not text.endswith(_NOTHING_BY_NAME)
    }
    assert bare == set(_BARE)
    assert len(calls) > 150


def _own_name(call: Any) -> str:
    return str(call.__name__)


def _answer(call: Any) -> str:
    try:
        call(no_such_argument=1)
    except TypeError as error:  # of the name, also where another argument is missing
        return str(error)
    return "taken"


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
