"""The four kinds of stories that people debug: what the commands alone tell about them."""

from callboard.actors.protocol.port_messages import ToolReturned
from callboard.replay.reports import sibling_reports
from tests.replay.stories import WRONG, edited_prompt, endless_loop, ignored_report, poisoned_sum


def test_a_report_that_the_parent_ignored_is_found() -> None:
    (finding,) = ignored_report().diagnose()
    assert (finding.kind, finding.agent, finding.is_maybe) == ("unused_report", "host.1", True)
    (siblings,) = sibling_reports(ignored_report().events)
    assert siblings.reports[0].values == {"refund_cents": 41_900, "order": "A-1"}


def test_the_child_with_the_wrong_result_is_found_and_the_result_too() -> None:
    recording = poisoned_sum()
    (finding,) = recording.diagnose()
    assert (finding.kind, finding.agent) == ("outlier", f"host.{WRONG}")
    source = recording.why(finding.seq, "4190000").source
    assert isinstance(source[-1].body, ToolReturned)
    assert source[-1].recipient == f"host.{WRONG}"


def test_a_loop_is_found_with_the_budget_it_used_up() -> None:
    (finding,) = endless_loop().diagnose()
    assert (finding.kind, finding.agent) == ("loop", "host.1")
    assert "2 different arguments" in finding.says
    assert "host.1 failed below it (budget)" in finding.says
    budget = endless_loop().budget()
    assert budget.refusal is not None
    assert budget.refusal.agent == "host.1"
    most = max(budget.accounts, key=lambda account: account.own.tokens)
    assert most.address == "host.1"


def test_an_edited_prompt_and_the_first_behaviour_that_it_changed_are_found() -> None:
    before, after = edited_prompt("Answer at once."), edited_prompt("First look it up.")
    found = before.diff(after)
    assert [line for line in found.profiles if line.startswith(("-clerk", "+clerk"))] == [
        "-clerk.instructions: Answer at once.",
        "+clerk.instructions: First look it up.",
    ]
    first = found.differences[0]
    assert (first.kind, first.agent) == ("ModelReplied", "host.1")
    assert found.totals[1].turns == found.totals[0].turns + 2
