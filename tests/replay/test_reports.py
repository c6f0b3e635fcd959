"""Failures below an outcome: which events count, and how they are counted in words."""

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import AnyMessage, DelegationEnded
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.replay.recording import Recording
from callboard.replay.reports import Failure, Failures, sibling_reports
from callboard.runtime.log.memory import MemoryReader
from tests.replay.diagnosis.planted import capped
from tests.replay.logs import survey
from tests.replay.stories import CLERKS, poisoned_sum


def test_siblings_stand_together_with_a_column_for_each_field() -> None:
    (siblings,) = sibling_reports(poisoned_sum().events)
    assert (siblings.parent, siblings.profile) == ("host", "clerk")
    assert siblings.columns == ["refund_cents", "order"]
    assert len(siblings.reports) == CLERKS


def test_an_answer_in_words_is_one_column_and_a_denial_says_why() -> None:
    found = sibling_reports(Recording.open(MemoryReader(survey()), "one").events)
    by_profile = {siblings.profile: siblings.reports[0] for siblings in found}
    assert by_profile["counter"].values == {"": "3 files"}
    assert "nobody" in str(by_profile["nobody"].values[""])


def test_an_end_at_a_limit_says_at_which() -> None:
    (siblings,) = sibling_reports(capped().events)
    assert [report.values for report in siblings.reports] == [{"": "used all its turns"}]


def failures_of(*bodies: AnyMessage) -> Failures:
    """Feed messages; each `ToolReturned` answers the event before it."""
    found = Failures()
    for seq, body in enumerate(bodies, 1):
        found.add(Event(seq, 0, "supervisor", "host", seq - 1, body))
    return found


CALL = CallTool(1, 0, "look", "read", NULL)


def test_results_and_cancelled_work_are_no_failures() -> None:
    found = failures_of(
        CALL,
        ToolReturned(1, 0, "ok", text_json("done")),
        ToolReturned(1, 0, "cancelled", text_json("stopped")),
        DelegationEnded(1, 0, "reported", "host.1"),
        DelegationEnded(1, 0, "cancelled", "host.1"),
    )
    assert found.found == []
    assert found.headline() == ""


def test_a_failed_tool_is_named_with_its_agent_its_words_and_its_trace() -> None:
    found = failures_of(CALL, ToolReturned(1, 0, "error", text_json("KeyError: 'a'"), "Traceback ..."))
    assert found.found == [Failure(2, "tool", "host", "look", "KeyError: 'a'", "Traceback ...", "host:1:0")]


def test_a_failed_delegation_is_named_with_its_detail_or_the_meaning_of_its_kind() -> None:
    found = failures_of(
        DelegationEnded(1, 0, "budget", "host.1", detail="its budget is too small"),
        DelegationEnded(1, 1, "deadline", "host.2"),
    )
    assert [each.why for each in found.found] == ["its budget is too small", "ran out of time"]


def test_the_headline_counts_by_kind_within_a_range_of_events() -> None:
    found = failures_of(
        DelegationEnded(1, 0, "budget", "host.1"),
        ToolReturned(1, 0, "error"),
        ToolReturned(1, 0, "error"),
        ToolReturned(1, 0, "interrupted"),
    )
    assert found.headline() == "1 delegation failed, 2 tool calls failed, 1 tool call in doubt"
    assert found.headline(start=2, upto=3) == "2 tool calls failed"
    assert found.headline(start=9) == ""
