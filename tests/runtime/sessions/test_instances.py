"""Instances: each call of an agent of a factory has tools, helpers and state of its own."""

import asyncio
from typing import Any

import msgspec
import pytest

from callboard import Agent, Runtime, ScriptedModel, ToolContext, call, calls, say, tool
from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.session.contexts import ContextRequest
from callboard.replay import Recording
from callboard.runtime.agent import roster
from callboard.runtime.contexts import Content
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.sessions.instances import Instances


def team(is_helper_made: bool) -> Any:
    """Return a factory of an agent that notes words, with a helper that notes into the same list.

    is_helper_made: True if the helper comes of a factory too.
    """

    def make() -> Agent:
        notes: list[str] = []

        @tool(effect="read")
        def note(word: str) -> str:
            """Note a word, and return all."""
            notes.append(word)
            return ",".join(notes)

        def helper() -> Agent:
            return Agent("helper", description="Notes.", tools=[note])

        return Agent(
            "lead", description="Leads.", tools=[note], agents=[helper if is_helper_made else helper()]
        )

    return make


def heard(request: Any) -> list[str]:
    """Return the results of tools in the last message of a request."""
    blocks = msgspec.json.decode(request.messages[-1])["content"]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


def policy(request: Any) -> Any:
    """Let two leads note a word, and the helper of each another one."""
    if request.profile == "helper":
        return call("note", word="h") if request.turn == 1 else say(heard(request)[0])
    if request.profile == "lead":
        if request.turn == 1:
            return call("note", word="l")
        return call("task", agent="helper", prompt="p") if request.turn == 2 else say(heard(request)[0])
    if request.turn == 1:
        return calls(call("task", agent="lead", prompt="a"), call("task", agent="lead", prompt="b"))
    return say(" ".join(heard(request)))


@pytest.mark.parametrize("is_helper_made", [False, True])
def test_the_helpers_of_an_instance_share_its_state_and_no_other_instances(is_helper_made: bool) -> None:
    host = Agent("host", agents=[team(is_helper_made)])
    for _ in range(2):  # a second session shares nothing with the first
        log = MemoryLog()
        assert Runtime(log, model=ScriptedModel(policy)).run_sync(host, "go").text == "l,h l,h"


def test_a_resume_gives_helpers_the_new_instance_of_the_agent_above_them() -> None:
    """The helper's tool is called first after the resume, and then that of the agent above it."""

    async def main() -> str:
        log, stopped = MemoryLog(), asyncio.Event()

        async def first(request: Any) -> Any:
            if request.profile == "helper":
                stopped.set()
                await asyncio.Event().wait()
            return call("task", agent="lead" if request.address == "host" else "helper", prompt="p")

        def second(request: Any) -> Any:
            if request.profile == "helper":
                return call("note", word="h") if request.turn == 1 else say("noted")
            if request.profile == "lead":
                return call("note", word="l") if request.turn == 2 else say(heard(request)[0])
            return say(heard(request)[0])

        async with Runtime(log, model=ScriptedModel(first)) as runtime:
            session = await runtime.open(Agent("host", agents=[team(is_helper_made=False)]), session_id="s")
            asking = asyncio.create_task(session.ask("go", on_cancel="detach"))
            await stopped.wait()
            asking.cancel()
        async with Runtime(log, model=ScriptedModel(second)) as runtime:
            session = await runtime.resume("s", Agent("host", agents=[team(is_helper_made=False)]))
            text = (await session.outcome).text
        Recording.open(MemoryReader(log), "s").verify().check()
        return text

    assert asyncio.run(main()) == "h,l"


def test_the_context_function_of_an_instance_has_its_state() -> None:
    def make() -> Agent:
        calls_of_it: list[int] = []

        def words(view: ContextRequest) -> Content:
            calls_of_it.append(1)
            return f"context {len(calls_of_it)}"

        return Agent("lead", context=words)

    def talk(request: Any) -> Any:
        if request.profile == "lead":
            return say(str(msgspec.json.decode(request.messages[0])["content"]))
        if request.turn <= 2:
            return call("task", agent="lead", prompt="a")
        return say("done")

    outcome = Runtime(MemoryLog(), model=ScriptedModel(talk)).run_sync(Agent("host", agents=[make]), "go")
    assert [one.text.count("context 1") for one in outcome.delegations] == [1, 1]


