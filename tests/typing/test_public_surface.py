"""The types that users see. mypy reads the assertions in its normal run; the tests also run them."""

import asyncio
from pathlib import Path
from typing import Any, Literal, assert_type

import pytest

import callboard
import callboard.testing
from callboard import (
    Agent,
    Approval,
    Call,
    Event,
    Limits,
    ModelRequest,
    Outcome,
    Policy,
    Reply,
    Runtime,
    ScriptedModel,
    Session,
    ToolContext,
    Usage,
    call,
    calls,
    fail,
    say,
    tool,
)
from callboard.errors import CallboardError, CorruptLog, OutcomeError
from callboard.log import EventLog, MemoryLog, SessionRow, SQLiteLog
from callboard.models import Model, ModelAnswer, ModelFailure, ModelSpec, OnText, Prices
from callboard.replay import Divergence, Recording, Verification
from callboard.testing import BrokenRules, Counterexample, Exploration, Simulation, explore, simulate


@tool(effect="read")
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
async def add_twice(a: int, ctx: ToolContext) -> list[int]:
    """Add a number to itself, twice."""
    assert_type(ctx.session_id, str)
    return [add(a, b=a), add(a, b=a)]


async def call_it(ctx: ToolContext) -> None:
    assert_type(await add_twice(1, ctx), list[int])


def policy(request: ModelRequest) -> Reply:
    assert_type(request.turn, int)
    assert_type(request.conversation, list[dict[str, Any]])
    return calls(call("add", a=1), call("add_twice", a=1)) if request.turn == 1 else say("2")


class OwnModel:
    """A model of a user's own needs no base class."""

    spec = ModelSpec("own", 100, prices=Prices(1e-06, 2e-06))

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        return ModelAnswer(failure=fail("overloaded_error", is_retryable=False), usage=Usage(1, 1))

    async def aclose(self) -> None:
        pass


def test_a_tool_keeps_the_types_of_its_function() -> None:
    assert_type(add(1, b=2), int)
    assert add(1, b=2) == 3


def test_what_a_script_is_made_of() -> None:
    assert_type(call("add", a=1), Call)
    assert_type(calls(call("add", a=1), text="Adding."), Reply)
    assert_type(say("hello"), Reply)
    assert_type(fail(), ModelFailure)
    policies: list[Policy] = [policy, lambda request: "hello"]
    for one in policies:
        assert_type(ScriptedModel(one).spec, ModelSpec)


def test_models_and_logs_of_ours_and_of_users_fit_the_protocols() -> None:
    models: list[Model] = [ScriptedModel(policy), OwnModel()]
    logs: list[EventLog] = [MemoryLog(), SQLiteLog("never-opened.db")]
    runtimes = [Runtime(log, model=model) for log, model in zip(logs, models, strict=True)]
    assert_type(runtimes[0].log, EventLog)
    Agent("host", model=models[1], limits=Limits(tokens=1_000))


async def session_of(path: Path) -> str:
    agent = Agent("host", tools=[add, add_twice])
    async with Runtime(path, model=ScriptedModel(policy), approve=approve) as runtime:
        async with await runtime.open(agent) as session:
            assert_type(session, Session)
            outcome = await session.ask("How much is 1 + 1?")
            assert_type(await session.outcome, Outcome)
            async for event in session.events():
                assert_type(event, Event)
                assert_type(event.seq, int)
                break
        rows = await runtime.log.sessions()
        assert_type(rows, list[SessionRow])
    assert_type(outcome.status, Literal["ok", "failed", "cancelled"])
    assert_type(outcome.text, str)
    assert_type(outcome.structured_output, object)
    assert_type(outcome.usage, Usage)
    assert_type(outcome.head, tuple[int, str])
    assert outcome.unwrap() == "2"
    return outcome.session_id


def approve(question: Approval) -> bool | str:
    assert_type(question.tool, str)
    assert_type(question.is_open, bool)
    return True


def test_a_session_and_its_recording(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    session_id = asyncio.run(session_of(path))
    recording = Recording.open(path, session_id)
    assert_type(recording, Recording)
    assert_type(recording.event(1), Event)
    verification = recording.verify()
    assert_type(verification, Verification)
    assert_type(verification.divergence, Divergence | None)
    assert verification.is_ok


def test_the_blocking_twin_returns_an_outcome() -> None:
    outcome = Runtime(":memory:", model=OwnModel()).run_sync(Agent("host"), "go")
    assert_type(outcome, Outcome)
    with pytest.raises(OutcomeError) as caught:
        outcome.unwrap()
    assert isinstance(caught.value, CallboardError)


def test_what_an_error_says_has_types() -> None:
    error = CorruptLog("broken", "s", 3)
    assert_type(error.session_id, str)
    assert_type(error.seq, int)


def test_the_testing_kit() -> None:
    agent = Agent("host", tools=[add])
    run = simulate(agent, policy, "How much is 1 + 1?", tools={"add": lambda **_: 2})
    assert_type(run, Simulation)
    assert_type(run.outcome, Outcome)
    assert_type(run.recording, Recording)
    found = explore(agent, policy, "How much is 1 + 1?", tools={"add": lambda **_: 2}, runs=2)
    assert_type(found, Exploration)
    assert_type(found.counterexamples, tuple[Counterexample, ...])
    assert issubclass(BrokenRules, AssertionError)
    assert found.is_ok


def test_a_name_that_is_not_public_is_an_error_for_type_checkers_too() -> None:
    with pytest.raises(AttributeError, match="module 'callboard' has no attribute 'nonsense'"):
        _ = callboard.nonsense  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # under test
    with pytest.raises(AttributeError, match=r"module 'callboard\.testing' has no attribute 'nonsense'"):
        _ = callboard.testing.nonsense  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # under test


def test_a_session_shows_the_members_that_its_users_need_and_no_other() -> None:
    shown = {name for name in dir(Session) if not name.startswith("_")}
    asks = {"ask", "submit", "cancel", "cancel_agent", "outcome", "activity", "id", "tell"}
    looks = {"events", "stream", "text", "progress", "state", "seq"}
    rights = {"approvals", "approve", "deny", "open_approvals", "permissions", "revoke", "set_tools"}
    assert shown == asks | looks | rights | {"close", "detach"}
