"""A session as a world: the same deciders as live, an order from outside, a clock that waits for all."""

from random import Random

import pytest

from callboard.actors.protocol.bundles import LabelRule, Rights
from callboard.actors.protocol.client_messages import AskEnded, Close, Resumed, SessionClosed
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.layers import SESSION, Layer
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import DeciderFailed, TurnRequested
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    CheckSchema,
    ModelReplied,
    TimerFired,
    ToolReturned,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.uses import Use
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.scenario import START_MS, Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.replay.testing.world import Covers, Heals
from callboard.replay.verify import Verifier
from tests.poison import poison_agents, poison_supervisor
from tests.replay.testing.scenarios import RICH, TWO
from tests.tables import table

DONE = Scenario([profile("host")], lambda request: Reply("done"), [ask()])


def test_a_session_is_played_to_its_end_first_come_first_served() -> None:
    world = SessionWorld(DONE).run()
    assert (world.ended.kind, world.ended.text) == ("answered", "done")
    assert [made.move.strand for made in world.made] == [
        "inbox supervisor",
        "inbox host",
        "inbox supervisor",
        "model host/1",
        "inbox host",
        "inbox supervisor",
    ]
    assert world.is_at_rest


def test_a_session_in_which_no_move_was_made_has_an_empty_trace() -> None:
    assert SessionWorld(DONE).trace() == []


def test_the_same_moves_lead_to_the_same_log_and_digest() -> None:
    first = SessionWorld(RICH).run(in_random_order(7))
    again = SessionWorld(RICH)
    for made in first.made:
        again.make(next(move for move in again.moves() if move.strand == made.move.strand))
    assert again.log == first.log
    assert again.digest() == first.digest()
    assert again.trace() == first.trace()


@table("seed", range(20))
def test_every_log_verifies_in_every_order(seed: int) -> None:
    world = SessionWorld(RICH).run(in_random_order(seed))
    assert Verifier(world.log).run() is None
    assert breaches_of(world) == []


def test_orders_that_differ_in_nothing_that_counts_have_one_digest() -> None:
    digests, logs = set(), set()
    for seed in range(30):
        world = SessionWorld(TWO).run(in_random_order(seed))
        digests.add(world.digest())
        logs.add(tuple(event.kind + event.sender for event in world.log))
    assert len(digests) == 1
    assert len(logs) > 5


def test_a_digest_tells_states_apart_on_the_way_too() -> None:
    world, seen = SessionWorld(TWO), set()
    seen.add(world.digest())
    while moves := world.moves():
        world.make(moves[0])
        seen.add(world.digest())
    assert len(seen) == len(world.made) + 1


def test_two_steps_that_commute_lead_to_one_digest() -> None:
    def after(*strands: str) -> bytes:
        world = SessionWorld(TWO)
        while not {"inbox host.1", "inbox host.2"} <= world.offers.keys():
            world.make(world.moves()[0])
        for strand in strands:
            world.make(world.offers[strand])
        return world.digest()

    assert after("inbox host.1", "inbox host.2") != after("inbox host.1")
    one, other = ("inbox host.1", "inbox host.2"), ("inbox host.2", "inbox host.1")
    both = (
        after(*one, "inbox supervisor", "inbox supervisor"),
        after(*other, "inbox supervisor", "inbox supervisor"),
    )
    assert both[0] == both[1]


def test_the_trace_names_the_sender_of_each_handled_event() -> None:
    world = SessionWorld(RICH).run(in_random_order(3))
    for step, made in zip(world.trace(), world.made, strict=True):
        assert step.cause < step.seq
        if made.event is not None and made.event.cause:
            assert (step.sender, step.recipient) == (made.event.sender, made.event.recipient)
            handled = [s for s in world.trace()[: step.seq - 1] if s.seq == step.cause]
            assert handled, "whoever posted it had made a step before"


