"""Sessions with bundles and labels: random orders, and a crash at every prefix, keep all rules."""

import pytest

from callboard.actors.protocol.messages import Begin, DelegationEnded, ToolsGiven
from callboard.actors.protocol.port_messages import CallTool
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.sessions.monitors import breaches_of, session_monitors
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from callboard.replay.verify import Verifier
from tests.effort import effort
from tests.mutants.scenarios_rights import RIGHTS, changed_tools, labels_of_delegations, narrowed_trees


@pytest.mark.parametrize("name", RIGHTS)
def test_orders_keep_all_rules(name: str) -> None:
    found = explore(Worlds(RIGHTS[name]), session_monitors(10), Plan("portfolio", runs=effort(20, 40)))
    assert found.is_ok, "\n".join(lines(found))


@pytest.mark.parametrize("name", RIGHTS)
def test_a_crash_at_every_eighth_prefix_breaks_no_rule(name: str) -> None:
    scenario = RIGHTS[name]
    log = SessionWorld(scenario).run(in_random_order(0)).log
    for length in range(1, len(log) + 1, 8):
        world = SessionWorld(scenario)
        world.resume(log[:length])
        assert not breaches_of(world.run(in_random_order(0))), f"after event {length}"
        assert Verifier(world.log).run() is None


def test_the_sessions_meet_denials_of_every_kind() -> None:
    world = SessionWorld(narrowed_trees()).run(in_random_order(0))
    denied = {end.detail for end in world.of(DelegationEnded) if end.kind == "denied"}
    assert denied == {f"agent '{name}' is denied by agent host" for name in ("spare", "extra")}
    assert {begin.permissions for begin in world.of(Begin)} != {()}
    called = {(event.sender, event.body.tool) for event in world.events(CallTool)}  # type: ignore[union-attr]  # a CallTool
    assert called, "some calls are permitted"
    assert ("host", "save") not in called
    assert all(tool in ("look", "fetch") for _, tool in called)


def test_labels_reach_the_calls_of_agents_that_read_nothing_themselves() -> None:
    worlds = (SessionWorld(labels_of_delegations()).run(in_random_order(seed)) for seed in range(20))
    assert any(call.labels for world in worlds for call in world.of(CallTool))


def test_changed_tools_are_given_and_never_called_beyond_the_rights() -> None:
    worlds = [SessionWorld(changed_tools()).run(in_random_order(seed)) for seed in range(5)]
    assert any(world.of(ToolsGiven) for world in worlds)
    assert {call.tool for world in worlds for call in world.of(CallTool)} == {"look"}
