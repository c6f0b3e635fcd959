"""The strategies draw sessions as documented, shrink to the simplest one, and break no rule."""

import sys
from collections import Counter

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.client_messages import AskEnded, TellEnded
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, Delegate, Delegated
from callboard.actors.protocol.port_messages import CheckSchema
from callboard.replay.testing import strategies
from callboard.replay.testing.sessions.faults import KINDS, Faults
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.strategies import (
    DelegationPlan,
    Order,
    SchemaCase,
    delegation_plans,
    fault_plans,
    orders,
    rosters,
    schema_cases,
)
from callboard.runtime.schemas.engine import Engine
from tests.effort import effort

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
SHRUNK = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,  # it would hand back what an earlier run has found and shrunk
    phases=[Phase.generate, Phase.shrink],  # explaining the plan it found takes 16 s more
)


@pytest.mark.slow
@settings(max_examples=effort(50, 500), deadline=None)
@given(delegation_plans(), fault_plans(), orders())
def test_no_session_that_is_drawn_breaks_a_rule(plan: DelegationPlan, wrong: Faults, order: Order) -> None:
    world = SessionWorld(plan.scenario(wrong)).run(order)
    assert breaches_of(world) == []


@pytest.mark.slow
def test_schemas_accept_the_right_report_and_no_wrong_one() -> None:
    engine = Engine()

    @QUICK
    @given(schema_cases())
    def holds(case: SchemaCase) -> None:
        schema = Json(encode(case.schema))
        right, wrong = Json(encode(case.right)), Json(encode(case.wrong))
        assert engine.check(CheckSchema(1, "accept", schema)).status == "ok"
        assert engine.check(CheckSchema(1, "report", schema, right)).status == "ok"
        assert engine.check(CheckSchema(1, "report", schema, wrong)).status == "invalid"

    holds()


@pytest.mark.slow
@QUICK
@given(rosters())
def test_a_roster_has_a_host_and_no_agent_delegates_in_circles(roster: tuple[object, ...]) -> None:
    names = [getattr(who, "name", "") for who in roster]
    assert names[0] == "host"
    for index, who in enumerate(roster):
        assert set(getattr(who, "agents", ())) <= set(names[index + 1 :])


@pytest.mark.slow
def test_everything_shrinks_to_one_agent_that_answers() -> None:
    plan = find(delegation_plans(), lambda plan: True, settings=SHRUNK)
    assert [who.name for who in plan.profiles] == ["host"]
    assert plan.profiles[0].tools == ()
    assert plan.policy.replies == {"host": ()}
    assert (plan.prompts, plan.schema, plan.limits, plan.closes) == (("go",), None, Limits(), False)
    world = SessionWorld(plan.scenario()).run()
    assert [(one.kind, one.text) for one in world.of(AskEnded)] == [("answered", "done")]
    assert find(fault_plans(), lambda wrong: True, settings=SHRUNK) == Faults(frozenset(), 0, 0)
    assert find(orders(), lambda order: True, settings=SHRUNK).picks == ()


@pytest.mark.slow
def test_a_session_with_a_child_shrinks_to_a_host_that_delegates_once() -> None:
    def has_child(plan: DelegationPlan) -> bool:
        return any(begin.depth for begin in SessionWorld(plan.scenario()).run().of(Begin))

    plan = find(delegation_plans(2, bounded=False), has_child, settings=SHRUNK)
    assert len(plan.profiles) == 2
    (turn,) = plan.policy.replies["host"]
    assert [name for name, _ in turn.calls] == ["task"]


@pytest.mark.slow
def test_most_plans_delegate_and_a_good_part_of_them_nest_race_or_go_on_meanwhile() -> None:
    found: Counter[str] = Counter()

    @settings(max_examples=100, deadline=None, derandomize=True, database=None)
    @given(delegation_plans(), orders())
    def count(plan: DelegationPlan, order: Order) -> None:
        world = SessionWorld(plan.scenario()).run(order)
        depth = max(begin.depth for begin in world.of(Begin))
        races = any(len(asked.profiles) > 1 for asked in world.of(Delegate))
        goes_on = bool(world.of(Delegated))
        heard = any(ended.status == "heard" for ended in world.of(TellEnded))
        found.update(all=1, delegate=depth > 0, nest=depth > 1, race=depth > 0 and races)
        found.update(goes_on=goes_on, heard=heard, waited=goes_on and "task_wait" in str(plan.policy))

    count()
    assert found["delegate"] > found["all"] * 0.6
    assert found["nest"] > found["all"] * 0.15
    assert found["race"] > found["all"] * 0.2
    assert found["goes_on"] > found["all"] * 0.1
    assert found["waited"] > found["all"] * 0.03
    assert found["heard"] > found["all"] * 0.05


@QUICK
@given(fault_plans("cancel", "crash"))
def test_a_fault_plan_has_the_kinds_it_was_asked_for(wrong: Faults) -> None:
    assert wrong.kinds <= {"cancel", "crash"} < KINDS


@QUICK
@given(st.lists(st.integers(0, 9), max_size=5))
def test_an_order_picks_the_given_choices_and_then_the_oldest(picks: list[int]) -> None:
    order = Order(picks)
    assert [order(10) for _ in range(len(picks) + 2)] == [*picks, 0, 0]
    assert repr(Order([1, 2])) == "Order([1, 2])"


def test_without_hypothesis_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "callboard.replay.testing.strategies")
    with pytest.raises(ImportError, match=r"pip install 'callboard\[testing\]'"):
        importlib.import_module("callboard.replay.testing.strategies")
    monkeypatch.setitem(sys.modules, "callboard.replay.testing.strategies", strategies)
