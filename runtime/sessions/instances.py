"""Instances: the agents that factories make, a new one for each call.

An instance brings its own tools, and with them the state that these close over. Its definition is that of the
session, so the log and the model see no difference between two instances. One is made before its agent
begins. A session that goes on in another process makes new ones when their tools are first called.
"""

from collections.abc import Callable, Mapping

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.profiles import ToolSpec
from callboard.runtime.agent import Agent


class Instances:
    """The instances of one session, by address. agents: of the session, by name."""

    def __init__(self, agents: Mapping[str, Agent]) -> None:
        self._agents = agents
        self._made: dict[str, Agent] = {}

    def factory(self, profile: str) -> Callable[[], Agent] | None:
        """Return the function that makes an instance, None for an agent without a factory.

        It raises what the factory raises, and InvalidAgent for an agent of another definition.
        """
        agent = self._agents.get(profile)
        make = agent.make if agent is not None else None
        if agent is None or make is None:
            return None
        return lambda: _checked(agent, make())

    def keep(self, address: str, instance: Agent) -> None:
        """Keep the instance of an agent until the agent ends."""
        self._made[address] = instance

    def of(self, address: str, profile: str) -> Agent | None:
        """Return the instance of an agent, made now if need be; None for an agent without a factory.

        Raises what the factory raises.
        """
        if address in self._made:
            return self._made[address]
        make = self.factory(profile)
        if make is None:
            return None
        self._made[address] = made = make()
        return made

    def ended(self, address: str) -> None:
        """Forget the instance of an agent that has ended."""
        self._made.pop(address, None)

    @property
    def count(self) -> int:
        """Return the number of instances."""
        return len(self._made)


def _checked(agent: Agent, made: object) -> Agent:
    if not isinstance(made, Agent):
        raise InvalidAgent(f"its factory returned {made!r:.80}, which is no Agent")
    if made.name != agent.name or _own_tools(made) != _own_tools(agent):
        raise InvalidAgent("its factory made an agent with another name or other tools than at first")
    return made


def _own_tools(agent: Agent) -> dict[str, ToolSpec]:
    """Return the tools that are functions of the program, by name: those of sources belong to the session."""
    specs = (tool.spec() for tool in agent.all_tools)
    return {spec.name: spec for spec in specs if spec.origin is None}
