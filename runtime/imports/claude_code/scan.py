"""The names in the transcripts of one session, which its first event states: tools, sub-agents, models.

A transcript does not list the tools that its model had, so those are listed that it called. Their effect is
that of Claude Code's own tools; any other may have one.
"""

import re
from collections.abc import Iterable
from typing import Final

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolSpec
from callboard.runtime.imports.claude_code.lines import (
    SYNTHETIC,
    TASKS,
    Line,
    agent_of,
    blocks_of,
    is_message,
    is_side,
    message_of,
    task_of,
)
from callboard.runtime.imports.traffic import Block

HOST: Final = "claude-code"
_READS: Final = frozenset({
    "Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch", "NotebookRead", "TodoRead", "BashOutput",
    "TaskOutput", "AgentOutputTool", "ToolSearch", "AskUserQuestion", "ListMcpResourcesTool",
    "ReadMcpResourceTool", "ExitPlanMode", "EnterPlanMode", "Skill",
})  # fmt: skip
_SCHEMA: Final = Json(b'{"type":"object"}')
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")
DEFAULT_AGENT: Final = "general-purpose"


def agent_name(kind: object) -> str:
    """Return the name of a sub-agent of a kind."""
    name = _ODD.sub("_", kind)[:64] if isinstance(kind, str) else ""
    return name.strip("_") or DEFAULT_AGENT


class Scan:
    """The names so far.

    model: the first one that answered. tools, agents: in the order in which they came; of an agent, its first
    model. calls: the call that began each sub-agent, by the sub-agent's id. background: the calls whose
    sub-agents went on beside their caller. version, cwd, branch: of the first line.
    """

    def __init__(self) -> None:
        self.model = ""
        self.tools: dict[str, None] = {}
        self.agents: dict[str, str] = {}
        self.calls: dict[str, str] = {}
        self.background: set[str] = set()
        self.about: dict[str, object] = {}
        self._models: dict[str, str] = {}
        self._kinds: dict[str, str] = {}

    def take(self, lines: Iterable[Line], agent: str = "") -> None:
        """Note the names in lines. agent: the id of the sub-agent whose file they are of; empty for none."""
        for line in lines:
            if not is_message(line):
                continue
            if isinstance(line.parent_tool_use_id, str):
                self.link(line.parent_tool_use_id, line.parent_tool_use_id)
            if line.type == "assistant":
                self._take_said(line, agent or agent_of(line))
            else:
                self._take_results(line)
            for name in ("version", "cwd", "gitBranch"):
                if isinstance(value := getattr(line, name), str) and value:
                    self.about.setdefault(name, value[:500])

    def _take_said(self, line: Line, agent: str) -> None:
        model = message_of(line).get("model")
        if isinstance(model, str) and model and model != SYNTHETIC:
            if agent or is_side(line):
                self._models.setdefault(agent, model)
            else:
                self.model = self.model or model
        for block in blocks_of(line):
            if block.get("type") != "tool_use":
                continue
            name, call = block.get("name"), block.get("id")
            if self.is_task(block) and isinstance(call, str):
                self._kinds[call] = agent_name(block["input"].get("subagent_type"))
            self.tools.setdefault(name if isinstance(name, str) and name else "unnamed")

    def _take_results(self, line: Line) -> None:
        agent, is_background = task_of(line)
        for block in blocks_of(line):
            call = block.get("tool_use_id")
            if block.get("type") == "tool_result" and isinstance(call, str):
                if is_background:
                    self.background.add(call)
                if agent:
                    self.calls.setdefault(agent, call)

    def link(self, agent: str, call: object) -> None:
        """Note the call that began a sub-agent, as the file beside its transcript says."""
        if isinstance(call, str) and call:
            self.calls[agent] = call

    def is_task(self, block: Block) -> bool:
        """Return True for a call that begins a sub-agent and waits for its end."""
        given = block.get("input")
        if (
            block.get("name") not in TASKS
            or not isinstance(given, dict)
            or block.get("id") in self.background
        ):
            return False
        return (
            isinstance(given.get("prompt"), str)
            and bool(given["prompt"].strip())
            and not given.get("run_in_background")
        )

    def knows(self, block: Block) -> bool:
        """Return False for a call of a tool, or of a sub-agent, that is not among the names."""
        if self.is_task(block):
            return agent_name(block["input"].get("subagent_type")) in self.agent_names()
        return block.get("name") in self.tools

    def agent_names(self) -> dict[str, str]:
        """Return the names of sub-agents with their models."""
        of_call = {call: self._models.get(agent, "") for agent, call in self.calls.items()}
        found: dict[str, str] = {}
        for call, kind in self._kinds.items():
            if call not in self.background:
                found[kind] = found.get(kind) or of_call.get(call, "")
        return found

    def profiles(self) -> tuple[Json, ...]:
        """Return the profiles of the session, its host first."""
        agents = self.agent_names()
        tools = tuple(
            ToolSpec(name, "", _SCHEMA, "read" if name in _READS else "write") for name in self.tools
        )
        made = [Profile(HOST, tools=tools, agents=tuple(agents))]
        for name, model in agents.items():
            spec = None if model in ("", self.model) else ModelSpec(model)
            made.append(Profile(name, tools=tools, agents=tuple(agents), model=spec))
        return tuple(Json(encode(one)) for one in made)

    @property
    def spec(self) -> ModelSpec:
        """Return the model of the host."""
        return ModelSpec(self.model or "claude")
