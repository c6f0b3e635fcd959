"""The line for model calls: first come, first served, in every budget that is exhausted."""

from random import Random

from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    DeciderFailed,
    Delegate,
    DelegationEnded,
    Stop,
    Stopped,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import CallModel, ContextMade, MakeContext
from callboard.actors.protocol.usage import Usage
from callboard.actors.supervisor.line import is_waited_for
from callboard.actors.supervisor.state import Record
from callboard.replay.testing.sessions.scenario import NO_LIMITS, profile, program_profile
from tests.actors.harness import SessionHarness
from tests.tables import table

PROMPT = text_json("go")


def teams(*budgets: int | None, size: int = 3, limits: Limits = NO_LIMITS) -> SessionHarness:
    """Make a host with one manager for each budget and the given number of workers for each manager."""
    managers = [profile(f"m{n}", ["worker"], limits=Limits(tokens=own)) for n, own in enumerate(budgets)]
    host = profile("host", [manager.name for manager in managers])
    head = SessionHarness(host, *managers, profile("worker"), limits=limits).opens()
    head.asks()
    for n in range(len(budgets)):
        head.hears("host", Delegate(1, n, (f"m{n}",), PROMPT))
        for call in range(size):
            head.hears(f"host.{n + 1}", Delegate(1, call, ("worker",), PROMPT))
    return head


def granted(posts: list[Post]) -> list[str]:
    return [post.body.agent for post in posts if isinstance(post.body, CallModel)]


def wants(head: SessionHarness, who: str, need: int) -> list[str]:
    return granted(head.wants(who, need))


def settles(head: SessionHarness, who: str, used: int = 0) -> list[str]:
    return granted(head.hears(who, TurnSettled(Usage(used))))


def crashes(head: SessionHarness, who: str) -> list[str]:
    return granted(head.hears(who, DeciderFailed(1, "Boom")))


def test_no_request_overtakes_in_an_exhausted_budget_even_if_it_would_fit() -> None:
    head = teams(100)
    assert wants(head, "host.1.1", 60) == ["host.1.1"]
    assert wants(head, "host.1.2", 60) == []
    assert wants(head, "host.1.3", 10) == [], "fits, but host.1.2 was first"
    assert settles(head, "host.1.1") == ["host.1.2", "host.1.3"]


def test_an_exhausted_budget_holds_up_no_request_outside_it() -> None:
    head = teams(100, 100)
    wants(head, "host.1.1", 60)
    wants(head, "host.1.2", 60)
    assert wants(head, "host.2.1", 60) == ["host.2.1"]


def test_an_exhausted_session_holds_up_every_request() -> None:
    head = teams(None, None, limits=Limits(tokens=100))
    wants(head, "host.1.1", 60)
    assert wants(head, "host.1.2", 60) == []
    assert wants(head, "host.2.1", 10) == []
    assert settles(head, "host.1.1") == ["host.1.2", "host.2.1"]


def test_a_settlement_elsewhere_wakes_no_request_that_waits_for_this_budget() -> None:
    head = teams(100, 100)
    wants(head, "host.2.1", 60)
    wants(head, "host.1.1", 60)
    wants(head, "host.1.2", 60)
    assert settles(head, "host.2.1") == []
    assert settles(head, "host.1.1") == ["host.1.2"]


def test_all_requests_that_fit_after_a_settlement_are_granted_at_once() -> None:
    head = teams(100, size=6)
    wants(head, "host.1.1", 100)
    for n in range(2, 7):
        wants(head, f"host.1.{n}", 30)
    assert settles(head, "host.1.1", 10) == ["host.1.2", "host.1.3", "host.1.4"]


def test_a_request_that_is_given_up_lets_later_ones_pass() -> None:
    head = teams(100)
    wants(head, "host.1.1", 60)
    wants(head, "host.1.2", 60)
    wants(head, "host.1.3", 30)
    assert crashes(head, "host.1.2") == ["host.1.3"]


def test_a_request_that_can_never_fit_holds_up_no_later_one() -> None:
    head = teams(100)
    wants(head, "host.1.1", 60)
    wants(head, "host.1.2", 90)
    wants(head, "host.1.3", 30)
    posts = head.hears("host.1.1", TurnSettled(Usage(20)))
    assert [post.recipient for post in posts if isinstance(post.body, Stop)] == ["host.1.2"]
    assert granted(posts) == ["host.1.3"]


