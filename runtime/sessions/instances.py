"""Instances: the agents that factories make, a new one for each call.

    factory of the session   an agent that a function of the host makes
    agents of an instance    the agents that it delegates to, which share its state

An instance brings its own tools, its context function, and the state that these close over. Its definition is
that of the session, so the log and the model see no difference between two instances. One is made before its
agent begins. A session that goes on in another process makes new ones when their tools are first called. The
instance of a host lives as long as its conversation.
"""

from collections.abc import Callable, Mapping

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.addresses import HOST, parent_of
from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.profiles import ToolSpec
from callboard.actors.session.step import ActorState
from callboard.runtime.agent import Agent, roster

_ADVICE = "make the same definition each time, and let only the state of its tools differ"


class Instances:
    """The instances of one session, by address. agents: of the session, by name.

    profile_of: returns the name of the profile of a live agent, None for an address without one.
    """

    def __init__(
        self, agents: Mapping[str, Agent], profile_of: Callable[[str], str | None] = lambda address: None
    ) -> None:
        self._agents = agents
        self.profile_of = profile_of
        self.has_factories = any(agent.make for agent in agents.values())
        self._made: dict[str, Agent] = {}

    def factory(self, address: str, profile: str) -> Callable[[], Agent] | None:
        """Return the function that makes an agent's instance, None for an agent without one.

        It raises what a factory raises, and InvalidAgent for an agent of another definition.
        """
        if not self.has_factories:
            return None
        above = self._above(address)
        source = self._source(above, profile)
        make = source.make if source is not None else None
        if source is None or make is None:
            return (lambda: source) if above is not None and source is not None else None
        return lambda: _checked(source, make())

    def _above(self, address: str) -> Agent | None:
        """Return the instance of the agent that delegates to an address, None for an agent without one."""
        parent = parent_of(address)
        profile = self._profile_at(parent) if address != HOST else None
        return self.of(parent, profile) if profile is not None else None

    def _profile_at(self, address: str) -> str | None:
        return self._made[address].name if address in self._made else self.profile_of(address)

    def _source(self, above: Agent | None, profile: str) -> Agent | None:
        """Return the agent of this name that an instance has, else that of the session."""
        own = above.agents if above is not None else ()
        return next((one for one in own if one.name == profile), self._agents.get(profile))

    def keep(self, address: str, instance: Agent) -> None:
        """Keep the instance of an agent until the agent ends."""
        self._made[address] = instance

    def of(self, address: str, profile: str) -> Agent | None:
        """Return the instance of an agent, made now if need be; None for an agent without one.

        Raises what the factory raises.
        """
        if address in self._made:
            return self._made[address]
        make = self.factory(address, profile)
        if make is None:
            return None
        self._made[address] = made = make()
        return made

    def ended(self, address: str) -> None:
        """Forget the instance of an agent that has ended. A host ends with its session."""
        if address != HOST:
            self._made.pop(address, None)

    @property
    def count(self) -> int:
        """Return the number of instances."""
        return len(self._made)


def profile_at(states: Mapping[str, ActorState], address: str) -> str | None:
    """Return the name of an agent's profile, None for an address without a live agent."""
    state = states.get(address)
    prefix = state.prefix if isinstance(state, AgentState) else None
    return prefix.profile.name if prefix is not None else None


def _checked(agent: Agent, made: object) -> Agent:
    if not isinstance(made, Agent):
        raise InvalidAgent(f"its factory returned {made!r:.80}, which is not an Agent")
    known, found = roster(agent), roster(made)
    for name in {agent.name: None, made.name: None, **known, **found}:
        one, other = known.get(name), found.get(name)
        if one is not other and (one is None or other is None or _own_tools(one) != _own_tools(other)):
            what = "an agent" if name in (agent.name, made.name) else f"an agent {name!r} below it"
            raise InvalidAgent(
                f"its factory made {what} with another name or other tools than the first time; {_ADVICE}"
            )
    return made


def _own_tools(agent: Agent) -> dict[str, ToolSpec]:
    """Return the tools that are functions of the program, by name: those of sources belong to the session."""
    specs = (tool.spec() for tool in agent.all_tools)
    return {spec.name: spec for spec in specs if spec.origin is None}
