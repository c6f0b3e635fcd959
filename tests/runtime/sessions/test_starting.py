"""Sessions are begun and continued: one at a time for one id, and nothing stays of one that fails."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from callboard.actors.protocol.addresses import APPROVALS, CAPACITY, CONTEXT, MODEL, SCHEMA, TOOLS
from callboard.actors.protocol.bundles import Bundle, Denied
from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.errors import (
    Diverged,
    MisuseError,
    SessionBusy,
    SessionDetached,
    SessionExists,
    StoreFailed,
)
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import ModelSpec, ToolOrigin, ToolSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.capacity import Capacity
from callboard.runtime.agent import Agent
from callboard.runtime.files.files import Files
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import EMPTY, Head, event_of
from callboard.runtime.memory.sqlite import SQLiteMemory
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.ports.approval_port import ApprovalPort
from callboard.runtime.ports.capacity_port import CapacityPort, PlacedModelPort
from callboard.runtime.ports.context_port import ContextPort
from callboard.runtime.ports.model_port import ModelPort
from callboard.runtime.ports.paced_models import PacedModelPort
from callboard.runtime.ports.schema_port import SchemaPort
from callboard.runtime.ports.tool_port import ToolPort
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions import starting
from callboard.runtime.sessions.agents_policy import AgentsPolicy
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.code_check import CodeCheck
from callboard.runtime.sessions.live_sessions import LiveSessions, Waiting
from callboard.runtime.sessions.starting import SessionStarter
from callboard.runtime.tools.sources import LiveSource, Scope, ToolSource
from callboard.runtime.tools.tool import Tool
from tests.waiting import until

HOST = Agent("host")


class Never:
    """A model that never answers. error: raised when it is closed."""

    spec = ModelSpec("never", 1_024)
    error: BaseException | None = None

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        await asyncio.Event().wait()
        return ModelAnswer()

    async def aclose(self) -> None:
        if self.error is not None:
            raise self.error


class Shop(ToolSource, LiveSource):
    """A source of one tool. asked: the object of the session, each time it was asked for its list."""

    label = "shop"
    price = Tool("price", "", {"type": "object"}, lambda given: 5, "read", origin=ToolOrigin("shop", "price"))

    def __init__(self) -> None:
        self.is_optional = False
        self.tools = [self.price]
        self.asked: list[object] = []
        self.scopes: list[Scope] = []
        self.is_closed = False

    def live(self) -> LiveSource:
        return self

    def secrets(self) -> Mapping[str, str]:
        return {}

    async def listed(self, scope: Scope) -> Sequence[Tool]:
        self.asked.append(scope.deps())
        self.scopes = [scope]
        return self.tools

    def recorded(self, specs: Sequence[ToolSpec], scope: Scope) -> Sequence[Tool]:
        self.scopes = [scope]
        return [self.price]

    def release(self, scope: Scope) -> None:
        """Hold nothing."""

    async def aclose(self) -> None:
        self.is_closed = True


class Log(MemoryLog):
    """A log that calls a function of the test at the steps of a start."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[str, Any] = {}

    async def _reach(self, step: str) -> None:
        if step in self.at:
            await self.at.pop(step)()

    async def create(self, *values: Any, **more: Any) -> int:
        await self._reach("create")
        return await super().create(*values, **more)

    async def take_over(self, session_id: str) -> Any:
        taken = await super().take_over(session_id)
        await self._reach("take_over")
        return taken

    async def waiting_since(self, session_id: str) -> int:
        await self._reach("waiting_since")
        return await super().waiting_since(session_id)


def model() -> ScriptedModel:
    return ScriptedModel(lambda request: say("hi"))


async def left(log: Log) -> None:
    """Leave a session `s` in the log, which no process runs."""
    async with Runtime(log, model=model()) as runtime:
        session = await runtime.open(HOST, session_id="s")
        await session.ask("go")
        await session.detach(0)


def starter_of(runtime: Runtime) -> SessionStarter:
    return runtime._started()


@pytest.mark.parametrize("step", ["take_over", "waiting_since"])
def test_a_session_is_not_deleted_while_it_is_being_resumed(step: str) -> None:
    async def work() -> None:
        log = Log()
        await left(log)
        async with Runtime(log, model=model()) as runtime, asyncio.timeout(20):
            refused: list[BaseException] = []

            async def delete() -> None:
                try:
                    await runtime.delete("s")
                except SessionBusy as error:
                    refused.append(error)

            log.at[step] = delete
            session = await runtime.resume("s", HOST)
            assert len(refused) == 1
            assert (await session.ask("again")).kind == "answered"
            await session.close()

    asyncio.run(work())


