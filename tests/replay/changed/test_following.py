"""Sessions decided again by changed agents: what fits, what differs, and what does not."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.bundles import Bundle, Denied
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session import step as step_module
from callboard.replay.changed.result import AgentsNow
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import Step, call, calls, say
from callboard.runtime.tools.tool import Tool, tool
from tests.effort import effort
from tests.golden import golden
from tests.replay.changed.sessions import now, record, recording_of
from tests.session_plans import Plan, play

NO_LIMITS: Final = Limits()


@tool(effect="read")
def look(key: str) -> str:
    """Look something up."""
    return f"{key}: 7"


@tool(effect="read")
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


@tool(effect="read", name="look")
def deeper(key: str, depth: int = 1) -> str:
    """Look something up."""
    return f"{key}: {depth}"


def kid(
    instructions: str = "Look.",
    description: str = "Looks.",
    tools: Sequence[Tool] = (look, wait),
    limits: Limits = NO_LIMITS,
    schema: Any = None,
) -> Agent:
    return Agent(
        "kid",
        instructions=instructions,
        description=description,
        tools=tools,
        limits=limits,
        output_schema=schema,
    )


def host(child: Agent | None = None, limits: Limits = NO_LIMITS) -> Agent:
    return Agent("host", instructions="Ask.", agents=[child or kid()], limits=limits)


def policy(request: ModelRequest) -> Step:
    if request.profile == "host":
        two = (call("task", agent="kid", prompt="a"), call("task", agent="kid", prompt="b"))
        return calls(*two) if request.turn == 1 else say("done")
    return call("look", key="k") if request.turn == 1 else say("7")


@pytest.mark.parametrize("name", ["everything", "flaky", "no-report", "report"])
def test_the_same_agents_make_the_recorded_events_again(name: str) -> None:
    events = golden(name)
    found = recording_of(events).against()
    assert found.is_same
    assert not found.profiles
    assert [*(found.log or ())] == events


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.booleans())
@settings(max_examples=effort(20, 2_000), deadline=None)
def test_any_session_is_made_again_in_any_order_and_with_any_fault(seed: int, order: int, calm: bool) -> None:
    events = play(Plan(seed, is_calm=calm), order).log
    if events:
        found = recording_of(events).against()
        assert found.is_same
        assert [*(found.log or ())] == events


def test_a_permission_that_is_taken_is_felt_at_the_call_that_it_refuses() -> None:
    denied = Agent(
        "kid",
        instructions="Look.",
        description="Looks.",
        tools=[look, wait],
        permissions=Bundle(deny=Denied(tools=("look",))),
    )
    found = record(policy, host()).against(now(host(denied)))
    assert any("deny" in line for line in found.profiles)
    (first, *_) = found.decisions
    assert (first.actor, first.profile) == ("host.1", "kid")
    assert first.recorded.startswith("CallTool to tools")
    assert first.now.startswith("TurnRequested")
    assert found.first_difference.startswith(
        f"event {first.seq}: host.1 decides differently: recorded CallTool"
    )


@given(st.integers(0, 10**6), st.sampled_from(["host", "kid", "sibling", "grandkid"]))
@settings(max_examples=effort(20, 1_000), deadline=None)
def test_other_instructions_change_the_requests_of_their_agents_and_no_decision(seed: int, name: str) -> None:
    world = play(Plan(seed, is_calm=True), seed)
    recording = recording_of(world.log)
    opened = world.scenario.first
    changed = tuple(
        Json(bytes(one).replace(f"You are {name}.".encode(), f"You were {name}.".encode()))
        for one in opened.profiles
    )
    found = recording.against(AgentsNow(opened.host, changed))
    asked = {
        event.sender
        for event in world.log
        if event.kind == "TurnRequested" and recording.request(event.seq).profile == name
    }
    assert {one.agent for one in found.requests} == asked
    assert all(
        any(line.startswith("+") and "You were" in line for line in one.lines) for one in found.requests
    )
    assert not found.decisions


def test_another_instruction_is_a_request_and_no_decision() -> None:
    found = record(policy, host()).against(now(host(kid(instructions="Look twice."))))
    assert [(one.agent, one.turn) for one in found.requests] == [("host.1", 1), ("host.2", 1)]
    assert found.requests[0].lines[3:] == (
        *found.requests[0].lines[3:5],
        "-system: Look.",
        "+system: Look twice.",
        *found.requests[0].lines[7:],
    )
    assert any("Look twice." in line for line in found.profiles)
    assert not found.decisions
    assert found.log is not None


def test_another_description_of_a_child_is_a_request_of_its_parent() -> None:
    found = record(policy, host()).against(now(host(kid(description="Looks closely."))))
    assert [one.agent for one in found.requests] == ["host"]
    assert not found.decisions


def test_a_missing_tool_is_a_decision_of_each_agent_that_calls_it() -> None:
    found = record(policy, host()).against(now(host(kid(tools=[wait]))))
    assert [one.actor for one in found.decisions] == ["host.1", "host.2"]
    first = found.decisions[0]
    assert first.kind == "changed"
    assert first.recorded.startswith("CallTool to tools")
    assert first.now.startswith("TurnRequested")
    assert found.log is None


def test_arguments_that_a_changed_tool_refuses_do_not_fit() -> None:
    recording = record(policy, host())
    today = now(host(kid(tools=[deeper, wait])))

    def refuses(agent: str, name: str, arguments: Json) -> str:
        assert (agent, name, bytes(arguments)) == ("kid", "look", b'{"key":"k"}')
        return "no such key"

    refused = recording.against(replace(today, accepts=refuses))
    assert [(one.actor, one.kind) for one in refused.decisions] == [
        ("host.1", "misfit"),
        ("host.2", "misfit"),
    ]
    assert refused.decisions[0].now == "look refuses it: no such key"
    assert not recording.against(today).decisions


def test_a_narrower_limit_is_a_decision() -> None:
    found = record(policy, host()).against(now(host(kid(limits=Limits(max_iterations=1)))))
    assert not found.requests
    assert '"kind":"iteration_cap"' in found.decisions[0].now
    denied = record(policy, host()).against(now(host(limits=Limits(max_children=1))))
    assert denied.decisions[0].actor == "supervisor"


def test_a_limit_that_does_not_bite_is_no_difference() -> None:
    found = record(policy, host()).against(now(host(kid(limits=Limits(deadline_s=3_600, max_iterations=9)))))
    assert found.is_same
    assert found.profiles
    assert found.log is not None
    assert recording_of(found.log).verify().is_ok  # timers of today stand in it


def waits(request: ModelRequest) -> Step:
    if request.profile == "host":
        return call("task", agent="kid", prompt="a") if request.turn == 1 else say("done")
    return call("wait", seconds=0.15) if request.turn == 1 else say("waited")


def test_a_deadline_that_passes_today_ends_the_agent() -> None:
    found = record(waits, host()).against(now(host(kid(limits=Limits(deadline_s=0.05)))))
    first = found.decisions[0]
    assert (first.actor, first.kind, first.recorded) == ("supervisor", "extra", "")
    assert '"reason":"deadline"' in first.now


def test_a_deadline_that_does_not_pass_today_is_a_decision() -> None:
    recording = record(waits, host(kid(limits=Limits(deadline_s=0.05))))
    found = recording.against(now(host(kid(limits=Limits(deadline_s=60)))))
    first = found.decisions[0]
    assert (first.actor, first.kind) == ("supervisor", "timer")
    assert '"reason":"deadline"' in first.recorded


def test_another_model_is_a_request() -> None:
    found = record(policy, host()).against(now(host(), ModelSpec("other")))
    assert [one.agent for one in found.requests] == ["host", "host.1", "host.2"]
    assert "+model: other" in found.requests[0].lines
    assert not found.decisions


def test_a_program_in_place_of_a_model_gets_no_reply_of_it() -> None:
    found = record(policy, host()).against(now(host(), ModelSpec("p", kind="program")))
    assert found.decisions[0].kind == "misfit"
    assert found.decisions[0].recorded == "a model answers"
    assert found.decisions[0].now == "a program answers"


def test_a_step_that_a_program_does_not_repeat_is_a_decision() -> None:
    recording = record(policy, host())
    seq = next(event.seq for event in recording.events if event.kind == "ModelReplied")
    found = recording.against(replace(now(host()), steps={seq: ("one", "two")}))
    assert [(one.seq, one.kind, one.recorded, one.now) for one in found.decisions] == [
        (seq, "program", "one", "two")
    ]


SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}


def reports(request: ModelRequest) -> Step:
    if request.profile == "host":
        return call("task", agent="kid", prompt="a") if request.turn == 1 else say("done")
    return call("report_back", n=3)


def test_a_changed_schema_is_checked_now() -> None:
    recording = record(reports, host(kid(schema=SCHEMA)))
    wider = {**SCHEMA, "properties": {"n": {"type": "number"}}}
    today = now(host(kid(schema=wider)))

    def check(status: Literal["ok", "invalid"]) -> AgentsNow:
        def answer(asked: CheckSchema) -> SchemaChecked:
            return SchemaChecked(asked.check, status if asked.task == "report" else "ok")

        return replace(today, check=answer)

    assert not recording.against(check("ok")).decisions
    first = recording.against(check("invalid")).decisions[0]
    assert first.actor == "supervisor"
    assert (first.path, first.recorded, first.now) == ("ReportJudged.verdict", '"accepted"', '"invalid"')


def test_an_agent_that_is_gone_is_a_decision_of_its_parent() -> None:
    found = record(policy, host()).against(now(Agent("host", instructions="Ask.")))
    assert found.decisions[0].actor == "host"
    assert found.decisions[0].recorded.startswith("Delegate to supervisor")


def test_a_decider_that_raises_is_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record(policy, host())

    def raises(*given: object) -> object:
        raise ValueError("of today")

    monkeypatch.setattr(step_module, "decide_agent", raises)
    first = recording.against().decisions[0]
    assert (first.actor, first.kind) == ("host", "raised")
    assert first.now == "the decider raises ValueError: of today"
