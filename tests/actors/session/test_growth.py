"""The cost of a decision does not grow with the agents that live, wait or have reported.

Counted, not timed: the calls that a decision makes and the memory it needs, in a small and in a large
session. A scan or a copy of all agents would show as a factor of forty.
"""

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

import pytest

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import DeciderFailed, Delegate, ReportBack, TurnSettled
from callboard.actors.protocol.port_messages import SchemaChecked
from callboard.actors.protocol.usage import Usage
from callboard.replay.testing.sessions.scenario import NO_LIMITS, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from tests.actors.harness import AgentHarness, SessionHarness, raw

SMALL, LARGE = 100, 4_000
PROMPT = text_json("go")
MANY = Limits(max_children=10**6, max_agents=10**6, max_parallel_calls=4)


class UnitOfWork(NamedTuple):
    """What a decision took."""

    calls: int
    kilobytes: int


def measured(decision: Callable[[], object]) -> UnitOfWork:
    count = 0

    def profiler(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    sys.setprofile(profiler)
    try:
        decision()
    finally:
        sys.setprofile(None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return UnitOfWork(count, (peak - before) // 1_024)


def session(size: int, kid: Limits = NO_LIMITS, limits: Limits = MANY) -> SessionHarness:
    """Make a host with the given number of kids."""
    head = SessionHarness(
        profile("host", ["kid"]), profile("kid", ["kid"], limits=kid), limits=limits
    ).opens()
    head.asks()
    for call in range(size):
        head.hears("host", Delegate(1, call, ("kid",), PROMPT))
    return head


def delegating(size: int) -> UnitOfWork:
    head = session(size)
    return measured(lambda: head.hears("host", Delegate(1, size, ("kid",), PROMPT)))


def granting(size: int) -> UnitOfWork:
    head = session(size)
    return measured(lambda: head.wants("host.7"))


def lining_up(size: int) -> UnitOfWork:
    head = session(size)
    for n in range(1, size):
        head.wants(f"host.{n}")
    return measured(lambda: head.wants(f"host.{size}"))


def settling_with_all_waiting_for_a_slot(size: int) -> UnitOfWork:
    head = session(size)
    for n in range(1, size + 1):
        head.wants(f"host.{n}")
    return measured(lambda: head.hears("host.1", TurnSettled(Usage(1))))


def team(size: int, tokens: int) -> SessionHarness:
    """Make a manager with a budget whose workers all request more than is left."""
    head = SessionHarness(
        profile("host", ["boss"]),
        profile("boss", ["kid"], limits=Limits(tokens=tokens)),
        profile("kid"),
        limits=MANY,
    ).opens()
    head.asks()
    for call in range(2):
        head.hears("host", Delegate(1, call, ("boss",), PROMPT))
    for who in ("host.1", "host.2"):
        for call in range(size if who == "host.1" else 1):
            head.hears(who, Delegate(1, call, ("kid",), PROMPT))
    for n in range(1, size + 1):
        head.wants(f"host.1.{n}", tokens // 2 + 1)
    return head


def settling_with_all_waiting_for_a_budget(size: int) -> UnitOfWork:
    head = team(size, 10**6)
    return measured(lambda: head.hears("host.1.1", TurnSettled(Usage(1))))


def asking_beside_a_line_for_a_budget(size: int) -> UnitOfWork:
    head = team(size, 10**6)
    return measured(lambda: head.wants("host.2.1"))


def ending_one_of_many(size: int) -> UnitOfWork:
    head = session(size)
    return measured(lambda: head.hears("host.7", DeciderFailed(1, "Boom")))


def finishing_one_of_many(size: int) -> UnitOfWork:
    head = session(size)
    return measured(lambda: head.ends("host.7"))


def race(size: int) -> SessionHarness:
    head = SessionHarness(profile("host", ["kid"]), profile("kid"), limits=MANY).opens()
    head.asks()
    head.hears("host", Delegate(1, 0, ("kid",) * size, PROMPT, raw({})))
    head.accepts()
    return head


def reporting_behind_many(size: int) -> UnitOfWork:
    head = race(size)
    for n in range(1, size):
        head.hears(f"host.{n}", ReportBack(1, 0, Json(b"1")))
    return measured(lambda: head.hears(f"host.{size}", ReportBack(1, 0, Json(b"1"))))


def judging_before_many(size: int) -> UnitOfWork:
    head = race(size)
    for n in range(1, size):
        head.hears(f"host.{n}", ReportBack(1, 0, Json(b"1")))
    return measured(lambda: head.hears("schema", SchemaChecked(2, "invalid")))


def losing_one_racer_after_many(size: int) -> UnitOfWork:
    head = race(size)
    for n in range(1, size - 1):
        head.ends(f"host.{n}", "model_error")
    return measured(lambda: head.ends(f"host.{size - 1}", "model_error"))


def accepting_one_more_schema(size: int) -> UnitOfWork:
    head = session(1)
    for n in range(size):
        head.hears("host", Delegate(1, n, ("kid",), PROMPT, raw({"n": n})))
        head.accepts(n + 1)
    head.hears("host", Delegate(1, size, ("kid",), PROMPT, raw({"n": size})))
    return measured(lambda: head.accepts(size + 1))


def stopping_one_that_has_nobody_below(size: int) -> UnitOfWork:
    head = session(size, Limits(max_depth=3))
    head.hears("host.5", Delegate(1, 0, ("kid",), PROMPT))
    return measured(lambda: head.hears("host.5", DeciderFailed(1, "Boom")))


def answering_in_a_long_conversation(size: int) -> UnitOfWork:
    agent = AgentHarness()
    agent.begins(limits=Limits(max_iterations=10**6))
    for _ in range(size):
        agent.calls("look")
        agent.hears(agent.returned(0))
    reply = agent.reply(calls(("look", {})))
    return measured(lambda: agent.hears(reply))


def returning_one_of_many_calls(size: int) -> UnitOfWork:
    agent = AgentHarness()
    agent.begins()
    agent.reads(Reply("", (("look", {}),) * size, "tool_use"))
    for call in range(size // 2):
        agent.hears(agent.returned(call))
    returned = agent.returned(size // 2)
    return measured(lambda: agent.hears(returned))


@pytest.mark.slow
@pytest.mark.parametrize(
    "decision",
    [
        delegating,
        granting,
        lining_up,
        settling_with_all_waiting_for_a_slot,
        settling_with_all_waiting_for_a_budget,
        asking_beside_a_line_for_a_budget,
        ending_one_of_many,
        finishing_one_of_many,
        reporting_behind_many,
        judging_before_many,
        losing_one_racer_after_many,
        accepting_one_more_schema,
        stopping_one_that_has_nobody_below,
        answering_in_a_long_conversation,
        returning_one_of_many_calls,
    ],
    ids=lambda decision: decision.__name__,
)
def test_a_decision_costs_the_same_in_a_large_session(decision: Callable[[int], UnitOfWork]) -> None:
    decision(SMALL)  # fills the memories of pure functions
    small, large = decision(SMALL), decision(LARGE)
    assert large.calls <= 2 * small.calls + 20, (small, large)
    assert large.kilobytes <= small.kilobytes + 16, (small, large)


@pytest.mark.slow
def test_a_cancel_costs_as_much_as_it_stops() -> None:
    small, large = session(SMALL), session(LARGE)
    few = measured(lambda: small.hears("client", Cancel()))
    many = measured(lambda: large.hears("client", Cancel()))
    assert many.calls <= 1.5 * few.calls * LARGE / SMALL
