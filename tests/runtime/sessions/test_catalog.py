"""The sessions of a log as a whole: pages, deletions with forks, and the age at which they are pruned."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from callboard.actors.protocol.errors import HasForks, MisuseError, SessionBusy, SessionNotFound, StoreFailed
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.session_rows import EVERY_SESSION, SessionQuery, SessionRow
from callboard.runtime.sessions import catalog
from callboard.runtime.sessions import catalog as module
from callboard.runtime.sessions.catalog import Remover, SessionCatalog, last_use_ms, queries_of, time_ms
from callboard.runtime.sessions.live_sessions import LiveSessions
from tests.runtime.log.kit import added, event, events

NOW = 1_000_000_000


class Log(MemoryLog):
    """A log that notes the queries for its sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[SessionQuery] = []

    async def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        self.asked.append(query)
        return await super().sessions(query)


async def catalog_of(*names: str, created_ms: int = NOW) -> tuple[SessionCatalog, Log, LiveSessions]:
    log = Log()
    await log.open()
    for at, name in enumerate(names):
        await log.create(name, created_ms + at, "")
    live = LiveSessions(log)
    made = SessionCatalog(log, live)
    made.remover.start = lambda: None  # type: ignore[method-assign]  # no task stays behind
    return made, log, live


async def names_of(catalog: SessionCatalog, query: SessionQuery) -> list[str]:
    return [row.session_id async for row in catalog.rows(query)]


@pytest.mark.parametrize(
    ("limit", "pages"), [(None, [2, 2, 2]), (5, [2, 2, 1]), (4, [2, 2]), (1, [1]), (0, [])]
)
def test_sessions_come_page_by_page_up_to_the_limit(
    limit: int | None, pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 2)

    async def work() -> None:
        catalog, log, _ = await catalog_of("a", "b", "c", "d", "e")
        found = await names_of(catalog, SessionQuery(limit=limit))
        assert found == ["e", "d", "c", "b", "a"][: 5 if limit is None else limit]
        assert [one.limit for one in log.asked] == pages

    asyncio.run(work())


def test_a_page_keeps_the_conditions_of_its_query() -> None:
    async def work() -> None:
        catalog, log, _ = await catalog_of("a")
        await names_of(catalog, SessionQuery("closed", "red", 5, "", 7))
        ((status, tag, since, after, limit),) = [
            (one.status, one.tag, one.since_ms, one.after, one.limit) for one in log.asked
        ]
        assert (status, tag, since, after, limit) == ("closed", "red", 5, "", 7)

    asyncio.run(work())


def test_sessions_that_run_here_are_not_elsewhere() -> None:
    async def work() -> None:
        catalog, log, live = await catalog_of("a", "b")
        status = (await log.sessions())[0].status
        with live.claim("a", steal=False):
            assert [row.session_id async for row in catalog.elsewhere(status)] == ["b"]

    asyncio.run(work())


def test_a_session_that_runs_or_is_claimed_is_not_deleted() -> None:
    async def work() -> None:
        catalog, log, live = await catalog_of("a")
        with live.claim("a", steal=False), pytest.raises(SessionBusy, match="end it first"):
            await catalog.delete("a")
        assert await catalog.delete("a") == 0
        assert await log.sessions() == []
        with pytest.raises(SessionNotFound):
            await catalog.delete("a")

    asyncio.run(work())


def test_a_deletion_holds_the_place_of_its_session_and_forgets_that_it_waits() -> None:
    async def work() -> None:
        catalog, log, live = await catalog_of("a")
        held: list[bool] = []
        delete = log.delete

        async def watched(session_id: str, **more: Any) -> int:
            held.append(session_id in live)
            return await delete(session_id, **more)

        log.delete = watched  # type: ignore[method-assign]  # the test's own
        live.waiting["a"] = live.waiting["b"] = None  # type: ignore[assignment]  # the test's own
        await catalog.delete("a")
        assert held == [True]
        assert "a" not in live
        assert [*live.waiting] == ["b"]

    asyncio.run(work())


async def forked() -> tuple[SessionCatalog, Log, LiveSessions]:
    catalog, log, live = await catalog_of("a")
    await added(log, "a", 1, events(1, 4))
    await log.fork("f", NOW, "", "a", 2)
    await added(log, "f", 1, [event(3)])
    return catalog, log, live


