"""The tree of a session's agents, event by event, with all that it says of each."""

from typing import Any

import pytest

from callboard.actors.protocol.addresses import CLIENT, HOST, MODEL, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import AskEnded, Forked, Resumed, Tell, TellEnded
from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    DeciderFailed,
    Delegate,
    Delegated,
    DelegationEnded,
    Finished,
    ReportBack,
    ReportJudged,
    Stop,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    ModelReplied,
    RequestApproval,
    RequestBudget,
    RequestCapacity,
    ToolReturned,
)
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.prompts import ASK_MODEL
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.protocol.value_types import Settled
from callboard.runtime.log.tree import Node, Tree, prompt_text
from tests.actors.harness import raw
from tests.tables import table

KID = "host.1"
USE = Usage(input_tokens=3, output_tokens=2)


class Session:
    """A tree and its clock, which goes by one millisecond with each event."""

    def __init__(self) -> None:
        self.tree = Tree()

    def post(self, sender: str, recipient: str, body: AnyMessage) -> str:
        """Add one event. Return the activity of its sender, or of its recipient if that is an agent."""
        at = self.tree.last_at + 1
        self.tree.add(Event(at, at, sender, recipient, 0, body))
        node = self.tree.nodes.get(recipient) or self.tree.nodes.get(sender)
        return node.activity if node else ""

    def begin(self, address: str = HOST, prompt: str = "Go.", description: str = "") -> str:
        profile = raw({"name": address.replace(".", "-")})
        begin = Begin(profile, raw(prompt), ModelSpec("m"), Limits(), description=description)
        return self.post(SUPERVISOR, address, begin)

    def delegate(self, *profiles: str, call: int = 0, mode: Any = "await") -> str:
        body = Delegate(1, call, profiles, raw("Dig."), mode=mode, description="dig")
        return self.post(HOST, SUPERVISOR, body)

    def reply(self, *kinds: str, status: Any = "ok", reused: int = 0) -> str:
        content = raw([{"type": kind} for kind in kinds])
        return self.post(MODEL, HOST, ModelReplied(1, status=status, content=content, reused=reused))

    def node(self, address: str = HOST) -> Node:
        return self.tree.nodes[address]


@pytest.fixture
def session() -> Session:
    session = Session()
    assert session.begin() == "starting"
    return session


def test_each_message_changes_the_activity_of_its_agent(session: Session) -> None:
    need = Need(9)
    assert session.post(HOST, SUPERVISOR, TurnRequested(1, need=need)) == "waiting for a turn"
    session.post(SUPERVISOR, "capacity", RequestCapacity(HOST, 1, 1, "big"))
    assert session.node().state == "waiting for capacity of big"
    session.post(SUPERVISOR, MODEL, CallModel(HOST, 2))
    assert session.node().state == "thinking"
    assert session.post(SUPERVISOR, "budgets", RequestBudget(HOST, 1, 1, need)) == ""
    assert session.node().state == "waiting for budgets"
    assert session.reply(status="error") == "deciding"
    again = TurnRequested(1, 2, need, after_ms=50)
    assert session.post(HOST, SUPERVISOR, again) == "waiting to retry"
    approval = RequestApproval(1, 0, "mail", "write", raw({}))
    assert session.post(HOST, "approvals", approval) == "waiting for approval of mail"
    assert session.post(HOST, TOOLS, CallTool(1, 0, "mail", "write", raw({}))) == "tool mail"
    assert session.delegate("kid") == "delegating"
    assert session.post(HOST, SUPERVISOR, ReportBack(1, 0, raw(1))) == "reporting"
    assert session.post(SUPERVISOR, HOST, ReportJudged(1, 0, "invalid")) == "report invalid"
    assert session.node().status == "running"
    assert session.post(SUPERVISOR, HOST, ReportJudged(2, 0, "accepted")) == "reported"
    node = session.node()
    assert (node.turns, node.retries, node.tools, node.reports) == (1, 1, 1, 1)
    assert (node.started_at, node.ended_at, node.status) == (1, session.tree.last_at, "ok")


