"""The rule of later needs: of good sessions it holds, and of a need that lacks a token it does not."""

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.usage import Need
from callboard.replay.testing.rules.requests import check_requests
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.mutants.campaign import without_faults
from tests.mutants.scenarios_later import changing_in_line, changing_one_by_one, later_requests
from tests.mutants.scenarios_waits import first_of_named
from tests.replay.testing.edited_logs import edited, find, of_kind

SCENARIOS = (changing_in_line, changing_one_by_one, later_requests)


@pytest.mark.parametrize("make", SCENARIOS, ids=lambda make: make.__name__)
def test_no_request_needs_more_than_its_wish_says(make: type) -> None:
    for seed in range(4):
        world = SessionWorld(make()).run(in_random_order(seed))
        assert check_requests(world.log, None if world.is_continued else world.asked) == []


@pytest.mark.parametrize("turn", [2, 3])
def test_a_later_need_without_room_for_its_results_is_found(turn: int) -> None:
    world = SessionWorld(without_faults(changing_in_line())).run()
    wish = find(world.log, of_kind(TurnRequested, sender="host"), turn - 1)
    assert isinstance(wish.body, TurnRequested)
    need = wish.body.need
    for lacking, names in ((0, set()), (400, {"later-needs"})):
        less = Need(need.tokens - lacking, need.micro_usd)
        log = edited(world.log, lambda one: one.seq == wish.seq, need=less)
        assert {one.name for one in check_requests(log, world.asked)} == names


def test_an_answer_that_lists_tasks_which_do_not_run_is_found() -> None:
    world = SessionWorld(first_of_named()).run()
    grant = max(world.asked)
    request = world.asked[grant]
    said = bytes(request.messages[-1])
    assert b"No background task runs" in said or b"Still running" in said
    assert check_requests(world.log, world.asked) == []
    ended = [one for one in world.log if one.kind == "DelegationEnded"]
    kept = [replace(one, recipient="nobody") if one is ended[-1] else one for one in world.log]
    assert "provenance" in {one.name for one in check_requests(kept, world.asked)}
