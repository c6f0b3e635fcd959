"""Sessions that are each rich in one subject, with much else going on. Most faults show in one of them."""

from typing import Final

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.sessions.faults import Faults, faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from tests.mutants.scripts import (
    BAD,
    BETTER,
    BUSY,
    DONE,
    GOOD,
    LOOK,
    OTHER,
    PRICES,
    PUT,
    REFUSED,
    SAVE,
    SCHEMA,
    THIRD,
    by_place,
    greedy,
    place,
    race,
    script,
)

ANY: Final = faults(seed=1)
ORDER: Final = faults("crashes", "twice", "cancel", "jump", "slow", seed=2)
CRASHES: Final = faults("crash", "fence", "cancel", "unstarted", "finished", seed=3)


def races() -> Scenario:
    """Build racers that report at the same time, some first an invalid report, some after a tool call."""
    policy = script(
        host=[
            calls(
                task("kid", copies=3, output_schema=SCHEMA),
                race("kid", "scout", schema=SCHEMA),
                race("kid", "nobody"),
            ),
            DONE,
        ],
        kid=[
            by_place(report({"n": 1}), report({"m": 1}), calls(LOOK), report({"n": 4}), calls(BAD, GOOD)),
            report({"n": 9}),
            report({"n": 10}),
        ],
        scout=[calls(LOOK, SAVE, task("helper"), BAD), report({"n": 5})],
    )
    people = [
        profile("host", ["kid", "scout"]),
        profile("kid", [], ["look"]),
        profile("scout", ["helper"], ["look"], writes=["save"]),
        profile("helper"),
    ]
    return Scenario(people, policy, [ask()], closes=True, faults=ANY)


def trees() -> Scenario:
    """Build racers that have racers of their own, down to the depth limit and one attempt beyond it."""
    policy = script(
        host=[calls(task("kid", copies=2, output_schema=SCHEMA)), DONE],
        kid=[calls(task("grandkid", copies=2), task("grandkid")), report({"n": 1})],
        grandkid=[by_place(DONE, calls(SAVE, task("kid")), calls(LOOK)), DONE],
    )
    people = [
        profile("host", ["kid"]),
        profile("kid", ["grandkid"]),
        profile("grandkid", ["kid"], ["look"], writes=["save"]),
    ]
    return Scenario(people, policy, [ask()], Limits(max_depth=2, max_parallel_calls=3), faults=ANY)


def _teams(limits: Limits, manager: Limits, chosen: Faults, percent: int, worker: Limits) -> Scenario:
    policy = script(
        host=[calls(task("manager"), task("manager")), DONE],
        manager=[calls(task("worker", copies=2), task("worker"), task("worker")), DONE],
        worker=[calls(LOOK), DONE],
    )
    people = [
        profile("host", ["manager"], prices=PRICES),
        profile("manager", ["worker"], limits=manager, prices=PRICES),
        profile("worker", [], ["look"], limits=worker, prices=PRICES),
    ]
    return Scenario(people, greedy(policy, percent), [ask()], limits, faults=chosen)


def budgets() -> Scenario:
    """Build two teams whose managers have their own budgets, each for a worker or two at a time."""
    limits = Limits(tokens=14_500, max_parallel_calls=4, max_result_chars=60)
    return _teams(limits, Limits(tokens=6_400), ORDER, 50, Limits())


def one_budget() -> Scenario:
    """Build two teams in one budget that is just too small for all of them at a time."""
    limits = Limits(tokens=9_000, cost_usd=1.0, max_result_chars=60)
    return _teams(limits, Limits(), ORDER, 30, Limits(deadline_s=2))


def costs() -> Scenario:
    """Build the same two teams with budgets in dollars."""
    return _teams(
        Limits(cost_usd=0.047, max_parallel_calls=3, max_result_chars=60),
        Limits(cost_usd=0.0232),
        ORDER,
        60,
        Limits(cost_usd=0.012),
    )


def slots() -> Scenario:
    """Build many agents with one slot for model calls: some lose a race in the queue, some queue twice."""
    policy = script(
        host=[calls(task("kid", copies=3, output_schema=SCHEMA), task("kid"), task("kid")), DONE],
        kid=[by_place(report({"n": 1}), calls(LOOK), report({"n": 3}), calls(LOOK, LOOK), DONE), DONE],
    )
    people = [profile("host", ["kid"]), profile("kid", [], ["look"], limits=Limits(deadline_s=3))]
    return Scenario(people, policy, [ask()], Limits(max_parallel_calls=1), faults=ORDER)


