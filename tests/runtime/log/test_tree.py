"""The tree of a session's agents, as the live views show it."""

import pytest

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import CallModel, RequestCapacity
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Need
from callboard.actors.protocol.value_types import Settled
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, task
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.runtime.agent import Agent
from callboard.runtime.log.tree import Tree
from callboard.runtime.models.scripted import Step, call, fail, say
from tests.mutants import scenarios_background
from tests.mutants.scripts import script
from tests.replay.stories import record


def test_an_agent_whose_call_waits_says_for_which_models_capacity() -> None:
    scenario = Scenario([profile("host")], script(), [ask()], capacity=["scripted"])
    tree, states = Tree(), {}
    for event in SessionWorld(scenario).run().log:
        tree.add(event)
        if HOST in tree.nodes:
            states[type(event.body)] = tree.nodes[HOST].state
    assert states[RequestCapacity] == "waiting for capacity of scripted"
    assert states[CallModel] == "thinking"


def states_of(world: SessionWorld) -> list[dict[str, str]]:
    """Return the activity of each agent after each event."""
    tree, found = Tree(), []
    for event in world.log:
        tree.add(event)
        found.append({address: node.activity for address, node in tree.nodes.items()})
    return found


def test_a_parked_agent_its_tasks_and_words_on_their_way_are_shown() -> None:
    world = SessionWorld(scenarios_background.words_at_the_cap()).run()
    tree = Tree()
    for event in world.log:
        tree.add(event)
    assert tree.nodes["host.1"].is_background
    assert not tree.nodes["host"].is_background
    assert (tree.nodes["host"].tasks, tree.nodes["host"].words) == (0, 0)
    states = [states["host"] for states in states_of(world) if "host" in states]
    assert any(state.endswith("+1 unread") for state in states)


def test_an_agent_is_parked_when_it_is_silent_and_waits_when_it_calls_task_wait() -> None:
    parked = states_of(SessionWorld(scenarios_background.two_tasks()).run())
    assert "parked" in {states["host"] for states in parked if "host" in states}
    waiting = states_of(SessionWorld(scenarios_background.all_of_two()).run())
    assert "waiting for tasks" in {states["host"] for states in waiting if "host" in states}


@pytest.mark.parametrize("attempts", [1, 2])
def test_calls_without_figures_count_as_much_as_they_were_charged(attempts: int) -> None:
    def policy(request: ModelRequest) -> Step:
        if request.profile == "host":
            return call("task", agent="clerk", prompt="Go.") if request.turn == 1 else say("Done.")
        return fail("overloaded_error", is_retryable=request.attempt < attempts)

    recording = record(policy, Agent("host", agents=[Agent("clerk", description="Finds.")]), "Go.")
    (end,) = (event.body for event in recording.events if isinstance(event.body, AskEnded))
    tree = recording.tree()
    assert tree.usage_of(HOST) == end.usage
    assert tree.nodes["host.1"].usage.unknown_calls == tree.nodes["host.1"].usage.calls == attempts


def test_the_description_of_a_task_is_shown_where_its_prompt_would_be() -> None:
    named = Reply("", (task("kid", "dig", description="Find the key"),), "tool_use")
    lines = script(host=[named, Reply("done")], kid=[Reply("found")])
    scenario = Scenario([profile("host", ["kid"]), profile("kid")], lines, [ask()])
    tree = Tree()
    for event in SessionWorld(scenario).run().log:
        tree.add(event)
    kid = tree.nodes["host.1"]
    assert (kid.description, kid.prompt, kid.task) == ("Find the key", "dig", "Find the key")
    assert tree.nodes[HOST].task == tree.nodes[HOST].prompt


def test_a_call_without_figures_is_charged_its_own_need_and_not_that_of_the_next() -> None:
    tree = Tree()
    for turn, tokens in ((1, 100), (2, 700)):
        settled = Settled() if turn == 2 else None
        wanted = TurnRequested(turn, 1, Need(tokens), "d", settled=settled)
        tree.add(Event(turn, 0, HOST, "supervisor", 0, wanted))
    assert tree.nodes[HOST].usage.tokens == 100
