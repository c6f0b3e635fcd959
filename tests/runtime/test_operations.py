"""The operations of a service on a live runtime: list, resume, delete, prune, vacuum, stats."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from callboard import Agent, ProgramContext, Runtime, ScriptedModel, call, program, say, tool
from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.errors import (
    AgentsChanged,
    InvalidAgent,
    InvalidPrompt,
    MissingType,
    MisuseError,
    UnknownName,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import SessionBusy, SessionExists, SessionNotFound
from callboard.log import MemoryLog, SessionRow
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.protocol import Append, EventLog
from callboard.runtime.models.scripted import Step

HOST = Agent("host")


@dataclass
class Paid:
    euros: int


def run(body: Callable[[Runtime], Awaitable[None]], log: "EventLog | Path | None" = None) -> None:
    async def inside() -> None:
        async with Runtime(log or MemoryLog(), model=ScriptedModel(lambda _: say("hi"))) as runtime:
            await body(runtime)

    asyncio.run(inside())


async def names(runtime: Runtime, **query: object) -> list[str]:
    return [row.session_id async for row in runtime.sessions(**query)]  # type: ignore[arg-type]  # any of them


# --- lists ------------------------------------------------------------------------


def test_sessions_are_listed_by_status_and_tag_with_their_metadata() -> None:
    async def body(runtime: Runtime) -> None:
        await runtime.run(HOST, "one", session_id="closed", tags=["user:1", "paid"], metadata={"n": [1]})
        session = await runtime.open(HOST, session_id="open", tags=["user:1"])
        await session.ask("two")
        await runtime.open(HOST, session_id="new")
        await asyncio.sleep(0.01)
        assert set(await names(runtime)) == {"closed", "open", "new"}
        assert set(await names(runtime, tag="user:1")) == {"closed", "open"}
        assert set(await names(runtime, status="open")) == {"open", "new"}
        assert await names(runtime, status="closed", tag="paid") == ["closed"]
        (row,) = [row async for row in runtime.sessions(status="closed")]
        assert (row.kind, row.host, row.title) == ("answered", "host", "one")
        assert (row.tags, row.metadata) == (("user:1", "paid"), {"n": [1]})
        assert row.created_ms <= row.last_ms
        assert await names(runtime, since=timedelta(hours=1), limit=2) == (await names(runtime))[:2]
        assert await names(runtime, since=datetime.now(UTC) + timedelta(hours=1)) == []

    run(body)


def test_tags_and_metadata_are_in_the_log_and_shown_to_no_model() -> None:
    seen: list[bytes] = []

    def policy(request: ModelRequest) -> Step:
        seen.append(bytes(request.body()))
        return say("hi")

    async def scene() -> SessionOpened:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            await runtime.run(HOST, "one", session_id="s", tags=["a tag"], metadata={"who": "Ann"})
        recording = Recording.open(MemoryReader(log), "s")
        recording.verify().check()
        opened = next(iter(recording.events)).body
        assert isinstance(opened, SessionOpened)
        return opened

    opened = asyncio.run(scene())
    assert (opened.tags, bytes(opened.metadata)) == (("a tag",), b'{"who":"Ann"}')
    assert not any(b"a tag" in one or b"Ann" in one for one in seen)


def test_a_session_with_a_bad_tag_is_not_opened() -> None:
    async def body(runtime: Runtime) -> None:
        for wrong in ({"tags": ["a\x1b"]}, {"metadata": {"x": object()}}, {"tags": "user:1"}):
            with pytest.raises((MisuseError, InvalidPrompt)):
                await runtime.run(HOST, "one", **wrong)
        assert await names(runtime) == []
        for query in ({"tag": "a\x1b"}, {"status": "done"}, {"limit": -1}, {"after": "x"}, {"since": 5}):
            with pytest.raises(MisuseError):
                await names(runtime, **query)

    run(body)


def test_pages_go_on_at_the_cursor_while_sessions_are_deleted() -> None:
    async def body(runtime: Runtime) -> None:
        for at in range(7):
            await runtime.run(HOST, "go", session_id=f"s{at}")
        found, after = [], ""
        while page := [row async for row in runtime.sessions(limit=2, after=after)]:
            found += [row.session_id for row in page]
            after = page[-1].cursor
            await runtime.delete(page[-1].session_id)
        assert sorted(found) == [f"s{at}" for at in range(7)]
        assert len(await names(runtime)) == 3

    run(body)


# --- resume all -------------------------------------------------------------------


async def left_unfinished(count: int) -> MemoryLog:
    """Make a log whose process died in the middle of the asks of these sessions."""

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    log, left = MemoryLog(), MemoryLog()
    model = ScriptedModel(lambda request: call("look") if request.turn == 1 else say("done"))
    async with Runtime(log, model=model) as runtime:
        for at in range(count):
            host = Agent(f"host{at % 2}", tools=[look])
            await runtime.run(host, "go", session_id=f"s{at}", tags=[f"t{at}"])
    await left.open()
    for at in range(count):
        events = list(Recording.open(MemoryReader(log), f"s{at}").events)
        await left.create(f"s{at}", at, "")
        await left.append([Append(f"s{at}", 0, 1, events[: len(events) // 2])])
    await left.close()
    LOOK.append(look)
    return left


LOOK: list[object] = []


def test_every_unfinished_session_is_resumed_and_each_failure_is_reported() -> None:
    async def scene() -> None:
        log = await left_unfinished(20)
        look = LOOK[-1]
        hosts = [Agent("host0", tools=[look]), Agent("host1", instructions="changed", tools=[look])]  # type: ignore[list-item]  # a tool of any type
        model = ScriptedModel(lambda request: call("look") if request.turn == 1 else say("done"))
        async with Runtime(log, model=model) as runtime:
            await runtime.run(hosts[0], "go", session_id="new")
            found = [one async for one in runtime.resume_all(hosts)]
            assert len(found) == 20
            resumed = {one.row.session_id: one.session for one in found if one.session}
            refused = {one.row.session_id: one.error for one in found if one.error}
            assert {int(name[1:]) % 2 for name in resumed} == {0}
            assert {type(error) for error in refused.values()} == {AgentsChanged}
            assert len(refused) == 10
            texts = [(await session.outcome).text for session in resumed.values()]
            assert texts == ["done"] * 10
            assert [one async for one in runtime.resume_all([hosts[0]]) if one.session] == []
            assert await names(runtime, status="unfinished", tag="t1") == ["s1"]

    asyncio.run(scene())


def test_a_check_tells_what_a_resume_would_refuse_and_resumes_none() -> None:
    async def scene() -> None:
        log = await left_unfinished(4)
        look = LOOK[-1]
        hosts = [Agent("host0", tools=[look]), Agent("host1", instructions="changed", tools=[look])]  # type: ignore[list-item]  # a tool of any type
        async with Runtime(log, model=ScriptedModel(lambda _: say("done"))) as runtime:
            before = [(row.session_id, row.epoch, row.head) for row in await log.sessions()]
            found = {one.row.session_id: one async for one in runtime.resume_all(hosts, check=True)}
            assert {name: type(one.error) for name, one in found.items()} == {
                "s0": type(None),
                "s1": AgentsChanged,
                "s2": type(None),
                "s3": AgentsChanged,
            }
            assert not any(one.session for one in found.values())
            assert not runtime.live_sessions
            assert [(row.session_id, row.epoch, row.head) for row in await log.sessions()] == before
            resumed = [one async for one in runtime.resume_all(hosts[:1]) if one.session]
            assert len(resumed) == 2

    asyncio.run(scene())


@pytest.mark.parametrize("is_file", [False, True])
def test_a_fork_that_was_left_in_the_middle_of_an_ask_is_unfinished_too(
    is_file: bool, tmp_path: Path
) -> None:
    log: MemoryLog | str = str(tmp_path / "log.db") if is_file else MemoryLog()
    waits, go = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        waits.set()
        await go.wait()
        return "late"

    @program(tools=[wait])
    async def patient(ctx: ProgramContext, prompt: str) -> str:
        return await ctx.call(wait)

    async def scene() -> None:
        async with Runtime(log) as runtime:
            session = await runtime.open(patient, session_id="origin")
            await session.submit("go")
            await waits.wait()
            head = await session.detach(0)
            waits.clear()
            fork = await runtime.fork("origin", patient, fork_id="fork", at=head.seq)
            await waits.wait()
            await fork.detach(0)
        async with Runtime(log) as runtime:
            assert await names(runtime, status="unfinished") == ["fork", "origin"]
            checked = [found async for found in runtime.resume_all([patient], check=True)]
            assert {one.row.session_id: one.error for one in checked} == {"fork": None, "origin": None}
            go.set()
            async for found in runtime.resume_all([patient]):
                assert found.session is not None
                assert (await found.session.outcome).text == "late"
                await found.session.close()

    asyncio.run(scene())


def test_a_fork_behind_an_ask_that_has_ended_is_open() -> None:
    async def scene(runtime: Runtime) -> None:
        session = await runtime.open(HOST, session_id="origin")
        await session.ask("go")
        fork = await runtime.fork("origin", HOST, fork_id="fork")
        rows = {row.session_id: row async for row in runtime.sessions()}
        assert (rows["fork"].status, rows["fork"].host) == ("open", "host")
        await fork.close()

    run(scene)


def test_a_function_may_choose_the_host_of_each_session() -> None:
    async def scene() -> None:
        log = await left_unfinished(4)
        look = LOOK[-1]
        seen: list[SessionRow] = []

        def host_of(row: SessionRow) -> Agent | None:
            seen.append(row)
            if row.session_id == "s3":
                raise RuntimeError("no idea")
            return None if row.session_id == "s2" else Agent(row.host, tools=[look])  # type: ignore[list-item]  # a tool of any type

        async with Runtime(log, model=ScriptedModel(lambda _: say("done"))) as runtime:
            found = {one.row.session_id: one async for one in runtime.resume_all(host_of)}
            assert {name: type(one.error).__name__ for name, one in found.items() if one.error} == {
                "s2": "UnknownName",
                "s3": "RuntimeError",
            }
            assert isinstance(found["s2"].error, UnknownName)
            assert found["s0"].session is not None
            assert seen[0].tags

    asyncio.run(scene())


def test_hosts_that_are_no_agents_are_refused() -> None:
    async def body(runtime: Runtime) -> None:
        for hosts, error in (
            (["host"], MisuseError),
            (HOST, MisuseError),
            ([HOST, Agent("host")], InvalidAgent),
        ):
            with pytest.raises(error):
                [one async for one in runtime.resume_all(hosts)]  # type: ignore[arg-type]  # on purpose

    run(body)


# --- delete, prune, vacuum --------------------------------------------------------


def test_a_deleted_session_is_gone_at_once() -> None:
    async def body(runtime: Runtime) -> None:
        outcome = await runtime.run(HOST, "go", session_id="s")
        assert await runtime.delete("s") == outcome.head[0]
        assert await names(runtime) == []
        for ask in (runtime.delete("s"), runtime.resume("s", HOST)):
            with pytest.raises(SessionNotFound):
                await ask
        assert (await runtime.run(HOST, "again", session_id="s")).is_ok

    run(body)


def test_a_session_that_runs_here_is_not_deleted() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST, session_id="s")
        with pytest.raises(SessionBusy, match="runs here"):
            await runtime.delete("s")
        assert (await session.ask("go")).is_ok
        with pytest.raises(SessionBusy):
            await runtime.delete("s")
        await session.close()
        assert await runtime.delete("s") > 0

    run(body)


def test_no_session_is_resumed_while_it_is_being_deleted(tmp_path: Path) -> None:
    async def body(runtime: Runtime) -> None:
        await runtime.run(HOST, "go", session_id="s")
        found = await asyncio.gather(
            runtime.delete("s"),
            runtime.resume("s", HOST),
            runtime.open(HOST, session_id="s"),
            return_exceptions=True,
        )
        assert isinstance(found[0], int)
        assert isinstance(found[1], SessionBusy | SessionNotFound)
        assert not isinstance(found[2], Exception) or isinstance(found[2], SessionExists)

    run(body, tmp_path / "log.db")


def test_prune_takes_closed_sessions_without_recent_events_only() -> None:
    async def body(runtime: Runtime) -> None:
        for name in ("a", "b"):
            await runtime.run(HOST, "go", session_id=name, tags=[name])
        session = await runtime.open(HOST, session_id="running")
        await asyncio.sleep(0.02)
        assert await runtime.prune(older_than=timedelta(hours=1)) == 0
        assert await runtime.prune(older_than=timedelta(0), tag="a") == 1
        assert await runtime.prune(older_than=timedelta(0), status=None) == 1
        assert await names(runtime) == ["running"]
        assert (await session.ask("go")).is_ok
        with pytest.raises(MisuseError, match="timedelta"):
            await runtime.prune(older_than=30)  # type: ignore[arg-type]  # a wrong value on purpose

    run(body)


@pytest.mark.slow
def test_deleted_sessions_are_removed_while_others_run_and_the_file_gets_smaller(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    async def body(runtime: Runtime) -> None:
        for at in range(20):
            await runtime.run(HOST, f"{at} " + "words " * 20_000, session_id=f"s{at}")
        full = runtime.stats().log_bytes
        session = await runtime.open(HOST, session_id="live")
        for at in range(20):
            await runtime.delete(f"s{at}")
            assert (await session.ask("go")).is_ok
        assert await runtime.vacuum() > 0.5 * full
        assert runtime.stats().log_bytes < 0.3 * full
        assert (await session.ask("go")).is_ok
        assert await runtime.vacuum() == 0

    run(body, path)
    recording = Recording.open(path, "live")
    recording.verify().check()
    recording.close()


def test_a_removal_that_was_cut_off_goes_on_with_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    async def scene() -> None:
        async with Runtime(path, model=ScriptedModel(lambda _: say("hi"))) as runtime:
            await runtime.run(HOST, "words " * 100_000, session_id="s")
            await runtime.log.delete("s")  # marked, and no step made
            full = runtime.stats().log_bytes
        async with Runtime(path, model=ScriptedModel(lambda _: say("hi"))) as runtime:
            await runtime.vacuum()
            assert not await runtime.log.purge()
            assert runtime.stats().log_bytes < full / 2
        assert b"words words" not in path.read_bytes()

    asyncio.run(scene())


# --- stats ------------------------------------------------------------------------


def test_stats_count_what_runs_and_are_json() -> None:
    async def scene() -> None:
        going, go_on = asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        async def wait() -> str:
            """Wait."""
            going.set()
            await go_on.wait()
            return "done"

        host = Agent("host", tools=[wait])
        model = ScriptedModel(lambda request: call("wait") if request.turn == 1 else say("done"))
        async with Runtime(MemoryLog(), model=model) as runtime:
            before = runtime.stats()
            assert before.sessions == {"running": 0, "idle": 0, "asleep": 0, "failed": 0}
            assert before.commits.count == before.commits.max_ms == 0
            await runtime.open(host)
            session = await runtime.open(host)
            asking = asyncio.create_task(session.ask("go"))
            await going.wait()
            found = runtime.stats()
            assert found.sessions == {"running": 1, "idle": 1, "asleep": 0, "failed": 0}
            assert (found.tool_calls, found.model_calls, found.approvals) == (1, 0, 0)
            go_on.set()
            await asking
            after = runtime.stats()
            assert (after.tool_calls, after.undurable_events) == (0, 0)
            assert after.commits.count > 0
            assert 0 < after.commits.p50_ms <= after.commits.p99_ms <= after.commits.max_ms
            assert after.log_bytes > before.log_bytes == 0
            assert json.loads(json.dumps(after.to_dict()))["sessions"]["idle"] == 2

    asyncio.run(scene())


def test_a_runtime_that_is_not_open_says_so() -> None:
    async def scene() -> None:
        runtime = Runtime(MemoryLog(), model=ScriptedModel(lambda _: say("hi")))
        for ask in (runtime.delete("s"), runtime.prune(older_than=timedelta(1)), runtime.vacuum()):
            with pytest.raises(MisuseError, match="not open"):
                await ask
        with pytest.raises(MisuseError, match="not open"):
            runtime.stats()

    asyncio.run(scene())


def test_the_outcome_of_a_closed_session_is_read_by_its_request_id() -> None:
    async def body(runtime: Runtime) -> None:
        async with runtime.open(HOST, session_id="one") as session:
            first = await session.ask("Pay.", request_id="pay")
            second = await session.ask("Thanks.", request_id="thanks")
        size = len(await runtime.log.read("one"))
        assert await runtime.outcome("one", "pay") == first
        assert await runtime.outcome("one") == second
        with pytest.raises(UnknownName, match="request id 'thank'; did you mean 'thanks'") as told:
            await runtime.outcome("one", "thank")
        assert "session one" in str(told.value)
        assert len(await runtime.log.read("one")) == size, "reading an outcome records nothing"

    run(body)


def test_an_ask_that_has_not_ended_has_no_outcome_yet() -> None:
    async def body(runtime: Runtime) -> None:
        async with runtime.open(HOST, session_id="one") as session:
            assert await runtime.outcome("one") is None
            await session.submit("Pay.", request_id="pay")
            earlier = await runtime.outcome("one", "pay")
            assert earlier in (None, await session.outcome)
            assert await runtime.outcome("one", "pay") == await session.outcome
        with pytest.raises(SessionNotFound):
            await runtime.outcome("two", "pay")

    run(body)


def test_a_typed_outcome_that_is_read_needs_its_type() -> None:
    typed = Agent("host", output_schema=Paid, model=ScriptedModel(lambda _: call("report_back", euros=5)))

    async def body(runtime: Runtime) -> None:
        made = await runtime.run(typed, "Pay.", request_id="pay")
        with pytest.raises(MissingType, match="Paid"):
            await runtime.outcome(made.session_id, "pay")
        found = await runtime.outcome(made.session_id, "pay", agent=typed)
        assert found is not None
        assert found.unwrap() == Paid(5)
        async with Runtime(runtime.log, types=[Paid]) as other:
            again = await other.outcome(made.session_id)
            assert again is not None
            assert again.unwrap() == Paid(5)

    run(body)
