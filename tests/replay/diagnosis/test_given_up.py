"""Requests that programs gave up at a timeout, recorded by the real runtime."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from callboard.actors.protocol.messages import CancelTask, DelegationEnded
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.given_up import GivenUp
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import call, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.tools.tool import tool
from tests.replay.diagnosis.user_stories import Script, gave_up_a_task, told
from tests.tables import table

Body = Callable[[ProgramContext], Awaitable[str]]
SLOW = 0.01


@tool(effect="read")
async def law(subject: str) -> str:
    """Look the law up; about Mars, without an end."""
    if subject == "Mars":
        await asyncio.Event().wait()
    return "allowed"


@tool(effect="write")
async def file(subject: str) -> str:
    """File something, without an end."""
    await asyncio.Event().wait()
    return "filed"


class Radio:
    """A station that says one thing."""

    news = 0

    async def hear(self) -> str:
        """Wait for news."""
        self.news -= 1
        if self.news < 0:
            await asyncio.Event().wait()
        return "It rains."


radio = Radio()
hear = tool(effect="read")(radio.hear)
legal, quick = Agent("legal", tools=[law, file]), Agent("quick", description="Knows little.")


async def in_time(asked: Awaitable[str], default: str = "Go ahead.") -> str:
    try:
        async with asyncio.timeout(SLOW):
            return str(await asked)
    except TimeoutError:
        return default


async def again(ctx: ProgramContext) -> str:
    """Ask the same again, with one more word."""
    await in_time(ctx.delegate(legal, "May we fly to Mars?"))
    return await ctx.delegate(quick, "May we fly to Mars now?")


async def first_of_two(ctx: ProgramContext) -> str:
    """Let two race, and give the loser up at the winner's answer."""
    asked = [asyncio.ensure_future(ctx.delegate(one, "May we fly to Mars?")) for one in (legal, quick)]
    done, left = await asyncio.wait(asked, timeout=9, return_when=asyncio.FIRST_COMPLETED)
    for one in left:
        one.cancel()
    return done.pop().result()


async def listen(ctx: ProgramContext) -> str:
    """Call a tool until it has nothing more to say."""
    radio.news = 1
    return str([await in_time(ctx.call(hear)), await in_time(ctx.call(hear))])


def findings(body: Body) -> list[Finding]:
    async def hasty(ctx: ProgramContext, prompt: str) -> str:
        """Do not wait for long."""
        return await body(ctx)

    made = program(agents=[legal, quick], tools=[law, file, hear])(hasty)
    script: Script = {
        "host.1": [call("law", subject="Mars")],
        "host.2": [say("Yes.")],
    }
    return told(made, "May we?", script).diagnose()


@table(
    ("body", "words"),
    [
        (
            lambda ctx: in_time(ctx.delegate(legal, "Mars?")),
            "gave up its delegation to legal (6) at a timeout",
        ),
        (lambda ctx: in_time(ctx.call(law, subject="Mars")), "gave up its call of law (6) at a timeout"),
        (
            lambda ctx: in_time(ctx.call(file, subject="Mars")),
            "known whether it took effect; host gave up its",
        ),
    ],
)
def test_a_request_that_a_program_gives_up_is_named_once(body: Body, words: str) -> None:
    (finding,) = findings(body)
    assert finding.agent == "host"
    assert words in finding.says


@table("body", [again, first_of_two, listen])
def test_a_request_that_is_made_good_or_loses_a_race_is_no_finding(body: Body) -> None:
    assert findings(body) == []


def test_an_answer_that_came_while_the_program_gave_up_is_named() -> None:
    events = [*gave_up_a_task().events]
    (end,) = (one for one in events if isinstance(one.body, DelegationEnded))
    steps = [one for one in events if isinstance(one.body, ModelReplied) and one.recipient == "host"]
    answer = msgspec.structs.replace(end, body=DelegationEnded(1, 0, "answered", "host.1", text="No!"))
    check = GivenUp()
    for event in events:
        if event is steps[-1]:
            check.take(answer)  # the step that gives up had begun without it
        if event is not end and not isinstance(event.body, CancelTask):
            check.take(event)
    (finding,) = check.findings()
    assert finding.says.endswith(f"its answer came ({end.seq}), and was not read")
