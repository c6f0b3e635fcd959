"""The board: what happens when a decider raises, and when the world answers twice or late."""

import asyncio

import pytest

from callboard import Agent, Runtime, ScriptedModel, SessionFailed, call, say
from callboard.actors import step as step_module
from callboard.actors.agent import decide_agent
from callboard.actors.agent_state import AgentState
from callboard.actors.agent_turns import Decision
from callboard.actors.conversation import text_json
from callboard.actors.events import Post
from callboard.actors.messages import AgentInput, DeciderFailed, ToolReturned
from callboard.actors.request import ModelRequest
from callboard.actors.supervisor import decide_supervisor
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import Step


def policy(request: ModelRequest) -> Step:
    if request.profile == "host" and request.turn == 1:
        return call("task", agent="kid", prompt="x")
    return say(f"{request.profile} is done")


HOST = Agent("host", agents=[Agent("kid")])


@pytest.mark.parametrize("error", [ValueError("broken"), RecursionError("deep"), MemoryError()])
def test_an_agent_whose_decider_raises_ends_as_crashed_and_the_log_still_verifies(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(state: AgentState, seq: int, body: AgentInput) -> Decision:
        if state.address == "host.1" and type(body).__name__ == "ModelReplied":
            raise error
        return decide_agent(state, seq, body)

    log = MemoryLog()

    async def run() -> None:
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            with monkeypatch.context() as patch:
                patch.setattr(step_module, "decide_agent", poisoned)
                outcome = await runtime.run(HOST, "go", session_id="s")
            assert (outcome.kind, outcome.text) == ("answered", "host is done")
            assert outcome.usage.calls == 3

    asyncio.run(run())
    recording = Recording.open(MemoryReader(log), "s")
    (failed,) = [event for event in recording.events if isinstance(event.body, DeciderFailed)]
    assert failed.body == DeciderFailed(failed.cause, type(error).__name__)
    found = recording.verify()
    assert found.is_ok, "\n".join(found.lines())
    assert {node.address: node.kind for _, node in recording.tree().walk()}["host.1"] == "crashed"


def test_a_supervisor_that_raises_ends_the_session_and_leaves_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def poisoned(state, seq, sender, body):  # type: ignore[no-untyped-def]
        if type(body).__name__ == "Delegate":
            raise RuntimeError("broken")
        return decide_supervisor(state, seq, sender, body)

    log = MemoryLog()

    async def run() -> None:
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            with monkeypatch.context() as patch:
                patch.setattr(step_module, "decide_supervisor", poisoned)
                with pytest.raises(SessionFailed, match="RuntimeError: broken"):
                    await runtime.run(HOST, "go", session_id="s")
            assert (await runtime.run(HOST, "go")).is_ok, "another session is not touched"

    asyncio.run(run())
    recording = Recording.open(MemoryReader(log), "s")
    assert recording.events[-1].kind in ("Delegate", "TurnSettled")
    assert recording.verify().is_ok


def test_a_second_answer_to_a_request_is_not_let_in() -> None:
    log = MemoryLog()

    async def run() -> None:
        async with Runtime(log, model=ScriptedModel([say("hi")])) as runtime:
            session = await runtime.open(Agent("host"), session_id="s")
            await session.ask("go")
            board = session._board
            (request,) = [e for e in Recording.open(MemoryReader(log), "s").events if e.kind == "CallModel"]
            before = board.seq
            board.answer(request, Post("host", ToolReturned(1, 0, "ok", text_json("again"))))
            assert board.seq == before
            await session.close()

    asyncio.run(run())
