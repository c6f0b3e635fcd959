"""Programs in the simulator: as they are, on its virtual clock, under each order and with faults."""

import asyncio

from callboard import Agent, ModelRequest, ProgramContext, program, tool
from callboard.testing import explore, simulate


@tool(effect="read")
def look(n: int) -> int:
    """Look."""
    return n


helper = Agent("helper", instructions="Help.")


@program(tools=[look], agents=[helper])
async def host(ctx: ProgramContext, prompt: str) -> list[object]:
    found: list[object] = [*await asyncio.gather(ctx.call(look, n=1), ctx.delegate(helper, "help"))]
    began = ctx.now()
    try:
        async with asyncio.timeout(60):
            await ctx.sleep(3_600)
    except TimeoutError:
        found.append((ctx.now() - began).total_seconds())
    return found


def policy(request: ModelRequest) -> str:
    return f"{request.profile} says hello"


def test_a_program_runs_in_a_simulation_with_its_time() -> None:
    (outcome,) = simulate(host, policy).outcomes
    assert outcome.structured_output == [1, "helper says hello", 60.0]
    assert host.model.parked == 0


def test_a_program_can_be_explored_like_an_agent() -> None:
    explore(host, policy, runs=60, seed=1)