def test_callers_that_open_one_id_get_one_session() -> None:
    async def work() -> None:
        log = Log()
        async with Runtime(log, model=model()) as runtime, asyncio.timeout(20):
            opened = [runtime.open(HOST, session_id="s", resume=True) for _ in range(3)]
            found = await asyncio.gather(*opened)
            assert found[0] is found[1] is found[2]
            assert starter_of(runtime).opening == {}
            assert len(await log.sessions()) == 1

    asyncio.run(work())


def test_a_caller_waits_for_the_one_before_and_takes_its_turn_if_that_fails() -> None:
    async def work() -> None:
        log = Log()
        async with Runtime(log, model=model()) as runtime, asyncio.timeout(20):

            async def fail() -> None:
                await asyncio.sleep(0)
                raise StoreFailed("the disk is full")

            log.at["create"] = fail
            opened = [runtime.open(HOST, session_id="s", resume=True) for _ in range(2)]
            found = await asyncio.gather(*opened, return_exceptions=True)
            assert [isinstance(one, StoreFailed) for one in found] == [True, False]
            assert starter_of(runtime).opening == {}

    asyncio.run(work())


def test_an_id_that_is_taken_is_refused_without_resume() -> None:
    async def work() -> None:
        log = Log()
        async with Runtime(log, model=model()) as runtime:
            await runtime.open(HOST, session_id="s")
            with pytest.raises(SessionExists):
                await runtime.open(HOST, session_id="s")

    asyncio.run(work())


def test_a_session_that_another_process_runs_is_neither_made_nor_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hold(live: LiveSessions, session_id: str, host: str, *, steal: bool = False) -> None:
        asked.append((session_id, host))
        raise SessionBusy(f"session {session_id} is run by another process")

    asked: list[tuple[str, str]] = []

    async def work() -> None:
        log = Log()
        await left(log)
        monkeypatch.setattr(LiveSessions, "hold", hold)
        before = MemoryReader(log).sessions()
        async with Runtime(log, model=model()) as runtime:
            for begin in (runtime.open(HOST, session_id="new"), runtime.resume("s", HOST)):
                with pytest.raises(SessionBusy):
                    await begin
        assert MemoryReader(log).sessions() == before  # under the same epoch, too
        assert asked == [("new", HOST.name), ("s", HOST.name)]

    asyncio.run(work())


def test_an_id_with_a_secret_in_it_is_refused() -> None:
    async def work() -> None:
        log = Log()
        async with Runtime(log, model=model(), secrets={"KEY": "hunter2hunter2"}) as runtime:
            with pytest.raises(MisuseError):
                await runtime.open(HOST, session_id="hunter2hunter2")
            assert await log.sessions() == []

    asyncio.run(work())


def test_the_scope_of_a_session_that_does_not_begin_is_released() -> None:
    async def work() -> None:
        log = Log()
        async with Runtime(log, model=model()) as runtime:
            starter, released = starter_of(runtime), list[object]()
            starter.sources.release = released.append  # type: ignore[method-assign,assignment]  # on purpose
            for closed, error in ((False, StoreFailed), (True, SessionDetached)):

                async def fail() -> None:
                    raise StoreFailed("closed")

                log.at["create"], starter.is_closed = fail, closed
                with pytest.raises(error):
                    async with starter._scope("s"):
                        await log.create("s", 0, "")
            starter.is_closed = True
            with pytest.raises(ValueError, match="mine"):
                async with starter._scope("s"):
                    raise ValueError("mine")
            assert len(released) == 3
            async with starter._scope("s"):
                pass
            assert len(released) == 3
            starter.is_closed = False

    asyncio.run(work())


def test_a_check_refuses_as_a_resume_would_and_changes_nothing() -> None:
    async def work() -> None:
        log = Log()
        await left(log)
        async with Runtime(log, model=model(), limits=Limits()) as runtime:
            starter = starter_of(runtime)
            head = await log.head("s")
            released: list[object] = []
            starter.sources.release = released.append  # type: ignore[method-assign,assignment]  # on purpose
            await starter.check("s", HOST)
            assert len(released) == 1
            assert await log.head("s") == head
            assert "s" not in starter.live
            session = await runtime.resume("s", HOST)
            await session.close()

    asyncio.run(work())


