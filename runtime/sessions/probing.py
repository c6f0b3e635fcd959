"""Probing of a session's agents before it begins: it finds their tools, and the broken ones.

    a factory that raises        found when the agent is defined (`Agent.made_by`)
    a tool source that fails     found when the session opens
    no model, also inherited     found when the session opens

A broken agent refuses the session, or is marked if it says so: each call of it then ends as `unavailable`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.profiles import Profile
from callboard.runtime.agent import Agent, roster
from callboard.runtime.tools.sources import LiveSources, Scope, ToolSource
from callboard.runtime.tools.tool import Tool


class Probed(NamedTuple):
    """The tools of sources, by the names of their agents, and the broken agents with the reasons."""

    tools: Mapping[str, Sequence[Tool]]
    broken: Mapping[str, str]


NOT_PROBED = Probed({}, {})


async def probe(
    host: Agent,
    live: LiveSources,
    scope: Scope,
    recorded: Mapping[str, Profile] | None = None,
    *,
    takes_new: bool = False,
) -> Probed:
    """Ask the sources of a session's agents for their tools. Raises InvalidAgent for a broken agent.

    recorded: the profiles of a session that goes on, by name: an agent that was broken then stays so, unless
    the session takes changed agents (takes_new).
    """
    agents, broken = roster(host), {} if takes_new else _recorded_as_broken(host, recorded or {})
    specs = None if recorded is None else {name: one.tools for name, one in recorded.items()}

    async def listed(some: Sequence[str]) -> dict[str, list[Tool]]:
        sources: dict[str, Sequence[ToolSource]] = {name: agents[name].sources for name in some}
        return await live.tools_of(sources, scope, specs, takes_new=takes_new)

    async def tried(name: str) -> dict[str, list[Tool]]:
        try:
            return await listed([name])
        except InvalidAgent as error:
            broken[name] = f"its tools could not be had: {error}"
            return {}

    needed, optional = _parted(agents, broken)
    found = [await listed(needed), *await asyncio.gather(*map(tried, optional))]
    return Probed({name: tools for part in found for name, tools in part.items()}, broken)


def _parted(agents: Mapping[str, Agent], broken: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the agents whose sources must be asked: those that must have tools, and the others."""
    asked = [name for name, one in agents.items() if one.sources and name not in broken]
    optional = [name for name in asked if agents[name].on_broken == "unavailable"]
    return [name for name in asked if name not in optional], optional


def needs_probe(host: Agent) -> bool:
    """Return True if a part of the agents may be broken, or is known only once it was asked for."""
    return any(one.sources or one.on_broken == "unavailable" for one in roster(host).values())


def _recorded_as_broken(host: Agent, recorded: Mapping[str, Profile]) -> dict[str, str]:
    agents = [one for one in roster(host).values() if one.on_broken == "unavailable"]
    known = {one.name: recorded[one.name].unavailable for one in agents if one.name in recorded}
    return {name: why for name, why in known.items() if why}


def without_model(host: Agent, *, has_default: bool) -> tuple[str, ...]:
    """Return the agents that can be reached on a way where no agent names a model.

    has_default: True if the runtime has one. A program needs none for its own steps.
    """
    found: dict[str, None] = {}
    ahead, seen = [(host, has_default)], {(id(host), has_default)}
    while ahead:
        agent, has_model = ahead.pop()
        if agent.model is None and not has_model:
            found[agent.name] = None
        below = has_model or agent.model_below is not None
        for one in agent.agents:
            if (id(one), below) not in seen:
                seen.add((id(one), below))
                ahead.append((one, below))
    return tuple(found)
