"""Sessions under budgets that they share: one scenario for each way in which a reservation comes and goes."""

from collections.abc import Mapping
from typing import Final

from callboard.actors.session.budget_limits import Budget
from callboard.actors.session.capacity import Capacity
from callboard.replay.testing.sessions.budget_world import BudgetScenario
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from tests.mutants.scenarios_capacity import CANCEL, CRASH, DETACH, ONE_CALL, alone, family
from tests.mutants.scripts import BUSY, DONE, race, script

ROOMY: Final = {"*": Budget(tokens=100_000), "t:*": Budget(tokens=50_000, per="day")}
NARROW: Final = {"*": Budget(tokens=4_400), "t:*": Budget(tokens=2_500)}
"""A family reserves 2,075 tokens for its first call: those with a tag in common wait for one another."""
TIGHT: Final = {"*": Budget(tokens=180)}
"""A call needs 145 tokens and uses 15: one at a time, and all three fit."""
SMALL: Final = {"*": Budget(tokens=160)}
"""As above, and the third does not fit."""
TAGS: Final = {"a": ["t:x"], "b": ["t:x"], "c": ["t:y"]}


def under(
    budgets: Mapping[str, Budget],
    *sessions: Scenario,
    crashes: int = 0,
    capacity: Mapping[str, Capacity] | None = None,
    leaves: tuple[str, ...] = (),
) -> BudgetScenario:
    """Build sessions `a`, `b` and so on under budgets. The first two have a tag in common."""
    named = dict(zip("abc", sessions, strict=False))
    return BudgetScenario(named, capacity or {}, crashes, leaves, budgets=budgets, tags=TAGS)


def roomy() -> BudgetScenario:
    """Build families whose calls all fit."""
    return under(ROOMY, family(), family(), family())


def one_at_a_time() -> BudgetScenario:
    """Build sessions that wait until the calls of the others are settled."""
    return under(TIGHT, alone(), alone(), alone())


def third_refused() -> BudgetScenario:
    """Build sessions of which the last one is refused, whose call would fit if nothing were spent."""
    return under(SMALL, alone(), alone(), alone())


def stopped() -> BudgetScenario:
    """Build sessions that are cancelled while a call waits, is reserved, or is made."""
    return under(TIGHT, alone(CANCEL), alone(CANCEL), alone())


def narrow() -> BudgetScenario:
    """Build families that wait, are stopped and detached, and crash together."""
    chosen = faults("cancel", "detach", "overloaded", "unmetered", most=2, fault_mixes=7, seed=3)
    return under(NARROW, family(chosen), family(), family(chosen), crashes=1)


def placed() -> BudgetScenario:
    """Build families that need a place beside their reservation, and may be stopped between the two."""
    chosen = faults("cancel", "jump", most=2, fault_mixes=7, seed=5)
    return under(NARROW, family(chosen), family(chosen), family(), crashes=1, capacity=ONE_CALL)


def crash_of_one() -> BudgetScenario:
    """Build a session whose process ends and loses any part of its log, beside others."""
    return under(ROOMY, alone(CRASH), alone(), alone())


def crash_of_all() -> BudgetScenario:
    """Build a process that ends at any moment, and whose sessions are all resumed at once."""
    return under(ROOMY, alone(), family(), crashes=1)


def detached() -> BudgetScenario:
    """Build sessions that may be detached, and come back, beside one that waits for what they hold."""
    return under(TIGHT, alone(DETACH), alone(DETACH), alone())


def left() -> BudgetScenario:
    """Build a session that may leave the runtime with its reservations, and come back."""
    return under(NARROW, family(), alone(), leaves=("a",))


def retried() -> BudgetScenario:
    """Build calls that fail, with a usage that is not known, and are made again."""
    policy = script(
        host=[lambda request: Reply(failure=BUSY, usage=None) if request.attempt == 1 else DONE],
    )
    return under(ROOMY, alone(), family(policy=policy))


def failing() -> BudgetScenario:
    """Build a race whose loser is stopped during its call, and whose decider raises on the answer."""
    racing = script(host=[calls(race("kid", "kid")), DONE])
    return under(ROOMY, family(faults("crashes", most=3, fault_mixes=7), policy=racing), alone())


BUDGETED: Final[Mapping[str, BudgetScenario]] = {
    one.__name__: one()
    for one in (
        roomy,
        one_at_a_time,
        third_refused,
        stopped,
        narrow,
        placed,
        crash_of_one,
        crash_of_all,
        detached,
        left,
        retried,
        failing,
    )
}
"""The sessions by name, in the order of their runs."""