def test_a_step_of_a_program_is_a_turn_of_an_agent_without_a_model(session: Session) -> None:
    assert not session.node().is_program
    program = Begin(raw({"name": "code"}), raw("Go."), ModelSpec("code", kind="program"), Limits())
    session.post(SUPERVISOR, KID, program)
    assert session.post(KID, "steps", RunStep(1)) == "thinking"
    node = session.node(KID)
    assert (node.is_program, node.turns, node.asked) == (True, 1, 0), "a step asks no model"
    assert session.post(HOST, SUPERVISOR, TurnRequested(1)) == "waiting for a turn"
    assert session.node().asked == 1


def test_an_agent_that_has_ended_keeps_its_first_ending_until_it_begins_again(session: Session) -> None:
    session.post(HOST, CLIENT, Finished("budget", detail="no tokens are left"))
    session.post(SUPERVISOR, HOST, Stop("cancelled"))
    session.post(HOST, SUPERVISOR, TurnRequested(1))
    node = session.node()
    assert (node.activity, node.kind, node.status, node.ended_at) == ("budget", "budget", "failed", 2)
    assert node.detail == "no tokens are left"
    session.begin(prompt="Once more.")
    assert (node.activity, node.kind, node.detail, node.status) == ("starting", "", "", "running")
    assert (node.started_at, node.ended_at, node.prompt) == (5, 0, "Once more.")


@pytest.mark.parametrize(
    ("sender", "body", "kind", "detail"),
    [
        (SUPERVISOR, Stop("deadline"), "deadline", ""),
        (HOST, DeciderFailed(1, "ValueError"), "crashed", "its decider raised"),
        (SUPERVISOR, AskEnded("a", "lost_race", detail="why"), "lost_race", "why"),
    ],
)
def test_each_kind_of_end_is_noted_with_its_reason(
    session: Session, sender: str, body: AnyMessage, kind: str, detail: str
) -> None:
    session.post(sender, HOST if isinstance(body, Stop) else SUPERVISOR, body)
    node = session.node()
    assert (node.kind, node.detail, node.ended_at) == (kind, detail, 2)


@pytest.mark.parametrize(("own", "shown"), [("", "by the client"), ("mine", "mine")])
def test_the_end_of_an_ask_explains_only_an_end_without_a_reason(
    session: Session, own: str, shown: str
) -> None:
    session.post(HOST, SUPERVISOR, Finished("failed", detail=own))
    session.post(SUPERVISOR, CLIENT, AskEnded("a", "failed", detail="by the client"))
    assert (session.node().detail, session.node().ended_at) == (shown, 2)


def test_a_turn_is_charged_to_its_own_agent_and_before_the_next_need_counts(session: Session) -> None:
    session.begin(KID)
    session.post(KID, SUPERVISOR, TurnRequested(1, need=Need(7)))
    session.post(HOST, SUPERVISOR, TurnRequested(1, need=Need(5)))
    session.post(HOST, SUPERVISOR, TurnRequested(2, need=Need(6), settled=Settled(USE)))
    session.post(HOST, SUPERVISOR, TurnSettled())
    session.post(KID, SUPERVISOR, TurnSettled(USE))
    lost = Usage(charged_tokens=6, calls=1, unknown_calls=1)
    assert session.node(KID).usage == Usage(3, 2, calls=1)
    assert session.node().usage == Usage(3, 2, charged_tokens=6, calls=2, unknown_calls=1)
    assert session.tree.usage_of(HOST) == Usage(6, 4, charged_tokens=6, calls=3, unknown_calls=1)
    assert session.tree.usage_of(KID).calls + lost.calls == 2
    assert session.tree.usage_of("host.9") == Usage()


def test_children_come_after_their_parents_by_number_and_not_by_text(session: Session) -> None:
    for address in ("host.10", "host.2", "host.2.1", "host.9"):
        session.begin(address)
    shown = [(node.address, depth) for depth, node in session.tree.walk()]
    assert shown == [("host", 0), ("host.2", 1), ("host.2.1", 2), ("host.9", 1), ("host.10", 1)]
    assert [depth for depth, _ in session.tree.walk("host.2")] == [0, 1]


