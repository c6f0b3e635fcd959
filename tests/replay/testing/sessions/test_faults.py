"""Every kind of fault strikes, has its stated effect, and breaks no rule; a fault mix thins them out."""

from dataclasses import replace
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import AskEnded, SessionClosed
from callboard.actors.protocol.errors import MisuseError, StoreFailed
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import DeciderFailed
from callboard.actors.protocol.port_messages import ModelReplied, SchemaChecked, ToolReturned
from callboard.replay.testing.sessions.faults import (
    CALM_EVERY,
    KINDS,
    NO_FAULTS,
    FaultMix,
    Faults,
    faults,
    kind_of,
)
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.scenario import Scenario, ask
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.mutants.scenarios_state import contexts
from tests.replay.testing.scenarios import RICH, SCHEMA
from tests.tables import table

ABLE = replace(RICH, asks=[ask(schema=SCHEMA, limits=Limits(deadline_s=1_000))])


def injected(kind: str, seed: int = 0, scenario: Scenario = ABLE) -> SessionWorld:
    """Take the first chance of a fault, then play the session to its end."""
    also = ("cancel",) if kind in ("unstarted", "finished") else ()
    world = SessionWorld(replace(scenario, faults=faults(kind, *also, most=2, fault_mixes=0)))
    choose = in_random_order(seed)
    while moves := world.moves():
        wanted = [move for move in moves if move.kind == "fault" and kind_of(move.strand) == kind]
        under_way = [strand for strand in world.requests if strand.startswith("tool")]
        if not wanted and also and under_way and not world.injected:
            wanted = [move for move in moves if move.strand == "fault cancel"]
        plain = [move for move in moves if move.kind != "fault"]
        if also and world.injected:  # actors are faster than ports: a Stop finds calls under way
            plain = [move for move in plain if move.kind == "deliver"] or plain
        pool = wanted if wanted and kind not in {kind_of(one) for one in world.injected} else plain
        if not pool:
            break
        world.make(pool[choose(len(pool))])
    return world


@table("kind", sorted(KINDS))
def test_a_fault_strikes_and_breaks_no_rule(kind: str) -> None:
    scenario = contexts() if kind == "unmade" else ABLE
    worlds = [injected(kind, seed, scenario) for seed in range(3)]
    assert any(kind in {kind_of(strand) for strand in world.injected} for world in worlds)
    for world in worlds:
        assert breaches_of(world) == [], world.injected


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("error", "invalid_request_error"),
        ("overloaded", "overloaded_error"),
        ("timeout", "timeout"),
        ("full", "context_full"),
    ],
)
def test_a_model_fails_as_a_service_does(kind: str, code: str) -> None:
    failures = [reply.failure for reply in injected(kind).of(ModelReplied) if reply.failure]
    assert [failure.code for failure in failures] == [code]


def test_a_model_may_refuse_say_nothing_or_say_garbage() -> None:
    assert injected("refusal").of(AskEnded)[-1].kind in ("model_refused", "no_report", "reported")
    assert any(bytes(reply.content) == b"[]" for reply in injected("blank").of(ModelReplied))
    assert any(bytes(reply.content).startswith(b"{") for reply in injected("garbage").of(ModelReplied))


def test_a_greedy_call_uses_all_it_may_and_an_unmetered_one_is_charged_so() -> None:
    world = injected("unmetered")
    assert any(reply.usage is None for reply in world.of(ModelReplied))
    assert world.of(AskEnded)[-1].usage.unknown_calls == 1


def test_tools_raise_hang_and_shout() -> None:
    (shouted,) = [one for one in injected("huge").of(ToolReturned) if len(one.output) > 10_000]
    assert shouted.status == "ok"
    assert any(b"a fault" in bytes(one.output) for one in injected("raises").of(ToolReturned))
    world = injected("never")
    text = b"timed out after 120 s"
    (late,) = [e for e in world.events(ToolReturned) if text in bytes(getattr(e.body, "output", b""))]
    assert late.at - world.log[0].at >= 120_000


def test_a_second_answer_is_not_let_in() -> None:
    world = injected("twice")
    answers = [
        event.cause
        for event in world.log
        if isinstance(event.body, ModelReplied | ToolReturned | SchemaChecked)
    ]
    assert len(answers) == len(set(answers))


