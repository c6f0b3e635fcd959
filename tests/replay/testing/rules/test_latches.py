"""The rules of time and of the limits of a resume hold of good logs, and fail on logs that break them."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import RULES, Ask, Resumed
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import ExtendTimer, SetTimer, TimerFired
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.budgets import Budgets
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.latches import InTime
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import calls, task
from callboard.replay.testing.sessions.world import SessionWorld
from tests.mutants.scripts import DONE, LOOK, greedy, script
from tests.replay.testing.edited_logs import Log, edited, of_kind

POLICY = greedy(script(host=[calls(task("kid")), DONE], kid=[calls(LOOK), DONE]))
PEOPLE = [profile("host", ["kid"]), profile("kid", [], ["look"], limits=Limits(deadline_s=3))]


def crashed(first: Resumed, *, at: int = 8) -> Log:
    """Return the log of a session whose process dies after some moves, and whose next one says this first."""
    asks = [ask(limits=Limits(deadline_s=5))]
    world = SessionWorld(Scenario(PEOPLE, POLICY, asks, resumed=first, faults=faults("crash", fault_mixes=0)))
    for _ in range(at):
        world.make(world.moves()[0])
    world.make(next(move for move in world.moves() if move.strand == "fault crash"))
    world.heal()
    return list(world.run().log)


LATER = crashed(Resumed(RULES, extend_ms=700))


def fires_early() -> Log:
    """Return a log in which a timer fires in the moment in which it is set."""
    timer = next(event for event in LATER if isinstance(event.body, SetTimer))
    last = LATER[-1]
    fired = replace(
        last, seq=last.seq + 1, at=timer.at, sender="clock", recipient="supervisor", cause=timer.seq
    )
    assert isinstance(timer.body, SetTimer)
    return [*LATER, replace(fired, body=TimerFired(timer.body.timer))]


WRONG: dict[str, Callable[[], Log]] = {
    "it fires early": fires_early,
    "another extension": lambda: edited(LATER, of_kind(ExtendTimer), by_ms=1),
    "another timer": lambda: edited(LATER, of_kind(ExtendTimer), timer=99),
    "no extension was asked for": lambda: edited(LATER, of_kind(Resumed), extend_ms=0),
}


def test_a_resume_with_more_time_extends_every_deadline() -> None:
    assert sum(isinstance(event.body, ExtendTimer) for event in LATER) == 2
    assert not check_log(LATER, is_at_rest=True)


@pytest.mark.parametrize("name", WRONG)
def test_a_log_with_a_wrong_time_is_found(name: str) -> None:
    found = check_log(WRONG[name](), kinds=(InTime,))
    assert {breach.rule for breach in found} == {InTime.rule}


@pytest.mark.parametrize(("tokens", "kinds"), [(100_000, ()), (3_000, (Budgets,))])
def test_the_limits_of_a_resume_bind_the_running_ask(tokens: int, kinds: tuple[type[Invariant], ...]) -> None:
    log = edited(
        crashed(Resumed(RULES, limits=Limits(tokens=100_000))), of_kind(Resumed), limits=Limits(tokens=tokens)
    )
    assert [type(event.body) for event in log].index(Ask) < [type(event.body) for event in log].index(Resumed)
    assert {breach.rule for breach in check_log(log, kinds=(Budgets,))} == {one.rule for one in kinds}
