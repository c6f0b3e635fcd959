"""Recorded runs of other projects as simulated sessions: every reply and every result is the recorded one."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.replay.testing.agents.scenario_arguments import recording_of
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply
from callboard.replay.testing.sessions.world import SessionWorld

Agent = Mapping[str, Any]

_READS: Final = re.compile(
    r"(?i)(read|glob|grep|ls|find|search|web|list|get|calculate|think|taskoutput|find_file)"
)
WIDE: Final = Limits(max_iterations=10_000, max_tool_calls=100)


def sessions_of(run: Mapping[str, Any]) -> Iterator[list[Agent]]:
    """Yield the agents of each session of a file, the host first."""
    if "agents" in run:
        yield [one for one in run["agents"] if one.get("role") != "compaction"]
    for episode in run.get("episodes", ()):
        yield [episode]


def played(agents: list[Agent]) -> Recording:
    """Simulate a run."""
    return recording_of(list(SessionWorld(_scenario(agents)).run(steps=1_000_000).log), "run")


def _scenario(agents: list[Agent]) -> Scenario:
    children = {one["parent_tool_use_id"]: one for one in agents[1:] if one.get("parent_tool_use_id")}
    spawned: list[Agent] = [children[use] for use in _uses(agents[0]) if use in children]
    results: dict[str, list[dict[str, Any]]] = {}
    for one in (one for agent in agents for one in _results(agent)):
        results.setdefault(one["tool_use_id"], []).append(one)  # some services use an id again
    by_address = {"host": agents[0]} | {f"host.{n}": child for n, child in enumerate(spawned, 1)}
    replies = {address: [_reply(one, children) for one in _replies(of)] for address, of in by_address.items()}

    def says(request: ModelRequest) -> Reply:
        made = replies[request.address]
        return made[request.turn - 1] if request.turn <= len(made) else Reply("done")

    def gives(address: str, call: CallTool) -> ToolReturned:
        mine = results.get(call.id) or [{"content": "no result", "is_error": True}]
        result = mine.pop(0) if len(mine) > 1 else mine[0]
        said = result["content"]
        text = said if isinstance(said, str) else msgspec.json.encode(said).decode()
        return ToolReturned(
            call.turn, call.call, "error" if result.get("is_error") else "ok", text_json(text)
        )

    names = {block["name"] for agent in agents for reply in _replies(agent) for block in _calls(reply)}
    reads = sorted(name for name in names if _READS.match(name))
    writes = sorted(names.difference(reads))
    people = (
        profile("host", ["helper"], reads, writes=writes, limits=WIDE),
        profile("helper", tools=reads, writes=writes, limits=WIDE),
    )
    said = _replies(agents[0])
    ends = sum(not _calls(reply) for reply in said) + bool(said and _calls(said[-1]))
    prompts = [*_prompts(agents[0]), *(f"prompt {n}" for n in range(ends))]
    asks = [ask(prompts[n], request_id=f"r{n}", limits=WIDE) for n in range(ends)]
    return Scenario(people, says, asks, limits=WIDE, tool=gives)


def _replies(agent: Agent) -> list[dict[str, Any]]:
    return [item for item in agent["items"] if item["kind"] == "assistant" and item["content"]]


def _prompts(agent: Agent) -> Iterator[str]:
    for item in agent["items"]:
        if item["kind"] == "user":
            said = item["content"]
            texts = [said] if isinstance(said, str) else [one.get("text", "") for one in said]
            yield "\n".join(texts) or "go on"


def _results(agent: Agent) -> list[dict[str, Any]]:
    return [one for item in agent["items"] if item["kind"] == "tool_results" for one in item["results"]]


def _calls(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [block for block in reply["content"] if block["type"] == "tool_use"]


def _uses(agent: Agent) -> list[str]:
    return [block["id"] for reply in _replies(agent) for block in _calls(reply)]


def _reply(reply: Mapping[str, Any], children: Mapping[str, Agent]) -> Reply:
    blocks = []
    for block in reply["content"]:
        if block["type"] == "tool_use" and block["id"] in children:
            prompt = {"agent": "helper", "prompt": str(block["input"].get("prompt", "go"))}
            block = block | {"name": "task", "input": prompt}
        if block["type"] in ("text", "tool_use"):
            blocks.append(block)
    blocks = blocks or [{"type": "text", "text": "…"}]
    has_calls = any(block["type"] == "tool_use" for block in blocks)
    return Reply(stop_reason="tool_use" if has_calls else "end_turn", content=msgspec.json.encode(blocks))
