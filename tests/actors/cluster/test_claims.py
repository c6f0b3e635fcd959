"""Which waiting sessions a worker takes, and what the others wait for."""

from itertools import permutations

from callboard.actors.cluster.claims import LOOKED_AT, WaitingSession, WorkerState, claims, part_of, waits_for
from tests.tables import table


def waiting(name: str, since_ms: int, host: str = "a", refused_by: tuple[int, ...] = ()) -> WaitingSession:
    return WaitingSession(name, host, since_ms, refused_by)


def taken(
    found: list[WaitingSession], worker: WorkerState, free_of_all: int = 0, at_most: int = 32
) -> list[str]:
    return [one.session for one in claims(found, worker, free_of_all, at_most)]


def test_a_worker_takes_the_oldest_sessions_of_hosts_that_it_has_and_fits() -> None:
    found = [waiting("new", 9), waiting("old", 1), waiting("other", 0, "b"), waiting("refused", 0, "a", (1,))]
    assert taken(found, WorkerState(1, ("a",), 10)) == ["old", "new"]
    assert taken(found, WorkerState(2, ("a",), 10)) == ["refused", "old", "new"]
    assert taken(found, WorkerState(2, (), 10)) == []


def test_hosts_take_turns_so_that_a_crowd_of_one_does_not_delay_the_others() -> None:
    found = [waiting(f"a{at}", at) for at in range(5)] + [waiting("b0", 90, "b"), waiting("b1", 91, "b")]
    assert taken(found, WorkerState(1, ("a", "b"), 5)) == ["a0", "b0", "a1", "b1", "a2"]


def test_of_sessions_that_have_waited_as_long_the_first_by_name_comes_first() -> None:
    found = [
        waiting("s2", 5),
        waiting("s1", 5),
        waiting("s3", 1, "b"),
        waiting("s0", 9, "b"),
        waiting("s4", 5, "c"),
    ]
    everything = WorkerState(1, ("a", "b", "c"), 5)
    for order in permutations(found):
        assert taken([*order], everything) == ["s3", "s1", "s4", "s0", "s2"]


@table(
    ("slots", "running", "is_draining", "free_of_all", "expected"),
    [
        (10, 0, False, 10, 10),
        (10, 4, False, 6, 6),
        (10, 0, False, 40, 3),  # a quarter of 10, rounded up
        (10, 0, True, 40, 0),
        (10, 0, True, 0, 0),
        (10, 11, False, 40, 0),
        (100, 0, False, 100, 10),
        (1, 0, False, 1_000, 1),
    ],
)
def test_a_worker_takes_its_part_of_ten_waiting_sessions(
    slots: int, running: int, is_draining: bool, free_of_all: int, expected: int
) -> None:
    worker = WorkerState(1, ("a",), slots, running, is_draining)
    assert part_of(10, worker, free_of_all) == expected
    assert len(taken([waiting(str(at), at) for at in range(10)], worker, free_of_all)) == expected


def test_in_a_crowd_a_worker_takes_as_many_as_it_can_open_however_many_others_there_are() -> None:
    worker = WorkerState(1, ("a",), 100)
    seen = [waiting(f"{at:03}", at) for at in range(32 * LOOKED_AT)]
    assert len(taken(seen, worker, 90_000)) == 32
    assert len(taken(seen[1:], worker, 90_000)) == 1  # it has seen all: its part of them


def test_the_parts_of_all_workers_leave_no_session_that_fits() -> None:
    workers = [WorkerState(at, ("a",), slots) for at, slots in enumerate((1, 3, 7, 20))]
    for count in range(1, 32):
        left = [waiting(str(at), at) for at in range(count)]
        for at, worker in enumerate(workers):
            gone = taken(left, worker, sum(one.free for one in workers[at:]))
            left = [one for one in left if one.session not in gone]
        assert left == []


def test_a_session_says_what_it_waits_for() -> None:
    one = waiting("s", 0, "a", (1,))
    full = WorkerState(2, ("a",), 1, 1)
    assert waits_for(one, [WorkerState(1, ("b",), 1)]) == "a worker with the agent 'a'"
    assert waits_for(one, [WorkerState(1, ("a",), 1)]) == "a worker whose agent 'a' is as recorded"
    assert waits_for(one, [WorkerState(1, ("a",), 1), full]) == "a free slot"
    assert waits_for(one, [full, WorkerState(3, ("a",), 1)]) == ""


@table(
    ("losses", "rest_s"), [(0, 0), (1, 0), (2, 30), (3, 120), (4, 480), (5, 1_920), (6, 3_600), (90, 3_600)]
)
def test_a_session_whose_workers_end_rests_longer_each_time(losses: int, rest_s: int) -> None:
    one = WaitingSession("s", "a", 0, (), losses, 5_000)
    assert one.rests_until_ms == (5_000 + 1_000 * rest_s if rest_s else 0)
    assert WaitingSession("s", "a", 0, (), losses).rests_until_ms == 0  # it was given back


def test_a_session_whose_workers_end_is_left_alone_in_the_end() -> None:
    worker = WorkerState(1, ("a",), 10)

    def outcome(losses: int, now: int, losses_max: int = 5) -> tuple[bool, str]:
        one = WaitingSession("s", "a", 0, (), losses, 1_000)
        return bool(claims([one], worker, 10, 10, now, losses_max)), waits_for(one, [worker], now)

    assert outcome(1, 1_000) == (True, "")
    assert outcome(2, 30_001) == (False, "1 s: the last 2 workers ended while they ran it")
    assert outcome(2, 31_000) == (True, "")
    is_taken, why = outcome(5, 10**9)
    assert not is_taken
    assert why.startswith("a person: the last 5 workers ended")
    assert outcome(4, 10**9, losses_max=4)[0] is False
    assert outcome(5, 1_000, losses_max=0)[0] is True


def test_the_tag_with_the_fewest_running_sessions_comes_first() -> None:
    crowd = [WaitingSession(f"x{at}", "a", at, tag="x") for at in range(20)]
    few = [WaitingSession(f"y{at}", "a", 90 + at, tag="y") for at in range(3)]
    worker = WorkerState(1, ("a",), 6)

    def names(**running: int) -> list[str]:
        return [one.session for one in claims([*crowd, *few], worker, 6, 6, running=running)]

    assert names() == ["x0", "y0", "x1", "y1", "x2", "y2"]
    assert names(x=2) == ["y0", "y1", "x0", "y2", "x1", "x2"]
    assert names(y=9) == ["x0", "x1", "x2", "x3", "x4", "x5"]
    assert [
        one.session for one in claims([*crowd, *few], WorkerState(1, ("a",), 1), 1, 1, running={"x": 1})
    ] == ["y0"]
