"""Sessions whose programs do otherwise than recorded: they wait for their code, and lose nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from callboard import ProgramContext, Runtime, program, tool
from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.errors import Diverged, MisuseError, UnknownName
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.cli.sessions_command import ended
from callboard.replay.recording import Recording
from callboard.runtime.clock import now_ms
from callboard.runtime.control.server import carry_out
from callboard.runtime.control.wire import AnswerApproval, CancelAsk, TellAgent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.programs.program import Program
from tests.effort import effort
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("short_grace")


class World:
    """A log, and a tool that waits until it is let go."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.go = asyncio.Event()
        self.waits = asyncio.Event()
        self.paid: list[str] = []
        self.reader = MemoryReader(self.log)

        @tool(effect="idempotent")
        async def pay(item: str) -> str:
            """Pay."""
            self.paid.append(item)
            return item

        @tool(effect="read")
        async def wait() -> str:
            """Wait."""
            self.waits.set()
            await self.go.wait()
            return "late"

        self.pay, self.wait = pay, wait

    def host(self, item: str = "a") -> Program[Any]:
        """Return the host, as it pays for an item first."""

        @program(tools=[self.pay, self.wait])
        async def host(ctx: ProgramContext, prompt: str) -> str:
            await ctx.call(self.pay, item=item)
            await ctx.call(self.wait)
            return "done"

        return host

    async def left(self, **limits: Any) -> None:
        """Record a session that waits, and leave it."""
        async with Runtime(self.log) as runtime:
            session = await runtime.open(self.host(), session_id="s", limits=Limits(**limits))
            await session.submit("go")
            await self.waits.wait()
            await session.detach(0)

    def head(self) -> tuple[int, int]:
        (row,) = self.reader.sessions()
        return row.epoch, row.head

    def resumed(self) -> list[Resumed]:
        found = Recording.open(self.reader, "s")
        assert found.verify().is_ok
        return [event.body for event in found.events if isinstance(event.body, Resumed)]


