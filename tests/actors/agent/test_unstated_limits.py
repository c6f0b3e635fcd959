"""A `Begin` from before a limit existed does not state it: the agent then makes one call of each kind."""

import pytest
from msgspec.structs import replace

from callboard.actors.agent.failed_calls import may_be_repaired
from callboard.actors.protocol import prompts
from callboard.actors.protocol.failures import PASSING
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage, Delegate, Finished, ReportJudged
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.profiles import ModelSpec
from callboard.replay.testing.sessions.scenario import profile
from callboard.replay.testing.sessions.scripted_replies import Reply
from tests.actors.agent.test_repair_levels import REFUSED
from tests.actors.agent.test_tool_limits import results_read
from tests.actors.harness import RETRYABLE, SCHEMA, AgentHarness, kinds

NOTHING_STATED = Limits()


def begun(limits: Limits = NOTHING_STATED, schema: object = None) -> AgentHarness:
    agent = AgentHarness()
    agent.hears(replace(agent.begin(schema), limits=limits))
    return agent


def tools(posts: list[AnyMessage]) -> list[int]:
    return [one.call for one in posts if isinstance(one, CallTool)]


def test_one_call_of_a_reply_runs() -> None:
    agent = begun(Limits(max_iterations=5))
    assert tools(agent.calls("look", "look")) == [0]
    agent.hears(agent.returned(0))
    assert results_read(agent) == ["done", prompts.too_many_calls(1)]


def test_one_tool_runs_at_a_time() -> None:
    agent = begun(Limits(max_tool_calls=5, max_iterations=5))
    assert tools(agent.calls("look", "look", "look")) == [0]
    assert [tools(agent.hears(agent.returned(call))) for call in range(3)] == [[1], [2], []]


@pytest.mark.parametrize("failure", [Reply(failure=RETRYABLE), Reply("", stop_reason="end_turn")])
def test_a_model_is_asked_once(failure: Reply) -> None:
    assert kinds(begun(Limits(max_iterations=5)).reads(failure)) == ["Finished"]


def test_no_further_turn_is_taken() -> None:
    agent = begun()
    agent.calls("look")
    (end,) = agent.hears(agent.returned(0))
    assert isinstance(end, Finished)
    assert end.kind == "iteration_cap"


def test_the_first_report_is_the_last() -> None:
    agent = begun(Limits(max_iterations=5), SCHEMA)
    agent.calls("report_back")
    (end,) = agent.hears(ReportJudged(1, 0, "invalid"))
    assert isinstance(end, Finished)
    assert end.kind == "invalid_report"


def test_a_result_may_have_any_length() -> None:
    (delegate, *_) = begun().calls("task")
    assert isinstance(delegate, Delegate)
    assert delegate.room == 0


def test_no_other_model_is_asked_and_no_repair_is_tried() -> None:
    agent = AgentHarness()
    who = profile("host", [], ["look"], fallback=(ModelSpec("second"),), fallback_on=PASSING)
    agent.hears(replace(agent.begin(None, who), limits=Limits(max_iterations=5)))
    assert kinds(agent.reads(Reply(failure=RETRYABLE))) == ["Finished"]
    agent = begun(Limits(max_iterations=5))
    agent.calls("look")
    agent.hears(agent.returned(0))
    assert may_be_repaired(agent.state, REFUSED)
    assert kinds(agent.reads(Reply(failure=REFUSED))) == ["Finished"]
