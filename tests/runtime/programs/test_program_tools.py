"""Programs whose tools change, or share state."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from callboard import Agent, ProgramContext, Runtime, ScriptedModel, SharedKey, ToolContext, program, tool
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.log import MemoryLog
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.tree import Tree


@tool(effect="read")
async def note(text: str, ctx: ToolContext) -> str:
    """Note a finding."""
    ctx.update_state("findings", text)
    return text


@tool(effect="read")
def search(words: str) -> str:
    """Search the archive."""
    return f"found {words}"


@tool(effect="read")
async def open_archive(ctx: ToolContext) -> str:
    """Open the archive, which can be searched then."""
    ctx.set_tools(["search"])
    return "open"


def test_the_tools_of_a_program_share_the_state_that_it_declares() -> None:
    @program(tools=[note], state={"findings": SharedKey("append")})
    async def host(ctx: ProgramContext, prompt: str) -> list[str]:
        return await asyncio.gather(*(ctx.call(note, text=text) for text in ("a", "b", "c")))

    log = MemoryLog()
    outcome = Runtime(log).run_sync(host, "go")
    assert (outcome.kind, outcome.text) == ("answered", '["a","b","c"]')
    recording = Recording.open(MemoryReader(log), outcome.session_id)
    state = recording.shared_state().values()
    assert state["findings"] == ["a", "b", "c"]
    assert recording.verify().is_ok


def test_a_program_calls_a_later_tool_once_a_tool_has_given_it() -> None:
    @program(tools=[open_archive], later_tools=[search])
    async def host(ctx: ProgramContext, prompt: str) -> list[str]:
        return [await ctx.call(open_archive), await ctx.call(search, words="whales")]

    assert Runtime(MemoryLog()).run_sync(host, "go").text == '["open","found whales"]'


def test_a_later_tool_that_was_not_given_is_an_error_of_the_call() -> None:
    @program(tools=[open_archive], later_tools=[search])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        return await ctx.call(search, words="whales")

    outcome = Runtime(MemoryLog()).run_sync(host, "go")
    assert outcome.kind == "crashed"
    assert "There is no tool named 'search'" in outcome.detail


@pytest.mark.parametrize("wrong", ["worker", 5, None])
def test_what_is_no_agent_is_named_whole(wrong: object) -> None:
    worker = Agent("worker", description="Works.")

    @program(agents=[worker])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        return await ctx.delegate(wrong, prompt)  # type: ignore[call-overload, no-any-return]  # on purpose

    runtime = Runtime(MemoryLog(), model=ScriptedModel([]))
    assert f"may not delegate to {wrong!r}" in runtime.run_sync(host, "go").detail


def test_a_program_reads_the_shared_state_as_its_step_saw_it() -> None:
    @program(tools=[note], state={"findings": SharedKey("append")})
    async def host(ctx: ProgramContext, prompt: str) -> list[object]:
        seen: list[object] = [ctx.state["findings"]]
        for text in "ab":
            await ctx.call(note, text=text)
            seen.append(ctx.state["findings"])
        return seen

    log = MemoryLog()
    outcome = Runtime(log).run_sync(host, "go")
    assert outcome.text == '[[],["a"],["a","b"]]'
    heads = [
        msgspec.json.decode(event.body.content)[0]["state"]
        for event in Recording.open(MemoryReader(log), outcome.session_id).events
        if isinstance(event.body, ModelReplied)
    ]
    assert heads == [{"findings": []}, {"findings": ["a"]}, {"findings": ["a", "b"]}]


@pytest.mark.usefixtures("short_grace")
def test_a_program_that_is_executed_again_reads_what_it_read(tmp_path: Path) -> None:
    stop = asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        await stop.wait()
        return "gone on"

    @program(tools=[note, wait], state={"findings": SharedKey("append")})
    async def host(ctx: ProgramContext, prompt: str) -> list[object]:
        before = ctx.state["findings"]
        await ctx.call(note, text="a")
        await ctx.call(wait)
        return [before, ctx.state["findings"]]

    async def scene() -> None:
        async with Runtime(tmp_path / "log.db") as runtime:
            session = await runtime.open(host, session_id="s")
            await session.submit("go")
            while session.state["findings"] != ["a"]:  # noqa: ASYNC110  # nothing tells of it
                await asyncio.sleep(0.001)
        stop.set()
        async with Runtime(tmp_path / "log.db") as runtime:
            outcome = await (await runtime.resume("s", host)).outcome
            assert outcome.text == '[[],["a"]]'

    asyncio.run(scene())


def test_a_key_that_is_not_declared_is_named(tmp_path: Path) -> None:
    @program()
    async def host(ctx: ProgramContext, prompt: str) -> str:
        return str(ctx.state["findings"])

    outcome = Runtime(MemoryLog()).run_sync(host, "go")
    assert outcome.kind == "crashed"
    assert "declares no state key 'findings'" in outcome.detail


def test_the_steps_of_a_program_are_no_model_calls_in_the_tree() -> None:
    worker = Agent("worker", description="Works.")

    @program(agents=[worker])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        return await ctx.delegate(worker, prompt)

    log, tree = MemoryLog(), Tree()
    outcome = Runtime(log, model=ScriptedModel(lambda request: "done")).run_sync(host, "go")
    for event in Recording.open(MemoryReader(log), outcome.session_id).events:
        tree.add(event)
    assert tree.usage_of("host").calls == outcome.usage.calls == 1
