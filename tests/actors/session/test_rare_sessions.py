"""Rare sessions: a reply that spends its budget, an approved call cut off by a crash, a late grant.

The first holds only if the supervisor settles a grant before it decides on the message that carries the
settlement. The second holds only if an approval survives a crash and an idempotent tool is repeated. The
third holds only if no port starts a request for an agent that has forgotten it.
"""

from msgspec.structs import replace

from callboard.actors.protocol.addresses import HOST, TOOLS
from callboard.actors.protocol.client_messages import AskEnded, Cancel, Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, Stop
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    ModelReplied,
    RequestApproval,
    ToolReturned,
)
from callboard.actors.protocol.profiles import Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.session.recovery import recover
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.resumes import check_resumes, go_on
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, tool_spec
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.verify import Verifier

# --- a reply that uses up its budget and delegates --------------------------------


def reply_that_spends_its_budget_and_delegates() -> Scenario:
    """Return a session whose host delegates twice in a reply after which no turn of its own fits.

    Such a turn would need 11,100 tokens of the 9,000 that are left. Before the reply is settled, 20,000 are.
    """

    def policy(request: ModelRequest) -> Reply:
        if request.address != HOST or request.turn > 1:
            return Reply("done")
        return replace(calls(task("kid"), task("kid")), usage=Usage(8_000, 3_000))

    return Scenario([profile("host", ["kid"]), profile("kid")], policy, [ask()], Limits(tokens=20_000))


def test_a_reply_that_spends_the_budget_starts_no_child() -> None:
    world = SessionWorld(reply_that_spends_its_budget_and_delegates()).run()
    assert breaches_of(world) == []
    first, second = world.of(Delegate)
    assert first.settled is not None
    assert second.settled is None
    assert [body.kind for body in world.of(DelegationEnded)] == ["budget", "budget"]
    assert [event.recipient for event in world.events(Begin)] == [HOST]
    (end,) = world.of(AskEnded)
    assert (end.kind, end.usage.tokens) == ("budget", 11_000)


def test_the_same_reply_starts_its_children_where_the_budget_has_room_for_them() -> None:
    scenario = reply_that_spends_its_budget_and_delegates()
    world = SessionWorld(Scenario(scenario.profiles, scenario.policy, [ask()], Limits(tokens=80_000))).run()
    assert [body.kind for body in world.of(DelegationEnded)] == ["answered", "answered"]


def test_it_resumes_from_every_prefix_without_a_child() -> None:
    scenario = reply_that_spends_its_budget_and_delegates()
    log = SessionWorld(scenario).run().log
    assert check_resumes(scenario, log) == []
    for length in range(1, len(log) + 1):
        later = go_on(scenario, log[:length]).run()
        assert [event.recipient for event in later.events(Begin)][:1] in ([], [HOST])
        assert all(event.recipient == HOST for event in later.events(Begin))


# --- an approved idempotent call, stopped, crashed, resumed -----------------------


def approved_idempotent_call() -> Scenario:
    """Return a session whose host calls an idempotent tool that a person has to approve."""
    plain = profile("host")
    tool = tool_spec("put", "idempotent", "before")
    who = Profile(plain.name, "", plain.instructions, (tool,), model=plain.model)

    def policy(request: ModelRequest) -> Reply:
        return calls(("put", {"n": 1})) if request.turn == 1 else Reply("done")

    return Scenario([who], policy, [ask()])


def up_to(kind: type) -> list[Event]:
    """Return the log of that session up to and including its first message of a kind."""
    log = SessionWorld(approved_idempotent_call()).run().log
    end = next(event.seq for event in log if isinstance(event.body, kind))
    return log[:end]


def test_a_question_that_a_crash_cut_off_is_asked_again_and_answered_once() -> None:
    later = go_on(approved_idempotent_call(), up_to(RequestApproval)).run()
    assert breaches_of(later) == []
    assert len(later.of(ApprovalGiven)) == 1
    assert [returned.status for returned in later.of(ToolReturned)] == ["ok"]


def test_an_approval_is_not_lost_in_a_crash_behind_it() -> None:
    later = go_on(approved_idempotent_call(), up_to(ApprovalGiven)).run()
    assert breaches_of(later) == []
    assert len(later.of(RequestApproval)) == 1
    assert len(later.of(CallTool)) == 1


