"""Contexts and memory tools in simulations: functions of users are called, and fakes stand for memories."""

import asyncio

import pytest

from callboard import Agent, Brief, ContextRequest, ModelRequest, SystemContext, call, say
from callboard.errors import MisuseError
from callboard.runtime.models.scripted import Call, Reply
from callboard.testing import explore, simulate
from callboard.tools.memory import MEMORY_TOOLS


def policy(request: ModelRequest) -> Reply | Call:
    """Delegate once, and end with what the sub-agent was told."""
    if request.profile == "kid":
        return say(f"{bytes(request.system).decode()} {request.conversation[0]['content']}")
    if request.turn == 1:
        return call("task", agent="kid", prompt="Read it.")
    return say(str(request.conversation[-1]["content"]))


def test_a_simulation_calls_the_context_functions_of_the_agents() -> None:
    def words(view: ContextRequest) -> str:
        return f"{view.parent} has {len(view.messages)} messages"

    for context in (words, SystemContext(words)):
        host = Agent("host", agents=[Agent("kid", context=context)])
        assert "host has 2 messages" in simulate(host, policy, "Go.").outcome.text
    brief = Agent("host", agents=[Agent("kid", context=Brief())])
    assert "user: Go." in simulate(brief, policy, "Go.").outcome.text


def test_a_context_function_that_fails_or_waits_ends_its_delegation_in_a_simulation() -> None:
    def raises(view: ContextRequest) -> str:
        raise ValueError("no context today")

    async def at_once(view: ContextRequest) -> str:
        return "known"

    async def waits(view: ContextRequest) -> str:
        await asyncio.sleep(1)
        return "known"

    def said(function: object) -> str:
        host = Agent("host", agents=[Agent("kid", context=function)])  # type: ignore[arg-type]  # any function
        return simulate(host, policy, "Go.").outcome.text

    assert "no context today" in said(raises)
    assert "known" in said(at_once)
    with pytest.raises(MisuseError, match="a context function waits for something"):
        said(waits)
    assert "not int" in said(lambda view: 7)


def test_ready_contexts_keep_every_rule_in_any_order_and_with_all_faults() -> None:
    kids = [Agent("kid", context=Brief(tokens=200)), Agent("other", context=SystemContext(Brief()))]

    def racing(request: ModelRequest) -> Reply | Call:
        if request.profile != "host":
            return say("Done.")
        return call("task", agents=["kid", "other"], prompt="Read it.") if request.turn == 1 else say("Done.")

    explore(Agent("host", agents=kids), racing, "Go.", runs=60, faults="all")


def test_fakes_stand_for_the_memory_tools() -> None:
    def recalls(request: ModelRequest) -> Reply | Call:
        if request.turn == 1:
            return call("recall", query="tea")
        return say(str(request.conversation[-1]["content"]))

    host = Agent("host", tools=MEMORY_TOOLS)
    fakes = {"recall": lambda query: f"[1] the {query} is hot"}
    assert "the tea is hot" in simulate(host, recalls, "Go.", tools=fakes).outcome.text
