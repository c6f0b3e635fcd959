"""Approvals: a person is asked before a call runs, or before a call in doubt runs again."""

from dataclasses import replace

import msgspec
import pytest
from msgspec import structs

from callboard.actors.protocol.addresses import APPROVALS, TOOLS
from callboard.actors.protocol.client_messages import AskEnded, Resumed, RevokePermission
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AgentInput, AnyMessage, DelegationEnded, Stop, Stopped
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    ModelReplied,
    RequestApproval,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.profiles import Approval, Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.recovery import recover
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.resumes import go_on
from callboard.replay.testing.sessions.scenario import Approve, Scenario, approves, ask, profile, tool_spec
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from callboard.replay.testing.sessions.world import SessionWorld
from tests.actors.harness import AgentHarness


def who(approval: Approval) -> Profile:
    plain = profile("host")
    spec = tool_spec("pay", "write", approval)
    return Profile(plain.name, "", plain.instructions, (spec,), model=plain.model)


def pays(request: ModelRequest) -> Reply:
    return calls(("pay", {"euros": 5})) if request.turn == 1 else Reply("done")


def scenario(approval: Approval = "before", approve: Approve = approves) -> Scenario:
    return Scenario([who(approval)], pays, [ask()], approve=approve)


def world(approval: Approval = "before") -> SessionWorld:
    return SessionWorld(scenario(approval))


def waiting(approval: Approval = "before") -> SessionWorld:
    """Return a session that waits for the answer of a person."""
    made = world(approval)
    while not made.of(RequestApproval):
        made.make(made.moves()[0])
    return made


def read_by_model(made: SessionWorld) -> bytes:
    return b"".join(made.asked[max(made.asked)].messages)


def denied(address: str, request: RequestApproval) -> ApprovalGiven:
    return ApprovalGiven(request.turn, request.call, "denied", "too much", is_repeat=request.is_repeat)


def test_a_call_that_is_approved_runs() -> None:
    made = world().run()
    kinds = [e.kind for e in made.log if e.recipient in (APPROVALS, TOOLS) or e.sender in (APPROVALS, TOOLS)]
    assert kinds == ["RequestApproval", "ApprovalGiven", "CallTool", "ToolStarted", "ToolReturned"]
    (request,) = made.of(RequestApproval)
    assert (request.tool, request.effect, bytes(request.arguments)) == ("pay", "write", b'{"euros":5}')
    assert b"did pay" in read_by_model(made)


def test_a_call_that_is_denied_does_not_run_and_the_model_reads_why() -> None:
    made = SessionWorld(scenario(approve=denied)).run()
    assert not made.of(CallTool)
    assert b"It was not allowed to run: too much" in read_by_model(made)
    assert breaches_of(made) == []


def test_a_tool_without_approval_before_its_calls_is_called_at_once() -> None:
    for approval in ("never", "interrupted"):
        made = world(approval).run()
        assert not made.of(RequestApproval)


def test_a_stopped_agent_withdraws_its_question_and_never_calls() -> None:
    made = waiting().cancel().run()
    assert [given.verdict for given in made.of(ApprovalGiven)] == ["cancelled"]
    assert not made.of(CallTool)
    assert [end.kind for end in made.of(AskEnded)] == ["cancelled"]
    assert breaches_of(made) == []


def test_an_approval_that_comes_while_the_agent_stops_starts_nothing() -> None:
    agent = AgentHarness("host")
    agent.begins(who=who("before"))
    agent.hears(reply())
    assert (agent.state.calls.questions, agent.state.calls.tools) == (1, 0)
    assert agent.hears(Stop("cancelled")) == []
    (stopped,) = agent.hears(ApprovalGiven(1, 0, "approved"))
    assert isinstance(stopped, Stopped)


def test_an_answer_to_a_call_that_has_one_changes_nothing() -> None:
    agent = AgentHarness("host")
    agent.begins(who=who("before"))
    agent.hears(reply())
    agent.hears(ApprovalGiven(1, 0, "denied"))
    before = agent.state
    again: list[AgentInput] = [ApprovalGiven(1, 0, "approved"), ApprovalGiven(1, 7, "approved")]
    for body in (*again, DelegationEnded(1, 0, "answered")):
        assert agent.hears(body) == []
        assert agent.state == before


def reply() -> AgentInput:
    made = world()
    made.run()
    return made.of(ModelReplied)[0]


# --- after a crash ----------------------------------------------------------------


def resumed(events: list[Event]) -> list[AnyMessage]:
    return [event.body for event in recover(events, Resumed(1), 0).posted]


def test_a_question_without_an_answer_is_asked_again() -> None:
    made = waiting()
    found = recover(made.log, Resumed(1), 0)
    (start,) = found.starts
    assert isinstance(start.request.body, RequestApproval)
    assert start.waits, "a person must see only durable questions"


