"""Simulated sessions render outputs and give results again as live ones do."""

from callboard import Agent, ScriptedModel, call, say, tool
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.outputs import ToolOutput
from callboard.testing import simulate

RUNS: list[str] = []


@tool(effect="read", output="concise", cache=True)
def look(word: str) -> ToolOutput:
    """Look a word up."""
    RUNS.append(word)
    return ToolOutput([word], summary=f"looked at {word}", metadata={"run": len(RUNS)})


def test_a_simulation_gives_the_text_and_the_results_of_a_live_session() -> None:
    RUNS.clear()
    model = ScriptedModel([call("look", word="a"), call("look", word="a"), say("done")])
    log = simulate(Agent("host", tools=[look]), model).events
    first, again = (event.body for event in log if isinstance(event.body, ToolReturned))
    assert bytes(first.output) == b'"[look] looked at a"'
    assert (again.output, bool(again.cached_from), RUNS) == (first.output, True, ["a"])
    assert first.telemetry is None, "a simulation has no time"
