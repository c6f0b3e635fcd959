"""Workers and leases in the tables: claims, takeovers, refusals, by the server's clock."""

import asyncio
import threading
from collections.abc import Callable
from time import sleep

import pytest

from callboard.actors.protocol.errors import StoreUnreadable
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.leases import FORGET_MS, LeaseTables, _tag_among
from tests.postgres_server import execute
from tests.runtime.log.postgres.places import OnServer, on_server


def on_tables(place: OnServer, work: Callable[[LeaseTables], None]) -> None:
    """Run a function on the leases of a log."""

    async def run() -> None:
        async with Leases(place.url, encryption_key=place._encryption_key) as leases:
            await leases.change(work)

    asyncio.run(run())


def names(tables: LeaseTables, worker: int) -> list[str]:
    return [one.session for one in tables.claim(worker, 99)]


def test_a_session_is_claimed_once_and_again_after_the_lease_has_ended(place: OnServer) -> None:
    def work(tables: LeaseTables) -> None:
        one = tables.register("one", ["host"], 5, 60_000)
        two = tables.register("two", ["host"], 5, 60_000)
        tables.submit("s", "host", "r", "do it")
        tables.submit("s", "host", "other", "again")  # a client that repeats itself
        (claim,) = tables.claim(one, 99)
        assert claim == ("s", "host", "r", "do it", ())
        assert tables.owner("s") == (one, "one")
        assert names(tables, two) == []
        execute(f"SELECT 1 FROM {place.schema}.meta")
        tables._run("UPDATE {s}.workers SET ends_ms = 0 WHERE id = %s", (one,))
        assert tables.owner("s") is None
        assert not tables.renew(one, 0, is_draining=False)
        assert names(tables, one) == []  # whose lease has ended claims nothing
        assert names(tables, two) == ["s"]
        tables.finish([(one, "s")])  # the late one ends nothing that is another's
        tables.give_back(one, "s")
        assert tables.owner("s") == (two, "two")
        tables.finish([(two, "s")])
        assert [row.sessions for row in tables.workers()] == [0, 0]

    on_tables(place, work)


def test_a_worker_claims_what_it_has_agents_and_slots_for(place: OnServer) -> None:
    def work(tables: LeaseTables) -> None:
        one = tables.register("one", ["a"], 2, 60_000)
        for name in ("a1", "a2", "a3"):
            tables.submit(name, "a", name, "")
        tables.submit("b1", "b", "b1", "")
        assert [claim.session for claim in tables.claim(one, 1)] == ["a1"]
        assert names(tables, one) == ["a2"]
        assert names(tables, one) == []
        tables.refuse(one, "a1", "other tools\0")
        assert tables.renew(one, 1, is_draining=False)
        tables.keep_only(one, ["a2"])
        assert names(tables, one) == ["a3"]
        left = {found.session: (found.refused_by, why) for found, why in tables.waiting(9)}
        assert left == {"a1": ((one,), "other tools"), "b1": ((), "")}
        two = tables.register("two", ["a", "b"], 9, 60_000)
        tables.leave(one)  # gives back at once
        assert sorted(names(tables, two)) == ["a1", "a2", "a3", "b1"]
        assert tables.renew(two, 4, is_draining=True)
        tables.submit("late", "a", "late", "")
        assert names(tables, two) == []

    on_tables(place, work)


def test_a_prompt_is_encrypted_where_the_log_is() -> None:
    with on_server(b"k" * 32) as place:

        def work(tables: LeaseTables) -> None:
            one = tables.register("one", ["a"], 2, 60_000)
            tables.submit("s", "a", "r", "a secret")
            (kept,) = tables._run("SELECT prompt FROM {s}.leases")
            assert b"a secret".hex() not in kept[0]
            assert "a secret" not in kept[0]
            assert [claim.prompt for claim in tables.claim(one, 99)] == ["a secret"]

        on_tables(place, work)


def test_leases_of_a_table_that_is_not_ours_are_refused(place: OnServer) -> None:
    place.is_changed = True
    execute(f"DROP SCHEMA IF EXISTS {place.schema} CASCADE; CREATE SCHEMA {place.schema}")
    execute(f"CREATE TABLE {place.schema}.meta(key text, value text)")
    with pytest.raises(StoreUnreadable, match="not callboard's"):
        on_tables(place, lambda tables: None)