def test_a_clock_stands_still_until_nothing_else_can_happen() -> None:
    busy = ModelFailure("overloaded", is_retryable=True)

    def policy(request: ModelRequest) -> Reply:
        if request.profile == "b" and request.attempt == 1:
            return Reply(failure=busy, usage=None)
        return (
            calls(task("a"), task("b")) if (request.profile, request.turn) == ("host", 1) else Reply("done")
        )

    scenario = Scenario(TWO.profiles, policy, [ask(limits=Limits(deadline_s=60))])
    world = SessionWorld(scenario).run(in_random_order(1))
    (fired,) = world.events(TimerFired)
    assert fired.at > START_MS
    assert {event.at for event in world.log if event.seq < fired.seq} == {START_MS}
    assert world.ended.kind == "answered"
    assert not world.rescued, "a back-off is not a deadline"


def test_a_session_that_only_a_deadline_can_end_is_noticed() -> None:
    world = SessionWorld(
        Scenario([profile("host")], lambda request: Reply("done"), [ask(limits=Limits(deadline_s=5))])
    )
    while not world.of(CallModel):
        world.make(world.moves()[0])
    world.ignore(world.requests["model host/1"])
    world.requests.clear()  # a port that has forgotten it
    world.look_ahead()
    assert world.rescued == "timer deadline host"


def test_a_policy_that_raises_is_a_failed_call_and_a_tool_that_raises_an_error_result() -> None:
    def boom(*_: object) -> Reply:
        raise ZeroDivisionError("oh")

    world = SessionWorld(Scenario([profile("host")], boom, [ask()])).run()
    assert world.of(ModelReplied)[0].failure == ModelFailure("model_crashed", "ZeroDivisionError: oh")
    assert breaches_of(world) == []

    def tool(*_: object) -> ToolReturned:
        raise KeyError("x")

    def uses(request: ModelRequest) -> Reply:
        return calls(("look", {})) if request.turn == 1 else Reply("done")

    world = SessionWorld(Scenario([profile("host", tools=["look"])], uses, [ask()], tool=tool)).run()
    assert world.of(ToolReturned)[0].status == "error"
    assert b"KeyError" in bytes(world.of(ToolReturned)[0].output)


def test_a_schema_check_that_raises_is_a_failed_check() -> None:
    def check(request: CheckSchema) -> None:
        raise ValueError

    scenario = Scenario([profile("host")], lambda request: Reply("x"), [ask(schema={})], check=check)  # type: ignore[arg-type]  # a check that answers nothing valid, on purpose
    assert SessionWorld(scenario).run().ended.kind == "denied"


def test_a_decider_that_raises_is_recorded_as_it_is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    poison_agents(monkeypatch, ModelReplied, ZeroDivisionError())
    world = SessionWorld(DONE).run()
    assert world.of(DeciderFailed)[0].error == "ZeroDivisionError"
    assert world.ended.kind == "crashed"


def test_a_supervisor_that_raises_ends_the_session_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    poison_supervisor(monkeypatch, TurnRequested, ZeroDivisionError())
    world = SessionWorld(DONE).run()
    assert isinstance(world.failure, ZeroDivisionError)
    assert {breach.name for breach in breaches_of(world)} >= {"fails-by-fault"}


def test_what_the_client_wants_comes_one_after_the_other() -> None:
    scenario = Scenario(DONE.profiles, DONE.policy, [ask("a"), ask("b", request_id="r2")], closes=True)
    world = SessionWorld(scenario).run(in_random_order(5))
    assert [ended.request_id for ended in world.of(AskEnded)] == ["r1", "r2"]
    assert isinstance(world.log[-1].body, SessionClosed)
    assert [made.move.kind for made in world.made].count("client") == 2


def test_a_client_may_close_after_each_ask_and_open_the_session_again() -> None:
    asks = [ask("a"), ask("b", request_id="r2"), ask("c", request_id="r3")]
    scenario = Scenario(DONE.profiles, DONE.policy, asks, closes=True, reopens=True)
    world = SessionWorld(scenario).run()
    assert [ended.kind for ended in world.of(AskEnded)] == ["answered"] * 3
    assert [one.reopens for one in world.of(Resumed)] == [True, True]
    assert [made.move.strand for made in world.made].count("client reopens") == 2
    assert len(world.of(SessionClosed)) == 3
    assert isinstance(world.log[-1].body, SessionClosed)
    assert breaches_of(world) == []


