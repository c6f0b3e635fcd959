"""The home of a model's capacity, and the part of one worker: places call by call, tokens, reports."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard.actors.cluster.model_home import ASK_MS, CUT_MS, SOON_MS, Grant, ModelHome, Part, strictest
from callboard.actors.cluster.shares import Renewal
from callboard.actors.session.capacity import Capacity, CapacityPolicy, Demand

END, TIMEOUT_MS = 10**9, 1_000


def report(
    worker: int, number: int, share: int = 0, in_flight: int = 0, waiting: int = 0, lacks: int = 0
) -> Renewal:
    return Renewal(worker, number, share, in_flight, waiting, END, max(1, in_flight + waiting), lacks)


def test_the_strictest_limits_hold_where_workers_know_different_ones() -> None:
    assert strictest([Capacity(4), Capacity(3, 100), Capacity(None, 200)]) == Capacity(3, 100)
    assert strictest([Capacity()]) == Capacity()


def test_places_are_given_call_by_call_below_twice_the_workers() -> None:
    home = ModelHome(Capacity(3), TIMEOUT_MS)
    assert home.report(report(1, 1, waiting=1), 0, 0) == Grant(1, 0, is_call_by_call=False)
    assert home.report(report(2, 1, waiting=1), 0, 0) == Grant(1, 0, is_call_by_call=True)


def test_as_many_places_as_twice_the_workers_are_kept_between_calls() -> None:
    home = ModelHome(Capacity(4), TIMEOUT_MS)
    assert home.report(report(1, 1, waiting=2), 0, 0) == Grant(2)
    assert home.report(report(2, 1, waiting=2), 0, 0) == Grant(2)


def test_a_model_with_tokens_only_gives_no_places_and_one_with_places_only_no_tokens() -> None:
    tokens = ModelHome(Capacity(tokens_per_minute=600), TIMEOUT_MS)
    assert tokens.report(report(1, 1, waiting=1, lacks=100), 0, 0) == Grant(0, 100)
    places = ModelHome(Capacity(4), TIMEOUT_MS)
    assert places.report(report(1, 1, waiting=1, lacks=100), 0, 0) == Grant(1, 0)


@pytest.mark.parametrize("tokens", [0, -5])
def test_an_empty_bucket_gives_no_token(tokens: int) -> None:
    home = ModelHome(Capacity(4, 600), TIMEOUT_MS, level=tokens * 60_000)
    assert home.report(report(1, 1, waiting=1, lacks=100), 0, 0) == Grant(1, 0)


def test_tokens_that_come_back_are_given_with_those_that_have_flowed_in() -> None:
    home = ModelHome(Capacity(4, 600), TIMEOUT_MS)
    assert home.report(report(1, 1, waiting=1, lacks=600), 0, 0).tokens == 600
    assert home.report(report(1, 2, waiting=1, lacks=600), 100, 1_000).tokens == 110


def test_a_late_report_is_given_nothing() -> None:
    home = ModelHome(Capacity(3, 600), TIMEOUT_MS)
    assert home.report(report(1, 2, waiting=1, lacks=100), 0, 0) == Grant(1, 100)
    assert home.report(report(1, 1, waiting=1, lacks=100), 50, 0) == Grant()
    assert home.bucket.tokens == 500


def test_tokens_are_divided_among_sessions_and_fill_with_time() -> None:
    home = ModelHome(Capacity(tokens_per_minute=600), TIMEOUT_MS)
    home.report(Renewal(1, 1, 0, 0, 1, END, 1, 1_000), 0, 0)
    home.bucket.level = 400 * 60_000
    assert home.report(Renewal(2, 1, 0, 0, 3, END, 3, 1_000), 0, 0).tokens == 300
    assert home.report(Renewal(2, 2, 0, 0, 0, END, 0, 0), 150, 0).tokens == 0  # gives half of them back
    assert home.report(Renewal(1, 2, 0, 0, 1, END, 1, 1_000), 0, 10_000).tokens == 350


def test_a_part_reports_soon_for_what_others_wait_for_and_else_each_second() -> None:
    part = Part(1)
    assert part.due_in_ms(Demand(), 0) is None
    assert part.due_in_ms(Demand(0, 1, 1), 0) == 0
    first = part.report(Demand(0, 1, 1), 0)
    assert part.take(first.number, Grant(1)) == 0
    assert part.due_in_ms(Demand(1, 0, 1), 5) == CUT_MS - 5
    assert part.due_in_ms(Demand(1, 1, 2), 5) == SOON_MS - 5  # the last answer left it what it wanted
    second = part.report(Demand(1, 1, 2), 100)
    part.take(second.number, Grant(1))
    assert part.due_in_ms(Demand(1, 1, 2), 100) == CUT_MS  # short: others have the places
    part.take(second.number, Grant(0))
    assert part.due_in_ms(Demand(1, 1, 2), 100) == SOON_MS  # it acts by less than the home knows
    last = part.report(Demand(), 200)
    assert part.due_in_ms(Demand(), 200) == CUT_MS  # unless it is answered, the home may not know
    part.take(last.number, Grant())
    assert part.due_in_ms(Demand(), 200) is None
    assert part.is_idle


def test_a_new_part_asks_soon_and_a_short_one_only_each_second() -> None:
    part = Part(1)
    assert part.due_in_ms(Demand(0, 1, 1), -CUT_MS) == SOON_MS
    part.take(part.report(Demand(1, 0, 1, 50), 0).number, Grant(1, 50))
    assert part.due_in_ms(Demand(1, 0, 1, 50), 0) == SOON_MS  # it lacks tokens again
    part.take(part.report(Demand(1, 0, 1, 50), 0).number, Grant(1, 49))
    assert part.due_in_ms(Demand(1, 0, 1, 50), 0) == CUT_MS  # the home had less


def test_calls_that_wait_behind_a_free_place_are_no_reason_to_ask() -> None:
    part = Part(1)
    part.take(part.report(Demand(0, 2, 2), 0).number, Grant(2))
    assert part.due_in_ms(Demand(1, 1, 2), 0) == CUT_MS
    assert part.due_in_ms(Demand(2, 1, 3), 0) == SOON_MS


def test_a_part_is_idle_only_if_it_has_no_place_and_its_home_knows_that_it_wants_none() -> None:
    wanting, given_late = Part(1), Part(2)
    wanting.take(wanting.report(Demand(0, 1, 1), 0).number, Grant(0))
    assert not wanting.is_idle
    given_late.take(given_late.report(Demand(), 0).number, Grant(2))
    assert not given_late.is_idle


def test_a_report_says_what_the_part_has_and_wants() -> None:
    part = Part(7, "t")
    first = part.report(Demand(0, 6, 6), 0)
    part.take(first.number, Grant(6))
    second = part.report(Demand(2, 3, 4, 5, 8), 10)
    assert first == Renewal(7, 1, 0, 0, 6, 0, 6, 0, "t")
    assert second == Renewal(7, 2, 6, 2, 3, 0, 4, 5, "t")


def test_an_idle_part_says_that_it_acts_by_less_before_it_is_silent() -> None:
    part = Part(1)
    part.take(part.report(Demand(0, 2, 2), 0).number, Grant(2))
    part.take(part.report(Demand(), 10).number, Grant(0))
    assert part.due_in_ms(Demand(), 10) is not None
    assert part.report(Demand(), 20).share == 0


def test_a_place_that_is_given_call_by_call_goes_back_as_the_call_ends() -> None:
    part = Part(1)
    part.take(part.report(Demand(0, 2, 2), 0).number, Grant(1, 0, is_call_by_call=True))
    assert part.due_in_ms(Demand(1, 1, 2), 0) == ASK_MS
    assert part.due_in_ms(Demand(0, 1, 1), 0) == SOON_MS
    assert part.report(Demand(0, 1, 1), 30).share == 0
    assert part.share == 0


def test_an_answer_to_an_earlier_report_counts_for_nothing() -> None:
    part = Part(1)
    first = part.report(Demand(0, 1, 1, 50), 0)
    part.report(Demand(0, 1, 1, 50), 10)
    assert part.take(first.number, Grant(5, 50)) == 0
    assert part.share == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 5), st.sampled_from([None, 3_000]))
def test_no_more_calls_and_tokens_than_the_limits_whatever_is_lost(
    seed: int, calls: int, workers: int, tokens: int | None
) -> None:
    rng, limits = Random(seed), Capacity(calls, tokens)
    home = ModelHome(limits, TIMEOUT_MS)
    parts = [Part(one) for one in range(workers)]
    lines = [CapacityPolicy({"m": limits}, 0) for _ in parts]
    running: list[list[tuple[int, str]]] = [[] for _ in parts]
    started = 0
    for line in lines:
        line.lease("m", 0, 0)
    for now in range(0, 4_000, 10):
        for part, line, own in zip(parts, lines, running, strict=True):
            for end, session in [one for one in own if one[0] <= now]:
                own.remove((end, session))
                line.give_back(session, "host", 40, now)
            if rng.random() < 0.1:
                line.request(f"{part.worker}-{now}", "host", "m", 50, now)
            demand = line.demands("m")[""]
            if part.due_in_ms(demand, now) == 0:
                said = part.report(demand, now)
                line.lease("m", part.share, -demand.unused)
                if rng.random() < 0.9:
                    grant = home.report(replace(said, ends_ms=END), demand.unused, now)
                    if rng.random() < 0.9:
                        added = part.take(said.number, grant)
                        line.lease("m", part.share, added)
            for session, _ in line.give(now):
                started += 1
                own.append((now + rng.randrange(10, 900), session))
        assert sum(map(len, running)) <= calls
        assert home.shares.held <= calls
        if tokens is not None:
            assert started * 40 <= tokens + tokens * now // 60_000 + 50 * workers


@pytest.mark.parametrize("workers", [2, 7])
def test_over_thirty_seconds_no_session_gets_more_than_twice_an_equal_part(workers: int) -> None:
    home, had = ModelHome(Capacity(12), TIMEOUT_MS), dict.fromkeys(range(workers), 0)
    sessions = {one: 10 + 20 * one for one in had}
    share = dict.fromkeys(had, 0)
    for second in range(1, 61):
        for one in had:  # each session has a call or waits for one, and each call ends within the second
            said = Renewal(
                one, second, share[one], share[one], sessions[one] - share[one], END, sessions[one]
            )
            share[one] = home.report(said, 0, second * 1_000).share
            had[one] += share[one] if second > 30 else 0
    equal = sum(had.values()) / sum(sessions.values())
    assert all(had[one] / sessions[one] <= 2 * equal for one in had)
    assert all(had[one] / sessions[one] >= equal / 3 for one in had)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 4), st.sampled_from([None, 3_000]))
def test_no_more_calls_and_tokens_than_the_limits_where_sessions_count_for_tags(
    seed: int, calls: int, workers: int, tokens: int | None
) -> None:
    rng, limits = Random(seed), Capacity(calls, tokens, "of:*")
    home = ModelHome(limits, TIMEOUT_MS)
    lines = [CapacityPolicy({"m": limits}, 0) for _ in range(workers)]
    parts: list[dict[str, Part]] = [{} for _ in lines]
    running: list[list[tuple[int, str]]] = [[] for _ in lines]
    started = 0
    for line in lines:
        line.lease("m", 0, 0)
    for now in range(0, 4_000, 10):
        for worker, (line, own) in enumerate(zip(lines, running, strict=True)):
            for end, session in [one for one in own if one[0] <= now]:
                own.remove((end, session))
                line.give_back(session, "host", 40, now)
            if rng.random() < 0.1:
                line.request(f"{worker}-{now}", "host", "m", 50, now, (f"of:{rng.choice('xyz')}",))
            for tag, demand in line.demands("m").items():
                part = parts[worker].setdefault(tag, Part(worker, tag))
                due_in_ms = part.due_in_ms(demand, now)
                if due_in_ms == 0:
                    said = part.report(demand, now)
                    line.lease("m", part.share, -demand.unused, tag)
                    if rng.random() < 0.9:
                        grant = home.report(replace(said, ends_ms=END), demand.unused, now)
                        if rng.random() < 0.9:
                            added = part.take(said.number, grant)
                            line.lease("m", part.share, added, tag)
                elif due_in_ms is None and part.is_idle:
                    del parts[worker][tag]
                    line.forget("m", tag)
            for session, _ in line.give(now):
                started += 1
                own.append((now + rng.randrange(10, 900), session))
        assert sum(map(len, running)) <= calls
        assert home.shares.held <= calls
        if tokens is not None:
            assert started * 40 <= tokens + tokens * now // 60_000 + 50 * workers * 3
    for worker, line in enumerate(lines):  # whatever was lost, a tag that waits is given a place in the end
        assert {tag for tag, demand in line.demands("m").items() if demand.waiting} <= {*parts[worker]}
    assert started
