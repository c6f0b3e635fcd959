"""The agents of the killed sessions. They use every feature, chosen by a seed.

In every turn of an ask but the last, the host requests some of: workers that delegate further, races,
reports with a schema, models that fail first, children that run out of time or of budget, programs, work in
the background that it awaits or cancels, and tools of every effect: one asks a person, one sets the tools.
Every tool with an effect adds its label to the shared state. In some sessions the host is a program.

The reply of a model is a function of seed, address and turn alone, so a process that resumes a session gets
the same replies as the process before it.
"""

import asyncio
import time
from collections.abc import Callable
from random import Random
from typing import Final

from callboard import ContextRequest
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.runtime.agent import Agent
from callboard.runtime.models.protocol import Model
from callboard.runtime.models.scripted import Call, ScriptedModel, Step, call, calls, fail, say
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.shared_state import SharedKey
from callboard.runtime.tools.tool import Tool, tool
from tests.crash.programs import program_of

SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}
TURNS: Final = 3
"""Turns of the host in one ask."""

STATE: Final = {"did": SharedKey("append"), "count": SharedKey("add")}
"""The keys of the shared state: the labels of the calls with an effect, and their number."""

TOOL_SETS: Final = (
    ["look", "peek", "put", "save", "stamp", "pay", "tune", "extra"],
    ["look", "peek", "put", "save", "stamp", "tune"],
)
"""The tools that agents get while they run, by name."""

Deed = Callable[[str, str, ToolContext], None]
"""Called with the effect and the label of a call when it changes the world."""


def tools(deed: Deed) -> list[Tool]:
    """Create tools of every effect, on the loop and on threads."""

    @tool(effect="read")
    async def look(label: str, ms: int) -> str:
        """Look."""
        await asyncio.sleep(ms / 1_000)
        return f"{label} is there " * 3

    @tool(effect="read")
    def peek(label: str, ms: int) -> str:
        """Look, on a thread."""
        time.sleep(ms / 1_000)
        return f"{label} was seen"

    @tool(effect="idempotent")
    async def put(label: str, ms: int, ctx: ToolContext) -> str:
        """Set something."""
        deed("idempotent", label, ctx)
        await asyncio.sleep(ms / 1_000)
        return "set"

    @tool(effect="write")
    async def save(label: str, ms: int, ctx: ToolContext) -> str:
        """Do something."""
        deed("write", label, ctx)
        await asyncio.sleep(ms / 1_000)
        return "saved"

    @tool(effect="write")
    def stamp(label: str, ms: int, ctx: ToolContext) -> str:
        """Do something, on a thread."""
        time.sleep(ms / 1_000)
        deed("write", label, ctx)
        return "stamped"

    @tool(effect="write", approval="always")
    async def pay(label: str, ms: int, ctx: ToolContext) -> str:
        """Do something that a person has allowed."""
        deed("write", label, ctx)
        await asyncio.sleep(ms / 1_000)
        return "paid"

    @tool(effect="idempotent")
    async def tune(label: str, ms: int, ctx: ToolContext) -> str:
        """Set the tools of the agent that calls."""
        deed("idempotent", label, ctx)
        ctx.set_tools(TOOL_SETS[ms % 2])
        await asyncio.sleep(ms / 1_000)
        return "tuned"

    return [look, peek, put, save, stamp, pay, tune]


def extra_of(deed: Deed) -> Tool:
    """Create the tool that agents get later."""

    @tool(effect="write")
    async def extra(label: str, ms: int, ctx: ToolContext) -> str:
        """Do something more."""
        deed("write", label, ctx)
        await asyncio.sleep(ms / 1_000)
        return "done"

    return extra


def view_of(view: ContextRequest) -> str:
    """Tell a sub-agent how much was said before, from a thread."""
    return f"{len(view.conversation)} messages"


async def later_view_of(view: ContextRequest) -> str:
    """Tell a sub-agent how much was said before, after a short sleep."""
    await asyncio.sleep(0.001)
    return f"{len(view.conversation)} messages"


def is_program(seed: str) -> bool:
    """Return True if the host of a session is a program."""
    return Random(f"{seed}/host").random() < 0.2


def scripted_model(seed: str) -> Model:
    """Create the model of a session in which no service is asked."""
    return ScriptedModel(Script(seed), max_tokens=200, usage=Usage(input_tokens=40, output_tokens=60))