def test_a_closed_session_is_not_opened_again_for_nothing() -> None:
    world = SessionWorld(Scenario(DONE.profiles, DONE.policy, [ask()], closes=True, reopens=True)).run()
    assert world.of(Resumed) == []


def test_a_process_that_ends_after_the_close_is_followed_by_one_that_opens_again() -> None:
    asks = [ask("a"), ask("b", request_id="r2")]
    scenario = Scenario(DONE.profiles, DONE.policy, asks, reopens=True, faults=faults("crash", fault_mixes=0))
    world = SessionWorld(scenario)
    while not any(isinstance(event.body, Close) for event in world.log):
        world.make(world.moves()[0])
    world.make(next(move for move in world.moves() if "crash" in move.strand))
    world.heal()
    world.run()
    assert [one.reopens for one in world.of(Resumed)] == [False, True]
    assert [ended.kind for ended in world.of(AskEnded)] == ["answered", "answered"]
    assert breaches_of(world) == []


def test_two_closes_at_once_close_one_life_of_a_session() -> None:
    scenario = Scenario(DONE.profiles, DONE.policy, [ask("a"), ask("b", request_id="r2")], reopens=True)
    world = SessionWorld(scenario)
    while not any(isinstance(event.body, Close) for event in world.log):
        world.make(world.moves()[0])
    world.close().run()
    assert len(world.of(Close)) == 2
    assert len(world.of(AskEnded)) == 2
    assert breaches_of(world) == []


def test_a_world_heals_and_reports_its_coverage() -> None:
    world = SessionWorld(Scenario(DONE.profiles, DONE.policy, [ask()], faults=faults(fault_mixes=0)))
    assert isinstance(world, Heals)
    assert isinstance(world, Covers)
    assert any(move.kind == "fault" for move in world.moves())
    world.heal()
    assert not any(move.kind == "fault" for move in world.moves())
    world.run()
    assert ("host", "thinking", "ModelReplied") in world.coverage()
    assert ("supervisor", "asking", "Finished") in world.coverage()


def test_looking_names_a_missing_item() -> None:
    world = SessionWorld(Scenario(DONE.profiles, DONE.policy))
    with pytest.raises(LookupError, match="0 asks have ended"):
        _ = world.ended
    with pytest.raises(LookupError, match="has not begun"):
        _ = world.host
    assert not world.is_closed
    assert world.close().run().is_closed


def test_a_log_that_the_code_contradicts_cannot_be_gone_on_with() -> None:
    from callboard.replay.testing.sessions.resumes import go_on

    log = list(SessionWorld(RICH).run().log)
    Random(1).shuffle(log)
    with pytest.raises((Diverged, ValueError, IndexError)):
        go_on(
            RICH,
            [
                type(e)(n, e.at, e.sender, e.recipient, min(e.cause, n - 1), e.body)
                for n, e in enumerate(log, 1)
            ],
        )


def test_a_label_that_a_write_states_counts_for_the_uses_after_it() -> None:
    sends = (Use("write", "a", "1", ("untrusted",)), Use("hosts", "https://a.example:443"))

    def tool(address: str, call: CallTool) -> ToolReturned:
        return ToolReturned(call.turn, call.call, uses=sends)

    guarded = (Layer(SESSION, Rights(rules=(LabelRule("untrusted", "network"),))),)

    def policy(request: ModelRequest) -> Reply:
        return calls(("save", {})) if request.turn == 1 else Reply("done")

    people = [profile("host", writes=["save"])]
    world = SessionWorld(Scenario(people, policy, [ask()], tool=tool, permissions=guarded)).run()
    [returned] = world.of(ToolReturned)
    assert (returned.status, [use.entry for use in returned.uses]) == ("error", ["write"])
    assert Verifier(world.log).run() is None
