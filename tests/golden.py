"""Golden logs: recorded sessions that every later version must replay to the byte.

    python -m tests.golden       rewrite those of the newest rules (only while they are not frozen)

One folder for each rule set: those of earlier rules are never written again. One file a session, one event a
line: `[seq, at, sender, recipient, cause, body]`, the body as it is stored.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from callboard import (
    Agent,
    Limits,
    ProgramContext,
    Runtime,
    ScriptedModel,
    ToolContext,
    call,
    calls,
    fail,
    program,
    say,
    tool,
)
from callboard.actors.protocol.client_messages import RULES
from callboard.actors.protocol.codec import decode, encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.errors import DelegationFailed
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.models.scripted import Policy, Reply, Step

FOLDER = Path(__file__).parent / "data" / "golden"
SCHEMA: dict[str, object] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


# The golden logs hold this description: another wording would change their bytes.
@tool(effect="read", description="What is there.")
async def look(path: str) -> str:
    if path == "nowhere":
        raise FileNotFoundError(path)
    return f"contents of {path}"


@tool
async def save(text: str, ctx: ToolContext) -> str:
    """Keep a text."""
    return f"saved {text}"


def _everything(request: ModelRequest) -> Step:
    """Return a step of the session with every feature: tools, a report, a race, a denial, a cap, a retry."""
    turn, who = request.turn, request.profile
    if who == "host" and turn == 1:
        return calls(
            call("task", agent="finder", prompt="count", output_schema=SCHEMA),
            call("task", agents=["quick", "slow"], prompt="race", output_schema=SCHEMA),
            call("task", agent="runaway", prompt="never stop"),
            call("task", agent="digger", prompt="dig"),
            call("task", agent="stranger", prompt="hello"),
            call("look", path="nowhere"),
            call("save", text="a note"),
            call("nonsense", x=1),
            text="I ask everybody.",
        )
    if who == "host":
        return say("Everybody has answered.")
    if who == "finder" and turn == 1:
        return calls(call("look", path="a"), call("look", path="b"))
    if who == "finder":
        return call("report_back", m=1) if turn == 2 else call("report_back", n=2)
    if who == "quick":
        return call("report_back", n=1)
    if who == "slow":
        return call("look", path="again")
    if who == "runaway":
        return call("look", path="more")
    return call("task", agent="digger", prompt="deeper") if turn == 1 else say("that deep")


def _flaky(request: ModelRequest) -> Step:
    if request.attempt == 1:
        return fail("overloaded_error", is_retryable=True, retry_after_s=0.001)
    return say("at the second attempt")


def _agents() -> Agent:
    digger = Agent("digger", description="Digs.")
    digger.may_delegate_to(digger)
    return Agent(
        "host",
        instructions="You are the host.",
        tools=[look, save],
        agents=[
            Agent("finder", description="Finds.", tools=[look]),
            Agent("quick"),
            Agent("slow", tools=[look], limits=Limits(max_iterations=50)),
            Agent("runaway", tools=[look], limits=Limits(max_iterations=3)),
            digger,
        ],
    )


def _report(request: ModelRequest) -> Step:
    return call("report_back", n=7)


def _no_report(request: ModelRequest) -> Step:
    return say("I will not")


@program(tools=[look, save], limits=Limits(tokens=1_200))
async def refused(ctx: ProgramContext, prompt: str) -> str:
    """Ask more than the budget has room for, and swallow the refusal."""
    found = [await ctx.ask_model("What is there? Say it at length."), await ctx.call(look, path="a")]
    beside = asyncio.gather(*(ctx.call(save, text=text) for text in found), return_exceptions=True)
    try:
        found.append(await ctx.ask_model("And what else?"))
    except DelegationFailed as error:
        found.append(error.kind)
    return " ".join([*found, *(type(one).__name__ for one in await beside)])


def _at_length(request: ModelRequest) -> Step:
    return Reply("much", usage=Usage(input_tokens=20, output_tokens=700))


SESSIONS: dict[str, tuple[Callable[[], Agent], Policy, dict[str, object] | None]] = {
    "everything": (_agents, _everything, None),
    "flaky": (lambda: Agent("host"), _flaky, None),
    "report": (lambda: Agent("host"), _report, SCHEMA),
    "no-report": (lambda: Agent("host"), _no_report, SCHEMA),
    "refused": (lambda: refused, _at_length, None),
}


async def record(name: str) -> list[Event]:
    """Run a golden session and return its events."""
    make, policy, schema = SESSIONS[name]
    log = MemoryLog()
    async with Runtime(log, model=ScriptedModel(policy)) as runtime:
        await runtime.run(make(), "go", output_schema=schema, session_id=name)
    return list(Recording.open(MemoryReader(log), name).events)


def written(events: Iterable[Event]) -> str:
    """Format events as the text of a golden file."""
    lines = [
        json.dumps([e.seq, e.at, e.sender, e.recipient, e.cause, encode(e.body).decode()]) for e in events
    ]
    return "\n".join(lines) + "\n"


def golden(name: str, rules: int = RULES) -> list[Event]:
    """Read the events of a golden file."""
    rows = [json.loads(line) for line in _path(name, rules).read_text().splitlines()]
    return [Event(seq, at, sender, to, cause, decode(body)) for seq, at, sender, to, cause, body in rows]


def names_of(rules: int) -> list[str]:
    """Return the names of the golden sessions of a rule set."""
    return sorted(path.stem for path in (FOLDER / f"rules-{rules}").glob("*.jsonl"))


def _path(name: str, rules: int) -> Path:
    return FOLDER / f"rules-{rules}" / f"{name}.jsonl"


def stored(events: Iterable[Event], session_id: str = "golden") -> MemoryLog:
    """Store these events in a log, with digests computed as a store does."""

    async def store() -> MemoryLog:
        log = MemoryLog()
        await log.open()
        await log.create(session_id, 0, "")
        (answer,) = await log.append([Append(session_id, 0, 1, list(events))])
        if isinstance(answer, Exception):
            raise answer
        return log

    return asyncio.run(store())


def recorded(events: Iterable[Event], session_id: str = "golden") -> Recording:
    """Open a recording of these events."""
    return Recording.open(MemoryReader(stored(events, session_id)), session_id)


def main() -> None:
    """Record every golden session again and write its file."""
    for name in SESSIONS:
        events = asyncio.run(record(name))
        path = _path(name, RULES)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written(events))
        print(name, len(events))


if __name__ == "__main__":
    main()
