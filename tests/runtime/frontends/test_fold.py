"""The facts of sessions for front ends: what they say about a call is what the log says."""

import asyncio

from callboard import Agent, ModelRequest, ProgramContext, call, calls, program, say, tool
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.runtime.frontends.facts import Called, Returned
from callboard.runtime.frontends.fold import NOT_RUN, FactFold
from callboard.runtime.models.scripted import Step
from callboard.runtime.sanitize import to_json
from callboard.runtime.sessions.stream_items import StreamEvent
from callboard.testing import Scenario


@tool(effect="write")
def put(at: int) -> str:
    """Put something."""
    return f"put {at}"


@tool(effect="read")
def look(at: int) -> str:
    """Look."""
    return f"seen {at}"


looker = Agent("looker", tools=[look])


@program(agents=[looker], tools=[put])
async def overlapping(ctx: ProgramContext, prompt: str) -> str:
    """Go on while calls run."""

    async def one(at: int) -> str:
        await ctx.delegate(looker, f"{at}")
        return await ctx.call(put, at=at)

    return ", ".join(await asyncio.gather(one(1), one(2), ctx.call(put, at=3)))


def policy(request: ModelRequest) -> Step:
    if request.turn > 1:
        return say("done")
    if request.profile == "looker":
        return calls(call("look", at=1), call("none"), call("look", at="one"))
    return calls(call("task", agent="looker", prompt="Look."), call("put", at=4), call("none"))


HOST = Agent("host", agents=[looker, overlapping], tools=[put])


def told(events: list[Event]) -> tuple[dict[str, Called], dict[str, Returned]]:
    """Return the calls and the results of a session, by their names; each once."""
    fold = FactFold()
    made: dict[str, Called] = {}
    answered: dict[str, Returned] = {}
    for event in events:
        for fact in fold.add(StreamEvent(event)):
            if isinstance(fact, Called):
                assert fact.call not in made
                made[fact.call] = fact
            elif isinstance(fact, Returned):
                assert fact.call not in answered
                answered[fact.call] = fact
    return made, answered


def test_a_call_is_told_to_have_run_exactly_if_the_log_says_so() -> None:
    results = refused = 0
    for host in (HOST, overlapping):
        for faults in (None, "all"):
            scene = Scenario(host, policy, "go", faults=faults)
            for seed in range(15):
                events = scene.simulate(seed=seed).events
                if not any(isinstance(event.body, AskEnded) for event in events):
                    continue
                made, answered = told(events)
                assert made.keys() == answered.keys()
                begun, came = dict[str, bool](), dict[str, ToolReturned]()
                for event in events:
                    body = event.body
                    if isinstance(body, CallTool):
                        begun[f"{event.sender}/{body.turn}.{body.call}"] = True
                    elif isinstance(body, ToolReturned):
                        came[f"{event.recipient}/{body.turn}.{body.call}"] = body
                for name, fact in answered.items():
                    place = name.partition("/")[2]
                    if fact.output == to_json(NOT_RUN):
                        refused += 1
                        assert place not in begun, (host.name, faults, seed)
                    if place in came and came[place].status == "ok":
                        results += 1
                        assert (fact.output, fact.is_error) == (came[place].output, False)
    assert results > 50
    assert refused > 20