def test_a_session_that_ends_its_workers_rests_until_it_is_submitted_again_or_survives(
    place: OnServer,
) -> None:
    def work(tables: LeaseTables) -> None:
        def lost(worker: int) -> None:
            tables._run("UPDATE {s}.workers SET ends_ms = 1 WHERE id = %s", (worker,))

        def losses() -> int:
            ((found, _),) = tables.waiting(9)
            return found.losses

        tables.submit("s", "a", "r", "")
        for count in range(1, 6):
            worker = tables.register(f"w{count}", ["a"], 1, 60_000)
            assert names(tables, worker) == ["s"]  # its rest is over, since the lease ended long ago
            lost(worker)
            assert losses() == count
        last = tables.register("last", ["a"], 1, 60_000)
        assert names(tables, last) == []
        tables.submit("s", "a", "other", "")
        assert losses() == 1  # that of the worker that has it still
        assert names(tables, last) == ["s"]
        for claimed_ms, ends_ms, left in ((2**50, 2**50, 1), (0, 1, 1), (0, 2**50, 0)):
            tables._run("UPDATE {s}.leases SET claimed_ms = %s", (claimed_ms,))
            tables._run("UPDATE {s}.workers SET ends_ms = %s WHERE id = %s", (ends_ms, last))
            assert tables.renew(last, 1, is_draining=False) == (ends_ms > 1)
            assert tables._run("SELECT losses FROM {s}.leases") == [(left,)]

    on_tables(place, work)


def test_a_session_that_is_let_go_waits_only_if_work_is_left(place: OnServer) -> None:
    def work(tables: LeaseTables) -> None:
        one = tables.register("one", ["host", "other"], 5, 60_000)
        two = tables.register("two", [], 3, 60_000)
        for session in ("idle", "told", "theirs"):
            assert tables.hold(one, session, "host", steal=False) == ""
        tables.hold(two, "theirs", "host", steal=True)
        tables.submit("asked", "host", "r", "do it")
        assert names(tables, one) == ["asked"]
        assert [(row.name, row.sessions) for row in tables.workers()] == [("one", 3), ("two", 1)]
        states = [(row.state.worker, row.state.hosts) for row in tables.workers()]
        assert states == [(one, ("host", "other")), (two, ())]
        assert all(0 < row.left_ms <= 60_000 for row in tables.workers())
        tables.commands.add("told", "r", "{}", "host")
        for session in ("idle", "told", "theirs", "asked", "none"):
            tables.let_go(one, session)
        sessions = ("idle", "told", "theirs", "asked", "none", "\0")
        assert [tables.has(one) for one in sessions] == [False, True, True, True, False, False]
        assert [tables.owner(one) for one in sessions] == [None, None, (two, "two"), None, None, None]
        assert [tables.epoch(one) for one in sessions] == [0] * 6
        assert {found.session for found, _ in tables.waiting(9)} == {"told", "asked"}
        backlog = tables.backlog()
        assert backlog.sessions == 2
        assert 0 <= backlog.oldest_ms < 60_000
        assert tables.finish([(two, "told"), (two, "theirs")]) == [False, True]
        assert [tables.has(session) for session in ("told", "theirs")] == [True, False]
        assert tables.health().fsync in ("on", "off")

    on_tables(place, work)


def test_a_command_that_is_added_while_its_session_is_finished_keeps_it(place: OnServer) -> None:
    workers, ended = list[int](), list[bool]()

    def hold(tables: LeaseTables) -> None:
        workers.append(tables.register("one", ["host"], 5, 60_000))
        tables.hold(workers[0], "s", "host", steal=False)

    def finish(tables: LeaseTables) -> None:
        ended.extend(tables.finish([(workers[0], "s")]))

    finishing = threading.Thread(target=lambda: on_tables(place, finish))

    def add(tables: LeaseTables) -> None:
        tables.commands.add("s", "r", "{}", "host")
        finishing.start()
        while not execute("SELECT 1 FROM pg_locks WHERE NOT granted"):
            sleep(0.005)

    on_tables(place, hold)
    on_tables(place, add)  # committed once the other waits for the row
    finishing.join()
    assert ended == [False]
    on_tables(place, lambda tables: workers.extend(tables.owners(["s"])["s"][:1]))
    assert workers[0] == workers[1]


