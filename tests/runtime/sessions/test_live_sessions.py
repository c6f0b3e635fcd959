"""The sessions that live in a process: their places, their sleep, and those that wait for code."""

import asyncio
import gc
from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import SessionClosed
from callboard.actors.protocol.errors import Diverged, SessionBusy, SessionExists, UnknownName
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions import live_sessions as module
from callboard.runtime.sessions.live_sessions import (
    LiveSessions,
    Opening,
    Waiting,
    live_sessions_of,
    refuse_owned,
)


class Fake:
    """A session, as its place sees it."""

    def __init__(self, name: str, life: object = "life") -> None:
        self.session_id, self._life, self._has_failed = name, life, False
        self._on_release: Any = None
        self._on_goes_on: Any = None
        self._on_sleep: Any = None


def session(name: str, life: object = "life") -> Any:
    return Fake(name, life)


@pytest.fixture
def live() -> LiveSessions:
    return LiveSessions(MemoryLog())


def test_a_session_has_its_place_until_it_is_released(live: LiveSessions) -> None:
    left: list[object] = []
    one = session("a")
    live.add(one, lambda: left.append("a" in live))
    assert "a" in live
    assert [*live] == [one]
    assert live.find("a", "life") == one
    one._on_release()
    assert left == [True], "what it holds is released before another may take its place"
    assert "a" not in live
    assert live.find("a", "life") is None


def test_a_release_leaves_the_place_of_its_successor(live: LiveSessions) -> None:
    old, new = session("a"), session("a")
    live.add(old)
    live.add(new)
    old._on_release()
    assert live.find("a", "life") is new
    old._on_sleep()
    assert live.find("a", "life") is new
    assert live.asleep() == 0


def test_the_lease_of_a_session_goes_back_when_it_leaves_or_falls_asleep(live: LiveSessions) -> None:
    given_back: list[str] = []
    leases: Any = SimpleNamespace(let_go=given_back.append, on_live=lambda session: None)
    live.leases = leases
    old, new = session("a"), session("a")
    live.add(old)
    live.let_go("a")
    assert given_back == [], "it runs here"
    old._on_sleep()
    assert given_back == ["a"]
    live.add(new)
    old._on_release()
    old._on_sleep()
    assert given_back == ["a"], "its successor runs here"
    new._on_release()
    assert given_back == ["a", "a"]


def test_a_sleeping_session_is_found_and_is_not_live(live: LiveSessions) -> None:
    left: list[object] = []
    one = session("a")
    live.add(one, lambda: left.append("a" in live))
    one._on_sleep()
    assert (left, "a" in live, live.asleep()) == ([True], False, 1)
    assert live.find("a", "life") == one
    assert live.of("life") == [one]
    live.add(one)
    assert live.asleep() == 0
    assert live.of("life") == [one]
    one._on_sleep()
    one._on_release()
    assert live.asleep() == 0
    assert live.find("a", "life") is None


def test_a_sleeping_session_that_nobody_holds_is_gone(live: LiveSessions) -> None:
    one = session("a")
    live.add(one)
    one._on_sleep()
    one._on_sleep = one._on_release = one._on_goes_on = None
    del one
    gc.collect()
    assert live.asleep() == 0


def test_sessions_of_another_runtime_or_that_have_failed_are_not_found(live: LiveSessions) -> None:
    one, other = session("a"), session("b", "another")
    live.add(one)
    live.add(other)
    assert live.of("life") == [one]
    assert live.find("b", "life") is None
    one._has_failed = True
    assert live.find("a", "life") is None


def test_a_failed_session_is_not_live_and_does_not_run(live: LiveSessions) -> None:
    one: Any = session("a")
    live.add(one)
    assert live.running("a") == one
    one._has_failed = True
    assert "a" not in live
    with pytest.raises(UnknownName, match="failed in the process"):
        live.running("a")


# --- claims --------------------------------------------------------------------------------------------


def test_a_live_session_is_not_claimed_unless_it_is_stolen_or_has_failed(live: LiveSessions) -> None:
    one: Any = session("a")
    live.add(one)
    with (
        pytest.raises(SessionBusy, match=r"session a runs in this process.*steal=True"),
        live.claim("a", False),
    ):
        raise AssertionError("it was claimed")
    with live.claim("a", True) as holder:
        assert holder == one
    one._has_failed = True
    with live.claim("a", False) as holder:
        assert holder is one


def test_a_claim_excludes_others_until_it_ends_also_by_an_error(live: LiveSessions) -> None:
    with live.claim("a", False) as holder:
        assert holder is None
        assert "a" in live
        for steal in (True, False):
            with pytest.raises(SessionBusy), live.claim("a", steal):
                raise AssertionError("it was claimed twice")
        with live.claim("b", False):
            pass
    assert "a" not in live
    with pytest.raises(ValueError, match="no"), live.claim("a", False):
        raise ValueError("no")
    assert "a" not in live


def test_a_sleeping_session_may_be_claimed(live: LiveSessions) -> None:
    one = session("a")
    live.add(one)
    one._on_sleep()
    with live.claim("a", False) as holder:
        assert holder is None


# --- sessions that wait for their code ------------------------------------------------------------------


