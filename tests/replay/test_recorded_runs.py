"""A recorded run of another project with two sub-agents, played as a session: its shape is in the log."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.replay.search import Query
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import Call, Step, call, calls, say
from callboard.runtime.tools.tool import tool
from tests.replay.stories import record

RUN = Path(__file__).parent.parent / "data" / "runs" / "cc-viewer-5c0375b4.json"


@cache
def agents() -> tuple[dict[str, Any], ...]:
    """Return the agents of the run, the host first, then its children in the order of their delegations."""
    return tuple(json.loads(RUN.read_text("utf-8"))["agents"])


@cache
def results() -> dict[str, dict[str, Any]]:
    """Return the recorded results of tools, by the ids of their calls."""
    items = (item for agent in agents() for item in agent["items"] if item["kind"] == "tool_results")
    return {result["tool_use_id"]: result for item in items for result in item["results"]}


@tool(effect="read")
def use(name: str, call_id: str) -> str:
    """Give the recorded result of a call."""
    result = results()[call_id]
    if result["is_error"]:
        raise ValueError(f"{name}: {result['content']}")
    return str(result["content"])


def replies(place: int) -> list[dict[str, Any]]:
    return [item for item in agents()[place]["items"] if item["kind"] == "assistant"]


def text_of(reply: dict[str, Any]) -> str:
    return "".join(block["text"] for block in reply["content"] if block["type"] == "text")


def said(reply: dict[str, Any]) -> Step:
    """Return a recorded reply as a step of a script; a `Task` is a delegation, one of them has no prompt."""
    made: list[Call] = []
    for block in reply["content"]:
        if block["type"] == "tool_use" and block["name"] == "Task":
            given = {name: block["input"][name] for name in ("prompt",) if name in block["input"]}
            made.append(call("task", agent="general-purpose", **given))
        elif block["type"] == "tool_use":
            made.append(call("use", name=block["name"], call_id=block["id"]))
    return calls(*made, text=text_of(reply)) if made else say(text_of(reply))


@cache
def played() -> Recording:
    """Play the run with scripted models."""

    def policy(request: ModelRequest) -> Step:
        place = 0 if request.address == "host" else int(request.address.rpartition(".")[2])
        return said(replies(place)[request.turn - 1])

    child = Agent("general-purpose", description="Does a task.", tools=[use])
    prompt = "\n".join(block["text"] for block in agents()[0]["items"][0]["content"])
    return record(policy, Agent("host", agents=[child], tools=[use]), prompt)


def test_the_last_text_of_each_child_is_the_result_of_its_parents_call() -> None:
    bodies = [event.body for event in played().events if isinstance(event.body, DelegationEnded)]
    ends = {body.address: body.text for body in bodies if body.kind == "answered"}
    assert ends == {f"host.{place}": text_of(replies(place)[-1]) for place in (1, 2)}


def test_every_agent_has_the_turns_and_tool_calls_of_the_run() -> None:
    events = played().events
    for place, agent in enumerate(agents()):
        address = f"host.{place}" if place else "host"
        used = sum(isinstance(event.body, CallTool) and event.sender == address for event in events)
        turns = sum(event.kind == "ModelReplied" and event.recipient == address for event in events)
        blocks = [block for reply in replies(place) for block in reply["content"]]
        delegated = sum(block.get("name") == "Task" for block in blocks)
        assert (turns, used + delegated) == (agent["stats"]["turns"], agent["stats"]["tool_calls"])


def test_a_word_of_a_child_is_followed_back_to_the_tool_that_said_it() -> None:
    recording = played()
    wanted = Query(text="542.0", kinds=frozenset({"DelegationEnded"}))
    found = [match.row.seq for match in recording.search(wanted)]
    source = recording.why(found[0], "0.542.0").source
    assert source[-1].kind == "ToolReturned"
    assert source[-1].recipient == "host.1"


def test_a_healthy_run_has_no_finding_that_is_no_guess() -> None:
    recording = played()
    assert recording.verify().is_ok
    assert [finding.kind for finding in recording.diagnose() if not finding.is_maybe] == []
