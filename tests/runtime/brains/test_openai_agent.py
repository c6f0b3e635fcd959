"""An agent of the OpenAI Agents SDK as a brain: granted, recorded, resumed."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import agents
import msgspec
import pytest
from agents import function_tool

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.errors import CallboardError, SessionDetached
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    ModelReplied,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import openai_agent
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.resumes import go_on
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from callboard.testing import explore, simulate
from tests.runtime.brains.agents import turns_in
from tests.runtime.brains.openai_cases import Verdict, expert, policy, run
from tests.runtime.brains.test_pydantic_agent import results

FAILED = "An error occurred while running the tool. Please try again."


def test_a_run_is_questions_calls_and_a_typed_report(tmp_path: Path) -> None:
    ran: list[str] = []
    seen: list[ModelRequest] = []

    def answers(request: ModelRequest) -> Any:
        seen.append(request)
        return policy(request)

    brain = openai_agent(expert(ran), effects={"add": "read"})
    outcome = run(brain, answers, log=tmp_path / "log.db", deps="D")
    assert outcome.unwrap() == Verdict(good=True, why="5")
    assert outcome.usage.calls == 2
    assert sorted(ran) == ["add 2", "add 8", "save k D"]
    assert results(seen[1]) == [("5", False), ("saved k", False), (FAILED, True)]
    tools = [msgspec.json.decode(tool, type=dict[str, Any])["name"] for tool in seen[0].tools]
    assert tools == ["add", "save", "final_output"]
    assert bytes(seen[0].system) == b'"Be terse."'
    with Recording.open(tmp_path / "log.db", "s") as recording:
        assert recording.verify().is_ok
        bodies = [event.body for event in recording.events]
        effects = {body.tool: body.effect for body in bodies if isinstance(body, CallTool)}
        assert effects == {"add": "read", "save": "write"}


@pytest.mark.slow
def test_no_order_no_fault_and_no_crash_breaks_a_rule() -> None:
    host = Agent("host", agents=[openai_agent(expert(), effects={"add": "read"})])

    def answers(request: ModelRequest) -> Any:
        if request.profile == "host":
            return (
                say("Done.") if turns_in(request) else calls(call("task", agent="The_expert", prompt="2+3?"))
            )
        return policy(request)

    explore(host, answers, "go", runs=12, faults="all")  # raises BrokenRules


@pytest.mark.slow
def test_killed_after_any_event_it_comes_to_the_same_end_and_repeats_no_answer() -> None:
    done = simulate(openai_agent(expert(), effects={"add": "read"}), policy, "2+3?")
    scenario, log = done.world.scenario, done.events
    for length in range(3, len(log) + 1, 2):
        after = go_on(scenario, log[:length]).run(lambda count: 0)
        end = after.of(AskEnded)[-1]
        assert (end.kind, end.text) == ("reported", '{"good":true,"why":"5"}')
        asked = [grant for grant in after.of(CallModel) if grant.agent != "host"]
        lost = [reply for reply in after.of(ModelReplied) if reply.status == "lost"]
        assert 2 <= len(asked) <= 2 + len(lost) <= 3
        assert len(after.of(ToolStarted)) == 1  # the write
        assert [one.status for one in after.of(ToolReturned)].count("interrupted") <= 1


@pytest.mark.slow
def test_a_changed_agent_is_a_divergence_that_names_the_message() -> None:
    @function_tool
    def look() -> str:
        """Look."""
        return "found"

    async def recorded(instructions: str, log: MemoryLog, *, resumes: bool) -> Any:
        release = asyncio.Event()

        async def answers(request: ModelRequest) -> Any:
            if turns_in(request) and not resumes:
                await release.wait()
            return say("done") if turns_in(request) else calls(call("look"))

        brain = openai_agent(
            agents.Agent("changed", instructions=instructions, tools=[look]), effects={"look": "read"}
        )
        async with Runtime(log, model=ScriptedModel(answers)) as runtime:
            if resumes:
                return (await (await runtime.resume("s", brain)).outcome).text
            session = await runtime.open(brain, session_id="s")
            ask = asyncio.ensure_future(session.ask("go"))
            async for event in session.events():
                if isinstance(event.body, CallModel) and event.body.agent != "host" and event.seq > 20:
                    break
        with pytest.raises(SessionDetached):
            await ask
        return None

    async def go() -> None:
        log = MemoryLog()
        await recorded("Old.", log, resumes=False)
        with pytest.raises(CallboardError, match=r'"Old\."'):
            await recorded("New.", log, resumes=True)
        assert await recorded("Old.", log, resumes=True) == "done"

    asyncio.run(go())


@pytest.mark.slow
def test_a_recording_opens_and_verifies_without_the_framework(tmp_path: Path) -> None:
    run(openai_agent(expert()), log=tmp_path / "log.db")
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['agents', 'openai', 'pydantic']))\n"
        "from callboard.replay import Recording\n"
        "with Recording.open(sys.argv[1], 's') as one: assert one.verify().is_ok; print(one.head.seq)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "log.db")], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) > 30


def test_a_person_decides_about_a_call_and_the_model_reads_a_refusal() -> None:
    told: list[Any] = []
    inner = agents.Agent("inner")

    @function_tool(needs_approval=True)
    def pay(euros: int) -> str:
        """Pay."""
        return f"paid {euros}"

    payer = agents.Agent("payer", tools=[pay, inner.as_tool("ask_inner", "Ask.", needs_approval=True)])

    def answers(request: ModelRequest) -> Any:
        if request.conversation[0]["content"][0]["text"] == "why?":
            return say("because")
        if not turns_in(request):
            asks = [call("ask_inner", input="why?"), call("ask_inner", input="2 why?")]
            return calls(call("pay", euros=1), call("pay", euros=2), *asks)
        told.extend(results(request))
        return say("done")

    async def decide() -> Any:
        async with Runtime(":memory:", model=ScriptedModel(answers)) as runtime:
            session = await runtime.open(openai_agent(payer))
            ask = asyncio.ensure_future(session.ask("go"))
            left = 4
            async for approval in session.approvals():
                if "2" in str(approval.arguments):
                    approval.deny("too much")
                else:
                    approval.approve()
                left -= 1
                if not left:
                    break
            return await ask

    outcome = asyncio.run(decide())
    assert (outcome.text, outcome.usage.calls) == ("done", 3)
    assert [told[0], told[2]] == [("paid 1", False), ("because", False)]
    assert [is_error for _, is_error in told] == [False, True, False, True]
    assert all("too much" in told[at][0] for at in (1, 3))


def test_earlier_asks_of_a_session_are_its_history() -> None:
    heard: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        heard.append([said["content"][0]["text"] for said in request.conversation])
        return say(f"answer {len(heard)}")

    async def talk() -> None:
        async with Runtime(":memory:", model=ScriptedModel(answers)) as runtime:
            session = await runtime.open(openai_agent(agents.Agent("chatter")))
            await session.ask("one")
            await session.ask("two")

    asyncio.run(talk())
    assert heard == [["one"], ["one", "answer 1", "two"]]


def test_a_refused_budget_ends_the_brain_whatever_its_code_makes_of_it() -> None:
    inner = agents.Agent("inner", instructions="y" * 9_000)
    agent = agents.Agent("stubborn", instructions="x" * 2_000, tools=[inner.as_tool("ask", "Ask.")])
    outcome = run(
        openai_agent(agent),
        lambda request: say("well") if turns_in(request) else call("ask", input="why?"),
        limits=Limits(tokens=9_000),
    )
    assert (outcome.kind, outcome.usage.calls) == ("budget", 1)
    few = run(
        openai_agent(agents.Agent("few", tools=[inner.as_tool("ask", "Ask.")])),
        lambda request: call("ask", input="why?") if len(request.tools) else say("so"),
        limits=Limits(max_iterations=3),
    )
    assert (few.kind, few.usage.calls) == ("iteration_cap", 3)
