"""All sessions of a log are resumed: which host each gets, a few at a time, and one failure fails one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from callboard.actors.protocol.errors import Diverged, InvalidAgent, MisuseError, UnknownName
from callboard.runtime.agent import Agent
from callboard.runtime.log.session_rows import SessionRow
from callboard.runtime.sessions.resume_many import PARALLEL_MAX, Resumption, host_finder, resume_each
from callboard.runtime.sessions.session import Session

A, B = Agent("a"), Agent("b")


class Row:
    def __init__(self, name: str, host: str = "a") -> None:
        self.session_id, self.host = name, host


def row(name: str, host: str = "a") -> SessionRow:
    return cast("SessionRow", Row(name, host))


def test_a_session_gets_the_host_of_its_name() -> None:
    found = host_finder([A, B])
    assert (found(row("s", "b")), found(row("t", "a"))) == (B, A)
    with pytest.raises(
        UnknownName, match="session s: none of the given hosts is its host 'c'; add that agent"
    ):
        found(row("s", "c"))


def test_a_function_chooses_the_host_of_each_session() -> None:
    found = host_finder(lambda one: B if one.session_id == "s" else None)
    assert found(row("s", "a")) is B
    with pytest.raises(UnknownName, match="session t"):
        found(row("t", "a"))


@pytest.mark.parametrize("hosts", [A, "a", [A, "b"], {A}])
def test_hosts_are_agents(hosts: Any) -> None:
    with pytest.raises(MisuseError, match="use a list of agents"):
        host_finder(hosts)


def test_two_hosts_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidAgent, match="pass a function"):
        host_finder([A, Agent("a")])


async def rows_of(count: int) -> AsyncIterator[SessionRow]:
    for number in range(count):
        yield row(str(number))


class Work:
    """Resumes that the test lets end one by one."""

    def __init__(self) -> None:
        self.running: dict[str, asyncio.Future[Any]] = {}
        self.most = 0

    async def resume(self, one: SessionRow) -> Session | None:
        made = self.running[one.session_id] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, len(self.running))
        try:
            return cast("Session", await made)
        finally:
            del self.running[one.session_id]


def test_a_few_run_at_a_time_and_each_is_given_as_soon_as_it_runs() -> None:
    async def work() -> None:
        resumes, got = Work(), list[str]()

        async def take() -> None:
            async for one in resume_each(rows_of(PARALLEL_MAX + 2), resumes.resume):
                got.append(f"{one.row.session_id} {one.session}")

        taking = asyncio.ensure_future(take())
        for _ in range(4):
            await asyncio.sleep(0)
        assert len(resumes.running) == PARALLEL_MAX
        resumes.running["3"].set_result("third")
        for _ in range(6):
            await asyncio.sleep(0)
        assert got == ["3 third"]
        assert len(resumes.running) == PARALLEL_MAX
        while not taking.done():
            for future in [*resumes.running.values()]:
                if not future.done():
                    future.set_result("x")
            await asyncio.sleep(0)
        assert len(got) == PARALLEL_MAX + 2
        assert resumes.most == PARALLEL_MAX

    asyncio.run(work())


def test_a_failure_is_that_of_one_session() -> None:
    async def resume(one: SessionRow) -> Session | None:
        if one.session_id == "1":
            raise ValueError("no")
        return None

    async def work() -> list[Resumption]:
        return [one async for one in resume_each(rows_of(3), resume)]

    found = {one.row.session_id: one for one in asyncio.run(work())}
    assert str(found["1"].error) == "no"
    assert [found[name].error for name in "02"] == [None, None]


def test_those_that_wait_for_code_are_told_from_those_that_failed() -> None:
    assert Resumption(row("s"), error=Diverged("x")).waits_for_code
    assert not Resumption(row("s"), error=ValueError("x")).waits_for_code
    assert not Resumption(row("s")).waits_for_code


def test_whoever_stops_early_leaves_no_resume_behind() -> None:
    async def work() -> None:
        resumes = Work()
        each = resume_each(rows_of(PARALLEL_MAX), resumes.resume)
        first = asyncio.ensure_future(anext(each))
        for _ in range(4):
            await asyncio.sleep(0)
        resumes.running["0"].set_result("x")
        await first
        await each.aclose()  # type: ignore[attr-defined]  # an asynchronous generator
        for _ in range(3):
            await asyncio.sleep(0)
        assert resumes.running == {}

    asyncio.run(work())