def test_the_instance_of_a_host_lives_as_long_as_its_conversation() -> None:
    def make() -> Agent:
        seen: list[str] = []

        @tool(effect="read")
        def count(ctx: ToolContext) -> int:
            """Count."""
            seen.append(ctx.address)
            return len(seen)

        return Agent("host", tools=[count])

    heard_by_host: list[str] = []

    def talk(request: Any) -> Any:
        if request.turn % 2:
            return call("count")
        heard_by_host.extend(heard(request))
        return say("done")

    async def main() -> None:
        async with (
            Runtime(MemoryLog(), model=ScriptedModel(talk)) as runtime,
            runtime.open(Agent.made_by(make)) as session,
        ):
            for _ in range(2):
                await session.ask("go")

    asyncio.run(main())
    assert heard_by_host == ["1", "2"]


def test_an_agent_below_a_factory_with_other_tools_than_at_first_is_refused() -> None:
    made: list[int] = []

    def make() -> Agent:
        made.append(1)

        @tool(effect="read")
        def note() -> str:
            """Note."""
            return "noted"

        return Agent("lead", agents=[Agent("helper", tools=[note] if len(made) == 1 else [])])

    definition = Agent.made_by(make)
    instances = Instances(roster(definition))
    factory = instances.factory("host.1", "lead")
    assert factory is not None
    with pytest.raises(InvalidAgent, match="an agent 'helper' below it with another name or other tools"):
        factory()


def test_agents_without_a_factory_have_no_instance() -> None:
    instances = Instances(roster(Agent("host", agents=[Agent("kid")])))
    assert not instances.has_factories
    assert instances.of("host.1", "kid") is None
    assert instances.count == 0


def test_an_instance_is_made_once_for_an_address_and_forgotten_with_its_agent() -> None:
    made: list[int] = []

    def make() -> Agent:
        made.append(1)
        return Agent("lead")

    instances = Instances(roster(Agent.made_by(make)))
    made.clear()
    one = instances.of("host.1", "lead")
    assert instances.of("host.1", "lead") is one
    other = instances.of("host.2", "lead")
    assert other is not one
    assert (len(made), instances.count) == (2, 2)
    assert instances.of("host", "lead") is not None
    for address in ("host.1", "host.1", "host"):
        instances.ended(address)
    assert instances.count == 2, "that of a host stays"
    assert instances.of("host.1", "lead") is not one
    kept = Agent("lead")
    instances.keep("host.1", kept)
    assert instances.of("host.1", "lead") is kept


def test_an_agent_below_an_instance_is_that_of_the_instance() -> None:
    helpers: list[Agent] = []

    def make() -> Agent:
        helpers.append(Agent("helper"))
        return Agent("lead", agents=[helpers[-1]])

    plain = Agent("plain")
    instances = Instances({**roster(Agent.made_by(make)), "plain": plain})
    instances.profile_of = {"host.1": "lead", "host.2": "plain"}.get
    assert instances.of("host.1.1", "helper") is helpers[-1]
    assert instances.count == 2, "the lead above it was made as well"
    assert instances.factory("host.2.1", "helper") is None, "above it is no instance"
    assert instances.factory("host.1.1", "nobody") is None
    found = instances.factory("host.1.1", "plain")
    assert found is not None
    assert found() is plain, "of the session, below an instance"
    assert instances.factory("host", "plain") is None


@pytest.mark.parametrize(
    ("later", "why"),
    [
        (lambda: "lead", "its factory returned 'lead', which is not an Agent"),
        (lambda: Agent("other"), "its factory made an agent with another name"),
        (lambda: Agent("lead", agents=[Agent("more")]), "an agent 'more' below it with another name"),
        (lambda: Agent("lead"), ""),
    ],
)
def test_a_factory_makes_the_same_agent_each_time(later: Any, why: str) -> None:
    first = [True]

    def make() -> Any:
        return Agent("lead") if first[0] else later()

    instances = Instances(roster(Agent.made_by(make)))
    first[0] = False
    factory = instances.factory("host.1", "lead")
    assert factory is not None
    if why:
        with pytest.raises(InvalidAgent, match=why):
            factory()
    else:
        assert factory().name == "lead"
