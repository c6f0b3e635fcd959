import asyncio
from typing import Any, NoReturn

import pytest

from callboard import ToolContext, tool
from callboard.outputs import ToolOutput
from callboard.runtime.sanitize import check_json
from callboard.runtime.tools.context import LateContext
from callboard.runtime.tools.execution import ToolRunner
from callboard.runtime.tools.output import ToolOutcome
from callboard.runtime.tools.tool import Tool


@tool(effect="read")
async def plain() -> str:
    """Take no context."""
    return "done"


@tool(effect="read")
async def asking(ctx: ToolContext) -> str:
    """Take the context."""
    return f"{ctx.tool}, {ctx.timeout_s}, {ctx.deadline is not None}"


@tool(effect="read")
async def marking() -> ToolOutput:
    """Give a name to the place of the log, without a parameter for the context."""
    return ToolOutput("done", checkpoint="here")


@tool(effect="read", output="raw")
async def unifying() -> str:
    """Have unified output."""
    return "done"


def outcome_of(made: Tool, late: LateContext) -> ToolOutcome:
    async def main() -> ToolOutcome:
        runner = ToolRunner()
        answer = runner.run(made, check_json("{}"), late, timeout_s=5, max_chars=1_000)
        outcome = answer if isinstance(answer, ToolOutcome) else await answer
        await runner.aclose()
        return outcome

    return asyncio.run(main())


def test_a_tool_that_takes_no_context_has_none() -> None:
    def fail() -> NoReturn:
        raise AssertionError("a context was made")

    late = LateContext(fail)
    assert outcome_of(plain, late).status == "ok"
    assert late.made is None
    assert not plain.takes_context


def test_a_tool_that_takes_a_context_has_one_that_began_and_ended() -> None:
    shown: list[str] = []
    late = LateContext(lambda: ToolContext(tool="asking", on_progress=shown.append))
    assert bytes(outcome_of(asking, late).output) == b'"asking, 5, True"'
    assert late.made is late.get()
    late.get().progress("too late")
    assert shown == []


def test_an_output_with_a_checkpoint_has_a_context_although_its_tool_takes_none() -> None:
    late = LateContext(ToolContext)
    assert outcome_of(marking, late).status == "ok"
    assert late.made is not None
    assert late.made.checkpoints == ("here",)


@pytest.mark.parametrize("made", [asking, unifying])
def test_a_tool_with_a_parameter_for_it_or_with_unified_output_takes_a_context(made: Tool) -> None:
    assert made.takes_context


def test_a_context_that_is_made_late_knows_the_time_and_the_cancellation() -> None:
    late = LateContext(ToolContext)

    async def main() -> None:
        late.begin(asyncio.get_running_loop(), 3)
        late.cancel()

    asyncio.run(main())
    assert late.get().timeout_s == 3
    assert late.get().is_cancelled


def test_a_context_that_was_made_hears_of_the_cancellation() -> None:
    late = LateContext(ToolContext)
    ctx = late.get()
    assert not ctx.is_cancelled
    late.cancel()
    assert ctx.is_cancelled


def test_a_context_that_was_made_begins_and_ends_with_its_call() -> None:
    class Noted:
        def __init__(self) -> None:
            self.said: list[object] = []

        def begin(self, loop: object, timeout_s: float) -> None:
            self.said.append(("begins", timeout_s))

        def cancel(self, is_taken_back: object) -> None:
            self.said.append("cancelled")

        def end(self) -> None:
            self.said.append("ends")

    noted = Noted()
    made: Any = noted
    late = LateContext(lambda: made)
    late.end()
    assert (late.made, late.is_cancelled, late.goes_on) == (None, False, None)
    assert late.get() is late.get() is made
    assert noted.said == []
    late.begin("loop", 2.5)  # type: ignore[arg-type]  # a stand-in
    late.cancel()
    late.end()
    assert noted.said == [("begins", 2.5), "cancelled", "ends"]


class CancelledAmid(LateContext):
    """A context that the loop cancels just when a thread has looked if it is cancelled."""

    flag = is_amid = False

    @property
    def is_cancelled(self) -> bool:
        found, is_amid, self.is_amid = self.flag, self.is_amid, False
        if is_amid:
            self.cancel()
        return found

    @is_cancelled.setter
    def is_cancelled(self, flag: bool) -> None:
        self.flag = flag


class MadeAmid(LateContext):
    """A context that a thread makes just when the loop has looked if it is made."""

    found: ToolContext | None = None
    is_amid = False

    @property
    def made(self) -> ToolContext | None:
        found, is_amid, self.is_amid = self.found, self.is_amid, False
        if is_amid:
            self.get()
        return found

    @made.setter
    def made(self, made: ToolContext | None) -> None:
        self.found = made


def test_a_context_that_is_made_and_cancelled_at_once_hears_of_it() -> None:
    cancelled, made = CancelledAmid(ToolContext), MadeAmid(ToolContext)
    cancelled.is_amid = made.is_amid = True
    made.cancel()
    for ctx in (cancelled.get(), made.get()):
        assert ctx.is_cancelled
