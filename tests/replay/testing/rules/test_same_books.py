"""Two sets of books: a supervisor that counts another amount than its log is found at the next event."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.step import Decision, initial, step
from callboard.actors.supervisor.state import Record, SupervisorState
from callboard.replay.testing.rules import same_books
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.same_books import SameBooks
from callboard.replay.testing.sessions.world import SessionWorld
from tests.mutants.scenarios_background import BACKGROUND

LOG = tuple(SessionWorld(BACKGROUND["two_tasks"]).run().log)
BEGUN = 12
"""The first event after which a wrong record is put into the tree: the host has called its model by then."""


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
    monkeypatch.setattr(same_books, "step", wrong)
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
    addresses = [
        one.address for one in same_books._records_along(state, ["host", "model", "host.2", "host.7"])
    ]
    assert addresses == ["host", "host.2"]
