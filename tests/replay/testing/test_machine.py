"""The state machine drives sessions, keeps their rules, and finds a rule of one's own that does not hold."""

from dataclasses import replace

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from callboard.actors.protocol.messages import Begin
from callboard.replay.testing.machine import SessionMachine
from callboard.replay.testing.sessions.faults import faults
from tests.replay.testing.scenarios import RICH


class Rich(SessionMachine):
    scenario = replace(RICH, faults=faults(most=3, fault_mixes=0))


@pytest.mark.slow
def test_no_interactive_session_breaks_a_rule() -> None:
    run_state_machine_as_test(Rich, settings=settings(max_examples=25, stateful_step_count=30, deadline=None))


class Dies(SessionMachine):
    """A machine whose process dies often, and whose client asks as often as it may."""

    scenario = replace(RICH, faults=faults("crash", most=3, fault_mixes=0))


def test_a_process_that_has_died_is_not_asked() -> None:
    machine = Dies()
    machine.open()
    (ask,) = [rule for rule in machine.rules if rule.function.__name__ == "ask"]

    def may_ask() -> bool:
        return all(check(machine) for check in ask.preconditions)

    assert may_ask()
    machine.fail(next(n for n, move in enumerate(machine._faults()) if "crash" in move.strand))
    assert machine.world.down is not None
    assert not may_ask()
    machine.teardown()


@pytest.mark.slow
def test_no_interactive_session_with_a_dying_process_breaks_a_rule() -> None:
    run_state_machine_as_test(Dies, settings=settings(max_examples=25, stateful_step_count=30, deadline=None))


class Lonely(SessionMachine):
    scenario = RICH

    @invariant()
    def nobody_has_children(self) -> None:
        if hasattr(self, "world"):
            assert all(begin.depth == 0 for begin in self.world.of(Begin)), "somebody has a child"


@pytest.mark.slow
def test_a_rule_of_ones_own_that_does_not_hold_is_found() -> None:
    with pytest.raises(AssertionError, match="somebody has a child"):
        run_state_machine_as_test(
            Lonely,
            settings=settings(
                max_examples=1_000,  # it stops at the first; chance found none in 200 once
                stateful_step_count=40,
                deadline=None,
                phases=[Phase.generate],
                report_multiple_bugs=False,
            ),
        )


def test_a_machine_without_a_scenario_says_so() -> None:
    with pytest.raises(TypeError, match=r"SessionMachine.scenario is None; set it to a Scenario"):
        SessionMachine().made()
