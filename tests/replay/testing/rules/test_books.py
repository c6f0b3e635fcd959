"""The rule of later needs: of good sessions it holds, and of a need that lacks a token it does not."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.step import Decision, initial, step
from callboard.actors.supervisor.state import Record, SupervisorState
from callboard.replay.testing.rules import books
from callboard.replay.testing.rules.books import SameBooks
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.requests import check_requests
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.mutants.campaign import without_faults
from tests.mutants.scenarios_background import BACKGROUND
from tests.mutants.scenarios_later import changing_in_line, changing_one_by_one, later_requests
from tests.mutants.scenarios_waits import first_of_named
from tests.replay.testing.edited_logs import edited, find, of_kind

SCENARIOS = (changing_in_line, changing_one_by_one, later_requests)
LOG = tuple(SessionWorld(BACKGROUND["two_tasks"]).run().log)
BEGUN = 12
"""The first event after which a wrong record is put into the tree: the host has called its model by then."""


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


def of_budget(**changed: Any) -> Callable[[Record], Record]:
    return lambda record: replace(record, budget=replace(record.budget, **changed))


def keeping(**changed: Any) -> Callable[[Record], Record]:
    return lambda record: replace(record, kept=replace(record.kept, **changed))


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (lambda record: replace(record, spent=Usage(1)), "host has spent"),
        (lambda record: replace(record, reserved=Need(9, 9)), "host has reserved"),
        (of_budget(tokens=7), "host may use Budget(tokens=7, micro_usd=None), and (None, None) by the log"),
        (of_budget(micro_usd=7), "host may use Budget(tokens=None, micro_usd=7)"),
        (keeping(results=Need(9)), "host keeps Need(tokens=9, micro_usd=0) for results"),
        (keeping(turn=Need(9)), "host keeps Need(tokens=9, micro_usd=0) for turn"),
        (keeping(ends=Need(9)), "host keeps Need(tokens=9, micro_usd=0) for ends"),
        (lambda record: replace(record, address="host.9"), "host.9 is in the tree, and has not begun"),
    ],
)
def test_an_amount_that_is_not_in_the_log_is_found_at_the_next_decision(
    change: Callable[[Record], Record], detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(state: SupervisorState, event: Any) -> Decision:
        after, posts = step(state, event)
        assert isinstance(after, SupervisorState)
        is_late = event.seq >= BEGUN and after.host is not None
        return (replace(after, host=change(after.host)) if is_late and after.host else after), posts

    assert check_log(LOG, is_at_rest=True, kinds=[SameBooks]) == []
    monkeypatch.setattr(books, "step", wrong)
    (one,) = check_log(LOG, is_at_rest=True, kinds=[SameBooks])
    assert detail in one.detail
    assert one.seq == next(
        event.seq for event in LOG if event.recipient == "supervisor" and event.seq >= BEGUN
    )


def test_the_records_along_a_path_are_looked_at_once_and_others_are_not() -> None:
    state: Any = initial("supervisor")
    for event in LOG:
        if event.recipient == "supervisor":
            state, _ = step(state, event)
        if state.host is not None and state.host.children.size > 1:
            break
    addresses = [one.address for one in books._records_along(state, ["host", "model", "host.2", "host.7"])]
    assert addresses == ["host", "host.2"]
