"""Sessions in which one rare event is likely: few agents and few faults leave few orders."""

from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.client_messages import RULES, Ask, Resumed
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from tests.mutants.scripts import (
    BAD,
    BROKEN,
    BUSY,
    DONE,
    GOOD,
    LOOK,
    OTHER,
    PAY,
    PUT,
    SAVE,
    SCHEMA,
    SEND,
    by_place,
    greedy,
    race,
    script,
)

ROOM: Final = 50
"""Bytes for a result, where a budget is so small that a usual room would fill it."""


def deaths() -> Scenario:
    """Build a race in which the process dies while calls of every effect are under way."""
    policy = script(
        host=[calls(task("kid", copies=4)), DONE],
        kid=[by_place(calls(LOOK), calls(PUT, LOOK), calls(SAVE, LOOK), calls(LOOK)), DONE],
    )
    people = [profile("host", ["kid"]), profile("kid", [], ["look"], writes=["save"], repeats=["put"])]
    return Scenario(people, policy, [ask()], faults=faults("crash", fault_mixes=15, seed=100))


def repeats() -> Scenario:
    """Build repeatable calls of an agent that loses a race only after its process has died."""
    policy = script(
        host=[calls(task("kid", copies=2)), DONE],
        kid=[by_place(calls(LOOK), calls(*[PUT] * 8)), DONE],
    )
    people = [profile("host", ["kid"]), profile("kid", [], ["look"], repeats=["put"])]
    chosen = faults("crash", "unstarted", fault_mixes=7, seed=217)
    return Scenario(people, policy, [ask()], faults=chosen)


def asked_again() -> Scenario:
    """Build approved calls that are cut off and asked for again, while their agent loses a race."""
    policy = script(
        host=[calls(task("kid", copies=2)), DONE],
        kid=[by_place(calls(LOOK), calls(*[PAY] * 6)), DONE],
    )
    people = [profile("host", ["kid"]), profile("kid", [], ["look"], asks=["pay"])]
    return Scenario(people, policy, [ask()], faults=faults("crash", fault_mixes=7, seed=5))


def in_time() -> Scenario:
    """Build racers whose deadline comes just as they report, answer, fail or wait, while others go on."""
    policy = script(
        host=[
            calls(
                race("brisk", "brisk", "steady", schema=SCHEMA),
                race("brisk", "brisk", "steady"),
                race("brisk", "brisk", schema=SCHEMA),
            ),
            DONE,
        ],
        brisk=[
            by_place(report({"n": 1}), BROKEN, DONE, DONE, calls(task("helper")), DONE, calls(BAD), BROKEN),
            DONE,
        ],
        helper=[calls(LOOK), DONE],
        steady=[calls(LOOK), by_place(DONE, DONE, report({"n": 2}), DONE)],
    )
    people = [
        profile("host", ["brisk", "steady"]),
        profile("brisk", ["helper"], limits=Limits(deadline_s=1)),
        profile("helper", [], ["look"]),
        profile("steady", [], ["look"]),
    ]
    return Scenario(people, policy, [ask()], faults=faults("jump", most=3, fault_mixes=0))


def alone() -> Scenario:
    """Build a host without children that reports in every ask and is cancelled during a check."""

    def host(request: ModelRequest) -> Reply:
        is_busy = request.attempt == 1 and request.turn % 2 == 0
        return Reply(failure=BUSY, usage=None) if is_busy else calls(BAD, GOOD)

    policy = script(host=[host] * 6)
    asked = [ask("one", SCHEMA), ask("two", OTHER, request_id="r2"), ask("three", SCHEMA, request_id="r3")]
    chosen = faults("cancel", fault_mixes=7, seed=5)
    return Scenario([profile("host")], policy, asked, closes=True, faults=chosen)


def fresh_schemas() -> Scenario:
    """Build delegations with unchecked schemas, two levels below an agent that loses a race."""

    def fresh(request: ModelRequest) -> Reply:
        schema = {**SCHEMA, "title": request.address}
        return calls(task("kid", output_schema=schema), task("kid", copies=2, output_schema=schema))

    policy = script(
        host=[calls(task("lead", copies=2)), DONE],
        lead=[by_place(calls(LOOK), calls(task("boss"))), calls(LOOK), DONE],
        boss=[fresh, DONE],
        kid=[report({"n": 1})],
    )
    people = [
        profile("host", ["lead"]),
        profile("lead", ["boss"], ["look"]),
        profile("boss", ["kid"]),
        profile("kid"),
    ]
    return Scenario(people, policy, [ask()])


