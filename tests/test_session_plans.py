"""Random small sessions: a seed says all, and a schedule nothing but the order."""

from callboard.actors.protocol.client_messages import Ask
from tests.session_plans import Plan, play


def test_a_plan_is_its_seed() -> None:
    assert Plan(7).scenario().first == Plan(7).scenario().first
    assert Plan(7).scenario().first != Plan(8).scenario().first
    assert play(Plan(7), 1).log == play(Plan(7), 1).log


def test_two_schedules_differ_only_in_order() -> None:
    one, other = play(Plan(3, is_calm=True), 1), play(Plan(3, is_calm=True), 2)
    assert sorted(event.kind for event in one.log) == sorted(event.kind for event in other.log)
    assert [made.move.strand for made in one.made] != [made.move.strand for made in other.made]


def test_a_calm_plan_has_no_faults_and_as_many_asks_as_it_is_told() -> None:
    world = play(Plan(5, is_calm=True, asks=3))
    assert world.injected == []
    assert len(world.of(Ask)) == 3
