"""Sessions that are begun and continued with all their parts: each part does its work."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from callboard import (
    Agent,
    Budget,
    Limits,
    ProgramContext,
    Runtime,
    ScriptedModel,
    ToolContext,
    Usage,
    call,
    calls,
    program,
    say,
    tool,
)
from callboard.actors.protocol.bundles import Denied
from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.errors import Diverged, Fenced, MissingDeps, MissingFiles, SessionBusy
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import AgentsChanged, MissingBudgets, SessionEnded
from callboard.permissions import Bundle
from callboard.replay import Recording
from callboard.runtime.files.files import Files
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.memory.sqlite import SQLiteMemory
from callboard.runtime.models.scripted import Step
from tests.waiting import until

HOST = Agent("host")


def answers(request: ModelRequest) -> Step:
    return say("hi")


async def never(request: ModelRequest) -> Step:
    await asyncio.Event().wait()
    return say("never")


def resumed_in(log: MemoryLog) -> list[Resumed]:
    found = Recording.open(MemoryReader(log), "s")
    found.verify().check()
    return [event.body for event in found.events if isinstance(event.body, Resumed)]


async def left(log: MemoryLog, host: Agent = HOST, **more: Any) -> None:
    """Leave session `s`, idle."""
    async with Runtime(log, model=ScriptedModel(answers)) as runtime:
        session = await runtime.open(host, session_id="s", **more)
        await session.ask("go")
        await session.detach(0)


async def left_asking(log: MemoryLog, host: Agent = HOST, deps: object = None) -> None:
    """Leave session `s` while its model is asked."""
    asked = asyncio.Event()

    async def waits(request: ModelRequest) -> Step:
        asked.set()
        await asyncio.Event().wait()
        return say("never")

    async with Runtime(log, model=ScriptedModel(waits)) as runtime:
        session = await runtime.open(host, session_id="s")
        await session.submit("go", deps=deps)
        await asked.wait()
        await session.detach(0)


def test_a_session_without_an_id_gets_one_and_the_log_knows_its_title_and_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.runtime.sessions.starting.now_ms", lambda: 1_234)

    async def main() -> None:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(answers)) as runtime:
            names = {(await runtime.open(HOST, title="A title")).id for _ in range(2)}
            assert len(names - {""}) == 2
            rows = await log.sessions()
            assert {(row.title, row.created_ms) for row in rows} == {("A title", 1_234)}

    asyncio.run(main())


def test_every_part_of_a_session_works(tmp_path: Path) -> None:
    """One ask with files, memory, progress, a context, an approval, a report and a kept request."""

    @tool(approval="before")
    async def work(ctx: ToolContext) -> str:
        """Work."""
        ctx.progress("half way")
        assert ctx.memory is not None
        return f"{ctx.files.root.name}"

    def policy(request: ModelRequest) -> Step:
        if request.profile == "kid":
            return say(str(request.conversation[0]["content"]))
        if request.turn == 1:
            return calls(call("work"), call("task", agent="kid", prompt="p"))
        said = str(request.conversation[-1]["content"])
        assert request.turn > 2 or "known" in said
        return call("report_back", n="three") if request.turn == 2 else call("report_back", n=3)

    asked: list[object] = []

    async def approve(question: Any) -> bool:
        asked.append(question.tool)
        return True

    async def main() -> None:
        log = MemoryLog()
        host = Agent("host", tools=[work], agents=[Agent("kid", context=lambda view: "known")])
        settings: dict[str, Any] = {"approve": approve, "keep_requests": True}
        async with Runtime(log, model=ScriptedModel(policy), **settings) as runtime:
            memory = SQLiteMemory(tmp_path / "m.db")
            session = await runtime.open(host, session_id="s", files=Files(tmp_path), memory=memory)
            seen: list[str] = []

            async def watch() -> None:
                seen.extend([one.text async for one in session.progress()])

            watching = asyncio.create_task(watch())
            await asyncio.sleep(0)
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
            outcome = await session.ask("go", output_schema=schema)
            assert outcome.structured_output == {"n": 3}, outcome.detail
            await session.close()
            await watching
            assert seen == ["half way"]
        assert asked == ["work"]

    asyncio.run(main())


def test_a_session_has_a_clock() -> None:
    async def main() -> None:
        async with Runtime(":memory:", model=ScriptedModel(never)) as runtime:
            session = await runtime.open(HOST)
            assert (await session.ask("go", limits=Limits(deadline_s=0.001))).kind == "deadline"

    asyncio.run(main())


# --- one that is opened again ---------------------------------------------------------


def test_an_open_that_may_resume_takes_the_new_limits_and_rights_and_no_other_agents() -> None:
    async def main() -> None:
        log = MemoryLog()
        await left_asking(log)
        other = Agent("host", instructions="Other words.")
        bundle = Bundle(deny=Denied(tools=("a",)))
        async with Runtime(log, model=ScriptedModel(answers)) as runtime:
            with pytest.raises(AgentsChanged):
                await runtime.open(other, session_id="s", resume=True)
            session = await runtime.open(
                HOST, session_id="s", resume=True, limits=Limits(max_iterations=7), permissions=bundle
            )
            assert (await session.outcome).text == "hi"
            await session.close()
        (found,) = resumed_in(log)
        assert found.limits is not None
        assert found.limits.max_iterations == 7
        assert found.permissions

    asyncio.run(main())


def test_an_open_that_may_resume_takes_the_new_files_and_memory(tmp_path: Path) -> None:
    async def main() -> None:
        log, files, memory = MemoryLog(), Files(tmp_path), SQLiteMemory(tmp_path / "m.db")
        await left(log)
        async with Runtime(log, model=ScriptedModel(answers)) as runtime:
            session = await runtime.open(HOST, session_id="s", resume=True, files=files, memory=memory)
            deps = session._parts.board.deps
            assert (deps.files, deps.memory) == (files, memory)
            await session.close()

    asyncio.run(main())


def test_an_open_that_finds_the_live_session_keeps_it_open() -> None:
    async def main() -> None:
        model = ScriptedModel(answers)
        async with Runtime(MemoryLog(), model=model, cancel_delay_s=0.01) as runtime:
            with pytest.raises(ValueError, match="mine"):
                async with runtime.open(HOST, session_id="s") as session:
                    raise ValueError("mine")
            assert await runtime.open(HOST, session_id="s", resume=True) is session
            await asyncio.sleep(0.03)
            assert (await session.ask("go")).text == "hi"

    asyncio.run(main())


# --- resumes --------------------------------------------------------------------------


def test_a_resume_records_limits_extension_and_agents_only_where_they_are_given() -> None:
    async def main() -> None:
        log = MemoryLog()
        await left_asking(log)
        other = Agent("host", instructions="Other words.")
        model = ScriptedModel(answers)
        async with Runtime(log, model=ScriptedModel(never), limits=Limits(deadline_s=50)) as runtime:
            await (await runtime.resume("s", HOST)).detach(0)
            await (await runtime.resume("s", HOST, limits=Limits(tokens=9_000), extend=2.5)).detach(0)
        async with Runtime(log, model=model, on_agents_changed="next_ask") as runtime:
            session = await runtime.resume("s", other)
            assert (await session.outcome).text == "hi"
            await session.close()
        plain, wider, changed = resumed_in(log)
        assert (plain.limits, plain.extend_ms, plain.profiles) == (None, 0, ())
        assert wider.limits is not None
        assert (wider.limits.tokens, wider.extend_ms) == (9_000, 2_500)
        assert (changed.from_next_ask, len(changed.profiles)) == (True, 1)

    asyncio.run(main())


def test_an_ask_with_deps_goes_on_with_those_of_the_resume_or_the_runtime() -> None:
    async def main() -> None:
        log = MemoryLog()
        await left_asking(log, deps=object())
        async with Runtime(log, model=ScriptedModel(never)) as runtime:
            with pytest.raises(MissingDeps):
                await runtime.resume("s", HOST)
            await (await runtime.resume("s", HOST, deps=1)).detach(0)
        async with Runtime(log, model=ScriptedModel(answers), deps=2) as runtime:
            session = await runtime.resume("s", HOST)
            await session.outcome
            await session.close()

    asyncio.run(main())


def test_a_live_session_can_be_taken_from_its_owner_without_its_end() -> None:
    async def main() -> None:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(answers)) as runtime:
            await runtime.open(HOST, session_id="s")
            session = await runtime.resume("s", HOST, steal=True)
            assert (await session.ask("go")).text == "hi"
            await session.close()
            with pytest.raises(SessionEnded):
                await runtime._started().check("s", HOST)

    asyncio.run(main())


def test_a_program_that_does_otherwise_is_refused() -> None:
    waits = asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        waits.set()
        await asyncio.Event().wait()
        return "never"

    def host(answer: str) -> Agent:
        @program(tools=[wait])
        async def host(ctx: ProgramContext, prompt: str) -> str:
            return await ctx.call(wait) if answer == "waits" else answer

        return host

    async def main() -> None:
        log = MemoryLog()
        async with Runtime(log) as runtime:
            session = await runtime.open(host("waits"), session_id="s")
            await session.submit("go")
            await waits.wait()
            await session.detach(0)
        async with Runtime(log) as runtime:
            with pytest.raises(Diverged, match="host: step 1"):
                await runtime.resume("s", host("ends"))
            with pytest.raises(Diverged, match="host: step 1"):
                await runtime._started().check("s", host("ends"))

    asyncio.run(main())


# --- sleep ----------------------------------------------------------------------------


def test_a_resumed_session_with_files_wakes_with_them_and_not_after_another_has_gone_on(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        log, files = MemoryLog(), Files(tmp_path)
        await left(log, files=files)
        async with (
            Runtime(log, model=ScriptedModel(answers), idle_s=0.01) as runtime,
            Runtime(log, model=ScriptedModel(answers)) as other,
        ):
            with pytest.raises(MissingFiles):
                await runtime.resume("s", HOST)
            session = await runtime.resume("s", HOST, files=files)
            await until(lambda: session.activity == "asleep")
            assert (await session.ask("go")).text == "hi"
            await until(lambda: session.activity == "asleep")
            elsewhere = await other.resume("s", HOST, files=files)
            await elsewhere.ask("go")
            with pytest.raises(SessionBusy):
                await session.ask("go")
            await elsewhere.detach(0)
            with pytest.raises(Fenced):
                await session.ask("go")

    asyncio.run(main())


# --- forks ----------------------------------------------------------------------------


def test_a_fork_asks_about_its_effects_where_the_approvals_are_also_after_a_resume() -> None:
    @tool
    def send(to: str) -> str:
        """Send."""
        return f"sent to {to}"

    def policy(request: ModelRequest) -> Step:
        said = str(request.conversation[-1]["content"])
        return call("send", to="b" if "other" in said else "a") if request.turn <= 2 else say("done")

    async def main() -> None:
        log, host = MemoryLog(), Agent("host", tools=[send])
        async with Runtime(log, model=ScriptedModel(policy)) as runtime, asyncio.timeout(20):
            await runtime.run(host, "go", session_id="s")
            changes: Any = {("host", 1, 0): "other"}
            fork = await runtime.fork("s", host, changes=changes, effects="ask", fork_id="f")
            question = await anext(fork.approvals())
            assert [one.seq for one in fork.open_approvals] == [question.seq]
            await fork.detach(0)
            fork = await runtime.resume("f", host)
            assert (await anext(fork.approvals())).seq == question.seq
            await fork.approve(question.seq)
            assert (await fork.outcome).text == "done"
            await fork.close()
        Recording.open(MemoryReader(log), "f").verify().check()

    asyncio.run(main())


# --- budgets above sessions -------------------------------------------------------------

BUDGETS = {"t:*": Budget(tokens=360)}


def bounded(log: MemoryLog, **more: Any) -> Runtime:
    """Build a runtime whose calls use 100 tokens each. The first needs 135, the others some 230."""
    model = ScriptedModel(answers, max_tokens=100, usage=Usage(output_tokens=100))
    return Runtime(log, model=model, **more)


def test_a_session_is_bound_by_its_budgets_from_its_start_through_sleep_and_resume() -> None:
    async def main() -> None:
        log = MemoryLog()
        async with bounded(log, budgets=BUDGETS) as runtime:
            session = await runtime.open(HOST, session_id="s", tags=["t:a"])
            assert (await session.ask("one")).is_ok
            session._sleep_if_idle()
            await session._settled()
            assert session._is_asleep
            assert (await session.ask("two")).is_ok
            assert session._bound.keys is not None
            assert session._bound.keys.epoch == 2
            await session.detach(0)
        async with bounded(log, budgets=BUDGETS) as runtime:
            session = await runtime.resume("s", HOST)
            assert (await session.ask("three")).kind == "budget"
            await session.detach(0)
        async with bounded(log, budgets=BUDGETS) as runtime:
            assert runtime._starter is not None
            load, loaded = runtime._starter.budgets.load, list[Sequence[str]]()

            async def noted(scopes: Sequence[str]) -> None:
                loaded.append(scopes)
                assert [row.session_id for row in await log.sessions()] == ["s"]
                await load(scopes)

            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(type(runtime._starter.budgets), "load", lambda _, scopes: noted(scopes))
                late = await runtime.run(HOST, "a long text " * 30, tags=["t:a"])
            assert late.kind == "budget"
            assert loaded == [("t:*=t:a",)], "the amount spent, before the session is made"
        assert [one.scopes for one in resumed_in(log)] == [None, None]
        spending = await log.spending.read()
        assert [(one.scope, one.amount.tokens) for one in spending.spent] == [("t:*=t:a", 200)]

    asyncio.run(main())


def test_a_session_goes_on_under_other_budgets_only_if_changes_are_accepted() -> None:
    async def main() -> None:
        log = MemoryLog()
        async with bounded(log, budgets=BUDGETS) as runtime:
            await (await runtime.open(HOST, session_id="s", tags=["t:a"])).detach(0)
        async with bounded(log, budgets={"*": Budget(tokens=300)}) as runtime:
            with pytest.raises(MissingBudgets, match=r"session s was begun under the budgets 't:\*'"):
                await runtime.resume("s", HOST)
            session = await runtime.resume("s", HOST, accept_changes=True)
            assert [(await session.ask(words)).kind for words in ("one", "two")] == ["answered", "budget"]
            await session.detach(0)
        assert [one.scopes for one in resumed_in(log)] == [("*",)]

    asyncio.run(main())
