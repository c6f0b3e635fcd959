"""The rules of approvals: each is kept by a good session, and broken by one edited message."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from callboard.actors.protocol.client_messages import RevokePermission
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, RequestApproval
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld
from tests.mutants.scenarios_rounds import ROUNDS
from tests.replay.testing.edited_logs import Log, edited, find, of_kind
from tests.tables import table


def pays_often(request: ModelRequest) -> Reply:
    if request.address == "host":
        plan = [calls(("pay", {"n": 1})), calls(("pay", {"n": 2})), calls(task("clerk"))]
        return plan[request.turn - 1] if request.turn <= len(plan) else Reply("done")
    return calls(("pay", {"n": 3})) if request.turn == 1 else Reply("done")


def always(address: str, asked: RequestApproval) -> ApprovalGiven:
    return ApprovalGiven(asked.turn, asked.call, "approved", is_always=address == "host")


PEOPLE = [profile("host", ["clerk"], asks=["pay"]), profile("clerk", asks=["pay"])]
SCENARIO = Scenario(PEOPLE, pays_often, [ask()], Limits(approval_timeout_s=60), approve=always)
LOG = SessionWorld(SCENARIO).run().log
FIRST = find(LOG, of_kind(ApprovalGiven))


def covered(recipient: str) -> Log:
    """Let the last answer to this agent name the permission of the host."""
    last = [event for event in LOG if of_kind(ApprovalGiven, recipient)(event)][-1]
    return edited(LOG, lambda event: event.seq == last.seq, permission=FIRST.seq)


def revoked() -> Log:
    made = SessionWorld(SCENARIO)
    while len(made.of(ApprovalGiven)) < 1:
        made.make(made.moves()[0])
    made.say(RevokePermission(FIRST.seq))
    made.run()
    return edited(made.log, of_kind(ApprovalGiven), permission=FIRST.seq)


DECLINED = SessionWorld(ROUNDS["declined"]).run().log


def untold() -> Log:
    """Let the agent tell another call than the declined one."""
    (said, *_) = [e for e in DECLINED if isinstance(e.body, ApprovalGiven) and e.body.verdict == "denied"]
    return edited(DECLINED, lambda e: isinstance(e.body, CallTool) and e.cause == said.seq, call=7)


def accepted() -> Log:
    """Let the tools hear that a declined form was accepted."""

    def is_declined(event: Event) -> bool:
        given = event.body.given if isinstance(event.body, CallTool) else None
        return given is not None and given.action != "accept"

    found = find(DECLINED, is_declined)
    assert isinstance(found.body, CallTool)
    assert found.body.given is not None
    given = msgspec.structs.replace(found.body.given, action="accept")
    return edited(DECLINED, lambda event: event is found, given=given)


BROKEN: dict[str, tuple[str, Callable[[], Log]]] = {
    "other arguments": ("approved-arguments", lambda: edited(LOG, of_kind(CallTool), arguments=Json(b"{}"))),
    "another profile": ("permitted-calls", lambda: covered("host.1")),
    "a permission that was revoked": ("permitted-calls", revoked),
    "a repeat": ("permitted-calls", lambda: edited(LOG, of_kind(RequestApproval), is_repeat=True)),
    "a permission out of nowhere": (
        "permitted-calls",
        lambda: edited(LOG, lambda event: event.seq == FIRST.seq, permission=2),
    ),
    "too early": (
        "expired-questions",
        lambda: edited(
            LOG, of_kind(ApprovalGiven, "host.1"), verdict="denied", note="expired", is_always=False
        ),
    ),
    "too late": ("expired-questions", lambda: late()),
}


def late() -> Log:
    """Let everything after the first question happen two minutes later."""
    asked = find(LOG, of_kind(RequestApproval)).seq
    return [_moved(event, 120_000) if event.seq > asked else event for event in LOG]


def _moved(event: Event, by_ms: int) -> Event:
    return msgspec.structs.replace(event, at=event.at + by_ms)


def test_a_session_with_permissions_keeps_every_rule() -> None:
    given = [event.body for event in LOG if isinstance(event.body, ApprovalGiven)]
    assert [one.permission for one in given] == [0, FIRST.seq, 0], "the clerk is another profile"
    assert check_log(LOG, is_at_rest=True) == []


@table("how", BROKEN)
def test_a_log_with_a_wrong_approval_breaks_its_rule(how: str) -> None:
    name, log = BROKEN[how]
    found = {breach.name for breach in check_log(log())}
    assert name in found
    assert found <= {name, "approvals"}, "a call that nobody approved is one more breach"


@pytest.mark.parametrize(("log", "said"), [(untold, "was not told"), (accepted, "it was not given")])
def test_a_tool_that_is_not_told_of_a_declined_form_breaks_a_rule(log: Callable[[], Log], said: str) -> None:
    assert check_log(DECLINED, is_at_rest=True) == []
    assert any(b.name == "input-rounds" and said in b.detail for b in check_log(log()))


def test_a_call_of_the_model_without_an_approval_may_have_any_arguments() -> None:
    plain = replace(SCENARIO, profiles=[profile("host", ["clerk"], ["pay"]), profile("clerk", [], ["pay"])])
    assert check_log(SessionWorld(plain).run().log, is_at_rest=True) == []