def retries() -> Scenario:
    """Build models that fail, with and without usage; back-off; attempts that are used up."""

    def flaky(request: ModelRequest) -> Reply:
        if request.attempt <= place(request):
            return Reply(failure=BUSY, usage=None, percent=40)
        return calls(LOOK) if request.turn == 1 else DONE

    policy = script(
        host=[calls(task("kid"), task("kid"), task("kid"), task("kid", copies=2)), DONE], kid=[flaky, flaky]
    )
    limits = Limits(max_model_attempts=3, deadline_s=4)
    people = [profile("host", ["kid"]), profile("kid", [], ["look"], limits=limits)]
    chosen = faults("overloaded", "timeout", "cancel", "crashes", "jump", "crash", "unstarted", seed=4)
    return Scenario(people, policy, [ask()], Limits(tokens=25_000, max_parallel_calls=2), faults=chosen)


def tools() -> Scenario:
    """Build tools of every effect at once, at two levels, and asks that go on after interrupted calls."""
    policy = script(
        host=[calls(LOOK, SAVE, PUT, task("kid")), DONE, calls(SAVE, LOOK), DONE, calls(PUT, SAVE), DONE],
        kid=[calls(SAVE, SAVE, PUT), calls(LOOK), DONE],
    )
    people = [
        profile("host", ["kid"], ["look"], writes=["save"], repeats=["put"]),
        profile("kid", [], ["look"], writes=["save"], repeats=["put"]),
    ]
    asks = [ask("one"), ask("two", request_id="r2"), ask("three", request_id="r3")]
    chosen = faults(
        "cancel", "close", "never", "slow", "raises", "unstarted", "finished", "twice", "crashes",
        "jump", "crash", seed=5,
    )  # fmt: skip
    return Scenario(people, policy, asks, Limits(cancel_grace_s=2), closes=True, faults=chosen)


def asks() -> Scenario:
    """Build one ask after the other in one budget, with reports to the client."""
    policy = script(
        host=[
            calls(task("kid"), task("kid", copies=2)),
            report({"m": 1}),
            report({"n": 1}),
            calls(task("kid")),
            DONE,
            calls(task("kid"), SAVE),
            report({"n": 2}),
        ],
        kid=[calls(LOOK), DONE],
    )
    people = [
        profile("host", ["kid"], writes=["save"], limits=Limits(max_report_attempts=2)),
        profile("kid", [], ["look"]),
    ]
    asked = [
        ask("one", SCHEMA, Limits(tokens=15_000)),
        ask("two", None, Limits(deadline_s=5), "r2"),
        ask("three", SCHEMA, Limits(tokens=9_000), "r3"),
    ]
    limits = Limits(tokens=30_000, cancel_grace_s=1, max_agents=5)
    return Scenario(people, greedy(policy, 40), asked, limits, closes=True, faults=ANY)


def reports() -> Scenario:
    """Build several reports in one turn, from racers, up to the last attempt and the last turn."""
    policy = script(
        host=[calls(task("kid", copies=2, output_schema=SCHEMA), task("poor", output_schema=SCHEMA)), DONE],
        kid=[by_place(calls(BAD, LOOK, GOOD), calls(BAD, BAD)), calls(BETTER, GOOD), calls(BAD, BETTER)],
        poor=[Reply("let me think"), calls(BAD), calls(LOOK, BAD), calls(BAD), calls(GOOD)],
    )
    limits = Limits(max_report_attempts=3, max_iterations=4)
    people = [
        profile("host", ["kid", "poor"]),
        profile("kid", [], ["look"], limits=limits),
        profile("poor", [], ["look"], limits=limits),
    ]
    chosen = faults(
        "unchecked", "twice", "invalid_report", "many_reports", "crashes", "jump", "crash", "timeout", seed=6
    )
    return Scenario(people, policy, [ask()], Limits(), faults=chosen)