def test_an_approved_call_that_had_not_started_runs_without_a_second_question() -> None:
    made = world().run()
    approved = made.events(ApprovalGiven)[0].seq
    found = recover(made.log[:approved], Resumed(1), 0)
    assert [start.request.kind for start in found.starts] == ["CallTool"]


def interrupted(approval: Approval, approve: Approve = approves) -> list[Event]:
    """Return the log of a session that died while the call ran."""
    made = SessionWorld(scenario(approval, approve)).run()
    return made.log[: made.events(ToolStarted)[0].seq]


def test_an_interrupted_call_is_held_for_a_person_if_its_tool_says_so() -> None:
    posted = resumed(interrupted("interrupted"))
    assert [body.status for body in posted if isinstance(body, ToolReturned)] == ["interrupted"]
    (question,) = [body for body in posted if isinstance(body, RequestApproval)]
    assert question.is_repeat


def test_an_interrupted_call_is_not_held_for_a_person_otherwise() -> None:
    assert not [body for body in resumed(interrupted("before")) if isinstance(body, RequestApproval)]


def after(approval: Approval, approve: Approve = approves) -> SessionWorld:
    """Return the session that continues from there to its rest."""
    made = go_on(scenario(approval, approve), interrupted(approval)).run()
    assert breaches_of(made) == []
    return made


def test_a_person_may_let_an_interrupted_call_run_again() -> None:
    made = after("always")
    assert [e.kind for e in made.log if e.sender == TOOLS] == [
        "ToolStarted",
        "ToolReturned",
        "ToolStarted",
        "ToolReturned",
    ]
    assert b"did pay" in read_by_model(made)


def test_a_person_may_refuse_the_repeat_and_the_model_reads_that_the_effect_is_in_doubt() -> None:
    made = after("interrupted", denied)
    assert len(made.of(ToolStarted)) == 1
    assert b"whether it took effect is not known: too much" in read_by_model(made)


def test_the_tool_that_a_model_sees_does_not_mention_approval() -> None:
    with_it, without = world("always").run(), world("never").run()
    assert with_it.asked[min(with_it.asked)].tools == without.asked[min(without.asked)].tools


# --- changed arguments, time and permissions --------------------------------------


def changes(address: str, request: RequestApproval) -> ApprovalGiven:
    return ApprovalGiven(request.turn, request.call, "approved", arguments=Json(b'{"euros":3}'))


def test_changed_arguments_reach_the_tool_and_the_model_reads_them() -> None:
    made = SessionWorld(scenario(approve=changes)).run()
    (call,) = made.of(CallTool)
    assert bytes(call.arguments) == b'{"euros":3}'
    assert rb"approved with other arguments: {\"euros\":3}" in read_by_model(made)
    assert rb'"input":{"euros":5}' in read_by_model(made), "the model's own words stay"
    assert breaches_of(made) == []


def test_a_call_with_changed_arguments_that_is_asked_about_again_shows_those() -> None:
    made = go_on(scenario("always", denied), interrupted("always", changes)).run()
    assert [bytes(one.arguments) for one in made.of(RequestApproval)] == [b'{"euros":5}', b'{"euros":3}']
    assert rb"approved with other arguments: {\"euros\":3}" in read_by_model(made)
    assert breaches_of(made) == []


def test_changes_of_one_turn_do_not_stick_to_calls_of_the_next() -> None:
    def pays_twice(request: ModelRequest) -> Reply:
        return calls(("pay", {"euros": 5})) if request.turn < 3 else Reply("done")

    def changes_the_first(address: str, request: RequestApproval) -> ApprovalGiven:
        return changes(address, request) if request.turn == 1 else approves(address, request)

    made = SessionWorld(Scenario([who("before")], pays_twice, [ask()], approve=changes_the_first)).run()
    assert [bytes(one.arguments) for one in made.of(CallTool)] == [b'{"euros":3}', b'{"euros":5}']
    assert read_by_model(made).count(b"approved with other arguments") == 1
    assert breaches_of(made) == []


def test_a_result_of_blocks_is_told_behind_the_changed_arguments() -> None:
    def draws(address: str, call: CallTool) -> ToolReturned:
        return ToolReturned(call.turn, call.call, "ok", Json(b'[{"type":"text","text":"blocks"}]'))

    made = SessionWorld(replace(scenario(approve=changes), tool=draws)).run()
    assert rb'{\"euros\":3}"},{"type":"text","text":"blocks"}]' in read_by_model(made)
    assert breaches_of(made) == []


def limited_scenario() -> Scenario:
    return replace(scenario(), limits=Limits(approval_timeout_s=60), faults=faults("ignored", fault_mixes=0))


