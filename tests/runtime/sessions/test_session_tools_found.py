"""The tools of a session by the agent that calls: set, its own, of its instance, or listed by a source."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from callboard import Agent, Tool, tool
from callboard.actors.protocol.profiles import ToolOrigin, ToolSpec
from callboard.errors import InvalidAgent, MisuseError, UnknownName
from callboard.runtime.sessions.session_tools import SessionTools
from callboard.runtime.tools.sources import ToolSource


def named(name: str, **more: Any) -> Tool:
    """Return a tool of this name."""
    return Tool(name, "", {"type": "object"}, lambda given: name, "read", **more)


LOOK, LATER, SEARCH = named("look"), named("later"), named("search")
KID = Agent("kid", tools=[SEARCH])
HOST = Agent("host", tools=[LOOK], later_tools=[LATER], agents=[KID])
AGENTS = {"host": HOST, "kid": KID}


def test_a_tool_is_the_one_that_was_set_for_the_agent_then_for_its_profile_then_its_own() -> None:
    tools = SessionTools(AGENTS)
    assert tools.find("host", "host", "look") is HOST.tools["look"]
    assert tools.find("host", "host", "later") is HOST.later_tools["later"]
    assert tools.find("host", "host", "search") is None
    assert tools.find("host.1", "gone", "look") is None
    of_all, of_one = named("look"), named("look")
    tools.change([of_all], agent="kid")
    assert tools.find("host.1", "kid", "look") is of_all
    assert tools.find("host.1", "host", "look") is HOST.tools["look"]
    tools.change([of_one], address="host.1")
    assert tools.find("host.1", "kid", "look") is of_one
    assert tools.find("host.2", "kid", "look") is of_all
    assert tools.find("host.1", "gone", "look") is of_one


def test_an_instance_has_its_own_tools_and_those_of_its_definition() -> None:
    made: list[Tool] = []

    def make() -> Agent:
        made.append(named("look"))
        return Agent("lead", tools=[made[-1]])

    lead = Agent.made_by(make)
    tools = SessionTools({"lead": lead})
    found = tools.find("host.1", "lead", "look")
    assert found is made[-1]
    assert len(made) == 2
    assert tools.find("host.2", "lead", "look") is made[-1] is not found
    instance = Agent("lead", later_tools=[LATER])
    tools.instances.keep("host.3", instance)
    assert tools.find("host.3", "lead", "look") is made[0]
    assert tools.find("host.3", "lead", "later") is instance.later_tools["later"]


class Shop(ToolSource):
    """A source of tools."""

    def __init__(self, label: str) -> None:
        self.label = label

    def live(self) -> Any:
        """Return no source: nothing is asked here."""

    def secrets(self) -> dict[str, str]:
        return {}


def spec_of(name: str, source: str, description: str = "") -> ToolSpec:
    spec = named(name, origin=ToolOrigin(source, name)).spec()
    return replace(spec, description=description)


def test_a_tool_of_a_source_is_the_one_that_its_agent_knows_made_once() -> None:
    shop, other = Shop("shop"), Shop("other")
    agent = Agent("host", tools=[LOOK, shop, other])
    asked: list[tuple[object, str]] = []

    def listed(source: ToolSource, spec: ToolSpec) -> Tool | None:
        asked.append((source, spec.name))
        if spec.name == "gone":
            return None
        return Tool(
            spec.name, spec.description, {"type": "object"}, lambda given: 5, "read", origin=spec.origin
        )

    tools = SessionTools({"host": agent}, listed)
    price, later = spec_of("price", "shop", "Cheap."), spec_of("price", "shop", "Dear.")
    first = tools.find("host", "host", "price", price)
    assert first is not None
    assert first.spec() == price
    assert tools.find("host", "host", "price", price) is first
    again = tools.find("host", "host", "price", later)
    assert again is not None
    assert again.spec() == later
    assert asked == [(shop, "price"), (shop, "price")]
    assert tools.find("host", "host", "gone", spec_of("gone", "other")) is None
    assert asked[-1] == (other, "gone")
    own = named("gone", origin=ToolOrigin("other", "gone"))
    tools.change([own], agent="host")
    assert tools.find("host", "host", "gone", own.spec()) is own
    assert tools.find("host", "host", "gone", spec_of("gone", "other", "Changed.")) is own
    assert tools.find("host", "host", "look", LOOK.spec()) is agent.tools["look"]


def test_a_name_is_one_of_the_profile_that_is_known_or_of_any() -> None:
    tools = SessionTools(AGENTS)
    assert [one.name for one in tools.change(["later"], agent="host").tools] == ["later"]
    with pytest.raises(UnknownName, match="there are: search"):
        tools.change(["later"], address="host.1", of="kid")
    assert tools.change(["later", "search"], address="host.1").address == "host.1"
    wrong: Sequence[object]
    for wrong, error in (([7], MisuseError), ([["look"]], MisuseError), (["nothing"], UnknownName)):
        with pytest.raises(error):
            tools.change(wrong, agent="host")


def test_two_functions_with_one_description_are_refused_wherever_they_stand() -> None:
    def cached() -> Tool:
        @tool(effect="read", cache=True)
        def price(item: str) -> int:
            """Return a price."""
            return 5

        return price

    one, other, third = cached(), cached(), cached()
    tools = SessionTools({"host": Agent("host", later_tools=[one])})
    with pytest.raises(InvalidAgent):
        tools.change([other], agent="host")
    assert tools.find("host", "host", "price") is one  # a refused change leaves the tools as they were
    tools = SessionTools(AGENTS)
    tools.change([other], agent="kid")
    with pytest.raises(InvalidAgent):
        tools.change([third], agent="host")