def team(saver: Limits, manager: Limits) -> Scenario:
    """Build an agent that uses all that it may, and one whose helpers want to work at the same time."""
    policy = script(
        host=[calls(task("saver"), task("manager")), DONE],
        saver=[replace(calls(LOOK), percent=100), replace(DONE, percent=100)],
        manager=[replace(calls(task("worker"), task("worker"), task("worker")), percent=100), DONE],
    )
    people = [
        profile("host", ["saver", "manager"]),
        profile("saver", [], ["look"], limits=saver),
        profile("manager", ["worker"], limits=manager),
        profile("worker"),
    ]
    return Scenario(people, policy, [ask()], Limits(max_parallel_calls=3, max_result_chars=ROOM))


SAVER_USES: Final = 2_598
PAIR_NEEDS: Final = 4_948
"""Tokens that the saver of `team` uses, and that its manager needs for two helpers at a time. Both are
literals, since a measurement here would be the mutant's. A test compares them with a run of the core."""


def to_the_token() -> Scenario:
    """Build a budget that is just enough if all is used, and one that lacks one token for two agents."""
    return team(Limits(tokens=SAVER_USES), Limits(tokens=PAIR_NEEDS - 1))


def inner_budgets() -> Scenario:
    """Build a budget within a budget: one fits one big helper, the other two or a few small ones."""
    policy = script(
        host=[calls(task("bigs"), task("smalls")), DONE],
        bigs=[replace(calls(task("big"), task("big")), percent=100), DONE],
        smalls=[replace(calls(task("small"), task("small")), percent=100), DONE],
    )
    people = [
        profile("host", ["bigs", "smalls"]),
        profile("bigs", ["big"], limits=Limits(tokens=5_950)),
        profile("smalls", ["small"]),
        profile("big", max_tokens=1_000),
        profile("small", max_tokens=500),
    ]
    return Scenario(people, policy, [ask()], Limits(tokens=9_150, max_result_chars=ROOM))


def spent_by_the_reply() -> Scenario:
    """Build agents whose reply delegates after it has used all of the budget, or most of it."""
    policy = script(
        host=[calls(task("spender"), task("saver")), DONE],
        spender=[replace(calls(task("kid"), task("kid")), percent=100), DONE],
        saver=[replace(calls(task("kid"), race("kid", "kid")), percent=40), DONE],
    )
    limits = Limits(tokens=2_650, max_result_chars=ROOM)
    people = [
        profile("host", ["spender", "saver"]),
        profile("spender", ["kid"], limits=limits),
        profile("saver", ["kid"], limits=limits),
        profile("kid"),
    ]
    return Scenario(people, policy, [ask()])


def rooms() -> Scenario:
    """Build parents whose budget is just enough to read their children, which spend all that they may."""
    words = "Ich habe überall nachgesehen, und da ist: nichts. " * 200
    policy = script(
        host=[calls(task("lead"), task("kid"), ("nonsense", {})), DONE],
        lead=[calls(task("kid"), task("kid"), task("kid", output_schema=SCHEMA)), Reply(words)],
        kid=[
            replace(calls(LOOK, text=words), percent=100),
            replace(calls(LOOK, text=words), percent=100),
            calls(GOOD),
        ],
    )
    people = [
        profile("host", ["lead", "kid"]),
        profile("lead", ["kid"]),
        profile("kid", [], ["look"]),
    ]
    return Scenario(people, policy, [ask(), ask("again", request_id="r2")], Limits(tokens=40_000))


def taken_back() -> Scenario:
    """Build asks that end while a turn waits for its grant, and one more that sends its results."""
    policy = script(
        host=[calls(LOOK, task("kid")), calls(LOOK), calls(task("kid")), calls(LOOK), DONE],
        kid=[calls(LOOK), DONE],
    )
    people = [profile("host", ["kid"], ["look"]), profile("kid", [], ["look"])]
    asks = [ask(limits=Limits(tokens=1_450)), ask("b", request_id="r2"), ask("c", request_id="r3")]
    chosen = faults("cancel", "overloaded", seed=11)
    return Scenario(people, policy, asks, Limits(max_parallel_calls=1), faults=chosen)


def approvals() -> Scenario:
    """Build calls that wait for a person, of an agent that loses a race; then its process dies."""
    policy = script(
        host=[calls(task("kid", copies=2)), DONE],
        kid=[by_place(calls(LOOK), calls(*[SEND] * 6)), DONE],
    )
    people = [profile("host", ["kid"]), profile("kid", [], ["look"], repeats=["send"], asks=["send"])]
    return Scenario(people, policy, [ask()], faults=faults("crash", fault_mixes=7, seed=217))


