"""Sessions with a planted fault, as people meet them: only the log tells what happened."""

import asyncio
from collections.abc import Mapping
from functools import cache

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.fork_plan import Place
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import Policy, ScriptedModel, Step, call, calls, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool

REFUND = {"type": "object", "properties": {"refund_cents": {"type": "integer"}, "order": {"type": "string"}}}
CLERKS = 12
WRONG = 7
"""The clerk whose tool gives a price in another unit."""


@tool(effect="read")
def price_of(order: str) -> str:
    """Return the price of an order as JSON."""
    cents = 41_900 if not order.endswith(f"-{WRONG}") else 4_190_000
    return f'{{"order": "{order}", "cents": {cents}}}'


@tool(effect="read")
def look_up(key: str) -> str:
    """Look something up."""
    return "nothing yet"


def record(policy: Policy, host: Agent, prompt: str, limits: Limits | None = None) -> Recording:
    """Run a host on a prompt and return the recording."""

    async def main() -> MemoryLog:
        log = MemoryLog()
        async with Runtime(
            log, model=ScriptedModel(policy, usage=Usage(input_tokens=300, output_tokens=40))
        ) as runtime:
            await runtime.run(host, prompt, session_id="one", limits=limits)
        return log

    return Recording.open(MemoryReader(asyncio.run(main())), "one")


def _clerk() -> Agent:
    return Agent("clerk", description="Finds a refund.", tools=[price_of, look_up])


@cache
def ignored_report() -> Recording:
    """Record a parent that answers another sum than its child reported."""

    def policy(request: ModelRequest) -> Step:
        if request.profile == "clerk":
            return call("report_back", refund_cents=41_900, order="A-1")
        if request.turn == 1:
            return call("task", agent="clerk", prompt="Find the refund of order A-1", output_schema=REFUND)
        return say("The customer gets a voucher.")

    return record(policy, Agent("host", agents=[_clerk()]), "What does the customer of A-1 get?")


@cache
def poisoned_sum() -> Recording:
    """Record twelve children at once, one of which uses a wrong result of its tool."""

    def policy(request: ModelRequest) -> Step:
        if request.profile == "host":
            if request.turn == 1:
                tasks = (
                    call("task", agent="clerk", prompt=f"Refund of order A-{n}", output_schema=REFUND)
                    for n in range(1, CLERKS + 1)
                )
                return calls(*tasks)
            return say(f"All refunds: {(CLERKS - 1) * 41_900 + 4_190_000} cents.")
        order = str(request.conversation[0]["content"]).split()[-1]
        if request.turn == 1:
            return call("price_of", order=order)
        wrong = order.endswith(f"-{WRONG}")
        return call("report_back", refund_cents=4_190_000 if wrong else 41_900, order=order)

    return record(policy, Agent("host", agents=[_clerk()]), "Sum the refunds up.")


@cache
def endless_loop() -> Recording:
    """Record a child that asks its tool the same until the budget is gone."""

    def policy(request: ModelRequest) -> Step:
        if request.profile == "clerk":
            return call("look_up", key="A-1" if request.turn % 2 else "A-2")
        if request.turn == 1:
            return call("task", agent="clerk", prompt="Find the refund of order A-1")
        return say("I could not find it.")

    return record(
        policy, Agent("host", agents=[_clerk()]), "Find it.", Limits(tokens=20_000, max_iterations=500)
    )


@cache
def edited_prompt(instructions: str) -> Recording:
    """Record a host whose child does what its instructions say."""

    def policy(request: ModelRequest) -> Step:
        if request.profile == "clerk":
            if request.turn == 1:
                return call("look_up", key="A-1") if b"look" in bytes(request.system) else say("41900")
            return say("41900, looked up")
        if request.turn == 1:
            return calls(
                call("task", agent="clerk", prompt="Order A-1"),
                call("task", agent="clerk", prompt="Order A-2"),
            )
        return say("Done.")

    clerk = Agent("clerk", description="Finds.", instructions=instructions, tools=[look_up])
    return record(policy, Agent("host", agents=[clerk]), "Find them.")


@program()
async def asking(ctx: ProgramContext, prompt: str) -> str:
    """Ask a model twice, the second time with a whole request."""
    first = await ctx.ask_model(prompt)
    reply = await ctx.ask_model(messages=[{"role": "user", "content": str(first)}])
    return reply.text


@cache
def asked_twice() -> Recording:
    """Record a program that asks a model twice."""
    return record(lambda request: say(f"reply {len(bytes(request.messages[-1]))}"), asking, "a plain one")


def fork_of_a_fork(changes: Mapping[Place, object], at: int | None = None) -> Recording:
    """Change answers of a session in a fork at an event, and fork that fork at its end."""

    @tool(effect="read")
    def weather(town: str) -> str:
        """Look up the weather of a town."""
        return f"{town}: sun"

    def policy(request: ModelRequest) -> Step:
        is_wet = "rain" in str(request.messages)
        return call("weather", town="Rome") if request.turn == 1 else say("Stay." if is_wet else "Go.")

    async def main() -> MemoryLog:
        log, host = MemoryLog(), Agent("host", tools=[weather], model=ScriptedModel(policy))
        async with Runtime(log) as runtime:
            await runtime.run(host, "Shall we go?", session_id="one")
            async with await runtime.fork("one", host, changes=changes, at=at, fork_id="two") as fork:
                await fork.outcome
            await (await runtime.fork("two", host, fork_id="three")).close()
        return log

    return Recording.open(MemoryReader(asyncio.run(main())), "three")