def test_an_approved_idempotent_call_that_a_crash_cut_off_runs_again_without_a_second_question() -> None:
    log = up_to(CallTool)
    found = recover(log, Resumed(1), 0)
    assert [start.request.seq for start in found.starts] == [log[-1].seq]
    assert found.starts[0].waits
    later = go_on(approved_idempotent_call(), log).run()
    assert breaches_of(later) == []
    assert len(later.of(RequestApproval)) == len(later.of(CallTool)) == 1
    assert [returned.status for returned in later.of(ToolReturned)] == ["ok"]
    assert b"did put" in b"".join(later.asked[max(later.asked)].messages)


def test_stopped_before_the_crash_it_is_interrupted_and_does_not_run_again() -> None:
    world = go_on(approved_idempotent_call(), up_to(CallTool))
    world.cancel()
    stop_before_the_tool_answers(world)
    found = recover(world.log, Resumed(1), 0)
    assert found.starts == ()
    statuses = [e.body.status for e in found.posted if isinstance(e.body, ToolReturned)]
    assert statuses == ["interrupted"], "it may have run before the first crash"


def test_stopped_after_the_resume_it_is_interrupted_although_it_was_not_started_again() -> None:
    world = go_on(approved_idempotent_call(), up_to(CallTool))
    world.cancel()
    strand = stop_before_the_tool_answers(world)
    world.reply(strand, "unstarted")
    world.run()
    assert [returned.status for returned in world.of(ToolReturned)] == ["interrupted"]
    assert breaches_of(world) == []
    assert [end.kind for end in world.of(AskEnded)] == ["cancelled"]


def stop_before_the_tool_answers(world: SessionWorld) -> str:
    """Let all happen until the host is stopped, but no answer of the tool; return the strand of its call."""
    (strand,) = [name for name, request in world.requests.items() if request.event.recipient == TOOLS]
    while not world.of(Stop):
        world.make(next(move for move in world.moves() if move.strand != strand))
    return strand


def test_it_resumes_from_every_prefix_also_of_a_cancelled_session() -> None:
    scenario = approved_idempotent_call()
    for kind in (RequestApproval, ApprovalGiven, CallTool):
        world = go_on(scenario, up_to(kind))
        log = world.cancel().run().log
        assert any(isinstance(event.body, Cancel) for event in log)
        assert check_resumes(scenario, log) == []


# --- an agent that fails twice while its request for a turn is on its way ----------


def reply_without_an_open_call_among_ends_of_tasks() -> Scenario:
    """Return a session whose host wants a third turn at once, while the ends of two tasks wait for it."""

    def policy(request: ModelRequest) -> Reply:
        if request.address != HOST or request.turn > 2:
            return Reply("done")
        kid = task("kid", background=True)
        return calls(kid, kid) if request.turn == 1 else calls(("no such tool", {}))

    people = [profile("host", ["kid"], background=True), profile("kid")]
    return Scenario(people, policy, [ask()], faults=faults("crashes", most=2, fault_mixes=0))


def make(world: SessionWorld, strand: str) -> None:
    """Let the move of this strand happen."""
    world.make(next(one for one in world.moves() if one.strand == strand))


def failed_twice() -> SessionWorld:
    """Run until the host has failed twice and the supervisor has not read its last request for a turn."""
    world = SessionWorld(reply_without_an_open_call_among_ends_of_tasks())
    for strand in ("inbox supervisor", "inbox host", "inbox supervisor", "model host/1", "inbox host"):
        make(world, strand)
    while all(one.strand != "model host/2" for one in world.moves()):
        world.make(next(one for one in world.moves() if "host." not in one.strand and one.kind != "fault"))
    make(world, "model host/2")
    while calm := [one for one in world.moves() if one.strand != "inbox host" and one.kind != "fault"]:
        world.make(calm[0])
    for strand in ("inbox host", "fault crashes host", "fault crashes host"):
        make(world, strand)
    return world


def test_a_turn_granted_to_an_agent_that_has_forgotten_it_does_not_start() -> None:
    world = failed_twice().run()
    grant, answer = world.events(CallModel)[-1], world.events(ModelReplied)[-1]
    reply = world.of(ModelReplied)[-1]
    assert (answer.cause, reply.status, reply.usage) == (grant.seq, "cancelled", ZERO)
    assert [body.kind for body in world.of(AskEnded)] == ["crashed"]
    assert breaches_of(world) == []
    assert Verifier(world.log).run() is None


def test_a_session_with_such_a_turn_resumes_from_every_prefix() -> None:
    world = failed_twice().run()
    assert check_resumes(world.scenario, world.log) == []
