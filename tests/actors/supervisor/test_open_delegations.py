"""The open delegations of an agent stand in the order of its turns and calls, which finds one at once."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings

from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.messages import CancelTask, DelegationEnded
from callboard.actors.protocol.prompts import TASK_CANCEL
from callboard.actors.supervisor.state import Delegation, Record
from callboard.replay.testing.sessions.faults import Faults
from callboard.replay.testing.sessions.scripted_replies import calls
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.replay.testing.strategies import (
    DelegationPlan,
    Order,
    delegation_plans,
    fault_plans,
    orders,
)
from tests.effort import effort
from tests.mutants.scenarios_background import (
    LAST,
    behind,
    cancelled_race,
    crowded,
    lead,
    one_of_two_cancelled,
)
from tests.mutants.scenarios_programs import PROGRAMS
from tests.mutants.scripts import LOOK
from tests.tables import table


def records(world: SessionWorld) -> Iterator[Record]:
    """Yield the records of all agents."""
    rest = [world.supervisor.host] if world.supervisor.host else []
    while rest:
        record = rest.pop()
        yield record
        rest += record.children.values()


def misplaced(world: SessionWorld, choose: Callable[[int], int]) -> list[list[tuple[int, int]]]:
    """Run a session, and return the lists of open delegations that were out of order before a step."""
    found = []

    def looked(count: int) -> int:
        for record in records(world):
            places = [(one.turn, one.call) for one in record.delegations.values()]
            if places != sorted(set(places)):
                found.append(places)
        return choose(count)

    world.run(looked)
    return found


@pytest.mark.slow
@settings(max_examples=effort(30, 500), deadline=None)
@given(delegation_plans(), fault_plans(), orders())
def test_open_delegations_stand_in_the_order_of_their_calls(
    plan: DelegationPlan, wrong: Faults, order: Order
) -> None:
    assert misplaced(SessionWorld(plan.scenario(wrong)), order) == []


CANCELLING = {
    "cancelled_race": cancelled_race(),
    "one_of_two_cancelled": one_of_two_cancelled(),
    "crowded": crowded(),
    **PROGRAMS,
}


@table("name", CANCELLING)
def test_so_do_those_of_programs_and_of_tasks_that_are_cancelled(name: str) -> None:
    cancels = 0
    for seed in range(5):
        world = SessionWorld(CANCELLING[name])
        assert misplaced(world, in_random_order(seed)) == []
        cancels += len(world.of(CancelTask))
    if "cancelled" in name:
        assert cancels


def test_a_second_cancel_of_a_task_ends_no_other_one() -> None:
    twice = [(TASK_CANCEL, {"task": "host.2"})] * 2
    scenario = lead(calls(behind(), behind()), calls(*twice), kid=[calls(LOOK), LAST])
    for seed in range(20):
        world = SessionWorld(scenario).run(in_random_order(seed))
        ends = {one.call: one.kind for one in world.of(DelegationEnded)}
        assert ends[0] == "answered"
        assert world.ended.kind == "answered"
        assert ends[1] in ("cancelled", "answered")


def test_a_delegation_is_found_among_thousands_with_few_looks() -> None:
    open_ones: IntMap[Delegation] = IntMap()
    for key in range(1, 9_000, 3):
        open_ones = open_ones.put(key, Delegation(key, key // 32, key % 32, (key,)))
    looks = 0

    def is_past(one: Delegation) -> bool:
        nonlocal looks
        looks += 1
        return (one.turn, one.call) > (4_000 // 32, 4_000 % 32)

    found = open_ones.last_until(is_past)
    assert found is not None
    assert found.key == 4_000
    assert looks < 100
