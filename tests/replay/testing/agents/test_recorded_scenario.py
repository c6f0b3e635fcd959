"""Recorded sessions as scenarios: no order breaks a rule, and the plain run ends as recorded."""

import asyncio
import runpy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.client_messages import AskEnded, TellEnded
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import NotApproved
from callboard.replay.exports.recorded_parts import recorded_parts
from callboard.replay.recording import Recording
from callboard.replay.testing.agents.recorded_scenario import next_step
from callboard.replay.testing.agents.scenario_arguments import recording_of
from callboard.runtime.agent import Agent
from callboard.runtime.approvals import Approval
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import ScriptedModel, Step, call, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool
from callboard.testing import RecordedScenario
from tests.effort import effort
from tests.golden import golden
from tests.replay import stories
from tests.replay.changed.sessions import record
from tests.replay.changed.test_following import SCHEMA, host, kid, policy, reports
from tests.session_plans import Plan, play

STEPS: list[tuple[list[str], dict[str, Any]]] = [
    ([], {"content": [{"type": "program_step"}, *({"type": "tool_use", "id": one} for one in "ab")]}),
    (["a"], {"content": [{"type": "program_step", "cancels": ["b"]}, {"type": "tool_use", "id": "c"}]}),
    (["a", "c"], {"content": [{"type": "program_step"}, {"type": "text", "text": "end"}]}),
]


def scenario_of(recording: Recording, faults: str | None = None) -> RecordedScenario:
    parts = recorded_parts(recording.session_id, recording.events)
    return RecordedScenario(**parts._asdict(), faults=faults, name="recorded")


def told(events: Iterable[Event]) -> list[tuple[str, str, bytes]]:
    bodies = (event.body for event in events)
    return [(one.kind, one.text, bytes(one.value)) for one in bodies if isinstance(one, AskEnded)]


def races(request: ModelRequest) -> Step:
    if request.profile == "host":
        return call("task", agent="kid", prompt="a", copies=2) if request.turn == 1 else say("done")
    return call("report_back", n=int(request.address[-1]))


@tool(effect="read")
def look_at(place: str) -> str:
    """Look at a place."""
    return f"seen {place}"


@tool(effect="write", approval="always")
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


KID = kid()


@program(agents=[KID], tools=[look_at, pay])
async def conductor(ctx: ProgramContext, prompt: str) -> str:
    """Ask for all kinds of things: at once, after each other, in vain, and by a person's leave."""

    async def chain(place: str) -> str:
        seen = await ctx.call("look_at", place=place)
        return f"{seen}: {await ctx.delegate(KID, place)}"

    found = list(await asyncio.gather(chain("a"), chain("b"), ctx.ask_model("What?")))
    await ctx.sleep(0.01)
    slow = asyncio.ensure_future(ctx.delegate(KID, "slow"))
    done, _ = await asyncio.wait([slow, asyncio.ensure_future(chain("c"))], return_when="FIRST_COMPLETED")
    slow.cancel()
    for amount in (1, 2):
        try:
            found.append(str(await ctx.call("pay", amount=amount)))
        except NotApproved as error:
            found.append(str(error))
    return f"{len(done)} of 2; " + ", ".join(map(str, found))


def answers(request: ModelRequest) -> Any:
    words = str(request.conversation[0]["content"])
    return asyncio.sleep(0.02 if "slow" in words else 0, say(f"{words} is done"))


def conducted() -> Recording:
    """Record the program twice, in one session; a person allows to pay 1 and no more."""
    log = MemoryLog()

    async def run() -> None:
        def approve(question: Approval) -> bool:
            return bool(question.arguments == {"amount": 1})

        async with Runtime(log, model=ScriptedModel(answers), approve=approve) as runtime:
            session = await runtime.open(conductor, session_id="one")
            for prompt in ("one", "two"):
                await session.ask(prompt)
            await session.close()

    asyncio.run(run())
    return Recording.open(MemoryReader(log), "one")


RECORDINGS: Final[dict[str, Callable[[], Recording]]] = {
    "siblings": lambda: record(policy, host()),
    "reports": lambda: record(reports, host(kid(schema=SCHEMA))),
    "poisoned": stories.poisoned_sum,
    "loop": stories.endless_loop,
    "everything": lambda: recording_of(golden("everything"), "one"),
    "program": conducted,
    "flaky": lambda: recording_of(golden("flaky"), "one"),
}


def late_tell() -> Recording:
    """Record words that come after the agent's mail has been started, and are read in its second turn."""
    log = MemoryLog()
    started = asyncio.Event()

    @tool(effect="write")
    async def mail(text: str) -> str:
        """Mail a text."""
        started.set()
        await asyncio.sleep(0.01)
        return "mailed"

    def answer(request: ModelRequest) -> Step:
        if request.profile == "host":
            return call("task", agent="mailer", prompt="Mail it.") if request.turn == 1 else say("Done.")
        return call("mail", text="4,545") if request.turn == 1 else say("Mailed.")

    async def run() -> None:
        mailer = Agent("mailer", description="Mails.", tools=[mail])
        async with Runtime(log, model=ScriptedModel(answer)) as runtime:
            session = await runtime.open(Agent("host", agents=[mailer]), session_id="late")
            asked = asyncio.ensure_future(session.ask("Mail the price."))
            await started.wait()
            await session.tell("host.1", "It is 454!")
            await asked
            await session.close()

    asyncio.run(run())
    return Recording.open(MemoryReader(log), "late")


