"""Small budgets with many delegations, most in the background, in sessions drawn by chance.

Ends cross the requests of their parents, so that rooms are kept over turns, and calls wait for rooms. Stated
rules compare every room and every grant with a second set of books.
"""

from random import Random

import pytest

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.prompts import TASK_CANCEL, TASK_WAIT
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.sessions.faults import NO_FAULTS, Faults, faults
from callboard.replay.testing.sessions.monitors import session_monitors
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, tell
from callboard.replay.testing.sessions.scripted_replies import Reply, Use, calls, task
from callboard.replay.testing.sessions.world import Worlds
from tests.effort import effort
from tests.mutants.scripts import GOOD, LOOK, SCHEMA, greedy

CRASHES = faults("crash", most=2, fault_mixes=0)
BELOW = {"host": "kid", "kid": "helper"}


def drawn(seed: int) -> Scenario:
    """Draw a session of three levels of agents, and its budget, slots and faults."""
    chance = Random(seed)
    people = [
        profile("host", ["kid"], ["look"], background=True, on_finish=chance.choice(["wait", "cancel"])),
        profile("kid", ["helper"], ["look"], background=True),
        profile("helper", [], ["look"]),
    ]
    limits = Limits(
        max_parallel_calls=chance.choice([1, 2, 64]),
        tokens=chance.choice([15_000, 30_000, 80_000, 200_000]),
        max_model_attempts=20,
    )
    mixed = faults("crash", "detach", "cancel", "overloaded", "greedy", fault_mixes=7, seed=seed)
    chosen: Faults = chance.choice([NO_FAULTS, CRASHES, mixed])

    def policy(request: ModelRequest) -> Reply:
        return reply_of(request, Random(f"{seed}/{request.address}/{request.turn}"))

    return Scenario(
        people,
        greedy(policy, chance.choice([0, 10, 50])),
        [ask(), ask("more", request_id="r2")],
        limits,
        faults=chosen,
        tells=[tell("hurry", who, who) for who in ("host", "host.1") if chance.random() < 0.5],
    )


def reply_of(request: ModelRequest, chance: Random) -> Reply:
    child = BELOW.get(request.profile)
    if child is not None and request.turn < chance.randint(3, 9):
        uses = [use_of(request.address, child, chance) for _ in range(chance.randint(1, 3))]
        return calls(*uses) if chance.random() < 0.85 else Reply("so far")
    if chance.random() < 0.3 and request.turn < 4:
        return calls(LOOK)
    return calls(GOOD) if chance.random() < 0.3 else Reply("y" * chance.choice([3, 30, 900, 3_000]))


def use_of(address: str, child: str, chance: Random) -> Use:
    if chance.random() < 0.5:
        more = {"output_schema": SCHEMA} if chance.random() < 0.2 else {}
        return task(child, "work", background=chance.random() < 0.6, **more)
    cancel = (TASK_CANCEL, {"task": f"{address}.{chance.randint(1, 4)}"})
    return chance.choice([LOOK, (TASK_WAIT, {"any": True}), (TASK_WAIT, {}), cancel, task(child, "work")])


@pytest.mark.parametrize("first", range(0, effort(24, 3_000), 4))
def test_rooms_and_the_order_of_calls_hold_in_small_budgets_with_tasks_in_the_background(first: int) -> None:
    for seed in range(first, first + 4):
        found = explore(Worlds(drawn(seed)), session_monitors(10), Plan(runs=effort(2, 20), seed=str(seed)))
        assert found.is_ok, "\n".join(lines(found))
