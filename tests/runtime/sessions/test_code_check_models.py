"""Sessions whose agents at work ask models that the next process lacks: they wait, and lose nothing."""

import asyncio
from typing import Any

import pytest

from callboard import Agent, Fallback, ProgramContext, Runtime, ScriptedModel, call, program, say, tool
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.usage import ZERO
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader

pytestmark = pytest.mark.usefixtures("short_grace")


class World:
    """A log, and a tool that waits until it is let go."""

    def __init__(self) -> None:
        self.log, self.go, self.waits = MemoryLog(), asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        async def wait() -> str:
            """Wait."""
            self.waits.set()
            await self.go.wait()
            return "late"

        self.wait = wait

    def agent(self, *models: str) -> Agent:
        """Return the host with its models, all of which answer alike."""
        found = [
            ScriptedModel(lambda request: call("wait") if request.turn == 1 else say("done"), name=name)
            for name in models
        ]
        return Agent("host", tools=[self.wait], model=Fallback(found) if found[1:] else found[0])

    def asking(self) -> Agent:
        """Return a host that waits, and asks the model that it inherits."""

        @program(tools=[self.wait])
        async def host(ctx: ProgramContext, prompt: str) -> str:
            await ctx.call(self.wait)
            return await ctx.ask_model("Well?")

        return host

    async def left(self, host: Agent, **given: Any) -> None:
        """Record a session that waits, and leave it."""
        async with Runtime(self.log, **given) as runtime:
            session = await runtime.open(host, session_id="s")
            await session.submit("go")
            await self.waits.wait()
            await session.detach(0)
        self.go.set()

    def recording(self) -> Recording:
        found = Recording.open(MemoryReader(self.log), "s")
        assert found.verify().is_ok
        return found


def test_an_agent_at_work_whose_models_are_gone_is_refused_before_anything_is_posted() -> None:
    async def scene() -> None:
        world = World()
        await world.left(world.agent("old", "older"))
        before = world.recording().head
        async with Runtime(world.log) as runtime:
            with pytest.raises(Diverged, match=r"s, host: there is no model 'old' in this .* is: new\)"):
                await runtime.resume("s", world.agent("new"), accept_changes=True)
        assert world.recording().head == before
        async with Runtime(world.log) as runtime:
            session = await runtime.resume("s", world.agent("old"), accept_changes=True)
            assert (await session.outcome).text == "done"  # what it would fall back to is not needed

    asyncio.run(scene())


def test_an_agent_whose_model_is_gone_ends_where_the_caller_says_so_and_is_not_charged() -> None:
    async def scene() -> None:
        world = World()
        await world.left(world.agent("old"))
        async with Runtime(world.log) as runtime:
            new = world.agent("new")
            session = await runtime.resume("s", new, accept_changes=True, on_diverged="crash")
            assert (await session.outcome).kind == "model_error"
        *_, last = (e.body for e in world.recording().events if isinstance(e.body, ModelReplied))
        assert last.failure is not None
        assert (last.failure.code, last.usage) == ("unknown_model", ZERO)

    asyncio.run(scene())


def test_a_question_to_a_model_that_is_gone_leaves_its_session_to_a_process_that_has_it() -> None:
    async def scene() -> None:
        world, old = World(), ScriptedModel([say("well")], name="old")
        host = world.asking()
        await world.left(host, model=old)
        async with Runtime(world.log, model=ScriptedModel([], name="new")) as runtime:
            session = await runtime.resume("s", host, accept_changes=True)
            with pytest.raises(Diverged, match="there is no model 'old'"):
                await session.outcome
        async with Runtime(world.log, model=old) as runtime:
            session = await runtime.resume("s", host, accept_changes=True)
            assert (await session.outcome).text == "well"

    asyncio.run(scene())