def test_a_request_with_room_in_its_team_may_have_to_wait_for_the_session() -> None:
    head = teams(100, None, limits=Limits(tokens=200))
    assert wants(head, "host.1.1", 80) == ["host.1.1"]
    assert wants(head, "host.1.2", 80) == []
    assert wants(head, "host.2.1", 120) == ["host.2.1"]
    assert settles(head, "host.1.1", 20) == [], "20 + 80 of 100, but 20 + 120 + 80 of 200"
    assert wants(head, "host.1.3", 10) == []
    assert settles(head, "host.2.1") == ["host.1.2"]
    assert settles(head, "host.1.2", 20) == ["host.1.3"]


def test_a_request_that_moves_up_to_a_wider_budget_stays_before_later_ones_in_the_narrower() -> None:
    head = teams(110, None, limits=Limits(tokens=265))
    wants(head, "host.1.1", 100)
    wants(head, "host.1.2", 90)
    wants(head, "host.1.3", 5)
    assert wants(head, "host.2.1", 165) == ["host.2.1"]
    assert _waiting_at(head) == {"host": [], "host.1": ["host.1.2", "host.1.3"]}
    assert settles(head, "host.1.1", 15) == []
    assert _waiting_at(head) == {"host": ["host.1.2"], "host.1": ["host.1.3"]}
    assert settles(head, "host.2.1") == ["host.1.2", "host.1.3"]


def test_a_request_without_room_inside_and_outside_holds_up_every_later_one_outside() -> None:
    head = teams(100, None, limits=Limits(tokens=150))
    wants(head, "host.1.1", 100)
    assert wants(head, "host.1.2", 80) == [], "neither in its team nor in the session"
    assert wants(head, "host.2.1", 10) == [], "fits, but shares the session with host.1.2, which was first"
    assert settles(head, "host.1.1") == ["host.1.2", "host.2.1"]


def test_a_request_that_moves_down_to_a_narrower_budget_lets_later_ones_pass() -> None:
    head = teams(100, None, limits=Limits(tokens=200))
    assert wants(head, "host.1.1", 60) == ["host.1.1"]
    assert wants(head, "host.2.1", 120) == ["host.2.1"]
    assert wants(head, "host.1.2", 60) == []
    assert wants(head, "host.2.2", 30) == []
    assert settles(head, "host.2.1", 20) == ["host.2.2"], "host.1.2 now waits for its team alone"
    assert settles(head, "host.1.1") == ["host.1.2"]


def _waiting_at(head: SessionHarness) -> dict[str, list[str]]:
    found = {record.address: list(record.waiting.values()) for record in records(head)}
    return {address: found[address] for address in ("host", "host.1")}


def test_slots_are_given_in_order_to_requests_that_waited_for_different_budgets() -> None:
    head = teams(100, 100, limits=Limits(max_parallel_calls=2))
    wants(head, "host.1.1", 60)
    wants(head, "host.1.2", 60)
    wants(head, "host.2.1", 60)
    wants(head, "host.2.2", 10)
    wants(head, "host.1.3", 10)
    assert settles(head, "host.1.1") == ["host.1.2"]
    assert settles(head, "host.2.1") == ["host.2.2"]
    assert settles(head, "host.2.2") == ["host.1.3"]


# --- any order --------------------------------------------------------------------


def records(head: SessionHarness) -> list[Record]:
    found: list[Record] = []
    rest = [head.state.host] if head.state.host else []
    while rest:
        record = rest.pop()
        found.append(record)
        rest += list(record.children.values())
    return found


def in_line(head: SessionHarness) -> dict[int, str]:
    """Return all requests that wait, by ticket: in the queue or at a scope, and nowhere twice."""
    places = [*head.state.queue.items()]
    for record in records(head):
        places += record.waiting.items()
    assert len({ticket for ticket, _ in places}) == len(places)
    return dict(places)


def ticket_of(record: Record) -> int:
    return record.wanted.ticket if record.wanted is not None else 0


