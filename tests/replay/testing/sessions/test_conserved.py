"""Sums in the supervisor's books: each holds of good sessions, and a count that is off by one breaks it."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.usage import Need
from callboard.actors.supervisor.state import Record, SupervisorState
from callboard.replay.testing.sessions.conserved import (
    Sums,
    other_count,
    other_reserve,
    other_side,
    records_of,
)
from callboard.replay.testing.sessions.monitors import breaches_of, session_monitors
from callboard.replay.testing.sessions.world import SessionWorld
from tests.mutants.scenarios_background import two_tasks
from tests.mutants.scenarios_later import tight_tasks
from tests.mutants.scenarios_waits import denied_tasks
from tests.tables import table


def busy() -> SessionWorld:
    """Return a session in which a call is in flight, a task waits for the budget, and tasks run."""
    world = SessionWorld(tight_tasks())
    while not (world.supervisor.host and world.supervisor.host.waiting.size):
        world.make(world.moves()[0])
    return world


STATE = busy().supervisor
HOST = STATE.host
assert HOST is not None


def with_host(**fields: object) -> SupervisorState:
    assert HOST is not None
    return replace(STATE, host=replace(HOST, **fields))


def test_the_sums_of_a_busy_session_and_of_one_with_denied_tasks_hold_at_every_step() -> None:
    for world in (SessionWorld(tight_tasks()), SessionWorld(denied_tasks())):
        while world.moves():
            world.make(world.moves()[0])
            assert (other_reserve(world.supervisor), other_count(world.supervisor)) == ("", "")
            assert not other_side(world)
        assert breaches_of(world) == []


MORE = Need(HOST.reserved.tokens + 1, HOST.reserved.micro_usd)
ENDS = HOST.kept.less("ends", Need(1))
RESULTS = HOST.kept.less("results", Need(HOST.kept.results.tokens + 1))


@pytest.mark.parametrize(
    ("state", "detail"),
    [
        (with_host(reserved=MORE), "host has reserved"),
        (with_host(kept=ENDS), "for its tasks"),
        (with_host(kept=RESULTS), "less than nothing"),
        (with_host(ended=HOST.ended.put(99, Need(1, 0))), "for its tasks"),
    ],
)
def test_an_amount_that_is_not_the_sum_of_its_parts_is_named(state: SupervisorState, detail: str) -> None:
    assert detail in other_reserve(state)


FIRST = HOST.waiting.first()
assert FIRST is not None


@table(
    ("state", "detail"),
    [
        (replace(STATE, in_flight=STATE.in_flight + 1), "model calls are in flight"),
        (replace(STATE, live=STATE.live - 1), "agents live"),
        (with_host(background=HOST.background + 1), "copies in the background"),
        (with_host(waiting=HOST.waiting.drop(FIRST[0])), "exactly one line"),
        (replace(STATE, queue=STATE.queue.put(*FIRST)), "exactly one line"),
    ],
)
def test_a_count_that_is_not_the_number_of_its_parts_is_named(state: SupervisorState, detail: str) -> None:
    assert detail in other_count(state)


def changed(change: Callable[[Record], Record]) -> SessionWorld:
    """Return a session whose host has just read a message and said nothing, with another record of it."""
    world = SessionWorld(two_tasks())
    while not (
        world.made
        and world.made[-1].move.strand == "inbox host"
        and world.agent().phase in ("acting", "parked")
        and not world.inboxes.get("host")
        and all(event.sender != "host" for event in world.inboxes.get(SUPERVISOR, ()))
    ):
        world.make(min(world.moves(), key=lambda move: "host." in move.strand))  # tasks are slow
    host = world.supervisor.host
    assert host is not None
    world.core.keep(SUPERVISOR, replace(world.supervisor, host=change(host)))
    return world


def test_two_sides_that_count_other_ends_or_words_are_found() -> None:
    assert not other_side(changed(lambda host: host))
    assert other_side(changed(lambda host: replace(host, ended=host.ended.put(99, Need()))))
    assert other_side(changed(lambda host: replace(host, unheard=host.unheard.put(1, "t1"))))


def test_each_record_stands_behind_those_above_it_and_a_state_is_looked_at_once() -> None:
    addresses = [one.address for one in records_of(STATE)]
    assert addresses[0] == "host"
    assert len(addresses) == STATE.live > 1
    sums = Sums()
    assert sums.reserved(STATE) == sums.places(STATE) == ""
    assert len(sums._known) == 1


def test_a_broken_sum_is_a_violation_at_the_step_that_breaks_it() -> None:
    world = busy()
    rules = {one.name: one for one in session_monitors()}
    assert rules["places-are-held"].after(world, 7, 0) is None
    world.core.keep(SUPERVISOR, replace(world.supervisor, live=99))
    violation = rules["places-are-held"].after(world, 8, 0)
    assert violation is not None
    assert violation.at == 8
    assert rules["places-are-held"].after(world, 9, 0) is None  # the same state is looked at once
    assert rules["reserved-is-open"].after(world, 9, 0) is None