def test_words_come_behind_the_event_behind_which_they_came() -> None:
    recording = late_tell()
    parts = recorded_parts("late", recording.events)
    assert [one["after"] for one in parts.tells] == ["CallTool host.1:1:0"]

    def heard(events: Iterable[Event]) -> list[tuple[str, int]]:
        found = [event.body for event in events if isinstance(event.body, TellEnded)]
        return [(one.status, one.turn) for one in found]

    scenario = scenario_of(recording)
    assert heard(recording.events) == [("heard", 2)]
    assert told(scenario.simulate().events) == told(recording.events)
    turns = set()
    for run in range(20):
        events = scenario.simulate(seed=run).events
        kinds = [event.kind for event in events]
        assert "ToolReturned" not in kinds[kinds.index("CallTool") : kinds.index("Tell")]
        turns |= set(heard(events))
    assert turns == {("heard", 2), ("heard", 3)}
    free = RecordedScenario(**parts._replace(tells=[parts.tells[0] | {"after": ""}])._asdict())
    kinds = [event.kind for event in free.simulate().events]
    assert kinds.index("Tell") < kinds.index("CallTool")


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_plain_run_ends_as_the_recording_did_and_no_order_breaks_a_rule(name: str) -> None:
    recording = RECORDINGS[name]()
    scenario = scenario_of(recording)
    plain = scenario.simulate()
    assert not plain.breaches
    assert told(plain.events) == told(recording.events)
    scenario.explore(runs=effort(20, 2_000))


def test_faults_break_no_rule_either() -> None:
    scenario_of(RECORDINGS["siblings"](), "all").explore(runs=effort(60, 5_000))


def test_a_racer_that_lost_before_it_replied_loses_again() -> None:
    recording = record(races, host(kid(schema=SCHEMA)))
    for seed in range(20):
        run = scenario_of(recording).simulate(seed=seed)
        assert run.outcome.text == "done"
        assert not run.breaches


@given(st.integers(0, 10**6))
@settings(max_examples=effort(15, 500), deadline=None)
def test_any_calm_session_ends_as_it_did_in_any_order(seed: int) -> None:
    recording = recording_of(play(Plan(seed, is_calm=True), seed).log, "one")
    run = scenario_of(recording).simulate(seed=seed + 1)
    assert not run.breaches
    assert len(run.outcomes) == len(told(recording.events))


def test_a_request_that_was_never_answered_fails() -> None:
    recording = record(policy, host())
    parts = recorded_parts("one", recording.events)._asdict()
    parts["replies"] = {"host": parts["replies"]["host"]}
    run = RecordedScenario(**parts).simulate()
    ended = [event.body for event in run.events if event.kind == "Finished" and event.sender == "host.1"]
    assert "no reply to turn 1 of host.1 was recorded" in str(ended)


def test_a_call_without_a_recorded_result_is_an_error() -> None:
    parts = recorded_parts("one", record(policy, host()).events)._asdict()
    parts["results"] = {}
    run = RecordedScenario(**parts).simulate()
    assert any("no result of this call was recorded" in str(event.body) for event in run.events)


def test_values_that_are_no_messages_are_refused() -> None:
    parts = recorded_parts("one", record(policy, host()).events)._asdict()
    with pytest.raises(MisuseError, match="is not a SessionOpened"):
        RecordedScenario(**{**parts, "opened": {"type": "Nothing"}})
    with pytest.raises(MisuseError, match="is a Close, not a Ask"):
        RecordedScenario(**{**parts, "asks": [{"type": "Close"}]})


def test_an_approval_and_a_context_are_given_as_recorded(tmp_path: Path) -> None:
    recording = recording_of(golden("everything"), "one")
    recording.export("scenario", tmp_path / "s.py")
    scenario = runpy.run_path(str(tmp_path / "s.py"))["scenario"]
    kinds = ("ApprovalGiven", "ContextMade")
    recorded = [event.kind for event in recording.events if event.kind in kinds]
    assert [event.kind for event in scenario.simulate().events if event.kind in kinds] == recorded


def step(*said: list[str], heard: str = "") -> tuple[list[str], list[str], str]:
    """Return the asks, the cancels and the text of the step behind these steps and answers."""
    conversation: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for asks in said:
        blocks = [{"type": "program_step"}, *({"type": "tool_use", "id": one} for one in asks)]
        conversation.append({"role": "assistant", "content": blocks})
    results = [{"type": "tool_result", "tool_use_id": one} for one in heard]
    if results:
        conversation.append({"role": "user", "content": results})
    reply = next_step([STEPS], conversation)
    blocks = msgspec.json.decode(reply.content or b"[]")
    head = blocks[0]
    asks = [one["id"] for one in blocks if one["type"] == "tool_use"]
    return asks, head["cancels"], "".join(one.get("text", "") for one in blocks)


def test_each_ask_is_made_once_behind_the_answers_that_it_followed() -> None:
    assert step() == (["a", "b"], [], "")
    assert step(["a", "b"], heard="b") == ([], [], "")
    assert step(["a", "b"], heard="a") == (["c"], ["b"], "")
    assert step(["a", "b"], heard="ba") == (["c"], [], "")
    assert step(["a", "b"], ["c"], heard="ac") == ([], [], "end")


def test_a_program_goes_on_when_nothing_is_open_that_it_could_wait_for() -> None:
    never = [(["x"], STEPS[2][1])]
    reply = next_step([never], [{"role": "user", "content": "go"}])
    assert b"end" in (reply.content or b"")


def test_an_ask_without_a_recorded_run_fails_in_words() -> None:
    talk = [{"role": "user", "content": one} for one in ("go", "again")]
    failure = next_step([STEPS], talk).failure
    assert failure is not None
    assert "no run of this program was recorded" in failure.message