def test_a_question_that_nobody_answers_is_denied_when_its_time_is_over() -> None:
    made = SessionWorld(limited_scenario())
    while not (ignoring := [move for move in made.moves() if "ignored" in move.strand]):
        made.make(made.moves()[0])
    made.make(ignoring[0])
    made.heal()
    made.run()
    (request,), (given,) = made.events(RequestApproval), made.events(ApprovalGiven)
    assert given.at - request.at == 60_000
    assert b"It was not allowed to run: expired" in read_by_model(made)
    assert [end.kind for end in made.of(AskEnded)] == ["answered"]
    assert breaches_of(made) == []


@pytest.mark.parametrize(("down_ms", "verdict"), [(59_999, "approved"), (60_000, "denied")])
def test_the_time_of_a_question_runs_while_no_process_runs(down_ms: int, verdict: str) -> None:
    plan = limited_scenario()
    made = SessionWorld(plan)
    while not made.of(RequestApproval):
        made.make(made.moves()[0])
    after_it = go_on(plan, made.log, at=made.events(RequestApproval)[0].at + down_ms)
    after_it.heal()
    after_it.run()
    assert [given.verdict for given in after_it.of(ApprovalGiven)] == [verdict]
    assert breaches_of(after_it) == []


def always(address: str, request: RequestApproval) -> ApprovalGiven:
    return ApprovalGiven(request.turn, request.call, "approved", is_repeat=request.is_repeat, is_always=True)


def test_after_always_no_person_is_asked_about_that_tool_again() -> None:
    def pays_often(request: ModelRequest) -> Reply:
        return calls(("pay", {}), ("pay", {})) if request.turn < 3 else Reply("done")

    made = SessionWorld(Scenario([who("before")], pays_often, [ask()], approve=always)).run()
    first, *others = made.events(ApprovalGiven)
    assert [event.body.permission for event in others if isinstance(event.body, ApprovalGiven)] == [
        first.seq
    ] * 3
    assert len(made.of(CallTool)) == 4
    assert breaches_of(made) == []


def test_a_revoked_permission_asks_a_person_again() -> None:
    def pays_in_two_asks(request: ModelRequest) -> Reply:
        return calls(("pay", {})) if request.turn in (1, 3) else Reply("done")

    made = SessionWorld(Scenario([who("before")], pays_in_two_asks, [ask()], approve=always)).run()
    (given,) = made.events(ApprovalGiven)
    made.say(RevokePermission(given.seq, "ann"))
    made.ask("again", request_id="r2").run()
    assert [one.permission for one in made.of(ApprovalGiven)] == [0, 0]
    assert breaches_of(made) == []


def test_a_repeat_is_shown_to_a_person_in_spite_of_a_permission() -> None:
    made = go_on(scenario("always", always), interrupted("always", always)).run()
    assert [(one.is_repeat, one.permission) for one in made.of(ApprovalGiven)] == [(False, 0), (True, 0)]
    assert breaches_of(made) == []


@pytest.mark.parametrize(
    ("own_ms", "limit_s", "timeout_ms"), [(0, None, 0), (500, None, 500), (0, 9, 9_000), (500, 9, 500)]
)
def test_the_shorter_time_of_tool_and_limit_counts(
    own_ms: int, limit_s: float | None, timeout_ms: int
) -> None:
    plain = who("before")
    spec = msgspec.structs.replace(plain.tools[0], approval_timeout_ms=own_ms)
    asking = msgspec.structs.replace(plain, tools=(spec,))
    made = SessionWorld(Scenario([asking], pays, [ask()], Limits(approval_timeout_s=limit_s))).run()
    assert [asked.timeout_ms for asked in made.of(RequestApproval)] == [timeout_ms]
    assert breaches_of(made) == []


def test_a_limit_below_the_tools_own_time_counts() -> None:
    plain = who("before")
    spec = msgspec.structs.replace(plain.tools[0], approval_timeout_ms=9_000)
    asking = msgspec.structs.replace(plain, tools=(spec,))
    made = SessionWorld(Scenario([asking], pays, [ask()], Limits(approval_timeout_s=1))).run()
    assert [asked.timeout_ms for asked in made.of(RequestApproval)] == [1_000]


@pytest.mark.parametrize("approval", ["before", "always"])
def test_a_call_whose_tool_has_vanished_is_made_as_it_was_started_when_it_is_approved(
    approval: Approval,
) -> None:
    agent = AgentHarness("host")
    agent.begins(who=who(approval))
    agent.hears(reply())
    bare = AgentHarness("host")
    bare.begins(who=profile("host"))
    agent.state = structs.replace(agent.state, prefix=bare.state.prefix)  # the tools have changed meanwhile
    (called,) = agent.hears(ApprovalGiven(1, 0, "approved"))
    assert isinstance(called, CallTool)  # the tools port answers it, with an error if there is no function
    assert (called.tool, called.effect) == ("pay", "write")
