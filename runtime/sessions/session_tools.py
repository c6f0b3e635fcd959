"""The tools of a session as Python has them: those of its agents, and those that were set while it ran.

The log holds only the descriptions of tools. A session that resumes in another process finds the functions of
changed tools among the `tools` and `later_tools` of its agents. A tool that a source has listed is made of
its description. A call of any other tool is an error result.
"""

from collections.abc import Callable, Mapping, Sequence

from callboard.actors.protocol.errors import MisuseError, UnknownName
from callboard.actors.protocol.profiles import ToolsChange, ToolSpec
from callboard.runtime.agent import Agent
from callboard.runtime.sessions.instances import Instances
from callboard.runtime.tools.sources import ToolSource, refuse_alike
from callboard.runtime.tools.tool import Tool


class SessionTools:
    """The tools of one session, by agent. listed: makes a tool of a source of its description."""

    def __init__(
        self,
        agents: Mapping[str, Agent],
        listed: Callable[[ToolSource, ToolSpec], Tool | None] = lambda source, spec: None,
    ) -> None:
        self._agents = agents
        self.instances = Instances(agents)
        self._listed = listed
        self._made: dict[tuple[str, str], Tool] = {}  # by profile and by the tool's name
        self._set: dict[tuple[str, str], Tool] = {}  # by address or profile, and by the tool's name

    def find(self, address: str, profile: str, name: str, spec: ToolSpec | None = None) -> Tool | None:
        """Return the tool of this name that an agent has, or None. spec: as the agent knows the tool.

        Raises what the factory of the agent raises, if it has one and an instance is to be made.
        """
        agent = self._agents.get(profile)
        found = None
        if self._set:
            found = self._set.get((address, name)) or self._set.get((f"profile {profile}", name))
        if agent is None:
            return found
        if found is None:
            found = self._own_tool(agent, address, name)
        if spec is None or spec.origin is None:
            return found
        return self._as_listed(agent, spec, spec.origin.source, found)

    def _own_tool(self, agent: Agent, address: str, name: str) -> Tool | None:
        """Return a tool of an agent's definition, or of its own instance if a factory makes those."""
        own = self.instances.of(address, agent.name) or agent
        return own.tools.get(name) or own.later_tools.get(name) or agent.tools.get(name)

    def _as_listed(self, agent: Agent, spec: ToolSpec, label: str, found: Tool | None) -> Tool | None:
        """Return the tool of a source as its agent knows it: the list may have changed since."""
        made = self._made.get((agent.name, spec.name))
        if same := next((tool for tool in (found, made) if tool and tool.spec() == spec), None):
            return same
        made = next((self._listed(one, spec) for one in agent.sources if one.label == label), None)
        if made is not None:
            self._made[agent.name, spec.name] = made
        return made or found

    def change(
        self, tools: Sequence[object], *, address: str = "", agent: str = "", of: str = ""
    ) -> ToolsChange:
        """Return the change that gives these tools to an agent, or to all agents of a profile.

        tools: tools, or names of tools that the profile has as `tools` or `later_tools`. of: the profile of
        the agent at this address, where that is known.

        Raises UnknownName for an unknown profile or name, MisuseError for tools that cannot work together,
        InvalidAgent for two functions with one description whose results are given again.
        """
        self._refuse_target(address, agent)
        known = self._agents.get(agent or of)
        chosen = [self._chosen(one, known) for one in tools]
        names = [tool.name for tool in chosen]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise MisuseError(f"set_tools got two tools named {twice!r}; rename one")
        refuse_alike((*chosen, *self._set.values(), *_all_of(self._agents).values()))
        self._set.update({(address or f"profile {agent}", tool.name): tool for tool in chosen})
        return ToolsChange(tuple(tool.spec() for tool in chosen), address, agent)

    def _refuse_target(self, address: str, agent: str) -> None:
        if bool(address) == bool(agent):
            raise MisuseError("set_tools needs either address= of one agent, or agent= for a profile")
        if agent and agent not in self._agents:
            raise UnknownName(f"there is no agent {agent!r:.80}; there are: {', '.join(self._agents)}")

    def _chosen(self, one: object, known: Agent | None) -> Tool:
        if isinstance(one, Tool):
            return one
        named = _known(known) if known else _all_of(self._agents)
        if isinstance(one, str) and one in named:
            return named[one]
        if isinstance(one, str):
            raise UnknownName(
                f"there is no tool {one!r:.80}; there are: {', '.join(named) or 'none'}. Give others as "
                "Agent(later_tools=[...]), or pass the tool itself"
            )
        raise MisuseError(f"{one!r:.80} is not a tool; decorate the function with @tool, or pass a name")


def _known(agent: Agent) -> dict[str, Tool]:
    return {**agent.later_tools, **agent.tools}


def _all_of(agents: Mapping[str, Agent]) -> dict[str, Tool]:
    return {name: tool for agent in agents.values() for name, tool in _known(agent).items()}