def check_line(head: SessionHarness, slots: int) -> None:
    waiting = {ticket: record.address for record in records(head) if (ticket := ticket_of(record))}
    assert in_line(head) == waiting
    assert not head.state.queue.size or head.state.in_flight == slots, "somebody could be looked at"
    for record in records(head):
        if record.waiting.size:
            assert record.reserved.tokens or _is_held_up_above(head, record), "nobody would ever call"


def _is_held_up_above(head: SessionHarness, scope: Record) -> bool:
    """Return True if an earlier request of this scope waits further up, which later ones do not pass."""
    first = scope.waiting.first()
    assert first is not None
    earlier = [record for record in records(head) if 0 < ticket_of(record) < first[0]]
    return any(record.address.startswith(scope.address + ".") for record in earlier)


@table("seed", range(60))
def test_in_any_order_every_request_is_served_or_refused_and_the_queue_stays_sound(seed: int) -> None:
    dice = Random(seed)
    slots, size = dice.choice([1, 2, 4]), 4
    budgets = [dice.choice([None, 300, 600]) for _ in range(3)]
    head = teams(
        *budgets, size=size, limits=Limits(tokens=dice.choice([None, 800]), max_parallel_calls=slots)
    )
    workers = [f"host.{n + 1}.{call + 1}" for n in range(3) for call in range(size)]
    for _ in range(150):
        who = dice.choice(workers)
        status = head.status(who)
        if status == "acting":
            wants(head, who, dice.choice([10, 50, 100, 200]))
        elif status == "thinking":
            settles(head, who, dice.choice([0, 0, 5, 10]))
        elif status == "waiting" and dice.random() < 0.05:
            crashes(head, who)
        check_line(head, slots)
    while thinking := [who for who in workers if head.status(who) == "thinking"]:
        settles(head, dice.choice(thinking))
        check_line(head, slots)
    assert not in_line(head), "somebody is left waiting though nothing is in flight"


def test_nothing_is_waited_for_where_no_request_is_parked() -> None:
    head = SessionHarness().opens()
    head.asks()
    host = head.record("host")
    assert host is not None
    assert is_waited_for([host]) is False
    assert is_waited_for([host, replace(host, waiting=host.waiting.put(3, "host.1"))]) is True


# --- the line of a program's delegations ------------------------------------------------


def lined() -> SessionHarness:
    """Make a program below the host that may have one child. Its second delegation waits in line."""
    boss = program_profile("boss", ["kid"], limits=Limits(max_children=1))
    head = SessionHarness(profile("host", ["boss"]), boss, profile("kid", context="c")).opens()
    head.asks()
    head.hears("host", Delegate(1, 0, ("boss",), PROMPT))
    asked = head.hears("host.1", Delegate(1, 0, ("kid",), PROMPT))
    assert [post.body for post in asked] == [MakeContext("host.1", 1, "kid", head.seq, 5_000)]
    assert head.hears("host.1", Delegate(1, 1, ("kid",), PROMPT)) == []
    head.hears("context", ContextMade("host.1", 1, "kid"))
    return head


def test_a_delegation_in_line_starts_once_there_is_a_place_as_of_its_own_request() -> None:
    head = lined()
    second = head.seq - 1
    (end, asked) = head.ends("host.1.1")
    assert (end.recipient, asked.body) == ("host.1", MakeContext("host.1", 2, "kid", second, 5_000))
    head.hears("context", ContextMade("host.1", 2, "kid"))
    head.ends("host.1.2")
    (asked,) = head.hears("host.1", Delegate(1, 2, ("kid",), PROMPT))
    assert asked.body == MakeContext("host.1", 3, "kid", head.seq, 5_000)


def test_a_delegation_in_line_whose_agent_is_gone_ends_and_says_so() -> None:
    head = lined()
    head.state = replace(head.state, profiles={})
    _, end = head.ends("host.1.1")
    why = "agent 'kid' is gone: the session was resumed without it"
    gone = DelegationEnded(1, 1, "unavailable", address="host.1.2", detail=why, by=head.seq)
    assert end == Post("host.1", gone)


def test_no_delegation_in_line_starts_once_its_program_has_ended() -> None:
    head = lined()
    head.hears("host.1", DeciderFailed(1, "Boom"))
    assert head.hears("host.1.1", Stopped()) == []
