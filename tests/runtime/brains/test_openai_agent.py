"""An agent of the OpenAI Agents SDK as a brain: granted, recorded, resumed."""

import asyncio
from pathlib import Path
from typing import Any

import agents
import msgspec
from agents import function_tool

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import (
    CallTool,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import openai_agent
from callboard.replay.recording import Recording
from callboard.runtime.approvals import Approval, ApprovalAnswer
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from tests.runtime.brains.kit import results, run, turns_in
from tests.runtime.brains.openai_cases import Verdict, expert, policy

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


def test_an_agent_used_as_a_tool_gets_the_arguments_that_a_person_gives_instead() -> None:
    heard: list[str] = []
    told: list[Any] = []
    inner = agents.Agent("inner", instructions="Inner.")

    @function_tool(needs_approval=True)
    def draw(of: str) -> Any:
        """Draw."""
        return agents.ToolOutputImage(image_url="data:image/png;base64,aaaa")

    tool = inner.as_tool("ask_inner", "Ask.", needs_approval=True)
    lead = agents.Agent("lead", tools=[tool, draw])

    def answers(request: ModelRequest) -> Any:
        if b"Inner." in bytes(request.system):
            heard.append(request.conversation[0]["content"][0]["text"])
            return say("because")
        if not turns_in(request):
            return calls(call("ask_inner", input="why?"), call("draw", of="x"))
        told.extend(results(request))
        return say("done")

    async def approve(question: Approval) -> ApprovalAnswer:
        return ApprovalAnswer(True, arguments=dict.fromkeys(question.arguments, "how?"))

    async def ask() -> Any:
        async with Runtime(":memory:", model=ScriptedModel(answers), approve=approve) as runtime:
            return await runtime.run(openai_agent(lead, in_program=["draw"]), "go")

    assert (asyncio.run(ask()).text, heard) == ("done", ["how?"])
    (answer, _), ([note, image], _) = told
    assert answer == 'This call was approved with other arguments: {"input":"how?"}\nbecause'
    assert note["text"] == 'This call was approved with other arguments: {"of":"how?"}'
    assert image["type"] == "image"


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