def caps() -> Scenario:
    """Build more children, agents and turns than the limits allow."""
    policy = script(
        host=[
            calls(task("kid", copies=2, output_schema=OTHER), task("kid"), task("kid", output_schema=OTHER)),
            calls(task("kid"), task("kid", copies=2), task("kid")),
            calls(task("kid", output_schema=SCHEMA), task("kid", copies=2, output_schema=SCHEMA)),
            calls(LOOK),
            DONE,
        ],
        kid=[by_place(calls(task("kid"), LOOK), calls(LOOK), calls(task("kid"))), calls(LOOK), DONE],
    )
    people = [
        profile("host", ["kid"], ["look"], limits=Limits(max_iterations=4)),
        profile("kid", ["kid"], ["look"], limits=Limits(max_iterations=2)),
    ]
    limits = Limits(max_children=3, max_agents=12, max_depth=2)
    chosen = faults("crashes", "unknown_tool", "bad_arguments", "blank", "cancel", seed=7)
    return Scenario(people, policy, [ask()], limits, faults=chosen)


def deadlines() -> Scenario:
    """Build agents that run out of time: with waiting reports, in a tool call, in the queue, in back-off."""
    policy = script(
        host=[
            calls(
                task("kid", copies=2, output_schema=SCHEMA),
                task("slow", copies=2, output_schema=SCHEMA),
                task("late", copies=2),
            ),
            DONE,
        ],
        kid=[by_place(calls(BAD, GOOD), calls(LOOK)), report({"n": 3})],
        slow=[calls(SAVE, task("helper", copies=2)), by_place(report({"n": 5}), report({"n": 6}))],
        late=[by_place(calls(LOOK), DONE), DONE],
        helper=[calls(LOOK), DONE],
    )
    people = [
        profile("host", ["kid", "slow", "late"]),
        profile("kid", [], ["look"], limits=Limits(deadline_s=1)),
        profile("slow", ["helper"], writes=["save"], limits=Limits(deadline_s=2)),
        profile("helper", [], ["look"]),
        profile("late", [], ["look"], limits=Limits(deadline_s=1, max_iterations=1)),
    ]
    chosen = faults("jump", "never", "slow", "timeout", "overloaded", "unchecked", "crashes", most=5, seed=8)
    limits = Limits(max_parallel_calls=2, cancel_grace_s=1)
    return Scenario(people, policy, [ask(limits=Limits(deadline_s=30))], limits, faults=chosen)


def schemas() -> Scenario:
    """Build refused schemas, some requested by several agents at a time; checks without an answer."""
    policy = script(
        host=[
            calls(task("kid", output_schema=SCHEMA), task("kid", output_schema=REFUSED)),
            calls(
                task("kid", output_schema=REFUSED), task("other"), task("kid", copies=2, output_schema=OTHER)
            ),
            calls(task("kid", output_schema=SCHEMA)),
            DONE,
        ],
        kid=[by_place(report({"n": 1}), report({"n": 2, "m": 2})), report({"m": 3, "n": 3, "k": 3})],
        other=[calls(task("kid", output_schema=SCHEMA), task("kid", output_schema=THIRD)), report({"m": 1})],
    )
    people = [
        profile("host", ["kid", "other"]),
        profile("kid", []),
        profile("other", ["kid"], schema=OTHER, output_type="app.Other"),
    ]
    chosen = faults("unchecked", "cancel", "crashes", "crash", "twice", "jump", seed=9)
    limits = Limits(deadline_s=20)
    return Scenario(
        people, policy, [ask("one", SCHEMA), ask("two", REFUSED, request_id="r2")], limits, faults=chosen
    )


def processes() -> Scenario:
    """Build a process that ends again and again in the middle of its work."""
    policy = script(
        host=[
            calls(SAVE, task("kid", copies=2, output_schema=SCHEMA), task("hand")),
            DONE,
            calls(SAVE),
            DONE,
        ],
        kid=[by_place(calls(LOOK, SAVE), report({"n": 2})), report({"n": 1})],
        hand=[calls(SAVE, PUT, LOOK), DONE],
    )
    people = [
        profile("host", ["kid", "hand"], writes=["save"]),
        profile("kid", [], ["look"], writes=["save"]),
        profile("hand", [], ["look"], writes=["save"], repeats=["put"], limits=Limits(deadline_s=9)),
    ]
    asked = [ask("one"), ask("two", request_id="r2")]
    limits = Limits(max_parallel_calls=2, tokens=60_000)
    return Scenario(people, policy, asked, limits, closes=True, faults=CRASHES)
