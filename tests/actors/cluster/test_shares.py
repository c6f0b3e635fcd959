"""The places of a model over all workers, explored with crashes, pauses, lost messages and slow clocks."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.cluster.leases import Lease
from callboard.actors.cluster.shares import PLACES_MAX, Renewal, Sharer, Shares, fair_shares
from callboard.actors.protocol.errors import MisuseError
from tests.tables import table

LEASE_MS, TIMEOUT_MS, STEP_MS = 1_000, 1_500, 50


def report(worker: int, number: int, share: int, in_flight: int, waiting: int, now: int = 0) -> Renewal:
    return Renewal(worker, number, share, in_flight, waiting, now + LEASE_MS)


# --- equal shares ---------------------------------------------------------------------------------------


@table(
    ("limit", "wants", "expected"),
    [
        (10, {1: 100, 2: 100}, {1: 5, 2: 5}),
        (10, {1: 2, 2: 100, 3: 100}, {1: 2, 2: 4, 3: 4}),
        (10, {1: 1, 2: 1}, {1: 1, 2: 1}),
        (2, {1: 5, 2: 5, 3: 5}, {1: 1, 2: 1, 3: 0}),
        (7, {1: 5, 2: 5, 3: 5}, {1: 3, 2: 2, 3: 2}),
        (3, {}, {}),
    ],
)
def test_places_are_divided_equally_up_to_the_demand(
    limit: int, wants: dict[int, int], expected: dict[int, int]
) -> None:
    assert fair_shares(limit, wants) == expected


def test_places_are_divided_by_the_sessions_of_workers_each_of_which_counts_for_one_at_least() -> None:
    assert fair_shares(10, {1: 100, 2: 100}, None, {1: 1, 2: 4}) == {1: 2, 2: 8}
    assert fair_shares(10, {1: 100, 2: 100}, None, {1: 0, 2: 1}) == {1: 5, 2: 5}


def test_a_remainder_goes_to_those_without_a_turn_and_among_equals_to_the_smallest_number() -> None:
    assert fair_shares(1, {2: 1, 1: 1}) == {2: 0, 1: 1}
    assert fair_shares(1, {1: 1, 2: 1}, {1: 1}) == {1: 0, 2: 1}


def test_the_remainder_goes_to_those_who_are_first() -> None:
    assert fair_shares(1, {1: 1, 2: 1, 3: 1}, {1: 9, 2: 8, 3: 1}) == {1: 0, 2: 0, 3: 1}


# --- the home -------------------------------------------------------------------------------------------


def test_a_share_shrinks_only_once_the_worker_acts_by_the_smaller_one() -> None:
    shares = Shares(4, TIMEOUT_MS)
    assert shares.renew(report(1, 1, 0, 0, 9), 0) == 4
    assert shares.renew(report(2, 1, 0, 0, 9), 0) == 0  # the first may be using all
    assert shares.renew(report(1, 2, 4, 4, 9), 1) == 2
    assert shares.renew(report(2, 2, 0, 0, 9), 1) == 0  # it has not said yet that it knows
    assert shares.renew(report(1, 3, 2, 3, 9), 2) == 2  # one call beyond it still runs
    assert shares.renew(report(2, 3, 0, 0, 9), 2) == 1
    assert shares.held == 4


def test_a_late_report_and_one_behind_the_lease_change_nothing() -> None:
    shares = Shares(4, TIMEOUT_MS)
    shares.renew(report(1, 2, 0, 0, 3), 0)
    for number in (1, 2):  # one that comes twice is late as well
        assert shares.renew(report(1, number, 0, 0, 0), 0) is None
    assert shares.renew(report(1, 3, 0, 0, 0, 0), LEASE_MS) is None
    assert shares.renew(report(9, 1, 0, 0, 1, 0), LEASE_MS) is None  # of a worker that is new
    assert shares.held == 3


def test_a_lost_workers_places_are_free_after_its_last_call_and_a_leaving_ones_at_once() -> None:
    shares = Shares(2, TIMEOUT_MS)
    shares.renew(report(1, 1, 0, 0, 2), 0)
    end = LEASE_MS + TIMEOUT_MS
    assert shares.renew(report(2, 1, 0, 0, 2, end - 1), end - 1) == 0
    assert shares.renew(report(2, 2, 0, 0, 2, end), end) == 2
    shares.leave(2)
    assert shares.held == 0


def test_a_home_goes_on_from_the_holdings_that_were_kept() -> None:
    shares = Shares(4, TIMEOUT_MS)
    shares.renew(report(1, 1, 0, 0, 9), 0)
    again = Shares(4, TIMEOUT_MS, shares.holdings.values())
    assert again.holdings == shares.holdings
    assert [*again.live(LEASE_MS - 1)] == [Sharer(1)]
    assert [*again.live(LEASE_MS)] == []  # its lease ends then


def test_the_largest_limit_is_allowed() -> None:
    assert Shares(PLACES_MAX, TIMEOUT_MS).limit == PLACES_MAX


@pytest.mark.parametrize("limit", [0, -1, 1_000_001])
def test_a_limit_out_of_range_is_refused(limit: int) -> None:
    with pytest.raises(MisuseError, match="give 1 to 1000000"):
        Shares(limit, TIMEOUT_MS)


# --- a world --------------------------------------------------------------------------------------------


class Member:
    """A worker of the world. pace: how fast its clock runs, in eighths; calls: when each one ends."""

    def __init__(self, name: int, now: int, rng: Random) -> None:
        self.name, self.pace, self.offset = name, rng.choice((7, 8, 8, 9)), rng.randrange(10**6)
        self.born, self.number, self.share, self.waiting = now, 0, 0, rng.randrange(9)
        self.lease, self.asleep_until, self.is_dead = Lease(self.clock(now), LEASE_MS), 0, False
        self.calls: list[int] = []
        self.ends_ms = now + LEASE_MS

    def clock(self, now: int) -> int:
        return self.offset + (now - self.born) * self.pace // 8


class World:
    """A home and workers, in steps of time. Checks after each step that no more calls run than places are."""

    def __init__(self, seed: int, limit: int, workers: int) -> None:
        self.rng, self.limit, self.now, self.names = Random(seed), limit, 0, workers
        self.home = Shares(limit, TIMEOUT_MS)
        self.members = [Member(name, 0, self.rng) for name in range(workers)]
        self.started: Counter[int] = Counter()

    def step(self) -> None:
        self.now += STEP_MS
        for one in list(self.members):
            one.calls = [end for end in one.calls if end > self.now]
            if one.is_dead or one.asleep_until > self.now:
                continue
            self.fault(one)
            self.act(one)
        running = sum(len(one.calls) for one in self.members)
        assert running <= self.limit, (self.now, running)
        assert self.home.held <= self.limit

    def fault(self, one: Member) -> None:
        kind = self.rng.random()
        if kind < 0.01:
            one.is_dead = True
            self.members.append(Member(self.names, self.now, self.rng))
            self.names += 1
        elif kind < 0.03:
            one.asleep_until = self.now + self.rng.randrange(3 * LEASE_MS)

    def act(self, one: Member) -> None:
        standing = one.lease.standing(one.clock(self.now))
        if standing in {"lost", "aborts"}:
            one.calls.clear()
        if standing == "lost":
            one.is_dead = True
            self.members.append(Member(self.names, self.now, self.rng))
            self.names += 1
        elif one.lease.renews_in_ms(one.clock(self.now)) == 0 or one.number == 0:
            self.renew(one)
        if standing == "acts" and not one.is_dead and one.asleep_until <= self.now:
            while len(one.calls) < one.share and one.waiting:
                one.calls.append(self.now + self.rng.randrange(1, TIMEOUT_MS))
                one.waiting -= 1
        one.waiting += self.rng.randrange(3)

    def renew(self, one: Member) -> None:
        one.number += 1
        sent = one.clock(self.now)
        if self.rng.random() < 0.1 or one.ends_ms <= self.now:
            return  # it does not arrive, or the server refuses it
        one.ends_ms = self.now + LEASE_MS
        told = Renewal(one.name, one.number, one.share, len(one.calls), one.waiting, one.ends_ms)
        share = self.home.renew(told, self.now) or 0
        if self.rng.random() < 0.9:  # else the answer is lost
            one.share, one.lease = share, one.lease.renewed(sent)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 5))
def test_no_more_calls_run_than_places_are_whatever_happens_to_workers(
    seed: int, limit: int, workers: int
) -> None:
    world = World(seed, limit, workers)
    for _ in range(120):
        world.step()


@table(("limit", "workers"), [(12, 3), (7, 3), (3, 3), (2, 5), (1, 4)])
def test_over_thirty_seconds_no_worker_gets_more_than_twice_an_equal_part(limit: int, workers: int) -> None:
    home, used = Shares(limit, TIMEOUT_MS), Counter[int]()
    share = dict.fromkeys(range(workers), 0)
    for second in range(1, 31):
        for name in share:  # each has more calls than places, and each call ends within the second
            told = report(name, second, share[name], 0, 100, second)
            share[name] = home.renew(told, second) or 0
            used[name] += share[name]
    equal = sum(used.values()) / workers
    assert max(used.values()) <= 2 * equal
    assert min(used.values()) >= equal / 3
    assert sum(used.values()) >= 30 * limit * 0.4  # a place that moves rests for one renewal


# --- tags -----------------------------------------------------------------------------------------------


def of(tag: str, worker: int, waiting: int, number: int = 1, share: int = 0, in_flight: int = 0) -> Renewal:
    sessions = in_flight + waiting
    return Renewal(worker, number, share, in_flight, waiting, 10**9, sessions, 0, tag)


def test_places_are_divided_among_tags_first() -> None:
    shares = Shares(12, TIMEOUT_MS)
    wants = {Sharer(1, "x"): 1_000, Sharer(2, "x"): 500, Sharer(1, "y"): 3, Sharer(2, ""): 9}
    for (worker, tag), waiting in wants.items():
        shares.renew(of(tag, worker, waiting), 0)
    divided = shares.divided(12, wants, 0)
    assert divided == {Sharer(1, "x"): 3, Sharer(2, "x"): 1, Sharer(1, "y"): 3, Sharer(2, ""): 5}


def test_the_part_of_a_tag_that_wants_nothing_more_is_gone() -> None:
    shares = Shares(4, TIMEOUT_MS)
    assert shares.renew(of("x", 1, 9), 0) == 4
    assert shares.renew(of("y", 1, 9), 0) == 0
    assert shares.renew(of("x", 1, 0, 2, 4), 1) == 0
    assert set(shares.holdings) == {Sharer(1, "x"), Sharer(1, "y")}  # the worker may act by four places
    assert shares.renew(of("x", 1, 0, 3, 0), 2) == 0
    assert set(shares.holdings) == {Sharer(1, "y")}
    assert shares.renew(of("y", 1, 9, 2), 3) == 4
    shares.leave(1)
    shares.leave(1, "y")
    assert shares.held == 0


def test_a_place_that_cannot_be_divided_goes_around_among_tags_whatever_their_sessions() -> None:
    shares, had = Shares(1, TIMEOUT_MS), Counter[str]()
    share = dict.fromkeys([(1, "x", 500), (2, "x", 500), (2, "y", 3), (3, "z", 1)], 0)
    for second in range(1, 121):
        for worker, tag, sessions in share:
            given = shares.renew(
                of(tag, worker, sessions, second, share[worker, tag, sessions]), second * 1_000
            )
            share[worker, tag, sessions] = given or 0
            had[tag] += given or 0
    assert had.total() > 50
    assert max(had.values()) <= 2 * min(had.values()), had


def test_a_tag_that_comes_later_begins_beside_the_least() -> None:
    shares = Shares(1, TIMEOUT_MS)
    shares.renew(of("x", 1, 9), 0)
    shares.renew(of("y", 2, 9), 0)
    shares.renew(of("x", 1, 9, 2, 1, 1), 20_000)
    shares.renew(of("z", 3, 9), 20_000)
    had = {name.tag: one.tag_used for name, one in shares.holdings.items()}
    assert had == {"x": 15_000_000, "y": 0, "z": 0}  # half of half a minute, at most
    shares.renew(of("x", 1, 9, 3, 1, 1), 90_000)
    assert shares.holdings[Sharer(1, "x")].tag_used == 10_000_000  # a third of it, since there are three


def used(shares: Shares, *workers: int) -> list[int]:
    return [shares.holdings[Sharer(one, "x")].used for one in workers]


def test_a_worker_that_comes_or_comes_back_begins_beside_the_least_that_wants() -> None:
    shares = Shares(1, TIMEOUT_MS)
    for worker in (1, 2):
        shares.renew(of("x", worker, 9), 0)
    shares.renew(of("x", 1, 8, 2, 1, 1), 9_000)
    shares.renew(of("x", 3, 9), 9_000)
    assert used(shares, 1, 2, 3) == [1_000_000, 0, 0]
    for worker in (2, 3):
        shares.renew(of("x", worker, 0, 2), 9_000)
    shares.renew(of("x", 4, 9), 9_000)
    shares.renew(of("x", 2, 9, 3), 9_000)
    assert used(shares, 4, 2) == [1_000_000, 1_000_000]
    shares.renew(of("x", 1, 0, 3), 9_000)
    shares.renew(of("x", 1, 9, 4), 9_000)
    assert used(shares, 1) == [1_000_000]  # a pause gives nothing back


def test_places_that_no_other_worker_waited_for_do_not_count() -> None:
    shares = Shares(2, TIMEOUT_MS)
    shares.renew(of("x", 1, 2), 0)
    shares.renew(of("x", 1, 0, 2, 2, 2), 9_000)
    assert used(shares, 1) == [0]


def test_an_order_is_kept_by_worker_within_a_tag_and_by_tag_beside_others() -> None:
    shares = Shares(1, TIMEOUT_MS)
    for worker, waiting in ((1, 9), (2, 9)):
        shares.renew(of("x", worker, waiting), 0)
    shares.renew(of("x", 1, 8, 2, 1, 1), 9_000)
    assert used(shares, 1, 2) == [1_000_000, 0]  # nine sessions had a place for nine seconds
    shares.renew(of("x", 1, 0, 3, 0), 9_001)
    assert shares.renew(of("x", 3, 5), 9_001) == 0
    assert shares.renew(of("x", 2, 9, 2), 9_002) == 1


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 3, 7, 12, 30]),
    st.integers(1, 5),
    st.lists(st.sampled_from([3, 20, 1_000]), min_size=2, max_size=4),
)
def test_over_thirty_seconds_no_tag_gets_more_than_twice_an_equal_part(
    seed: int, limit: int, workers: int, crowds: list[int]
) -> None:
    rng, home, had = Random(seed), Shares(limit, TIMEOUT_MS), Counter[str]()
    sessions = Counter[tuple[int, str]]()
    for number, crowd in enumerate(crowds):
        for _ in range(crowd):
            sessions[rng.randrange(workers), f"t{number}"] += 1
    share = dict.fromkeys(sessions, 0)
    for second in range(1, 91):
        for (worker, tag), own in sessions.items():  # each call ends within the second
            told = of(tag, worker, own, second, share[worker, tag])
            share[worker, tag] = home.renew(told, second * 1_000) or 0
            had[tag] += share[worker, tag] if second > 60 else 0
        assert home.held <= limit
    equal = had.total() / len(crowds)
    for number, crowd in enumerate(crowds):
        # What a small tag does not want goes to the others; each place of theirs is one call a second.
        assert had[f"t{number}"] >= min(equal / 3, 30 * crowd / 2), (had, sessions)
        wanted = sum(min(30 * one, equal) for one in crowds)
        assert had[f"t{number}"] <= 2 * max(equal, had.total() - wanted + equal), (had, sessions)
