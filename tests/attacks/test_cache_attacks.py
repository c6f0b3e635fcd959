"""Attempts to get a result given again that is stale, or another agent's."""

import asyncio
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from callboard import (
    Agent,
    Reply,
    Runtime,
    ScriptedModel,
    SharedKey,
    Tool,
    ToolContext,
    call,
    calls,
    say,
    tool,
)
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.log import MemoryLog
from callboard.permissions import Allowed, Bundle
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryReader

LOOK = call("look")


class World:
    """A value that tools read and write, and the number of reads."""

    def __init__(self) -> None:
        self.value = 0
        self.reads = 0

    def reader(self, **options: Any) -> Tool:
        @tool(effect="read", **{"cache": True, **options})
        def look() -> int:
            """Look at the world."""
            self.reads += 1
            return self.value

        return look


def asked(log: MemoryLog, *agents: Agent, session: str = "s") -> list[Event]:
    """Ask a host, verify the session, and return its events."""
    outcome = Runtime(log).run_sync(agents[0], "go", session_id=session)
    recording = Recording.open(MemoryReader(log), outcome.session_id)
    recording.verify().check()
    return list(recording.events)


def read(events: list[Event], name: str = "look") -> list[tuple[str, bool]]:
    """Return each answer of a tool, and if it was given again."""
    wanted = {one.seq for one in events if isinstance(one.body, CallTool) and one.body.tool == name}
    bodies = [one.body for one in events if one.cause in wanted]
    return [
        (bytes(one.output).decode(), bool(one.cached_from)) for one in bodies if isinstance(one, ToolReturned)
    ]


def test_a_write_that_was_given_up_and_runs_on_ends_results_until_its_thread_ends() -> None:
    world, go, done = World(), threading.Event(), threading.Event()

    @tool(effect="write", timeout_s=0.01)
    def put() -> str:
        """Change the world, late."""
        go.wait(10)
        world.value = 1
        done.set()
        return "done"

    @tool(effect="read")
    def let_it_go() -> str:
        """Wait until the world has changed."""
        go.set()
        assert done.wait(10)
        return "it went"

    steps: list[Any] = [call("put"), LOOK, LOOK, call("let_it_go"), LOOK, LOOK, LOOK, say("done")]
    host = Agent("host", tools=[world.reader(), put, let_it_go], model=ScriptedModel(steps))
    found = read(asked(MemoryLog(), host))
    assert found[:2] == [('"0"', False), ('"0"', False)], "its thread may change the world at any time"
    assert [text for text, _ in found[2:]] == ['"1"'] * 3
    assert found[-1] == ('"1"', True), "once the thread has ended, results are given again"


def test_a_write_in_the_same_reply_ends_what_its_siblings_read() -> None:
    world = World()
    is_read, is_written = asyncio.Event(), asyncio.Event()

    @tool(effect="read", cache=True)
    async def look() -> int:
        """Look, and tell it after the write."""
        seen, world.reads = world.value, world.reads + 1
        is_read.set()
        await is_written.wait()
        return seen

    @tool(effect="idempotent")
    async def put() -> str:
        """Change the world while it is read."""
        await is_read.wait()
        world.value = 1
        is_written.set()
        return "done"

    steps: list[Any] = [calls(LOOK, call("put"), LOOK), calls(LOOK), say("done")]
    found = read(asked(MemoryLog(), Agent("host", tools=[look, put], model=ScriptedModel(steps))))
    assert found[-1] == ('"1"', False)


def counter(runs: list[int]) -> Callable[[], Agent]:
    made = count(1)  # an `id` may be that of an instance that is gone

    def make() -> Agent:
        own: list[int] = []
        number = next(made)

        @tool(effect="read", cache=True)
        def look(n: int) -> str:
            """Look at this instance."""
            own.append(n)
            runs.append(n)
            return f"{len(own)} of instance {number}"

        return Agent("counter", description="Counts.", tools=[look])

    return make


def test_an_instance_of_a_factory_is_never_given_the_result_of_another() -> None:
    runs: list[int] = []

    def policy(request: Any) -> Reply:
        if request.profile == "counter":
            return calls(call("look", n=1)) if request.turn < 3 else say("done")
        if request.turn > 2:
            return say("done")
        return calls(call("task", agent="counter", prompt="go"), call("task", agent="counter", prompt="go"))

    log = MemoryLog()
    found = read(asked(log, Agent("host", agents=[counter(runs)], model=ScriptedModel(policy))))
    assert len(runs) == 4, "each of four instances looks once, and then has its own result again"
    assert len({text for text, is_again in found if not is_again}) == 4
    assert [is_again for _, is_again in found].count(True) == 4


@pytest.mark.parametrize("is_child_first", [False, True])
def test_a_child_with_fewer_rights_is_never_served_and_one_with_the_same_is(is_child_first: bool) -> None:
    def run(bundle: Bundle) -> int:
        world = World()
        look = world.reader()
        kid = Agent("kid", description="x", tools=[look], permissions=bundle)

        def policy(request: Any) -> Reply:
            if request.profile == "kid":
                return calls(LOOK) if request.turn == 1 else say("done")
            steps = [calls(LOOK), calls(call("task", agent="kid", prompt="go"))]
            return say("done") if request.turn > 2 else steps[(request.turn - 1) ^ is_child_first]

        host = Agent("host", tools=[look], agents=[kid], model=ScriptedModel(policy))
        asked(MemoryLog(), host)
        return world.reads

    assert run(Bundle()) == 1
    for narrower in (Allowed(read=("docs",)), Allowed(tools=("look",)), Allowed(secrets=())):
        assert run(Bundle(do=narrower)) == 2


def test_a_result_that_read_the_state_is_given_again_only_for_the_same_values() -> None:
    @tool(effect="read", cache=True, cache_over_writes=True)
    def look(ctx: ToolContext) -> int:
        """Look at the count."""
        return int(ctx.state["count"])

    @tool(effect="read")
    def add(ctx: ToolContext, n: int) -> str:
        """Add to the count."""
        ctx.update_state("count", n)
        return "added"

    steps: list[Any] = [LOOK, LOOK, call("add", n=1), LOOK, call("add", n=-1), LOOK, say("done")]
    host = Agent("host", tools=[look, add], state={"count": SharedKey("add")}, model=ScriptedModel(steps))
    found = read(asked(MemoryLog(), host))
    assert [text for text, _ in found] == ['"0"', '"0"', '"1"', '"0"']
    assert [is_again for _, is_again in found] == [False, True, False, False]


@pytest.mark.usefixtures("short_grace")
def test_a_write_between_whose_start_and_answer_the_process_died_ends_results() -> None:
    world, log = World(), MemoryLog()
    began = asyncio.Event()
    is_first = True

    @tool(effect="write")
    async def put() -> str:
        """Change the world, and never say so."""
        world.value = 1
        began.set()
        if is_first:
            await asyncio.sleep(60)
        return "done"

    steps: list[Any] = [LOOK, LOOK, call("put"), LOOK, say("done")]
    host = Agent("host", tools=[world.reader(), put], model=ScriptedModel(steps))

    async def main() -> None:
        nonlocal is_first
        async with Runtime(log) as runtime:
            session = await runtime.open(host, session_id="s")
            await session.submit("go")
            await began.wait()
        is_first = False
        async with Runtime(log) as runtime:
            session = await runtime.resume("s", host)
            await session.outcome

    asyncio.run(main())
    recording = Recording.open(MemoryReader(log), "s")
    recording.verify().check()
    assert read(list(recording.events)) == [('"0"', False), ('"0"', True), ('"1"', False)]
