"""Tools whose results are given again (`cache=True`): found by their descriptions, so told apart by them."""

from collections.abc import Callable
from typing import Any

import pytest

from callboard.actors.protocol.errors import InvalidAgent
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.sources import refuse_alike
from callboard.runtime.tools.tool import FunctionTool, tool
from tests.runtime.sessions.kit import run
from tests.tables import table


def looking(answer: str, **options: Any) -> FunctionTool[..., Any]:
    """Make a tool `look` with one description and any answer."""

    def look(place: str) -> str:
        """Look at a place."""
        return answer

    make: Callable[..., Any] = tool(effect="read", **options)
    made: FunctionTool[..., Any] = make(look)
    return made


def test_one_tool_may_be_listed_many_times() -> None:
    look = looking("a", cache=True)
    refuse_alike([look, look])


def test_two_functions_with_one_description_are_refused() -> None:
    with pytest.raises(
        InvalidAgent, match=r"two agents have a tool 'look' with the same description and different"
    ):
        refuse_alike([looking("a", cache=True), looking("b", cache=True)])


@table(
    ("one", "other"),
    [
        ({"cache": True}, {"cache": True, "version": "2"}),
        ({"cache": True}, {"cache": True, "name": "look_again"}),
        ({"cache": True}, {"cache": True, "description": "Look elsewhere."}),
        ({"cache": True}, {}),
        ({}, {}),
    ],
)
def test_tools_of_other_descriptions_or_without_cached_results_pass(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    refuse_alike([looking("a", **one), looking("b", **other)])


def test_the_third_tool_is_compared_with_the_first() -> None:
    first, other = looking("a", cache=True), looking("b", cache=True, version="2")
    with pytest.raises(InvalidAgent):
        refuse_alike([first, other, looking("c", cache=True)])


def test_a_session_whose_agents_have_such_tools_is_not_opened() -> None:
    kid = Agent("kid", description="Looks.", tools=[looking("b", cache=True)])
    host = Agent("host", tools=[looking("a", cache=True)], agents=[kid])

    async def body(runtime: Runtime) -> None:
        with pytest.raises(InvalidAgent, match="give the tools different names, or different version="):
            await runtime.open(host)

    log = run(body, ScriptedModel([say("Done.")]))
    assert isinstance(log, MemoryLog)


def test_a_cached_result_is_given_to_the_same_call_of_any_agent_and_to_no_other() -> None:
    ran: list[str] = []

    @tool(effect="read", cache=True)
    def look(place: str) -> str:
        """Look at a place."""
        ran.append(place)
        return f"saw {place}"

    kid = Agent("kid", description="Looks.", tools=[look])
    host = Agent("host", tools=[look], agents=[kid])

    def policy(request: Any) -> Any:
        if request.address != "host":
            return [calls(call("look", place="a"), call("look", place="b")), say("Done.")][request.turn - 1]
        steps = [call("look", place="a"), call("task", agent="kid", prompt="Look."), call("look", place="b")]
        return steps[request.turn - 1] if request.turn <= 3 else say("Done.")

    async def body(runtime: Runtime) -> None:
        assert (await runtime.run(host, "Go.")).kind == "answered"

    run(body, ScriptedModel(policy))
    assert ran == ["a", "b"]
