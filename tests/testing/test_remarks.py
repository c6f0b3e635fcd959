"""Remarks of a report: calls of a policy that callboard's own tools refuse."""

from typing import Any

from callboard import Agent, Call, call, say
from callboard.testing import Scenario

KID = Agent("kid", description="Works.")


def asking(made: Call) -> Any:
    def policy(request: Any) -> Any:
        return made if (request.profile, request.turn) == ("host", 1) else say("done")

    return policy


def test_a_task_in_the_background_of_an_agent_without_one_is_told_in_the_report() -> None:
    made = call("task", agent="kid", prompt="x", background=True)
    told = str(Scenario(Agent("host", agents=[KID]), asking(made)).explore(runs=3))
    assert "refused to host: Not delegated: you cannot run tasks in the background" in told
    fine = str(Scenario(Agent("host", agents=[KID], background=True), asking(made)).explore(runs=3))
    assert "refused" not in fine


def test_an_unknown_argument_is_told_once() -> None:
    scenario = Scenario(
        Agent("host", agents=[KID]), asking(call("task", prompt="x", schema={})), faults="all"
    )
    assert scenario.remarks == [
        "refused to host: Not delegated: task has no argument 'schema' (use output_schema). Its arguments: "
        "agent, prompt, output_schema, agents, copies, description."
    ]


def test_a_session_that_does_not_end_has_its_remarks_so_far() -> None:
    made = call("task", prompt="x", background=True)
    scenario = Scenario(Agent("host", agents=[KID]), lambda request: made)
    assert len(scenario.remarks) == 1