def test_an_origin_is_deleted_with_its_forks_without_them_or_not_at_all() -> None:
    async def work() -> None:
        catalog, log, _ = await forked()
        with pytest.raises(HasForks):
            await catalog.delete("a")
        assert await catalog.delete("a", forks="keep") > 0
        assert await names_of(catalog, SessionQuery()) == ["f"]
        catalog, log, live = await forked()
        with live.claim("f", steal=False), pytest.raises(SessionBusy):
            await catalog.delete("a", forks="delete")
        assert len(await log.sessions()) == 2, "nothing is deleted if a fork runs"
        assert await catalog.delete("a", forks="delete") == 5
        assert await log.sessions() == []

    asyncio.run(work())


@pytest.mark.parametrize("running", ["a", "f"])
def test_nothing_is_deleted_if_a_session_or_its_fork_runs_in_another_process(running: str) -> None:
    async def work() -> None:
        catalog, log, _ = await forked()

        async def owner(session_id: str) -> str:
            return "7 on host a" if session_id == running else ""

        log.owner = owner  # type: ignore[method-assign]  # the test's own
        with pytest.raises(SessionBusy, match=f"session {running} runs in worker 7 on host a"):
            await catalog.delete("a", forks="delete")
        assert len(await log.sessions()) == 2

    asyncio.run(work())


# --- pruning -----------------------------------------------------------------------------------------------


def test_sessions_without_an_event_since_then_are_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "now_ms", lambda: NOW + 10_000)

    async def work() -> None:
        catalog, log, live = await catalog_of("old", "used", "live", created_ms=NOW)
        await added(log, "used", 1, [event(1, at=NOW + 9_500)])
        with live.claim("live", steal=False):
            assert await catalog.prune(timedelta(seconds=1), None, None) == 1
        assert sorted(await names_of(catalog, SessionQuery())) == ["live", "used"]
        assert await catalog.prune(timedelta(seconds=10), None, None) == 0
        assert await catalog.prune(timedelta(0), None, "red") == 0
        assert await catalog.prune(timedelta(0), None, None) == 2

    asyncio.run(work())


def test_sessions_of_several_statuses_are_pruned_and_an_unknown_status_is_refused() -> None:
    row = SessionRow("s", 1, 1, 0, "", status="open")
    found = [any(one.has(row) for one in queries_of(status, None)) for status in (None, "open", "closed")]
    assert found == [True, True, False]
    assert [one.status for one in queries_of(("closed", "open"), "red")] == ["closed", "open"]
    with pytest.raises(MisuseError, match="use one of open"):
        queries_of(("closed", "idle"), None)  # type: ignore[arg-type]  # what is refused

    async def work() -> None:
        catalog, _, _ = await catalog_of("a", "b", created_ms=0)  # both are open
        assert await catalog.prune(timedelta(days=1), "closed", None) == 0
        assert await catalog.prune(timedelta(days=1), ("closed", "open"), None) == 2

    asyncio.run(work())


@pytest.mark.parametrize("error", [SessionNotFound("x"), HasForks("x")])
def test_a_session_that_another_task_deletes_or_forks_meanwhile_is_not_counted(error: Exception) -> None:
    async def work() -> None:
        catalog, _, _ = await catalog_of("a", "b", created_ms=0)
        deleted: list[str] = []

        async def delete(session_id: str, **_: Any) -> int:
            deleted.append(session_id)
            if session_id == "a":
                raise error
            return 0

        catalog.delete = delete  # type: ignore[method-assign]  # the test's own
        assert await catalog.prune(timedelta(days=1), None, None) == 1
        assert sorted(deleted) == ["a", "b"]

    asyncio.run(work())


@pytest.mark.parametrize("age", [5, None, datetime.now(UTC)])
def test_an_age_is_a_timedelta(age: Any) -> None:
    async def work() -> None:
        catalog, _, _ = await catalog_of()
        with pytest.raises(MisuseError, match="use a timedelta"):
            await catalog.prune(age, None, None)

    asyncio.run(work())


def test_times_are_a_moment_with_a_zone_or_how_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "now_ms", lambda: NOW)
    assert time_ms(timedelta(seconds=1.5)) == NOW - 1_500
    assert time_ms(datetime.fromtimestamp(12.345, UTC)) == 12_345
    for odd in (datetime(2024, 1, 1), 5):  # without a zone
        with pytest.raises(MisuseError, match="with its time zone"):
            time_ms(odd)  # type: ignore[arg-type]  # what a careless caller passes


def test_the_last_use_is_the_last_event_or_the_creation() -> None:
    class Row:
        def __init__(self, last_ms: int, created_ms: int) -> None:
            self.last_ms, self.created_ms = last_ms, created_ms

    assert last_use_ms(Row(0, 7)) == 7  # type: ignore[arg-type]  # what a careless caller passes
    assert last_use_ms(Row(9, 7)) == 9  # type: ignore[arg-type]  # what a careless caller passes


