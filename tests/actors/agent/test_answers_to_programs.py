"""The answers to a program's calls: their labels, questions to people, tools that they set, its report."""

from msgspec.structs import replace

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import DelegationEnded, ReportBack, ReportJudged
from callboard.actors.protocol.port_messages import ApprovalGiven, ToolReturned
from callboard.actors.protocol.profiles import ToolsChange
from callboard.replay.testing.sessions.scripted_replies import Asked, last_reply
from tests.actors.agent.test_program import KID, PAY, WHO, A, B, heard, only_result, returned, started, step
from tests.actors.harness import SCHEMA, AgentHarness, kinds
from tests.tables import table


@table("is_given_up", [False, True])
@table(
    ("asked", "answer"),
    [
        (A, returned(0)),
        (PAY, ApprovalGiven(1, 0, "denied")),
        (KID, DelegationEnded(1, 0, "answered", "host.1.1", text="yes")),
    ],
)
def test_a_program_has_the_labels_of_the_answers_that_it_still_wants(
    asked: Asked, answer: ToolReturned | ApprovalGiven | DelegationEnded, is_given_up: bool
) -> None:
    agent = started(asked, B)
    if is_given_up:
        agent.hears(returned(1))
        step(agent, cancels=(asked.id,))
    agent.hears(replace(answer, labels=("web",)))
    assert agent.state.labels == (() if is_given_up else ("web",))


def test_questions_of_a_program_are_counted_until_their_answer() -> None:
    agent = started(PAY, A)
    counts = [agent.state.calls.questions]
    for said in (
        ApprovalGiven(1, 0, "approved"),
        returned(0, status="interrupted"),  # a person says if it may run again
        ApprovalGiven(1, 0, "denied", is_repeat=True),
    ):
        agent.hears(said)
        counts.append(agent.state.calls.questions)
    assert counts == [1, 0, 1, 0]
    assert heard(agent) == [("p", "interrupted")]


@table("rules", [1, 2])
def test_a_program_has_the_arguments_that_a_person_gave_its_call_from_rules_2_on(rules: int) -> None:
    agent = started(PAY, A)
    agent.state = replace(agent.state, rules=rules)
    agent.hears(ApprovalGiven(1, 0, "approved", arguments=Json(b'{"euros":3}')))
    agent.hears(returned(0))
    assert heard(agent) == [("p", "ok")]
    assert only_result(agent).get("changed") == ({"euros": 3} if rules > 1 else None)
    assert only_result(agent)["content"] == "done", "as its tool returned it"


def test_a_tool_of_a_program_sets_tools_only_if_it_ends_well_and_is_still_wanted() -> None:
    change = ToolsChange((), profile="other")
    found = []
    for status, cancels in (("ok", ()), ("error", ()), ("ok", ("a",))):
        agent = started(A, B)
        if cancels:
            agent.hears(returned(1))
            step(agent, cancels=cancels)
        found.append("ToolsChanged" in kinds(agent.hears(replace(returned(0, status=status), tools=change))))
    assert found == [True, False, False]


def test_a_report_of_a_program_is_that_of_its_last_turn() -> None:
    agent = AgentHarness()
    agent.begins(SCHEMA, who=WHO)
    (report,) = agent.reads(last_reply("hi", 1))
    assert isinstance(report, ReportBack)
    assert (report.turn, report.call, agent.state.phase) == (1, 0, "judging")
    assert agent.hears(ReportJudged(9, 0, "accepted")) == []
    agent.hears(ReportJudged(1, 0, "accepted"))
    assert agent.state.phase == "idle"