def test_a_person_who_says_no_is_heard_and_one_who_says_nothing_is_given_up_on() -> None:
    world = injected("denied")
    assert b"It was not allowed to run: a fault" in b"".join(
        bytes(message) for asked in world.asked.values() for message in asked.messages
    )
    assert injected("ignored").of(AskEnded)[-1].kind == "deadline"
    ignored = injected("ignored", scenario=RICH)
    assert "client gives up" in [made.move.strand for made in ignored.made]
    assert ignored.of(AskEnded)[-1].kind == "cancelled"


def test_the_client_may_cancel_close_and_be_refused_a_second_ask() -> None:
    assert injected("cancel").of(AskEnded)[0].kind == "cancelled"
    assert isinstance(injected("close").log[-1].body, SessionClosed)
    assert injected("ask").of(AskEnded)[0].detail == "another ask is running"


def test_a_decider_raises_where_the_fault_says() -> None:
    world = injected("crashes")
    (failed,) = world.of(DeciderFailed)
    assert failed.error == "Fault"


def test_a_store_that_refuses_ends_the_session_and_the_log_stays_a_prefix() -> None:
    plain = SessionWorld(replace(ABLE, faults=NO_FAULTS)).run()
    world = injected("refuse")
    assert isinstance(world.failure, StoreFailed)
    assert world.moves() == []
    assert world.log == plain.log[: len(world.log)]


# --- fault mixes --------------------------------------------------------------------


def test_a_fault_mix_is_always_the_same_and_every_eighth_is_calm() -> None:
    wrong = faults(seed=3)
    assert [wrong.fault_mix(n) for n in range(20)] == [wrong.fault_mix(n) for n in range(20)]
    assert wrong.fault_mix(1) != faults(seed=4).fault_mix(1)
    for number in range(0, 32, CALM_EVERY):
        assert str(wrong.fault_mix(number)) == f"fault mix {number}: 0 of the steps; nothing fails"
    assert "of the steps; " in str(wrong.fault_mix(1))


def test_a_fault_mix_leaves_kinds_out_and_offers_at_most_one_fault_a_step() -> None:
    world = SessionWorld(replace(ABLE, faults=faults(most=50)))
    assert [move.label for move in world.moves()][1:] == [f"fault mix {n}" for n in range(31)]
    world.make(world.moves()[2])
    assert isinstance(world.fault_mix, FaultMix)
    assert 0 < len(world.fault_mix.shares) < len(KINDS)
    choose = in_random_order(1)
    while moves := world.moves():
        offered = [move for move in moves if move.kind == "fault"]
        assert len(offered) <= 1
        assert all(kind_of(move.strand) in world.fault_mix.shares for move in offered)
        owed = [move for move in moves if move.kind != "fault"]
        if not owed:
            break
        world.make(owed[choose(len(owed))])


def test_a_run_in_a_fault_mix_is_a_run_without_it_too() -> None:
    for seed in range(20):
        world = SessionWorld(replace(ABLE, faults=faults())).run(in_random_order(seed))
        again = SessionWorld(replace(ABLE, faults=faults()))
        for made in world.made:
            if made.move.actor != "mix":
                again.make(next(move for move in again.moves() if move.strand == made.move.strand))
        assert again.log == world.log


def test_no_more_strike_than_may() -> None:
    for most in (0, 1, 3):
        world = SessionWorld(replace(ABLE, faults=faults("cancel", "ask", "twice", most=most, fault_mixes=0)))
        assert len(world.run(in_random_order(most)).injected) <= most


def test_a_fault_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(MisuseError, match="there is no fault 'earthquake'; faults: ask, "):
        Faults(frozenset({"earthquake"}))
    assert faults().kinds == KINDS
    assert faults("crash").kinds == {"crash"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"most": -1}, "most=-1"),
        ({"fault_mixes": -1}, "fault_mixes=-1"),
        ({"most": "x"}, "most='x'"),
        ({"kinds": "crash"}, "kinds="),
    ],
)
def test_faults_of_wrong_numbers_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(MisuseError, match=said):
        Faults(**given)
