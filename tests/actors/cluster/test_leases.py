"""The times of a lease: what a worker may do, and when others may act."""

import pytest

from callboard.actors.cluster.leases import Lease, capacity_free_at, may_take_over
from callboard.actors.protocol.errors import MisuseError
from tests.tables import table


@table(
    ("now", "standing", "due"),
    [
        (100, "acts", 200),
        (299, "acts", 1),
        (699, "acts", 0),
        (700, "finishes", 0),
        (799, "finishes", 0),
        (800, "aborts", 0),
        (899, "aborts", 0),
        (900, "lost", 0),
        (99, "finishes", 200),  # the clock went back: it proves nothing
    ],
)
def test_a_worker_stops_starting_then_aborts_before_its_lease_ends(now: int, standing: str, due: int) -> None:
    lease = Lease(100, 800)
    assert lease.standing(now) == standing
    assert lease.renews_in_ms(now) == due


def test_a_renewal_counts_from_when_it_was_sent() -> None:
    assert Lease(0, 800).renewed(500) == Lease(500, 800)
    assert [Lease(0).standing(now) for now in (9_999, 10_000)] == ["aborts", "lost"]


def test_others_act_from_the_end_on_and_use_its_capacity_after_the_longest_call() -> None:
    assert not may_take_over(1_000, 999)
    assert may_take_over(1_000, 1_000)
    assert capacity_free_at(1_000, 60_000) == 61_000


def test_a_lease_too_short_to_be_renewed_is_refused() -> None:
    assert Lease(0, 400).lease_ms == 400
    with pytest.raises(MisuseError, match="at least 400 ms"):
        Lease(0, 399)
