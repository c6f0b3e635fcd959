"""Sessions are begun and continued: one at a time for one id, and nothing stays of one that fails."""

import asyncio
from typing import Any

import pytest

from callboard.actors.protocol.errors import (
    MisuseError,
    SessionBusy,
    SessionDetached,
    SessionExists,
    StoreFailed,
)
from callboard.actors.protocol.limits import Limits
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.starting import SessionStarter
from tests.waiting import until

HOST = Agent("host")


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