def test_a_session_waits_for_its_code_from_the_first_time_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000]
    monkeypatch.setattr(module, "now_ms", lambda: now[0])

    async def work() -> None:
        log = MemoryLog()
        await log.open()
        await log.create("a", 0, "")
        live, agent, error = LiveSessions(log), Agent("host"), Diverged("other code")
        assert await live.waited_ms("a") == 0
        await live.wait_for_code("a", agent, error)
        now[0] = 1_500
        await live.wait_for_code("a", agent, error)
        assert await log.waiting_since("a") == 1_000
        assert live.waiting["a"] == Waiting(agent, error)
        assert await live.waited_ms("a") == 500
        now[0] = 900
        assert await live.waited_ms("a") == 0
        now[0] = 1_700
        assert await live.goes_on("a") == 700
        assert "a" not in live.waiting
        assert await log.waiting_since("a") == 0
        assert await live.goes_on("a") == 0

    asyncio.run(work())


def test_one_log_has_one_set_of_live_sessions() -> None:
    one, other = MemoryLog(), MemoryLog()
    live = live_sessions_of(one)
    assert live_sessions_of(one) is live
    assert live_sessions_of(other) is not live


def test_a_session_that_runs_here_is_found_and_one_that_waits_says_why(live: LiveSessions) -> None:
    one = session("a")
    live.add(one)
    assert live.running("a") is one
    with pytest.raises(UnknownName, match="session 'b' does not run in the process that owns the log"):
        live.running("b")

    async def wait() -> None:
        await live._log.open()
        await live._log.create("b", 0, "")
        await live.wait_for_code("b", Agent("host"), Diverged("other code"))

    looked: list[str] = []
    waiting_since = live._log.waiting_since

    async def since(session_id: str) -> int:
        looked.append(type(live.waiting.get("b")).__name__)
        return await waiting_since(session_id)

    live._log.waiting_since = since  # type: ignore[method-assign]  # replaced on purpose
    asyncio.run(wait())
    assert looked == ["Waiting"], "it is known before the log is asked"
    with pytest.raises(Diverged, match="other code"):
        live.running("b")
    held = session("b")
    live.add(held)  # until its ask has ended
    assert live.running("b") is held


def test_the_wait_of_a_session_is_ended_in_the_log_only_if_it_waited() -> None:
    class Noted(MemoryLog):
        def __init__(self) -> None:
            super().__init__()
            self.noted: list[int] = []

        async def set_waiting(self, session_id: str, since_ms: int) -> None:
            self.noted.append(since_ms)

    async def main() -> None:
        log = Noted()
        live = LiveSessions(log)
        await log.open()
        await log.create("a", 0, "")
        assert await live.goes_on("a") == 0
        assert log.noted == []
        await live.wait_for_code("a", Agent("host"), Diverged("a"))
        assert "a" in live.waiting
        assert await live.goes_on("a") == 0
        assert (len(log.noted), log.noted[-1], "a" in live.waiting) == (2, 0, False)
        one = session("a")
        live.add(one)
        await live.wait_for_code("a", Agent("host"), Diverged("a"))
        assert await one._on_goes_on() == 0
        assert "a" not in live.waiting

    asyncio.run(main())


HOST = Agent("host", model=ScriptedModel(lambda request: say("done")))


def test_nothing_happens_before_an_opening_is_awaited() -> None:
    async def scene() -> list[int]:
        log = MemoryLog()
        async with Runtime(log) as runtime:
            opening = runtime.open(HOST, session_id="one")
            before = len(await log.sessions())
            await opening
            return [before, len(await log.sessions())]

    assert asyncio.run(scene()) == [0, 1]


@pytest.mark.parametrize("how", ["open", "resume", "reopen"])
def test_a_session_may_be_awaited_or_entered_whatever_opens_it(how: str) -> None:
    async def scene() -> bool:
        log = MemoryLog()
        async with Runtime(log) as runtime:
            if how != "open":
                session = await runtime.open(HOST, session_id="one")
                await (session.detach() if how == "resume" else session.close())
            opening = {
                "open": lambda: runtime.open(HOST, session_id="one"),
                "resume": lambda: runtime.resume("one", HOST),
                "reopen": lambda: runtime.reopen("one", HOST),
            }[how]()
            async with opening as session:
                assert (await session.ask("go")).is_ok
        events = Recording.open(MemoryReader(log), "one").events
        return isinstance(events[-1].body, SessionClosed)

    assert asyncio.run(scene())


def test_an_opening_that_fails_leaves_nothing_to_close() -> None:
    async def scene() -> None:
        async with Runtime(":memory:") as runtime:
            await runtime.open(HOST, session_id="one")
            with pytest.raises(SessionExists):
                async with runtime.open(HOST, session_id="one"):
                    raise AssertionError("it was opened")

    asyncio.run(scene())


def test_a_session_is_told_how_its_block_ended() -> None:
    told: list[object] = []

    class Leaving:
        async def __aexit__(self, *how: object) -> None:
            told.extend(how)

    async def opens() -> Any:
        return Leaving()

    async def scene() -> None:
        opening = Opening(opens)
        await opening.__aexit__(None, None, None)
        assert told == [], "it was never entered"
        async with opening:
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as raised:
        asyncio.run(scene())
    kind, error, trace = told
    assert (kind, error) == (ValueError, raised.value)
    assert isinstance(trace, TracebackType)


def test_a_session_of_a_worker_with_a_lease_is_refused_and_the_worker_is_named() -> None:
    class Owned(MemoryLog):
        async def owner(self, session_id: str) -> str:
            return {"s1": "7 on host a"}.get(session_id, "")

    asyncio.run(refuse_owned(Owned(), "s2"))
    with pytest.raises(SessionBusy, match="session s1 runs in worker 7 on host a, whose lease ends"):
        asyncio.run(refuse_owned(Owned(), "s1"))
