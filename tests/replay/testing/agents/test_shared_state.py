"""Simulations of agents with contracts whose tools read and update the shared state, and state labels."""

from typing import Any

import msgspec

from callboard import Agent, SharedKey, ToolContext, call, calls, say, tool
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.testing import explore, simulate
from tests.effort import effort
from tests.tables import table


class Lookup(msgspec.Struct):
    query: str


@tool(effect="read")
def note(word: str, ctx: ToolContext) -> str:
    """Note a word, and count it."""
    ctx.update_state("words", word)
    ctx.update_state("count", 1)
    ctx.label("noted")
    return f"{ctx.state['count']} before"


@tool(effect="read")
def wrong(ctx: ToolContext) -> str:
    """Update a key that no agent declares."""
    ctx.update_state("other", 1)
    return "updated"


KEYS: dict[str, object] = {"words": SharedKey("append", []), "count": SharedKey("add", 0)}
FINDER = Agent("finder", description="Finds.", input=Lookup, tools=[note, wrong])
HOST = Agent("host", agents=[FINDER], state=KEYS)


def policy(request: Any) -> Any:
    """Let the host call two finders, each of which notes twice."""
    if request.profile == "host":
        return (
            calls(call("finder", query="a"), call("finder", query="b")) if request.turn == 1 else say("done")
        )
    return call("note", word=request.address) if request.turn <= 2 else say("noted")


def returned(events: Any) -> list[ToolReturned]:
    return [event.body for event in events if isinstance(event.body, ToolReturned)]


@table("seed", range(5))
def test_tools_read_and_update_the_state_of_a_simulated_session(seed: int) -> None:
    run = simulate(HOST, policy, seed=seed)
    found = returned(run.events)
    outputs = sorted(bytes(one.output).decode() for one in found)
    assert outputs[0] == '"0 before"'
    assert all(one.state_read == ("count",) and one.labels == ("noted",) for one in found)
    assert [len(one.state_update) for one in found] == [2] * 4


def test_every_order_with_faults_keeps_the_rules_of_state_and_contracts() -> None:
    explore(HOST, policy, runs=effort(40, 2_000), faults="all")


def test_an_update_of_an_undeclared_key_is_an_error_as_in_a_live_session() -> None:
    def once(request: Any) -> Any:
        if request.profile == "host":
            return call("finder", query="a") if request.turn == 1 else say("done")
        return call("wrong") if request.turn == 1 else say("no")

    (answer,) = returned(simulate(HOST, once).events)
    assert answer.status == "error"
    assert b"other" in bytes(answer.output)
    assert answer.state_update == ()