def test_a_session_that_nobody_uses_falls_asleep_and_wakes_when_it_is_used() -> None:
    async def work() -> None:
        log = Log()
        async with Runtime(log, model=model(), idle_s=0.01) as runtime, asyncio.timeout(20):
            session = await runtime.open(HOST, session_id="s")
            for _ in range(2):
                await until(lambda: session.activity == "asleep")
                assert (await session.ask("go")).kind == "answered"
            await session.close()

    asyncio.run(work())


def test_a_session_that_another_process_took_in_its_sleep_is_not_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hold(live: LiveSessions, session_id: str, host: str, *, steal: bool = False) -> None:
        raise SessionBusy(f"session {session_id} is run by another process")

    async def work() -> None:
        log = Log()
        async with Runtime(log, model=model(), idle_s=0.01) as runtime, asyncio.timeout(20):
            session = await runtime.open(HOST, session_id="s")
            await until(lambda: session.activity == "asleep")
            before = MemoryReader(log).sessions()
            with monkeypatch.context() as patch:
                patch.setattr(LiveSessions, "hold", hold)
                with pytest.raises(SessionBusy):
                    await session.ask("go")
            assert MemoryReader(log).sessions() == before, "under the same epoch, too"

    asyncio.run(work())


def test_a_session_that_the_end_kept_from_its_beginning_gives_its_lease_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given_back: list[str] = []

    async def work() -> None:
        async with Runtime(Log(), model=model()) as runtime:
            starter = starter_of(runtime)
            with monkeypatch.context() as patch:
                patch.setattr(LiveSessions, "let_go", lambda live, session_id: given_back.append(session_id))
                patch.setattr(starter, "is_closed", True)
                with pytest.raises(SessionDetached):
                    async with starter._scope("s"):
                        raise StoreFailed("the log is closed")

    asyncio.run(work())
    assert given_back == ["s"]


# --- the parts of a session --------------------------------------------------------------------------------


@pytest.mark.parametrize("has_capacity", [False, True])
@pytest.mark.parametrize("has_factory", [False, True])
def test_a_session_has_a_port_for_every_address(has_capacity: bool, has_factory: bool) -> None:
    async def work() -> None:
        made, host = model(), Agent.made_by(lambda: Agent("host")) if has_factory else HOST
        capacity = {made.spec.name: Capacity(1)} if has_capacity else {}
        async with Runtime(MemoryLog(), model=made, capacity=capacity) as runtime:
            session = await runtime.open(host, session_id="s")
            starter, board = starter_of(runtime), session._parts.board
            assert {address: type(port) for address, port in board.ports.items()} == {
                MODEL: PlacedModelPort if has_capacity else ModelPort,
                TOOLS: ToolPort,
                CAPACITY: CapacityPort,
                APPROVALS: ApprovalPort,
                SCHEMA: SchemaPort,
                CONTEXT: ContextPort,
            }
            assert board.ports[APPROVALS] is session._approval_port
            tools = board.ports[TOOLS]
            assert isinstance(tools, ToolPort)
            assert board.writing == tools.writing
            assert [*starter.models.values()] == [made]
            instances = session.tools.instances
            assert (instances.ended in board.on_agent_end) == has_factory
            await session.ask("go")
            known = instances.profile_of("host"), instances.profile_of("host.9")
            assert known == (("host", None) if has_factory else (None, None))
            error = Diverged("s: step 1")
            await session._on_waits(error)
            assert runtime._started().live.waiting["s"] == Waiting(host, error, frozenset({made.spec.name}))

    asyncio.run(work())


