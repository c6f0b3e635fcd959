"""The tree of a session's agents, as the live views show it."""

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.port_messages import CallModel, RequestCapacity
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.runtime.log.tree import Tree
from tests.mutants.scripts import script


def test_an_agent_whose_call_waits_says_for_which_models_capacity() -> None:
    scenario = Scenario([profile("host")], script(), [ask()], capacity=["scripted"])
    tree, states = Tree(), {}
    for event in SessionWorld(scenario).run().log:
        tree.add(event)
        if HOST in tree.nodes:
            states[type(event.body)] = tree.nodes[HOST].state
    assert states[RequestCapacity] == "waiting for capacity of scripted"
    assert states[CallModel] == "thinking"