def test_a_session_that_a_live_worker_has_is_held_for_another_only_by_force(place: OnServer) -> None:
    async def create() -> None:
        log = place.log()
        await log.open()
        await log.create("s", 1, "")
        await log.take_over("s")
        await log.close()

    def work(tables: LeaseTables) -> None:
        assert tables.epoch("s") == 2
        one, two = (tables.register(name, ["host"], 2, 60_000) for name in ("one", "two"))
        assert tables.hold(one, "s", "host", steal=False) == ""
        assert tables.hold(one, "s", "host", steal=False) == "", "it has it already"
        assert tables.hold(two, "s", "host", steal=False) == "one"
        tables.hold(one, "gone", "host", steal=False)
        tables.keep_only(one, ["s"])
        assert [tables.owner(name) for name in ("s", "gone")] == [(one, "one"), None]
        tables._run("DELETE FROM {s}.leases WHERE session = 'gone'")
        tables.refuse(two, "s", "not its own to refuse")
        tables.give_back(two, "s")
        assert tables.owner("s") == (one, "one")
        tables.give_back(one, "s")
        assert tables.hold(two, "s", "host", steal=False) == ""
        tables._run("UPDATE {s}.workers SET ends_ms = 0 WHERE id = %s", (two,))
        assert tables.hold(one, "s", "host", steal=False) == ""
        tables.refuse(one, "s", "x" * 501)
        ((found, why),) = tables.waiting(9)
        assert why == "x" * 500
        assert tables.now_ms() - 60_000 < found.since_ms <= tables.now_ms()

    asyncio.run(create())
    on_tables(place, work)


def test_a_worker_without_sessions_is_forgotten_an_hour_after_its_lease(place: OnServer) -> None:
    def work(tables: LeaseTables) -> None:
        late, idle, lost = (tables.register(name, ["host"], 2, 60_000) for name in ("late", "idle", "lost"))
        tables.hold(lost, "s", "host", steal=False)
        for worker, ago in ((late, FORGET_MS // 2), (idle, FORGET_MS + 1), (lost, FORGET_MS + 1)):
            tables._run("UPDATE {s}.workers SET ends_ms = %s WHERE id = %s", (tables.now_ms() - ago, worker))
        tables.register("new", ["host"], 2, 60_000)
        assert [row.name for row in tables.workers()] == ["late", "lost", "new"]
        assert tables.backlog().sessions == 1

    on_tables(place, work)


def test_waiting_sessions_are_shared_by_free_slots_and_by_tag() -> None:
    with on_server(b"k" * 32) as place:

        def work(tables: LeaseTables) -> None:
            one = tables.register("one", ["host"], 4, 60_000)
            tables.register("two", ["host"], 4, 60_000)
            for at, tag in enumerate("aaaab"):
                tables.submit(f"{tag}{at}", "host", "r", "", [f"of:{tag}"])
            found = tables.claim(one, 99, fair_by="of:*")
            assert [(claim.session, claim.tags) for claim in found] == [
                ("a0", ("of:a",)), ("b4", ("of:b",)), ("a1", ("of:a",)),
            ]  # fmt: skip
            assert tables.workers()[0].state.running == 3
            tables.submit("c5", "host", "r", "")
            assert [claim.session for claim in tables.claim(one, 99, fair_by="of:*")] == ["c5"]
            assert tables.claim(one, 99) == [], "no slot is left"
            assert [found.session for found, _ in tables.waiting(1)] == ["a2"]

        on_tables(place, work)


def test_the_tag_of_a_session_is_the_least_that_the_pattern_names() -> None:
    scopes = ["a:*=a:1", "of:*=of:z", "of:*=of:b"]
    assert [_tag_among(start, scopes) for start in ("of:*=", "x:*=", "")] == ["of:*=of:b", "", ""]