def test_a_session_is_old_from_the_first_millisecond_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "now_ms", lambda: 60_000)

    async def work() -> None:
        catalog, _, live = await catalog_of("a", "b", "c", created_ms=9_999)
        with live.claim("b", steal=False):  # it runs here
            assert await catalog.prune(timedelta(seconds=50), None, None) == 1
            assert await names_of(catalog, EVERY_SESSION) == ["c", "b"]
            assert await catalog.prune(timedelta(seconds=49), None, None) == 1
            assert await names_of(catalog, EVERY_SESSION) == ["b"]

    asyncio.run(work())


class Steps(MemoryLog):
    """A log with so many steps left to remove and so many pages to give back."""

    def __init__(self, steps: int, pages: int = 0, fails_at: int = -1) -> None:
        super().__init__()
        self.steps = steps
        self.pages = pages
        self.fails_at = fails_at
        self.asked: list[int | None] = []

    async def purge(self) -> bool:
        await asyncio.sleep(0)
        self.steps -= 1
        if self.steps == self.fails_at:
            raise StoreFailed("the disk is full")
        return self.steps > 0

    async def vacuum(self, pages: int | None) -> int:
        assert self.steps <= 0
        assert pages
        self.asked.append(pages)
        self.pages = max(0, self.pages - pages)
        return self.pages

    def size_bytes(self) -> int:
        return 8_192 * self.pages


def test_it_goes_on_until_nothing_is_left_and_begins_again() -> None:
    async def scene() -> None:
        log = Steps(5)
        remover = Remover(log)
        await remover.finished()
        for steps in (5, 3):
            log.steps = steps
            remover.start()
            remover.start()
            await remover.finished()
            assert log.steps == 0
        await remover.aclose()
        await remover.aclose()

    asyncio.run(scene())


def test_it_stops_after_the_present_step() -> None:
    async def scene() -> None:
        log = Steps(1_000)
        remover = Remover(log)
        remover.start()
        await asyncio.sleep(0.02)
        task = remover._task
        assert task is not None
        await remover.aclose()
        assert task.cancelled()
        assert task.get_name() == "callboard remover"
        assert remover._task is None
        left = log.steps
        assert 0 < left < 1_000
        await asyncio.sleep(0.01)
        assert log.steps == left

    asyncio.run(scene())


def test_a_failure_is_logged_and_the_next_start_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        log = Steps(5, fails_at=3)
        remover = Remover(log)
        remover.start()
        await remover.finished()
        assert log.steps == 3
        remover.start()
        await remover.finished()
        assert log.steps == 0

    with caplog.at_level(logging.ERROR, "callboard.removal"):
        asyncio.run(scene())
    assert "the disk is full" in caplog.text


def test_space_is_given_back_in_steps_once_all_is_removed() -> None:
    async def scene() -> int:
        return await Remover(Steps(3, pages=200)).vacuum()

    assert asyncio.run(scene()) == 200 * 8_192


def test_pages_that_a_reader_holds_do_not_keep_it_busy() -> None:
    class Held(Steps):
        async def vacuum(self, pages: int | None) -> int:
            return self.pages

    async def scene() -> int:
        return await asyncio.wait_for(Remover(Held(0, pages=9)).vacuum(), 5)

    assert asyncio.run(scene()) == 0


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the rests that are made from now on, in seconds; each takes one pass of the loop."""
    made: list[float] = []
    sleep = asyncio.sleep

    async def rest(delay: float) -> None:
        if delay:
            made.append(delay)
        await sleep(0)

    monkeypatch.setattr("callboard.runtime.sessions.catalog.asyncio.sleep", rest)
    return made


def test_it_rests_as_long_as_the_step_took_but_never_less_than_two_milliseconds(
    rests: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0, 7, 100, 101, 200])
    monkeypatch.setattr(catalog, "monotonic_ms", lambda: next(times))

    async def scene() -> None:
        remover = Remover(Steps(3))
        remover.start()
        await remover.finished()

    asyncio.run(scene())
    assert rests == [0.007, 0.002]


def test_pages_are_given_back_half_a_mebibyte_at_a_time_with_a_rest_between(rests: list[float]) -> None:
    log = Steps(0, pages=200)
    assert asyncio.run(Remover(log).vacuum()) == 200 * 8_192
    assert log.asked == [64] * 4
    assert rests == [0.002] * 3


def test_a_log_that_grew_meanwhile_got_smaller_by_nothing() -> None:
    class Growing(Steps):
        def size_bytes(self) -> int:
            return 100 + len(self.asked)

    assert asyncio.run(Remover(Growing(0)).vacuum()) == 0