def live(scene: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    def test() -> None:
        async def run() -> None:
            await scene(World())

        asyncio.run(run())

    test.__name__, test.__doc__ = scene.__name__, scene.__doc__
    return test


@live
async def test_a_wrong_program_is_refused_before_anything_is_posted_or_fenced(world: World) -> None:
    await world.left()
    before = world.head()
    async with Runtime(world.log) as runtime:
        with pytest.raises(Diverged, match=r's, host: step 1 .* Recorded: asked pay\({"item":"a"}\)'):
            await runtime.resume("s", world.host("b"))
    assert world.head() == before
    async with Runtime(world.log) as runtime:
        session = await runtime.resume("s", world.host())
        world.go.set()
        assert (await session.outcome).text == "done"
    assert world.paid == ["a"]


@live
async def test_a_sub_agent_that_differs_is_refused_too(world: World) -> None:
    def boss(item: str) -> Program[Any]:
        below = world.host(item)

        @program(agents=[below])
        async def boss(ctx: ProgramContext, prompt: str) -> str:
            return await ctx.delegate(below, "go")

        return boss

    async with Runtime(world.log) as runtime:
        session = await runtime.open(boss("a"), session_id="s")
        await session.submit("go")
        await world.waits.wait()
        await session.detach(0)
    async with Runtime(world.log) as runtime:
        with pytest.raises(Diverged, match=r"host\.1: step 1"):
            await runtime.resume("s", boss("b"))


@live
async def test_the_same_agent_object_is_not_tried_again(world: World) -> None:
    await world.left()
    tried = []

    @program(tools=[world.pay, world.wait])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        tried.append(prompt)
        return "other"

    async with Runtime(world.log) as runtime:
        for _ in range(2):
            with pytest.raises(Diverged):
                await runtime.resume("s", host)
        executed = len(tried)
        with pytest.raises(Diverged):
            await runtime.resume("s", host)
        assert len(tried) == executed == 2, "once, and once more to tell chance from change"
        await runtime.resume("s", world.host())


@live
async def test_on_diverged_crash_ends_one_session_as_crashed(world: World) -> None:
    await world.left()
    async with Runtime(world.log) as runtime:
        session = await runtime.resume("s", world.host("b"), on_diverged="crash")
        world.go.set()
        outcome = await session.outcome
    assert outcome.kind == "crashed"
    assert "step 1 is not as recorded" in outcome.detail


@live
async def test_another_word_for_on_diverged_is_refused(world: World) -> None:
    async with Runtime(world.log) as runtime:
        with pytest.raises(MisuseError, match="use one of wait, crash, hold"):
            runtime.resume("s", world.host(), on_diverged="die")  # type: ignore[arg-type]  # of a form of its own, as in a log


@live
async def test_accepted_changes_do_not_accept_a_program_that_differs(world: World) -> None:
    await world.left()
    async with Runtime(world.log, on_agents_changed="accept") as runtime:
        with pytest.raises(Diverged):
            await runtime.resume("s", world.host("b"), accept_changes=True)


@live
async def test_resume_all_tells_which_sessions_wait_for_their_code(world: World) -> None:
    await world.left()
    async with Runtime(world.log) as runtime:
        (found,) = [one async for one in runtime.resume_all([world.host("b")])]
        assert found.waits_for_code
        (found,) = [one async for one in runtime.resume_all([world.host()])]
        assert not found.waits_for_code


@live
async def test_a_check_of_all_sessions_posts_and_remembers_nothing(world: World) -> None:
    await world.left()
    before = world.head()
    async with Runtime(world.log) as runtime:
        (found,) = [one async for one in runtime.resume_all([world.host("b")], check=True)]
        assert found.waits_for_code
        assert "step 1" in str(found.error)
        (found,) = [one async for one in runtime.resume_all([world.host()], check=True)]
        assert (found.error, found.session) == (None, None)
        assert world.head() == before
        session = await runtime.resume("s", world.host())
        world.go.set()
        assert (await session.outcome).text == "done"
    assert [one.extend_ms for one in world.resumed()] == [0], "it has not waited"


@live
async def test_a_program_over_its_time_waits_for_its_code(world: World) -> None:
    await world.left()

    @program(tools=[world.pay, world.wait])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        while prompt:
            len(prompt)
        return ""

    async with Runtime(world.log, check_timeout_s=0.01) as runtime:
        with pytest.raises(Diverged, match=r"within 0.01 s \(Runtime\(check_timeout_s"):
            await runtime.resume("s", host)


@live
async def test_the_time_of_waiting_extends_deadlines_and_is_recorded(world: World) -> None:
    await world.left(deadline_s=60)
    now = now_ms()
    with pytest.MonkeyPatch.context() as patch:
        async with Runtime(world.log) as runtime:
            with pytest.raises(Diverged):
                await runtime.resume("s", world.host("b"))
            patch.setattr("callboard.runtime.sessions.live_sessions.now_ms", lambda: now + 1_000_000)
            await runtime.resume("s", world.host())
    assert 999_000 <= world.resumed()[-1].extend_ms <= 1_000_000


def lottery(world: World, numbers: list[int]) -> Program[Any]:
    """A program that depends on chance: it asks for another number in each execution."""

    @program(tools=[world.pay, world.wait])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        numbers.append(len(numbers))
        await ctx.call(world.pay, item=str(numbers[-1]))
        await ctx.call(world.wait)
        return "done"

    return host


async def diverged_at_wake(world: World, runtime: Runtime) -> tuple[Any, asyncio.Task[Any]]:
    """Run a session whose program has lost its parked run, and repeats its step in another way."""
    host = lottery(world, [])
    session = await runtime.open(host, session_id="s")
    asked = asyncio.ensure_future(session.ask("go"))
    await world.waits.wait()
    host.model.ended("s")
    world.go.set()
    with pytest.raises(Diverged):
        await asked
    assert session._detaching is not None
    await session._detaching
    return session, asked


@live
async def test_a_mismatch_found_at_wake_detaches_the_session(world: World) -> None:
    async with Runtime(world.log) as runtime:
        session, asked = await diverged_at_wake(world, runtime)
        assert "depends on chance" in str(asked.exception())
        (row,) = world.reader.sessions()
        assert row.status == "unfinished"
        assert "s" not in runtime.live_sessions
        replies = [e.body async for e in session.events() if isinstance(e.body, ModelReplied)]
        assert replies[-1].status == "detached"
        assert await runtime.outcome("s") is None


@live
async def test_a_session_that_waits_for_its_code_refuses_asks_and_words_at_once(world: World) -> None:
    async with Runtime(world.log) as runtime:
        session, _ = await diverged_at_wake(world, runtime)
        for call in (session.ask("more"), session.tell("host", "hello"), session.submit("more")):
            with pytest.raises(Diverged):
                await call


@live
async def test_a_session_that_waits_for_its_code_can_be_cancelled_and_asked_again(world: World) -> None:
    async with Runtime(world.log) as runtime:
        session, _ = await diverged_at_wake(world, runtime)
        outcome = await session.cancel("enough")
        assert outcome is not None
        assert outcome.kind == "cancelled"
        assert (await session.ask("again")).text == "done"
    assert Recording.open(world.reader, "s").verify().is_ok


@live
async def test_a_session_that_waits_for_its_code_can_be_closed(world: World) -> None:
    async with Runtime(world.log) as runtime:
        session, _ = await diverged_at_wake(world, runtime)
        await session.close()
    (row,) = world.reader.sessions()
    assert row.status == "closed"


@live
async def test_a_session_that_waits_for_its_code_can_be_deleted(world: World) -> None:
    async with Runtime(world.log) as runtime:
        await diverged_at_wake(world, runtime)
        assert await runtime.delete("s")
    assert not world.reader.sessions()


@live
async def test_a_write_under_way_is_awaited_before_the_session_detaches(world: World) -> None:
    """Cut off, its effect would be unknown for good, although nothing but the code is wrong."""
    begun, end = asyncio.Event(), asyncio.Event()
    written = []

    @tool(effect="write")
    async def write() -> str:
        """Write."""
        begun.set()
        await end.wait()
        written.append(1)
        return "written"

    numbers: list[int] = []

    @program(tools=[write, world.pay, world.wait])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        numbers.append(len(numbers))
        long = asyncio.ensure_future(ctx.call(write))
        await ctx.call(world.wait, **({} if numbers[-1] == 0 else {"n": 1}))
        return await long

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("callboard.runtime.sessions.session_life.DETACH_GRACE_S", 0)
        async with Runtime(world.log) as runtime:
            session = await runtime.open(host, session_id="s")
            asked = asyncio.ensure_future(session.ask("go"))
            await begun.wait()
            await world.waits.wait()
            host.model.ended("s")
            world.go.set()
            await until(lambda: session._diverged is not None)
            for _ in range(20):
                await asyncio.sleep(0)
            assert not asked.done()
            end.set()
            with pytest.raises(Diverged):
                await asked
    assert written == [1]
    found = Recording.open(world.reader, "s")
    assert [e.body.status for e in found.events if isinstance(e.body, ToolReturned)][-1] == "ok"


@live
async def test_a_session_that_waits_is_listed_as_such_until_it_goes_on(world: World) -> None:
    await world.left()
    async with Runtime(world.log) as runtime:
        with pytest.raises(Diverged):
            await runtime.resume("s", world.host("b"))
        (row,) = [row async for row in runtime.sessions(status="unfinished")]
        assert ended(row) == "waits for its code"
        await runtime.resume("s", world.host())
        (row,) = [row async for row in runtime.sessions(status="unfinished")]
        assert ended(row) == "unfinished"


@live
async def test_a_question_of_a_session_that_waits_cannot_be_answered(world: World) -> None:
    numbers: list[int] = []

    @tool(effect="write", approval="before")
    def buy() -> str:
        """Buy."""
        return "bought"

    @program(tools=[buy, world.pay, world.wait])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        numbers.append(1)
        bought = asyncio.ensure_future(ctx.call(buy))
        await ctx.call(world.wait, **({} if len(numbers) == 1 else {"n": 1}))
        return await bought

    async with Runtime(world.log) as runtime:
        session = await runtime.open(host, session_id="s")
        asked = asyncio.ensure_future(session.ask("go"))
        question = await anext(session.approvals())
        await world.waits.wait()
        host.model.ended("s")
        world.go.set()
        with pytest.raises(Diverged):
            await asked
        with pytest.raises(Diverged):
            await session.approve(question.seq)
        with pytest.raises(Diverged):
            question.approve()


def shop(world: World, items: list[str], stop_at: int = -1) -> Program[Any]:
    """Return a host that pays for items one by one or together, half of them below a sub-agent."""

    @program(tools=[world.pay])
    async def till(ctx: ProgramContext, prompt: str) -> str:
        return await ctx.call(world.pay, item=prompt)

    @program(tools=[world.pay, world.wait], agents=[till])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        paid: list[str] = []
        for place, item in enumerate(items):
            if place == stop_at:
                await ctx.call(world.wait)
            pay = ctx.call(world.pay, item=item)
            if place % 2:
                paid += await asyncio.gather(pay, ctx.delegate(till, f"{item} below"))
            else:
                paid.append(await pay)
        return " ".join(paid)

    return host


async def rolled_back(random: Random) -> None:
    items = [f"item {n}" for n in range(random.randint(2, 6))]
    reached = random.randrange(1, len(items))
    wrong = list(items)
    wrong[random.randrange(reached)] += random.choice(["!", " and more", ""]) or "?"
    if random.random() < 0.3:
        wrong = items[random.randint(1, reached) :]
    plain, world = World(), World()
    plain.go.set()
    async with Runtime(plain.log) as runtime:
        expected = (await runtime.run(shop(plain, items, reached), "go")).text
    async with Runtime(world.log) as runtime:
        session = await runtime.open(shop(world, items, reached), session_id="s")
        await session.submit("go")
        await world.waits.wait()
        await session.detach(0)
    before = world.head()
    async with Runtime(world.log) as runtime:
        with pytest.raises(Diverged):
            await runtime.resume("s", shop(world, wrong, reached))
    assert world.head() == before
    world.go.set()
    async with Runtime(world.log) as runtime:
        session = await runtime.resume("s", shop(world, items, reached))
        assert (await session.outcome).text == expected
    assert sorted(world.paid) == sorted(plain.paid)
    assert Recording.open(world.reader, "s").verify().is_ok


def test_a_wrong_deploy_that_is_rolled_back_changes_no_end() -> None:
    for seed in range(effort(4, 200)):
        asyncio.run(rolled_back(Random(seed)))  # asserts the same end, effects and replay


@live
async def test_right_code_goes_on_in_the_process_that_found_the_mismatch(world: World) -> None:
    async with Runtime(world.log) as runtime:
        await diverged_at_wake(world, runtime)
        session = await runtime.resume("s", world.host("0"))
        assert (await session.outcome).text == "done"
    assert world.paid == ["0"]


@live
async def test_a_session_that_was_refused_is_cancelled_by_its_id_without_its_code(world: World) -> None:
    await world.left()
    async with Runtime(world.log) as runtime:
        with pytest.raises(UnknownName):
            await runtime.cancel("s")
        with pytest.raises(Diverged):
            await runtime.resume("s", world.host("b"))
        outcome = await runtime.cancel("s", "enough")
        assert outcome is not None
        assert (outcome.kind, world.paid) == ("cancelled", ["a"])
        (row,) = world.reader.sessions()
        assert ended(row) == "cancelled, open"
        session = await runtime.resume("s", world.host("b"))
        world.go.set()
        assert (await session.ask("again")).text == "done"
    assert Recording.open(world.reader, "s").verify().is_ok


@live
async def test_a_session_on_hold_starts_nothing_and_can_be_closed(world: World) -> None:
    await world.left()
    world.waits.clear()
    async with Runtime(world.log) as runtime:
        session = await runtime.resume("s", world.host("b"), on_diverged="hold")
        assert not list(session._board.running())
        await session.close()
    assert not world.waits.is_set()
    assert world.reader.sessions()[0].status == "closed"


@live
async def test_a_fork_on_hold_starts_nothing_and_plays_on_after_its_ask_has_ended(world: World) -> None:
    await world.left()
    world.waits.clear()
    begun = next(event.seq for event in Recording.open(world.reader, "s").events if event.kind == "Begin")
    async with Runtime(world.log) as runtime:
        fork = await runtime.fork("s", world.host(), at=begun, fork_id="f", effects="live")
        await world.waits.wait()
        await fork.detach(0)
    world.waits.clear()
    async with Runtime(world.log) as runtime:
        session = await runtime.resume("f", world.host("b"), on_diverged="hold")
        playback = session._board.admits
        assert playback is not None
        assert not list(session._board.running())
        ended = await session.cancel()
        assert ended is not None
        assert ended.kind == "cancelled"
        assert session._board.admits == playback
        assert not session._board.is_held
        await session.close()
    assert not world.waits.is_set()
    assert Recording.open(world.reader, "f").verify().is_ok


@live
async def test_two_cancels_at_once_take_the_session_up_once(world: World) -> None:
    async with Runtime(world.log) as runtime:
        session, _ = await diverged_at_wake(world, runtime)
        first, second = await asyncio.gather(session.cancel(), session.cancel())
        assert first is not None
        assert second is None or second.kind == first.kind == "cancelled"
    assert len(world.resumed()) == 1


@live
async def test_commands_of_other_processes_are_refused_as_calls_here_are_but_for_a_cancel(
    world: World,
) -> None:
    await world.left()
    async with Runtime(world.log) as runtime:
        with pytest.raises(Diverged):
            await runtime.resume("s", world.host("b"))
        for command in (TellAgent("s", "host", "hello", 1), AnswerApproval("s", 3, True)):
            with pytest.raises(Diverged, match="s, host: step 1"):
                await carry_out(runtime, command)
        assert await carry_out(runtime, CancelAsk("s")) == "cancelled"
        with pytest.raises(UnknownName, match="does not run"):
            await carry_out(runtime, TellAgent("s", "host", "hello", 1))
