"""Approvals: a person is asked before a call runs, or before a call in doubt runs again."""

from callboard.actors.protocol.addresses import APPROVALS, TOOLS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    AgentInput,
    AnyMessage,
    AskEnded,
    DelegationEnded,
    Resumed,
    Stop,
    Stopped,
)
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
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.replies import Reply, calls
from callboard.replay.testing.sessions.resumes import go_on
from callboard.replay.testing.sessions.scenario import Approve, Scenario, approves, ask, profile, tool_spec
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
    assert (agent.state.questions.size, agent.state.tools_out) == (1, 0)
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


def interrupted(approval: Approval) -> list[Event]:
    """Return the log of a session that died while the call ran."""
    made = world(approval).run()
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
