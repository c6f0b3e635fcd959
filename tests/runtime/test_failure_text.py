"""An exception that cannot be turned into text ends like any other: in an outcome, never in a hang."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from callboard import Agent, Limits, Runtime, ScriptedModel, call, say, tool
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.cli.errors import failure_of as unexpected
from callboard.cli.loading import broken
from callboard.runtime.failure_text import failure_text, located_text, text_of
from callboard.runtime.models.anthropic.errors import failure_of
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.sessions.outcomes import Outcome


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Cancels(Exception):
    def __str__(self) -> str:
        raise asyncio.CancelledError


class NoText(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]  # a wrong value on purpose


UNREADABLE: list[type[Exception]] = [Mute, Exits, Cancels, NoText]


class OwnModel:
    """A model as a user would write it."""

    spec = ModelSpec("own", 100)

    def __init__(self, answer: Callable[[], object]) -> None:
        self._answer = answer

    def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer | Awaitable[ModelAnswer]:
        return self._answer()  # type: ignore[return-value]  # an answer of any type, on purpose

    async def aclose(self) -> None:
        pass


async def asked(model: OwnModel | ScriptedModel, agent: Agent | None = None) -> Outcome:
    limits = Limits(max_model_attempts=1)
    async with asyncio.timeout(5), Runtime(":memory:", model=model, limits=limits) as runtime:
        return await runtime.run(agent or Agent("host"), "go")


def test_the_text_of_an_exception_is_its_class_and_its_message() -> None:
    assert failure_text(ValueError("wrong")) == "ValueError: wrong"
    assert failure_text(ValueError()) == "ValueError"
    assert text_of(ValueError("wrong")) == "wrong"


def test_the_place_of_an_exception_is_the_last_line_of_the_users_own_code() -> None:
    def policy() -> None:
        json.loads("{")

    with pytest.raises(ValueError, match="Expecting") as caught:
        policy()
    line = policy.__code__.co_firstlineno + 1
    assert located_text(caught.value).endswith(f" (test_failure_text.py:{line} in policy)")
    assert located_text(ValueError("never raised")) == "ValueError: never raised"


def test_a_policy_that_raises_is_named_with_its_line_in_the_outcome() -> None:
    def policy(request: object) -> str:
        raise LookupError("no plan")

    found = asyncio.run(asked(ScriptedModel(policy)))
    line = policy.__code__.co_firstlineno + 1
    assert f"LookupError: no plan (test_failure_text.py:{line} in policy)" in found.detail


@pytest.mark.parametrize("error", UNREADABLE)
def test_an_exception_without_text_is_named_by_its_class(error: type[Exception]) -> None:
    assert failure_text(error()) == f"{error.__name__}: its message cannot be read"


@pytest.mark.parametrize("error", UNREADABLE)
def test_a_model_that_raises_an_exception_without_text_at_once_ends_as_model_error(
    error: type[Exception],
) -> None:
    def at_once() -> object:
        raise error

    outcome = asyncio.run(asked(OwnModel(at_once)))
    assert outcome.kind == "model_error"
    assert error.__name__ in outcome.detail


@pytest.mark.parametrize("error", UNREADABLE)
def test_a_model_that_raises_an_exception_without_text_later_ends_as_model_error(
    error: type[Exception],
) -> None:
    async def later() -> object:
        await asyncio.sleep(0.001)
        raise error

    outcome = asyncio.run(asked(OwnModel(later)))
    assert outcome.kind == "model_error"
    assert error.__name__ in outcome.detail


@pytest.mark.parametrize("error", UNREADABLE)
def test_a_policy_that_raises_an_exception_without_text_ends_as_model_error(error: type[Exception]) -> None:
    def at_once(request: ModelRequest) -> str:
        raise error

    async def later(request: ModelRequest) -> str:
        await asyncio.sleep(0.001)
        raise error

    for policy in (at_once, later):
        model = ScriptedModel(policy)
        outcome = asyncio.run(asked(model))
        assert outcome.kind == "model_error"
        assert error.__name__ in outcome.detail


@pytest.mark.parametrize("error", UNREADABLE)
def test_a_tool_that_raises_an_exception_without_text_gives_the_model_an_error(
    error: type[Exception],
) -> None:
    @tool(effect="read")
    async def on_loop() -> str:
        """Raise on the event loop."""
        raise error

    @tool(effect="read")
    def on_thread() -> str:
        """Raise on a thread."""
        raise error

    for odd in (on_loop, on_thread):
        model = ScriptedModel([call(odd.name), say("went on")])
        assert asyncio.run(asked(model, Agent("host", tools=[odd]))).text == "went on"


@pytest.mark.parametrize("error", UNREADABLE)
def test_a_failure_whose_fields_have_no_text_ends_as_model_error(error: type[Exception]) -> None:
    failure = ModelFailure(error(), error(), False)  # type: ignore[arg-type]  # a wrong value on purpose

    async def later() -> object:
        await asyncio.sleep(0.001)
        return ModelAnswer(failure=failure)

    for answer in (lambda: ModelAnswer(failure=failure), later):
        assert asyncio.run(asked(OwnModel(answer))).kind == "model_error"


@pytest.mark.parametrize("error", UNREADABLE)
def test_it_is_a_crash_of_the_model_where_the_sdk_raises_it(error: type[Exception]) -> None:
    failed = failure_of(error()).failure
    assert failed.code == "model_crashed"
    assert error.__name__ in failed.message


@pytest.mark.parametrize("error", UNREADABLE)
def test_the_command_line_names_its_class(error: type[Exception]) -> None:
    assert f"{error.__name__}: its message cannot be read" in unexpected(error()).message
    assert f"{error.__name__}: its message cannot be read" in broken("survey", error()).message
