"""Sessions with contracts, presets and factories: random orders, and crashes, keep all rules."""

import msgspec
import pytest

from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.sessions.monitors import breaches_of, session_monitors
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from callboard.replay.verify import Verifier
from tests.mutants.scenarios_contracts import CONTRACTS, inputs, of_programs, small_rooms


@pytest.mark.parametrize("name", CONTRACTS)
def test_orders_keep_all_rules(name: str) -> None:
    found = explore(Worlds(CONTRACTS[name]), session_monitors(10), Plan("portfolio", runs=30))
    assert found.is_ok, "\n".join(lines(found))


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_crash_at_every_eighth_prefix_breaks_no_rule(name: str) -> None:
    scenario = CONTRACTS[name]
    log = SessionWorld(scenario).run(in_random_order(0)).log
    for length in range(1, len(log) + 1, 8):
        world = SessionWorld(scenario)
        world.now = log[length - 1].at  # the clock of a process that resumes goes on
        world.resume(log[:length])
        assert not breaches_of(world.run(in_random_order(0))), f"after event {length}"
        assert Verifier(world.log).run() is None


def test_the_sessions_meet_ends_of_every_kind() -> None:
    world = SessionWorld(inputs()).run(in_random_order(0))
    ends = {
        (end.metadata.subagent, end.kind, end.metadata.response)
        for end in world.of(DelegationEnded)
        if end.metadata is not None
    }
    assert ends >= {
        ("finder", "answered", "ok"),
        ("finder", "reported", "ok"),
        ("finder", "denied", "invalid_input"),
        ("built", "answered", "ok"),
        ("built", "unavailable", "unavailable"),
        ("made", "answered", "ok"),
        ("gone", "unavailable", "unavailable"),
    }


def test_a_preset_reaches_the_agent_and_no_call_changes_it() -> None:
    world = SessionWorld(inputs()).run(in_random_order(0))
    begun = [begin for begin in world.of(Begin) if b'"name":"finder"' in bytes(begin.profile)]
    told = [msgspec.json.decode(msgspec.json.decode(begin.prompt)) for begin in begun]
    assert told
    assert all(one["tenant"] == "acme" for one in told)
    assert {one["depth"] for one in told} == {3, 7}, "a default is told"


def test_small_rooms_cut_failures_to_whole_json() -> None:
    world = SessionWorld(small_rooms()).run(in_random_order(0))
    assert any(end.metadata and end.metadata.response == "unavailable" for end in world.of(DelegationEnded))


def test_programs_give_inputs_and_get_them() -> None:
    world = SessionWorld(of_programs()).run(in_random_order(0))
    given = [one for one in world.of(Delegate) if bytes(one.input) != b"null"]
    assert {one.profiles for one in given} >= {("finder",), ("finder", "finder"), ("worker",), ("built",)}
    assert any(end.problems for end in world.of(DelegationEnded))
