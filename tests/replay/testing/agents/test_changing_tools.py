"""Tools that change from inside a tool, in simulations and explorations."""

from typing import Any

from callboard import Agent, ToolContext, call, say, tool
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.testing import Scenario, at_rest, explore, simulate


@tool(effect="read")
def search(words: str) -> str:
    """Search the archive."""
    return f"nothing about {words}"


@tool(effect="read")
def open_archive(ctx: ToolContext) -> str:
    """Open the archive, which can be searched then."""
    ctx.set_tools(["search"])
    return "The archive is open."


def offered(request: ModelRequest) -> list[str]:
    tools = b"".join(map(bytes, request.tools))
    return [name for name in ("open_archive", "search") if b'"%s"' % name.encode() in tools]


HOST = Agent("host", tools=[open_archive], later_tools=[search])


def opens(request: ModelRequest) -> Any:
    if request.turn == 1:
        return call("open_archive")
    if request.turn == 2:
        return call("search", words="whales")
    return say(f"There is nothing; offered: {offered(request)}")


def test_a_tool_that_sets_tools_is_simulated_and_its_change_is_in_the_next_request() -> None:
    found = simulate(HOST, opens, "What is there about whales?")
    assert found.outcome.text == "There is nothing; offered: ['search']"
    outputs = [bytes(one.output) for one in found.world.of(ToolReturned)]
    assert outputs == [b'"The archive is open."', b'"nothing about whales"']
    assert found.breaches == []


def test_no_order_and_no_fault_breaks_a_rule_while_a_tool_sets_tools() -> None:
    explore(HOST, opens, "What is there about whales?", runs=60, faults="all")


def made_here(ctx: ToolContext) -> str:
    """Make a tool."""

    @tool(effect="read")
    def made() -> str:
        """Say who made it."""
        return "made in this process"

    ctx.set_tools([made])
    return "there is a tool now"


MAKER = Agent("maker", tools=[tool(effect="read")(made_here)])


def makes(request: ModelRequest) -> Any:
    return [call("made_here"), call("made"), say("done")][min(request.turn, 3) - 1]


def test_a_tool_that_is_no_agents_own_is_gone_with_its_process_as_live() -> None:
    found = simulate(MAKER, makes)
    assert bytes(found.world.of(ToolReturned)[-1].output) == b'"made in this process"'
    told: set[bytes] = set()

    def hear(world: SessionWorld) -> bool:
        told.update(bytes(one.output) for one in world.of(ToolReturned))
        return True

    explore(MAKER, makes, faults="crash", runs=200, monitors=[at_rest("Heard.", hear)])
    assert any(b"there is no tool" in one for one in told)


def test_one_run_does_not_see_the_tools_that_another_has_set() -> None:
    scenario = Scenario(MAKER, makes)
    first, second = scenario.simulate(seed=1), scenario.simulate(seed=1)
    assert first.events == second.events

    def uses_at_once(request: ModelRequest) -> Any:
        return call("made") if request.turn == 1 else say("done")

    later = simulate(MAKER, uses_at_once)
    assert later.breaches == []
    assert not later.world.of(ToolReturned)  # the agent has no such tool


def test_a_change_of_another_agent_reaches_it() -> None:
    @tool(effect="read")
    def equip(ctx: ToolContext) -> str:
        """Give the kids a search."""
        ctx.set_tools([search], agent="kid")
        return "equipped"

    kid = Agent("kid", later_tools=[search])
    boss = Agent("boss", tools=[equip], agents=[kid])

    def policy(request: ModelRequest) -> Any:
        if request.profile == "kid":
            return call("search", words="x") if request.turn == 1 else say("found")
        calls = [call("equip"), call("task", agent="kid", prompt="go"), say("done")]
        return calls[request.turn - 1]

    found = simulate(boss, policy)
    assert b'"nothing about x"' in [bytes(one.output) for one in found.world.of(ToolReturned)]
