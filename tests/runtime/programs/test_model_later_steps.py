"""Steps that come later: a model with the kind of a program whose `call` is asynchronous.

A brain in a process of its own answers so. The session waits for its step as for any reply.
"""

import asyncio
from typing import Any

import pytest

from callboard.actors.protocol.errors import SessionDetached
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.model import ProgramModel
from callboard.runtime.programs.program import Program, program
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool


class LaterSteps(ProgramModel):
    """A program whose steps come after a while, or when `may_step` is set."""

    may_step: asyncio.Event | None = None
    steps = 0

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:  # type: ignore[override]  # on purpose  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run the next step, later."""
        await asyncio.sleep(0)
        if self.may_step is not None and self.steps:
            await self.may_step.wait()
        self.steps += 1
        return super().call(request, on_text)


@tool(effect="read")
def look(at: int) -> str:
    """Look."""
    return f"saw {at}"


@program(tools=[look])
async def brain(ctx: ProgramContext, prompt: str) -> str:
    """Ask and look at once, then ask again."""
    first, seen = await asyncio.gather(ctx.ask_model("which?"), ctx.call(look, at=1))
    said = [{"role": "user", "content": f"{first} {seen}"}]
    return (await ctx.ask_model(messages=said)).text


def later(may_step: asyncio.Event | None = None) -> Program[Any, Any]:
    made = brain.with_model(ScriptedModel(lambda request: say("well")))
    made.model = LaterSteps(made.name, made.model.main_of)
    made.model.may_step = may_step
    return made


def test_steps_may_come_later() -> None:
    outcome = Runtime(":memory:").run_sync(later(), "go")
    assert (outcome.kind, outcome.text, outcome.usage.calls) == ("answered", "well", 2)


def test_a_step_that_the_end_of_a_process_cut_off_is_asked_for_again() -> None:
    async def go() -> Any:
        log = MemoryLog()
        async with Runtime(log) as runtime:
            session = await runtime.open(later(asyncio.Event()), session_id="s")
            ask = asyncio.ensure_future(session.ask("go"))
            async for event in session.events():
                if event.kind == "ToolReturned":
                    break
        with pytest.raises(SessionDetached):
            await ask
        async with Runtime(log) as runtime:
            return await (await runtime.resume("s", later())).outcome

    outcome = asyncio.run(go())
    assert (outcome.text, outcome.usage.calls) == ("well", 2)


def test_a_step_that_never_comes_ends_as_any_call_does() -> None:
    async def go() -> Any:
        async with Runtime(":memory:", limits=Limits(model_timeout_s=0.05, max_model_attempts=1)) as runtime:
            return await runtime.run(later(asyncio.Event()), "go")

    outcome = asyncio.run(go())
    assert outcome.kind == "model_error"
    assert "timeout" in outcome.detail