def test_the_agents_of_a_denied_delegation_are_shown_with_the_reason(session: Session) -> None:
    session.begin(KID)
    session.delegate("two", "three")
    session.delegate("other", call=1)
    denied = DelegationEnded(1, 0, "denied", "host.2", detail="too many")
    session.post(SUPERVISOR, HOST, denied)
    at = session.tree.last_at
    for address, profile in (("host.2", "two"), ("host.3", "three")):
        node = session.node(address)
        assert (node.profile, node.prompt, node.description) == (profile, "Dig.", "dig")
        assert (node.kind, node.detail, node.started_at, node.ended_at) == ("denied", "too many", at, at)
    assert "host.4" not in session.tree.nodes
    assert not session.node(KID).kind


def test_the_end_of_a_delegation_explains_an_end_of_its_kind_that_has_no_reason(session: Session) -> None:
    session.delegate("a", "b", "c")
    for address in ("host.1", "host.2", "host.3"):
        session.begin(address)
    session.post("host.1", SUPERVISOR, Finished("failed", detail="own"))
    session.post("host.2", SUPERVISOR, Finished("failed"))
    session.post("host.3", SUPERVISOR, Finished("budget"))
    session.post(SUPERVISOR, HOST, DelegationEnded(1, 0, "failed", "host.1", detail="all failed"))
    details = [session.node(f"host.{number}").detail for number in (1, 2, 3)]
    assert details == ["own", "all failed", ""]
    assert [session.node(f"host.{number}").prompt for number in (1, 2, 3)] == ["Go."] * 3


def test_the_end_of_a_delegation_without_an_address_shows_no_agent(session: Session) -> None:
    session.delegate("kid")
    session.post(SUPERVISOR, HOST, DelegationEnded(1, 0, "cancelled"))
    assert list(session.tree.nodes) == [HOST]


def test_an_agent_with_tasks_in_the_background_is_parked_or_waits_until_all_have_ended(
    session: Session,
) -> None:
    session.delegate("a", "b", mode="background")
    session.delegate("c", call=1, mode="background")
    session.post(SUPERVISOR, HOST, Delegated(1, 0, "host.1"))
    session.post(SUPERVISOR, HOST, Delegated(1, 1, "host.3"))
    assert [session.node(f"host.{number}").is_background for number in (1, 2, 3)] == [True] * 3
    assert list(session.tree.nodes) == ["host", "host.1", "host.2", "host.3"]
    assert session.node().tasks == 3
    assert session.reply("text") == "deciding"
    assert session.node().is_silent
    assert session.post(HOST, SUPERVISOR, TurnSettled()) == "parked"
    assert session.reply("tool_use") == "deciding"
    assert session.post(HOST, SUPERVISOR, TurnSettled()) == "waiting for tasks"
    session.post(SUPERVISOR, HOST, DelegationEnded(1, 0, "answered", "host.1"))
    assert session.node().tasks == 1
    session.post(SUPERVISOR, HOST, DelegationEnded(1, 1, "answered", "host.3"))
    assert session.node().tasks == 0
    session.reply("text")
    assert session.post(HOST, SUPERVISOR, TurnSettled()) == "deciding"


def test_a_delegation_of_which_the_tree_has_not_seen_the_start_counts_as_one_agent(session: Session) -> None:
    session.post(SUPERVISOR, HOST, Delegated(1, 0, "host.2"))
    assert (session.node().tasks, session.node("host.2").is_background) == (1, True)
    assert list(session.tree.nodes) == ["host", "host.2"]


def test_texts_on_their_way_to_an_agent_are_counted_until_each_has_ended(session: Session) -> None:
    for number in (1, 2):
        session.post(CLIENT, SUPERVISOR, Tell(f"t{number}", HOST, "Hurry."))
    session.post(CLIENT, SUPERVISOR, Tell("t3", "host.7", "Hurry."))
    assert session.node().activity == "starting +2 unread"
    session.post(SUPERVISOR, CLIENT, TellEnded("t3", "refused"))
    session.post(SUPERVISOR, CLIENT, TellEnded("t1", "heard"))
    session.post(SUPERVISOR, CLIENT, TellEnded("t1", "heard"))
    assert session.node().activity == "starting +1 unread"
    session.post(SUPERVISOR, HOST, Stop("cancelled"))
    assert (session.node().activity, session.node().words) == ("cancelled", 1)


