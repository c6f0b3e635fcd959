"""Sessions in which a message crosses the end of its sender, or of its subject."""

from collections.abc import Mapping
from typing import Final

from callboard.actors.protocol.limits import Limits
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Use, calls, task
from tests.mutants import scenarios_rich as rich
from tests.mutants import scenarios_small as small
from tests.mutants import scenarios_state as state
from tests.mutants.scripts import DONE, LOOK, PAY, by_place, script

CHOSEN: Final = faults("cancel", "ignored", most=2, fault_mixes=3, seed=5)


def questions_and_stops() -> Scenario:
    """Build racers that ask a person while another one wins, and a deadline that passes meanwhile."""
    policy = script(
        host=[calls(task("kid", copies=3), PAY), calls(task("kid")), DONE],
        kid=[by_place(calls(PAY, LOOK), calls(PAY, PAY), DONE), by_place(DONE, calls(PAY))],
    )
    people = [
        profile("host", ["kid"], asks=["pay"]),
        profile("kid", [], ["look"], asks=["pay"], limits=Limits(deadline_s=5)),
    ]
    return Scenario(people, policy, [ask(), ask(request_id="r2")], faults=CHOSEN)


def changes_and_stops() -> Scenario:
    """Build racers that change the tools of their profile while another one wins and a third works."""
    find: Use = ("find", {})
    policy = script(
        host=[calls(task("kid", copies=3), task("kid")), calls(task("kid")), DONE],
        kid=[by_place(calls(LOOK, find), calls(find), DONE, calls(LOOK)), by_place(DONE, calls(find), DONE)],
    )
    people = [profile("host", ["kid"]), profile("kid", [], ["look", "find"])]
    return Scenario(people, policy, [ask(), ask(request_id="r2")], tool=state.setting, faults=CHOSEN)


ORDERS: Final[Mapping[str, Scenario]] = {
    one.__name__: one()
    for one in (
        questions_and_stops, changes_and_stops, rich.races, rich.trees, rich.asks, rich.slots,
        rich.one_budget, state.contexts, small.closed, small.reopened,
    )
}  # fmt: skip
"""By name, in the order in which runs are made."""