def test_a_session_has_the_objects_that_it_is_given_or_those_of_the_runtime(tmp_path: Path) -> None:
    async def work() -> None:
        asked: list[object] = []

        def noted(made: object) -> Any:
            def make(*about: object) -> object:
                asked.append(about)
                return made

            return make

        files, other = (Files(tmp_path, name=name) for name in ("a", "b"))
        memory, own = SQLiteMemory(tmp_path / "m.db"), SQLiteMemory(tmp_path / "own.db")
        given = {"deps": noted(7), "files": noted(files), "memory": noted(memory)}
        log = MemoryLog()
        async with Runtime(log, model=model(), **given) as runtime:
            session = await runtime.open(HOST, session_id="s", tags=["t"], metadata={"k": 1})
            deps = session._parts.board.deps
            assert deps.current == 7
            assert asked == [("s", ("t",), {"k": 1})] * 3
            async with await runtime.open(HOST, files=other, memory=own) as second:
                assert second._parts.board.deps.current == 7
            await session.detach(0)
            session = await runtime.resume("s", HOST, deps=8)
            assert session._parts.board.deps.current == 8
            assert asked[-2:] == [("s", ("t",), {"k": 1})] * 2
            await session.close()

    asyncio.run(work())


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("policy", ["refuse", "accept"])
def test_a_source_without_recorded_tools_is_asked_where_changes_are_taken(
    policy: AgentsPolicy, is_recorded: bool
) -> None:
    async def work() -> None:
        log, shop = Log(), Shop()
        shop.is_optional, shop.tools = True, [Shop.price] if is_recorded else []
        host = Agent("host", tools=[shop])
        async with Runtime(log, model=model(), deps=7) as runtime:
            session = await runtime.open(host, session_id="s")
            await session.detach(0)
        assert shop.asked == [7]
        async with Runtime(log, model=model(), deps=7, on_agents_changed=policy) as runtime:
            session = await runtime.resume("s", host, deps=8)
            assert shop.asked == ([7] if is_recorded or policy == "refuse" else [7, 8])
            own = 7 if shop.asked == [7] and not is_recorded else 8
            assert [scope.deps() for scope in shop.scopes] == [own]
            await session.close()

    asyncio.run(work())


def test_the_bounds_of_a_session_are_the_narrower_ones_and_its_rights_those_of_both() -> None:
    async def work() -> None:
        log = MemoryLog()
        ours, own = Bundle(deny=Denied(tools=("a",))), Bundle(deny=Denied(tools=("b",)))
        bounds = Limits(max_iterations=5, max_parallel_tools=3)
        async with Runtime(log, model=model(), limits=bounds, permissions=ours) as runtime:
            narrower = Limits(max_iterations=9, max_parallel_tools=2)
            await runtime.open(HOST, session_id="s", limits=narrower, permissions=own)
            await runtime.open(HOST, session_id="t", limits=Limits(), resume=True)
        for name, parallel, layers in (("s", 2, (ours, own)), ("t", 3, (ours,))):
            opened = MemoryReader(log).events(name, 1, 1)[0]
            body = event_of(name, opened).body
            assert isinstance(body, SessionOpened)
            assert (body.limits.max_iterations, body.limits.max_parallel_tools) == (5, parallel)
            assert [layer.rights for layer in body.permissions] == [one.own for one in layers]

    asyncio.run(work())


# --- a session that goes on --------------------------------------------------------------------------------


def test_a_session_that_failed_is_closed_before_it_is_resumed() -> None:
    async def work() -> None:
        log = Log()
        async with Runtime(log, model=model()) as runtime:
            session = await runtime.open(HOST, session_id="s")
            await session.ask("go")
            session._parts.board.fail(StoreFailed("the disk is full"))
            assert session._has_failed
            closed: list[str] = []

            async def close() -> Head:
                closed.append("closed")
                return EMPTY

            session.close = close  # type: ignore[method-assign]  # a spy that notes the call
            again = await runtime.resume("s", HOST, steal=True, on_diverged="crash")
            assert again._when_diverged == "crash"
            assert closed == ["closed"]
            assert (await again.ask("more")).kind == "answered"

    asyncio.run(work())


@pytest.mark.parametrize("counts", [True, False])
def test_time_without_a_process_is_left_out_if_it_does_not_count(counts: bool) -> None:
    async def work() -> None:
        log = Log()
        await left(log)
        await asyncio.sleep(0.02)
        async with Runtime(log, model=model(), deadline_counts_downtime=counts) as runtime:
            session = await runtime.resume("s", HOST)
            assert (session._parts.board.gate.left_out_ms > 0) == (not counts)

    asyncio.run(work())


def test_an_unfinished_ask_goes_on_at_a_pace_and_an_idle_session_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restore, restored_with = Board.restore, list[type]()

    def restoring(board: Board, *of: Any) -> None:
        restored_with.append(type(board.ports[MODEL]))
        restore(board, *of)

    monkeypatch.setattr(Board, "restore", restoring)

    async def work() -> None:
        log = Log()
        async with Runtime(log, model=Never()) as runtime:
            session = await runtime.open(HOST, session_id="s")
            await session.submit("go")
            await session.detach(0)
        async with Runtime(log, model=ScriptedModel(lambda request: say("hi"), name="never")) as runtime:
            session = await runtime.resume("s", HOST)
            assert restored_with == [PacedModelPort], "before its open calls start"
            assert (await session.outcome).kind == "answered"
            await session.detach(0)
            session = await runtime.resume("s", HOST)
            assert isinstance(session._parts.board.ports[MODEL], ModelPort)

    asyncio.run(work())


