"""Simulated sessions for the diagnosis: the replies of each agent in a list, and a function for the tools."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from callboard.actors.protocol.client_messages import Tell
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, RequestApproval, ToolReturned
from callboard.actors.protocol.profiles import Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.replay.testing.agents.scenario_arguments import recording_of
from callboard.replay.testing.sessions.scenario import Scenario, approves, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.scripted_session import TELLS
from callboard.replay.testing.sessions.world import SessionWorld

Arguments = dict[str, Any]
Tools = Callable[[str, str, Arguments], object]
"""(agent, tool, arguments) -> the result; an exception is an error of the tool."""

ANY: dict[str, object] = {"type": "object"}
READS = ("look", "status", "count")
WRITES = ("save", "run_tests", "send")


def host(*agents: str, **more: Any) -> Profile:
    """Return a host with the usual tools."""
    return profile("host", agents, READS, writes=WRITES, asks=["pay"], **more)


def worker(*agents: str, name: str = "worker", **more: Any) -> Profile:
    """Return a sub-agent with the usual tools."""
    return profile(name, agents, READS, writes=WRITES, **more)


def use(tool: str, **arguments: object) -> Reply:
    """Make a reply with one call."""
    return calls((tool, arguments))


def delegate(*prompts: str, agent: str = "worker") -> Reply:
    """Make a reply that delegates each of these prompts, and wants a report."""
    return calls(*(task(agent, prompt, output_schema=ANY) for prompt in prompts))


def ok(agent: str, tool: str, arguments: Arguments) -> str:
    """Answer as a tool that succeeded."""
    return f"{tool} {arguments} is done"


def simulate(
    replies: Mapping[str, Sequence[Reply]],
    tools: Tools = ok,
    people: Sequence[Profile] | None = None,
    approve: Callable[[str, RequestApproval], ApprovalGiven] = approves,
    tell: tuple[Tell, str] | None = None,
    **more: Any,
) -> Recording:
    """Simulate a session.

    replies: of each agent, by its address, one for each request; the last one is said again. `*` stands for
    the other agents. tell: words for an
    agent, and the tool with whose call they arrive, before its result.
    """

    def says(request: ModelRequest) -> Reply:
        made = replies.get(request.address) or replies["*"]
        return made[min(request.turn + request.attempt - 1, len(made)) - 1]

    def gives(address: str, call: CallTool) -> ToolReturned:
        try:
            result = tools(address, call.tool, msgspec.json.decode(call.arguments))
        except OSError as error:
            return ToolReturned(call.turn, call.call, "error", text_json(str(error)))
        text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
        return ToolReturned(call.turn, call.call, "ok", text_json(text))

    tells = () if tell is None else (tell[0],)
    agents = people or (host("worker"), worker())
    world = SessionWorld(
        Scenario(agents, says, [ask("go")], tool=gives, approve=approve, tells=tells, **more)
    )
    return recording_of(list((_with_words(world, tell[1]) if tell else world.run()).log), "one")


def _with_words(world: SessionWorld, tool: str) -> SessionWorld:
    """Run a world in which the words arrive once this tool is called, before its result."""
    is_told = False
    while moves := world.moves():
        is_called = any(call.tool == tool for call in world.of(CallTool))
        wanted = [move for move in moves if move.strand.startswith(TELLS) == (is_called and not is_told)]
        is_told = is_told or is_called
        world.make((wanted or moves)[0])
    return world
