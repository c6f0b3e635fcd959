"""Traces that the code of a brain begins itself: none of them goes to the vendor."""

from typing import Any

import agents
import pytest
from agents import Runner, custom_span, function_tool, trace

from callboard.brains import openai_agent
from callboard.runtime.models.scripted import call, calls, say
from tests.runtime.brains.kit import run, turns_in
from tests.runtime.brains.test_openai_run import Traces

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

INNER = agents.Agent("inner", instructions="Inner.")


@function_tool
async def in_program(what: str) -> str:
    """Run an agent in a trace."""
    with trace("in the program"), custom_span("a part"):
        return str((await Runner.run(INNER, what)).final_output)


@function_tool
async def recorded(what: str) -> str:
    """Do something in a trace."""
    with trace("on the loop"), custom_span("a part"):
        return what


@function_tool
def on_thread(what: str) -> str:
    """Do something in a trace, synchronously."""
    with trace("on a thread"):
        return what


def test_no_trace_that_a_tool_begins_is_sent() -> None:
    traces = Traces()
    agents.set_trace_processors([traces])
    try:
        lead = agents.Agent("lead", instructions="Lead.", tools=[in_program, recorded, on_thread])

        def answers(request: Any) -> Any:
            if b"Inner." in bytes(request.system) or turns_in(request):
                return say("done")
            return calls(*(call(tool.name, what="x") for tool in lead.tools))

        brain = openai_agent(lead, in_program=["in_program"], nested=[INNER])
        assert run(brain, answers).text == "done"
        assert traces.seen == []
        with trace("outside"):
            assert len(traces.seen) == 1
    finally:
        agents.set_trace_processors([])