def test_agents_of_a_fork_are_recorded_until_they_get_an_answer_of_their_own(session: Session) -> None:
    assert not session.node().is_recorded
    session.post(CLIENT, SUPERVISOR, Forked("s", 1, "", Resumed(2)))
    session.begin(KID)
    assert session.node().is_recorded
    assert session.node(KID).is_recorded
    session.reply("text", reused=4)
    session.reply("text", status="cancelled")
    session.post(TOOLS, HOST, ToolReturned(1, 0, "ok", reused=5))
    session.post(TOOLS, HOST, ToolReturned(1, 1, "needs_effect"))
    assert session.node().is_recorded
    session.reply("text")
    session.reply("text", reused=6)
    assert not session.node().is_recorded
    for status in ("ok", "error"):
        session.begin(f"{KID}.1" if status == "ok" else f"{KID}.2")
    session.post(TOOLS, f"{KID}.1", ToolReturned(1, 0, "ok"))
    session.post(TOOLS, f"{KID}.2", ToolReturned(1, 0, "error"))
    session.post(TOOLS, f"{KID}.2", ToolReturned(1, 1, "error", reused=7))
    recorded = {address: node.is_recorded for address, node in session.tree.nodes.items()}
    assert recorded == {HOST: False, KID: True, f"{KID}.1": False, f"{KID}.2": False}


@table(
    ("prompt", "shown"),
    [
        ("two\n  lines ", "two lines"),
        ([{"type": "text", "text": "a"}, 1, {"type": "image"}, {"text": 2}, {"text": "b"}], "a b"),
        (None, ""),
        (12, "12"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 199 + "…"),
    ],
)
def test_a_prompt_is_shown_on_one_line_by_its_start(prompt: object, shown: str) -> None:
    assert prompt_text(raw(prompt)) == shown


def test_nothing_is_said_of_an_agent_beyond_its_events() -> None:
    session = Session()
    session.post(SUPERVISOR, MODEL, CallModel(HOST, 2))
    node = Node(HOST, state="thinking")
    assert session.node() == node
    numbers = (node.turns, node.tools, node.reports, node.retries, node.started_at, node.ended_at, node.words)
    assert numbers == (0,) * 7
    flags = (node.is_background, node.is_silent, node.is_recorded, node.is_over)
    assert (flags, node.tasks, node.usage, node.status) == ((False,) * 4, 0, Usage(), "running")


def test_an_agent_keeps_each_compaction_with_its_event() -> None:
    session = Session()
    session.begin()
    body = Compacted(upto=9, kept=2, by="clear", results=1, before=8_000, after=3_000)
    session.post(HOST, HOST, body)
    session.post(HOST, HOST, body)
    assert list(session.tree.nodes[HOST].compactions) == [2, 3]


def test_an_answered_question_is_folded_into_the_program_that_asked_it(session: Session) -> None:
    for address in (KID, "host.2", "host.10"):
        begin = Begin(raw({"name": ASK_MODEL}), raw("Why?"), ModelSpec("m"), Limits())
        session.post(SUPERVISOR, address, begin)
        session.post(address, SUPERVISOR, TurnRequested(1, 1, Need(9), "d", ()))
        session.post(address, SUPERVISOR, TurnSettled(USE))
    for call, address in enumerate((KID, "host.10")):
        session.post(address, SUPERVISOR, Finished("answered", "Because."))
        session.post(SUPERVISOR, HOST, DelegationEnded(1, call, "answered", address))
    known = [HOST, KID, "host.2", "host.10", "host.9"]
    asked = [session.tree.is_answered_question(address) for address in known]
    assert asked == [False, True, False, True, False]
    assert [(depth, node.address) for depth, node in session.tree.walk()] == [
        (0, HOST), (1, KID), (1, "host.2"), (1, "host.10"),
    ]  # fmt: skip
    folded = session.tree.folded()
    assert [(depth, node.address, node.questions) for depth, node in folded] == [
        (0, HOST, 2), (1, "host.2", 0),
    ]  # fmt: skip
    assert [node.usage.input_tokens for _, node in folded] == [6, 3]
    assert session.node().usage.input_tokens == 0