def answers_of_people() -> Scenario:
    """Build questions that are answered in every way, of two profiles with a tool of one name."""

    def person(address: str, asked: RequestApproval) -> ApprovalGiven:
        given = ApprovalGiven(asked.turn, asked.call, "approved", is_repeat=asked.is_repeat)
        ways = (
            replace(given, verdict="denied", is_always=True),
            replace(given, arguments=Json(b'{"other":1}')),
            replace(given, is_always=True),
        )
        return ways[asked.call] if asked.turn == 1 and asked.call < len(ways) else given

    policy = script(
        host=[calls(task("kid"), task("aide")), DONE],
        kid=[calls(PAY, PAY, PAY), calls(PAY, PAY), DONE],
        aide=[calls(LOOK), calls(PAY), DONE],
    )
    people = [
        profile("host", ["kid", "aide"]),
        profile("kid", asks=["pay"]),
        profile("aide", [], ["look"], asks=["pay"]),
    ]
    chosen = faults("crash", "ignored", "jump", fault_mixes=7, seed=3)
    return Scenario(people, policy, [ask()], Limits(approval_timeout_s=60), approve=person, faults=chosen)


def one_crash_after_the_other() -> Scenario:
    """Build write tools in processes that die again before their resumed work is durable."""
    policy = script(host=[calls(SAVE, SAVE), DONE])
    return Scenario(
        [profile("host", writes=["save"])], policy, [ask()], faults=faults("crash", most=3, fault_mixes=0)
    )


def polite_ends() -> Scenario:
    """Build agents with few attempts, whose processes end politely one after the other."""
    policy = script(host=[calls(task("kid"), SAVE), DONE], kid=[calls(LOOK), DONE])
    one, two = Limits(max_model_attempts=1), Limits(max_model_attempts=2)
    people = [
        profile("host", ["kid"], writes=["save"], limits=two),
        profile("kid", [], ["look"], limits=one),
    ]
    return Scenario(people, policy, [ask()], faults=faults("detach", "overloaded", fault_mixes=0))


def reopened() -> Scenario:
    """Build a conversation that is closed after each ask and opened again, in processes that may die."""
    policy = script(host=[calls(task("kid", copies=2)), DONE] * 3, kid=[calls(LOOK), DONE])
    people = [profile("host", ["kid"], limits=Limits(tokens=30_000)), profile("kid", [], ["look"])]
    asks = [ask(request_id=name, limits=Limits(tokens=12_000)) for name in ("a", "b", "c")]
    chosen = faults("crash", "detach", "close", most=2, fault_mixes=3, seed=11)
    return Scenario(people, policy, asks, closes=True, reopens=True, faults=chosen)


def closed() -> Scenario:
    """Build a short conversation whose process may end while it is closed."""
    chosen = faults("crash", "detach", most=2, fault_mixes=7, seed=13)
    return Scenario([profile("host")], script(), [ask()], closes=True, faults=chosen)


def resumed_with_limits() -> Scenario:
    """Build two asks, one with a limit of its own, whose later processes have a limit for both of them."""
    return _with_limits([ask(), ask(limits=Limits(tokens=7_000), request_id="r2")], resumed=40_000)


def resumed_with_small_limits() -> Scenario:
    """Build an ask that is too large for the limit of the later processes."""
    return _with_limits([ask()], resumed=7_000)


def resumed_with_wide_limits() -> Scenario:
    """Build two asks of a host whose own limit is narrower than that of the later processes."""
    return _with_limits([ask(), ask(request_id="r2")], resumed=40_000, host=15_000)


def _with_limits(asks: list[Ask], resumed: int, host: int | None = None) -> Scenario:
    policy = script(host=[calls(task("kid", copies=2)), DONE] * len(asks), kid=[calls(LOOK), DONE])
    people = [profile("host", ["kid"], limits=Limits(tokens=host)), profile("kid", [], ["look"])]
    chosen = faults("crash", "detach", most=2, fault_mixes=7, seed=13)
    first = Resumed(RULES, limits=Limits(tokens=resumed))
    return Scenario(people, greedy(policy), asks, faults=chosen, resumed=first)


def resumed_with_time() -> Scenario:
    """Build agents with deadlines, in back-offs and graces, whose later processes give more time."""
    policy = script(host=[calls(task("kid", copies=2), SAVE), DONE], kid=[calls(LOOK), DONE])
    people = [
        profile("host", ["kid"], writes=["save"]),
        profile("kid", [], ["look"], limits=Limits(deadline_s=1)),
    ]
    chosen = faults("crash", "detach", "jump", "never", "overloaded", "cancel", most=3, fault_mixes=7, seed=2)
    asks, limits = [ask(limits=Limits(deadline_s=20))], Limits(cancel_grace_s=1)
    return Scenario(people, policy, asks, limits, faults=chosen, resumed=Resumed(RULES, extend_ms=500))
