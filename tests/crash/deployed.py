"""A drawn program, with sequences, gathers, timeouts and sub-agents, and wrong versions of its code.

A plan is drawn once; a `Fault` changes what one of its parts asks. Each ask has a label that no other has, so
a fault in a part that was begun can be seen by a process that executes the program again.
"""

import asyncio
from collections.abc import Callable, Iterable
from random import Random, SystemRandom
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from callboard import ProgramContext, ToolContext, program, tool
from callboard.errors import Interrupted
from callboard.runtime.programs.program import Program
from callboard.runtime.tools.tool import Tool

FAULTS: Final = ("argument", "less", "more", "raise", "exit", "end", "block", "chance")
"""The faults of a wrong version in one part: another argument, one ask less or more, an error, an exit, an
early end, no end at all, and an ask that depends on chance."""

Kind: TypeAlias = Literal["call", "gather", "timeout", "late", "sleep", "delegate"]


class Part(msgspec.Struct, frozen=True):
    """A part of a program. tools: of its calls. below: the index of the sub-agent to delegate to."""

    kind: Kind
    tools: tuple[str, ...] = ()
    below: int = 0


class Plan(msgspec.Struct, frozen=True):
    """The parts of the host and of each sub-agent."""

    host: tuple[Part, ...]
    below: tuple[tuple[Part, ...], ...]

    def parts_of(self, name: str) -> tuple[Part, ...]:
        """Return the parts of a program by its name."""
        return self.host if name == "host" else self.below[int(name.removeprefix("sub"))]


class Fault(msgspec.Struct, frozen=True):
    """A fault of a wrong version: in which part of which program. kind: one of FAULTS."""

    program: str
    part: int
    kind: str


def drawn(chance: Random) -> Plan:
    """Draw a plan."""
    below = tuple(_parts(chance, chance.randint(1, 3), 0) for _ in range(chance.randint(1, 2)))
    return Plan(_parts(chance, chance.randint(2, 6), len(below)), below)


def _parts(chance: Random, count: int, below: int) -> tuple[Part, ...]:
    kinds: list[Kind] = ["call", "call", "gather", "timeout", "late", "sleep"]
    kinds += ["delegate", "delegate"] if below else []
    found = [_part(chance, chance.choice(kinds), below) for _ in range(count)]
    # Something that can be seen is asked first, so that a death may come behind it.
    return (Part("call", (chance.choice(TOOLS),)), *found)


def _part(chance: Random, kind: Kind, below: int) -> Part:
    count = chance.randint(2, 4) if kind == "gather" else 1
    return Part(kind, tuple(chance.choice(TOOLS) for _ in range(count)), chance.randrange(below or 1))


TOOLS: Final = ("write", "put", "read")


class Hooks(NamedTuple):
    """What a process does at its points. act: writes an effect down. passes: counts a point."""

    act: Callable[[str, str, str], None]
    passes: Callable[[], None]


def tools_of(hooks: Hooks) -> list[Tool]:
    """Create the tools."""

    def acting(kind: str) -> Callable[[str, ToolContext], str]:
        def act(label: str, ctx: ToolContext) -> str:
            hooks.passes()
            hooks.act(kind, label, ctx.idempotency_key)
            hooks.passes()
            return label

        return act

    @tool(effect="write")
    async def write(label: str, ctx: ToolContext) -> str:
        """Write."""
        return acting("write")(label, ctx)

    @tool(effect="idempotent")
    async def put(label: str, ctx: ToolContext) -> str:
        """Put."""
        return acting("put")(label, ctx)

    @tool(effect="read")
    async def read(label: str) -> str:
        """Read."""
        hooks.passes()
        return label

    @tool(effect="read")
    async def late(label: str) -> str:
        """Answer later than anybody waits."""
        hooks.passes()
        await asyncio.sleep(3_600)
        return label

    return [write, put, read, late]


def host_of(plan: Plan, hooks: Hooks, fault: Fault | None = None) -> Program[str]:
    """Create the host of a plan. fault: of a wrong version, None for the right one."""
    tools = tools_of(hooks)
    below = [_program(f"sub{place}", plan, tools, [], fault) for place in range(len(plan.below))]
    return _program("host", plan, tools, below, fault)


def _program(
    name: str, plan: Plan, tools: list[Tool], below: list[Program[str]], fault: Fault | None
) -> Program[str]:
    @program(name=name, description="Works.", tools=tools, agents=list(below))
    async def run(ctx: ProgramContext, prompt: str) -> str:
        found: list[str] = []
        for place, part in enumerate(plan.parts_of(name)):
            wrong = fault.kind if fault and (fault.program, fault.part) == (name, place) else ""
            if wrong in _ACTS:
                _ACTS[wrong]()
            if wrong == "end":
                break
            label = f"{prompt}/{name}.{place}"
            found += await _done(ctx, part, label, wrong, below)
        return " ".join(found)

    return run


def _raise() -> None:
    raise ValueError("a wrong version")


def _exit() -> None:
    raise SystemExit(3)


def _block() -> None:
    while True:
        len("")


_ACTS: Final[dict[str, Callable[[], None]]] = {"raise": _raise, "exit": _exit, "block": _block}


async def _done(
    ctx: ProgramContext, part: Part, label: str, wrong: str, below: list[Program[str]]
) -> Iterable[str]:
    """Do a part, and return its words."""
    if wrong == "less":
        return []
    if wrong == "argument":
        label += " changed"
    if wrong == "chance":
        label += f" {SystemRandom().random()}"
    more = [_known(ctx, "read", f"{label} more")] if wrong == "more" else []
    match part.kind:
        case "sleep":
            # With an ask of its own: a sleep may be changed, and waits for the new time.
            return await asyncio.gather(_slept(ctx, label), *more)
        case "delegate":
            return await asyncio.gather(ctx.delegate(below[part.below], label), *more)
        case "late":
            return await asyncio.gather(_in_time(ctx, label, "late", 0.02), *more)
        case "timeout":
            return await asyncio.gather(_in_time(ctx, label, part.tools[0], 600), *more)
        case _:
            calls = (_known(ctx, one, f"{label}.{n}") for n, one in enumerate(part.tools))
            return await asyncio.gather(*calls, *more)


async def _slept(ctx: ProgramContext, label: str) -> str:
    said = await _known(ctx, "read", label)
    await ctx.sleep(0.005)
    return said


async def _in_time(ctx: ProgramContext, label: str, name: str, limit_s: float) -> str:
    try:
        async with asyncio.timeout(limit_s):
            return await _known(ctx, name, label)
    except TimeoutError:
        return f"{label} late"


async def _known(ctx: ProgramContext, name: str, label: str) -> str:
    try:
        return str(await ctx.call(name, label=label))
    except Interrupted:
        return f"{label} ?"
