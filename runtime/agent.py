"""Agents as users write them: a description, tools, and whom they may delegate to.

An `Agent` is never changed and holds no state of a run, so one can serve any number of sessions at once.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from callboard.actors.base import NULL, Json
from callboard.actors.errors import InvalidAgent
from callboard.actors.limits import Limits
from callboard.actors.profiles import Profile
from callboard.runtime.boundary import to_json
from callboard.runtime.models.protocol import Model
from callboard.runtime.tools.tool import Tool

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Agent:
    """A host or a sub-agent.

    name: letters, digits, `_` and `-`, at most 64; unique among the agents of a session.
    description: what a delegating model reads of it. instructions: its system prompt, text or a list of
    content blocks. tools: made by `@tool`. agents: whom it may delegate to. output_schema: the JSON schema
    of its report where a call gives none. limits: the narrower of these, the session's and the call's hold.
    model: None inherits the model of whoever delegates. server_tools: tools that the model's service runs.

    Raises InvalidAgent for a name, tool or roster that cannot work.

        >>> Agent("explorer", description="Finds facts in files.", instructions="Be brief.").name
        'explorer'
    """

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        instructions: str | Sequence[Mapping[str, object]] = "",
        tools: Sequence[Tool] = (),
        agents: Sequence["Agent"] = (),
        output_schema: Mapping[str, object] | None = None,
        limits: Limits | None = None,
        model: Model | None = None,
        server_tools: Sequence[Mapping[str, object]] = (),
    ) -> None:
        if not _NAME.fullmatch(name):
            raise InvalidAgent(
                f"agent name {name[:80]!r}: use 1 to 64 letters, digits, '_' and '-', since models call it so"
            )
        self.name = name
        self.description = description
        self.tools = {tool.name: tool for tool in _tools(name, tools)}
        self.agents = tuple(agents)
        self.model = model
        self.limits = limits or Limits()
        self._instructions = to_json(instructions) if instructions else NULL
        self._schema = NULL if output_schema is None else to_json(dict(output_schema))
        self._server_tools = tuple(to_json(dict(tool)) for tool in server_tools)
        if len({agent.name for agent in self.agents}) != len(self.agents):
            raise InvalidAgent(f"agent {name!r} lists two agents of one name; give them different names")

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"

    def profile(self) -> Profile:
        """The pure description that goes into the log."""
        return Profile(
            self.name,
            self.description,
            self._instructions,
            tuple(tool.spec() for tool in self.tools.values()),
            self._server_tools,
            tuple(agent.name for agent in self.agents),
            self._schema,
            self.limits,
            self.model.spec if self.model else None,
        )

    def may_delegate_to(self, *agents: "Agent") -> None:
        """Add agents that could not be named before they existed: two that delegate to each other."""
        self.agents = (*self.agents, *agents)


def _tools(agent: str, tools: Sequence[Tool]) -> Sequence[Tool]:
    seen: set[str] = set()
    for tool in tools:
        if not isinstance(tool, Tool):
            raise InvalidAgent(f"agent {agent!r}: {tool!r} is no tool; decorate the function with @tool")
        if tool.name in seen:
            raise InvalidAgent(
                f"agent {agent!r} has two tools named {tool.name!r}; rename one with @tool(name=...)"
            )
        seen.add(tool.name)
    return tools


def roster(host: Agent) -> dict[str, Agent]:
    """The host and everybody who can be reached from it, by name. Raises InvalidAgent."""
    found: dict[str, Agent] = {}
    ahead = [host]
    while ahead:
        agent = ahead.pop()
        if (known := found.get(agent.name)) is not None:
            if known is not agent:
                raise InvalidAgent(
                    f"two agents named {agent.name!r} can be reached from {host.name!r}; "
                    "names must be unique in a session"
                )
            continue
        found[agent.name] = agent
        ahead += agent.agents
    return found


def prompt_json(prompt: str | Sequence[Mapping[str, object]] | Json) -> Json:
    """A prompt as it goes into the log. Raises InvalidPrompt."""
    return prompt if isinstance(prompt, Json) else to_json(prompt)