def host_of(seed: str, deed: Deed, model: Model) -> Agent:
    """Create the host of a session. model: of its agents, but for programs."""
    every = tools(deed)
    later = [extra_of(deed)]
    digger = Agent("digger", description="Digs.", tools=every, later_tools=later, context=view_of)
    worker = Agent(
        "worker",
        description="Works.",
        tools=every,
        later_tools=later,
        agents=[digger],
        context=later_view_of,
        state=STATE,
        model=model,
        background=True,
    )
    plain = Agent("plain", tools=every, later_tools=later, model=model)
    program = program_of(every, [worker, plain], model)
    if is_program(seed):
        return program
    others = [
        program,
        Agent("quick", tools=every),
        Agent("slow", tools=every),
        Agent("reporter", tools=every),
        Agent("flaky", tools=every),
        Agent("late", tools=every, limits=Limits(deadline_s=0.03)),
        Agent("poor", tools=every, limits=Limits(tokens=6_000)),
    ]
    return Agent(
        "host",
        instructions="You are the host.",
        tools=every,
        later_tools=later,
        agents=[worker, *others],
        model=model,
        state=STATE,
        background=True,
        on_finish="cancel" if Random(f"{seed}/finish").random() < 0.3 else "wait",
    )


def limits_of(seed: str) -> Limits:
    """Draw the limits of a session: in some, calls wait for each other or the budget runs out."""
    chance = Random(f"{seed}/limits")
    return Limits(
        max_parallel_calls=chance.choice([1, 2, 64]),
        tokens=chance.choice([None, 30_000, 80_000, 200_000]),
        max_model_attempts=20,
    )


class Script:
    """The replies of the models."""

    def __init__(self, seed: str) -> None:
        self.seed = seed

    async def __call__(self, request: ModelRequest) -> Step:
        """Return the step for this request, sometimes after a short sleep."""
        chance = Random(f"{self.seed}/{request.address}/{request.turn}")
        if chance.random() < 0.5:
            await asyncio.sleep(chance.uniform(0, 0.004))
        return self._step(request, chance)

    def _step(self, request: ModelRequest, chance: Random) -> Step:
        turn = request.turn
        match request.profile:
            case "host":
                return self._host(request, chance)
            case "worker" if turn == 1:
                return calls(call("task", agent="digger", prompt="dig"), *_acts(request, chance, 2))
            case "digger" | "late" if turn < 3:
                return calls(*_acts(request, chance, 2))
            case "quick" | "slow" | "poor" if turn < {"quick": 2, "slow": 4, "poor": 9}[request.profile]:
                return calls(*_acts(request, chance, 1))
            case "quick" | "slow":
                return call("report_back", n=turn)
            case "reporter":
                return call("report_back", m=1) if turn == 1 else call("report_back", n=turn)
            case "flaky" if request.attempt == 1:
                return fail("overloaded_error", retry_after_s=0.004)
        return say(f"{request.address} says {turn}")

    def _host(self, request: ModelRequest, chance: Random) -> Step:
        if request.turn % TURNS == 0:
            owes_report = any(b'"report_back"' in bytes(spec) for spec in request.tools)
            return call("report_back", n=request.turn) if owes_report else say(f"answer {request.turn}")
        asked = chance.sample(_TASKS, chance.randint(1, 3))
        if chance.random() < 0.4:
            asked += chance.sample(_BACKGROUND, chance.randint(1, 2))
        return calls(*asked, *_acts(request, chance, chance.randint(1, 3)))


_TASKS: Final = [
    call("task", agent="worker", prompt="work"),
    call("task", agents=["quick", "slow"], prompt="race", output_schema=SCHEMA),
    call("task", agent="reporter", prompt="report", output_schema=SCHEMA),
    call("task", agent="quick", copies=2, prompt="race", output_schema=SCHEMA),
    call("task", agent="flaky", prompt="try"),
    call("task", agent="late", prompt="hurry"),
    call("task", agent="poor", prompt="spend"),
    call("task", agent="pipeline", prompt="run"),
]
_BACKGROUND: Final = [
    call("task", agent="worker", prompt="work", background=True),
    call("task", agent="reporter", prompt="report", output_schema=SCHEMA, background=True),
    call("task", agent="pipeline", prompt="run", background=True),
    call("task", agent="late", prompt="hurry", background=True),
    call("task_wait", any=True),
    call("task_wait"),
    *(call("task_cancel", task=f"host.{number}") for number in range(1, 5)),
]


def _acts(request: ModelRequest, chance: Random, count: int) -> list[Call]:
    """Draw calls of tools, each with its own label."""
    names = chance.choices(
        ["look", "peek", "put", "save", "stamp", "pay", "tune", "extra"], [2, 1, 2, 3, 1, 1, 1, 1], k=count
    )
    where = f"{request.address}/{request.turn}"
    return [call(name, label=f"{where}/{at}", ms=chance.randint(0, 5)) for at, name in enumerate(names)]