def test_no_session_begins_after_the_end_and_all_parts_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        runtime, shop, used = Runtime(MemoryLog(), model=model()), Shop(), Never()
        async with runtime:
            starter = starter_of(runtime)
            await runtime.open(Agent("host", tools=[shop], model=used))
            starter.is_closed = True
            with pytest.raises(SessionDetached):
                await runtime.open(HOST)
            starter.is_closed = False
            closed: list[str] = []
            for name in ("writer", "checker", "tools"):
                before = getattr(starter, name).aclose

                async def close(name: str = name, before: Any = before) -> None:
                    closed.append(name)
                    await before()
                    raise OSError(name)

                monkeypatch.setattr(getattr(starter, name), "aclose", close)
            used.error = OSError("model")
            errors = await starter.aclose()
            assert closed == ["writer", "checker", "tools"]
            assert [str(error) for error in errors] == ["model", "writer", "checker", "tools"]
            assert (starter.models, shop.is_closed) == ({}, True)
            monkeypatch.undo()

    asyncio.run(work())


def test_bodies_and_lists_of_a_session_are_kept_and_told_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, tuple[Any, ...]]] = []
    for name in ("BodyKeeper", "ListedTools"):
        kind = getattr(starting, name)

        def noted(*given: Any, name: str = name, kind: Any = kind) -> Any:
            made.append((name, given))
            return kind(*given)

        monkeypatch.setattr(starting, name, noted)

    async def work() -> None:
        log = Log()
        async with Runtime(log, model=model(), keep_requests=True) as runtime:
            session = await runtime.open(HOST, session_id="s")
            (keeper, kept), (listed, told) = made
            assert (keeper, listed) == ("BodyKeeper", "ListedTools")
            assert kept == (log, "s")
            assert told[:2] == (session, session._board)
        made.clear()
        async with Runtime(Log(), model=model()) as runtime:
            await runtime.open(HOST, session_id="s")
        assert [name for name, _ in made] == ["ListedTools"]

    asyncio.run(work())


def test_a_resumed_session_is_strict_is_watched_and_finds_the_tools_of_its_sources() -> None:
    asked: list[tuple[Any, ...]] = []

    async def work() -> None:
        log = Log()
        await left(log)
        for is_strict in (False, True):
            async with Runtime(log, model=model(), strict_spending=is_strict) as runtime:
                starter = starter_of(runtime)
                watched: list[Any] = []
                noted: Any = SimpleNamespace(watch=watched.append, recall=lambda *given: None)
                kept, starter.observer = starter.observer, noted
                sources: Any = SimpleNamespace(tool=lambda *given: asked.append(given))
                session = await runtime.resume("s", HOST)
                assert session._board.gate._is_strict == is_strict
                assert watched == [session._board]
                starter.observer = kept
                own, starter.sources = starter.sources, sources
                session.tools._listed("source", "spec")  # type: ignore[arg-type]  # a stand-in
                starter.sources = own
                await session.detach(0)

    asyncio.run(work())
    assert [given[:2] for given in asked] == [("source", "spec")] * 2
    assert all(isinstance(given[2], Scope) for given in asked)


def test_a_check_looks_at_the_code_and_a_wake_accepts_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    taken: list[Any] = []
    take_over = starting.take_over  # type: ignore[attr-defined]  # as it imports it

    async def look(self: Any, session_id: str, recorded: Any) -> None:
        looked.append((session_id, len(recorded.events)))

    async def check(self: Any, session_id: str, recorded: Any) -> None:
        pytest.fail("it would list the session as one that waits for its code")

    async def noted(log: Any, name: str, now: Any, rules: Any) -> Any:
        taken.append(rules)
        return await take_over(log, name, now, rules)

    monkeypatch.setattr(CodeCheck, "look", look)
    monkeypatch.setattr(starting, "take_over", noted)

    async def work() -> None:
        log = Log()
        await left(log)
        async with Runtime(log, model=model()) as runtime:
            with monkeypatch.context() as patch:
                patch.setattr(CodeCheck, "check", check)
                await starter_of(runtime).check("s", HOST)
            assert looked == [("s", (await log.head("s")).seq)]
            session = await runtime.resume("s", HOST)
            session._sleep_if_idle()
            await session._settled()
            assert session._is_asleep
            taken.clear()
            await session.ask("again")
            (rules,) = taken
            assert (rules.policy, rules.ends_at) == ("accept", session._slept.head.seq)
            assert rules.types is session._types

    asyncio.run(work())
