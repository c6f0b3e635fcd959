"""Each rule of the capacity port is broken by a port that does what the rule forbids."""

from collections.abc import Callable
from typing import Any

import pytest

from callboard.actors.protocol.port_messages import CallModel, RequestCapacity
from callboard.actors.session.capacity import Capacity, Line
from callboard.actors.session.port_actions import Start
from callboard.actors.session.token_bucket import MINUTE_MS
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.run import Bounds
from callboard.replay.testing.sessions import capacity_monitors as rules
from callboard.replay.testing.sessions.capacity_monitors import CapacityBooks, CapacityTurns, EachSession
from callboard.replay.testing.sessions.capacity_world import CapacityWorld, CapacityWorlds, SharedScenario
from callboard.replay.testing.sessions.scripted_replies import calls, task
from callboard.replay.testing.sessions.shared_session import PlacedSession
from tests.mutants.scenarios_capacity import (
    ONE_CALL,
    SHARED,
    above_the_bucket,
    alone,
    detach_twice,
    family,
    pair,
    turns,
)
from tests.mutants.scripts import DONE, script

Patch = Callable[[pytest.MonkeyPatch], None]


def greedy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Line, "_want", lambda line: None)


def stingy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Line, "_want", lambda line: "calls" if line._held else None)


def reversed_line(patch: pytest.MonkeyPatch) -> None:
    def head(line: Line) -> tuple[str, str, str, int]:
        session, requests = next(reversed(line._ring[""].items()))
        return "", session, *next(iter(requests.items()))

    patch.setattr(Line, "_head", head)


def one_first(patch: pytest.MonkeyPatch) -> None:
    def head(line: Line) -> tuple[str, str, str, int]:
        sessions = line._ring[""]
        session = "a" if "a" in sessions else next(iter(sessions))
        return "", session, *next(iter(sessions[session].items()))

    patch.setattr(Line, "_head", head)


def forgetful(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlacedSession, "give_back", lambda session, agent, usage: None)


def free_of_charge(patch: pytest.MonkeyPatch) -> None:
    real = PlacedSession.give_back
    patch.setattr(PlacedSession, "give_back", lambda session, agent, usage: real(session, agent, None))


def unknown_at_a_detach(patch: pytest.MonkeyPatch) -> None:
    """Give a place that comes while the process detaches back as one of a call whose usage is not known."""
    real = CapacityWorld.give_back

    def give_back(world: CapacityWorld, session: str, agent: str, used: int | None) -> None:
        one = world.sessions[session]
        is_unused = one.is_detaching and agent in one.held
        real(world, session, agent, None if is_unused else used)

    patch.setattr(CapacityWorld, "give_back", give_back)


def before_its_answer(patch: pytest.MonkeyPatch) -> None:
    """Give a place back when its call starts."""
    real = PlacedSession.start

    def start(session: PlacedSession, start: Start) -> None:
        real(session, start)
        if isinstance(start.request.body, CallModel):
            session.port.give_back(session.name, start.request.body.agent, 0)

    patch.setattr(PlacedSession, "start", start)


def twice(patch: pytest.MonkeyPatch) -> None:
    real = PlacedSession.give_back

    def give_back(session: PlacedSession, agent: str, usage: Any) -> None:
        real(session, agent, usage)
        real(session, agent, usage)

    patch.setattr(PlacedSession, "give_back", give_back)


def without_waiting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlacedSession, "_hold", lambda session, request, agent, model, tokens: None)


def lost_request(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Line, "_want", lambda line: "calls")


def without_waiting_or_sums(patch: pytest.MonkeyPatch) -> None:
    without_waiting(patch)
    patch.setattr(CapacityBooks, "_sums", lambda books, world: "")  # which sees it a step earlier


BROKEN: dict[str, tuple[str, Patch, SharedScenario]] = {
    "calls": (rules.CALLS, greedy, pair()),
    "bucket": (rules.BUCKET, greedy, above_the_bucket()),
    "order": (rules.ORDER, reversed_line, turns()),
    "idle": (rules.IDLE, stingy, SHARED["crashes"]),
    "once": (rules.ONCE, twice, pair()),
    "usage": (rules.USAGE, free_of_charge, pair()),
    "usage at a detach": (rules.USAGE, unknown_at_a_detach, detach_twice()),
    "usage before the answer": (rules.USAGE, before_its_answer, pair()),
    "sum": (rules.SUM, without_waiting, pair()),
    "placed": (rules.PLACED, without_waiting_or_sums, pair()),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_port_that_breaks_a_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule, patch, scenario = BROKEN[name]
    patch(monkeypatch)
    plan = Plan("random", runs=60, bounds=Bounds(200), shrinks=False)
    found = explore(CapacityWorlds(scenario), [CapacityBooks()], plan)
    assert [one.violation.rule for one in found.counterexamples] == [rule]


def longest_wait(patches: bool, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let b ask behind nine children of a. Return the rule that is broken, or ''."""
    if patches:
        one_first(monkeypatch)
    many = script(host=[calls(*[task("kid")] * 9), DONE])
    scenario = SharedScenario({"a": family(policy=many), "b": alone()}, ONE_CALL)
    world, turns = CapacityWorlds(scenario)(), CapacityTurns()
    for name, wanted in (("a", 10), ("b", 1), ("", 0)):
        while moves := [move for move in world.moves() if move.strand.startswith(name)]:
            if name and len(world.sessions[name].of(RequestCapacity)) == wanted:
                break
            world.make(moves[0])
            if found := turns.after(world, len(world.made), 0):
                return found.rule
    return ""


def test_a_session_that_is_passed_too_often_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert longest_wait(False, monkeypatch) == ""
    assert longest_wait(True, monkeypatch) == rules.FAIR


def test_tags_that_do_not_take_turns_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = {name: family() for name in "abc"}
    tags = {"a": ("of:x",), "b": ("of:x",), "c": ("of:x",), "d": ("of:y",)}
    limits = {"scripted": Capacity(calls=1, fair_by="of:*")}
    scenario = SharedScenario({**crowd, "d": alone()}, limits, tags=tags)
    plan = Plan("random", runs=60, bounds=Bounds(200), shrinks=False)
    assert not explore(CapacityWorlds(scenario), [CapacityBooks(), CapacityTurns()], plan).counterexamples
    monkeypatch.setattr(Capacity, "tag_among", lambda limits, tags: "")
    found = explore(CapacityWorlds(scenario), [CapacityBooks()], plan)
    assert [one.violation.rule for one in found.counterexamples] == [rules.ORDER]


def test_a_request_that_waits_for_ever_is_left_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    lost_request(monkeypatch)
    books = CapacityBooks()
    world = CapacityWorlds(pair())().run()
    books.begin(0)
    books.after(world, 0, 0)
    found = books.at_rest(world, 1)
    assert found is not None
    assert found.rule == rules.LEFT


def test_the_rules_of_each_session_are_held_against_every_session() -> None:
    world = CapacityWorlds(pair())().run()
    each = EachSession(1)
    each.begin(0)
    assert each.at_rest(world, 1) is None
    del world.sessions["b"].log[3]
    assert each.at_rest(world, 1) is not None


def test_a_bucket_counts_in_tokens_by_milliseconds() -> None:
    assert MINUTE_MS == 60_000
