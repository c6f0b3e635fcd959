"""Commands in the tables: one row for each id, which only the owner of the session marks or answers."""

import asyncio
from collections.abc import Callable

import pytest

from callboard.actors.protocol.errors import MisuseError, SessionEnded, SessionNotFound
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.protocol import Append, Carried, Head
from tests.postgres_server import execute
from tests.runtime.log.kit import events
from tests.runtime.log.postgres.places import OnServer, on_server


def on_tables(place: OnServer, work: Callable[[LeaseTables], None]) -> None:
    async def scene() -> None:
        async with Leases(place.url, encryption_key=place._encryption_key) as leases:
            await leases.change(work)

    asyncio.run(scene())


def test_a_command_is_added_once_and_its_id_is_that_of_no_other(place: OnServer) -> None:
    def work(tables: LeaseTables) -> None:
        commands = tables.commands
        for wrong in ("s", "\ud800"):
            with pytest.raises(SessionNotFound):
                commands.add(wrong, "r", "{}")
        row = commands.add("s", "r", "{}", "host")
        assert commands.add("s", "r", "{}", "host") == row == commands.find("s", "r")
        with pytest.raises(MisuseError, match="another command"):
            commands.add("s", "r", '{"a":1}', "host")
        assert row.is_waiting
        assert commands.find("s", "other") is None
        assert [one.session for one, _ in tables.waiting(9)] == ["s"]

    on_tables(place, work)


def test_only_the_live_owner_answers_and_a_session_with_commands_is_not_finished(place: OnServer) -> None:
    def work(tables: LeaseTables) -> None:
        commands = tables.commands
        row = commands.add("s", "r", "{}", "host")
        one, two = (tables.register(name, ["host"], 5, 60_000) for name in ("one", "two"))
        assert [claim.session for claim in tables.claim(one, 9)] == ["s"]
        assert commands.waiting(one) == [row]
        assert commands.waiting(two) == []
        commands.answer(two, row, "late")
        assert tables.finish([(one, "s")]) == [False]
        commands.answer(one, row, "first")
        commands.answer(one, row, "second")
        found = commands.find("s", "r")
        assert found is not None
        assert (found.answer, found.is_waiting) == ("first", False)
        assert tables.finish([(one, "s")]) == [True]
        assert not tables.has("s")
        commands.add("s", "a", "{}", "host")
        commands.add("s", "b", "{}", "host")
        tables.claim(one, 9)
        commands.refuse_all(one, "s", "closed")
        assert commands.waiting(one) == []

    on_tables(place, work)


def test_an_owner_whose_lease_has_ended_answers_nothing(place: OnServer) -> None:
    def work(tables: LeaseTables) -> None:
        row = tables.commands.add("s", "r", "{}", "host")
        one = tables.register("one", ["host"], 5, 60_000)
        tables.claim(one, 9)
        tables._run("UPDATE {s}.workers SET ends_ms = 0")
        tables.commands.answer(one, row, "late")
        assert tables.commands.find("s", "r") == row

    on_tables(place, work)


def test_a_closed_session_takes_no_new_command(place: OnServer) -> None:
    async def scene() -> None:
        log = place.log()
        await log.open()
        await log.create("s", 1, "")
        await log.close()
        execute(f"UPDATE {place.schema}.sessions SET status = 'closed', host = 'host'")

    asyncio.run(scene())

    def work(tables: LeaseTables) -> None:
        with pytest.raises(SessionEnded, match="closed"):
            tables.commands.add("s", "r", "{}")

    on_tables(place, work)


def test_a_session_that_is_there_waits_for_its_own_agent_with_the_tags_of_its_command(
    place: OnServer,
) -> None:
    async def scene() -> None:
        log = place.log()
        await log.open()
        await log.create("s", 1, "")
        await log.close()
        execute(f"UPDATE {place.schema}.sessions SET host = 'its own'")

    asyncio.run(scene())

    def work(tables: LeaseTables) -> None:
        commands = tables.commands
        commands.add("s", "r", "{}", "another", ["a:b:c", "plain"])
        commands.add("new", "r", "{}", "first")
        commands.add("new", "r2", "{}", "second")
        hosts = {one.session: one.host for one, _ in tables.waiting(9)}
        assert hosts == {"s": "its own", "new": "first"}
        scopes = tables._run("SELECT session, scopes, tags FROM {s}.leases ORDER BY session")
        assert scopes == [
            ("new", [], ""),
            ("s", ["a:*=a:b:c", "a:b:*=a:b:c"], '["a:b:c","plain"]'),
        ]

    on_tables(place, work)


def test_an_append_marks_its_commands_and_a_refused_one_marks_none(place: OnServer) -> None:
    async def scene() -> None:
        log = PostgresLog(place.url)
        await log.open()
        async with Leases(place.url) as leases:
            await log.create("s", 1, "")
            (first, second) = [
                await leases.change(lambda one, name=name: one.commands.add("s", name, "{}", "host"))  # type: ignore[misc]  # a lambda's default
                for name in ("a", "b")
            ]
            stale = Append("s", 0, 7, events(1, 1), carried=[Carried(second.number, 1)])
            await log.append([stale])
            (answer,) = await log.append(
                [Append("s", 0, 1, events(1, 2), carried=[Carried(first.number, 1)])]
            )
            assert isinstance(answer, Head)
            rows = [await leases.change(lambda one, n=name: one.commands.find("s", n)) for name in "ab"]  # type: ignore[misc]  # a lambda's default
            assert [row and (row.seq, row.is_waiting) for row in rows] == [(1, False), (0, True)]
            await log.append([Append("s", 2, 1, events(3, 3), carried=[Carried(first.number, 3)])])
            row = await leases.change(lambda one: one.commands.find("s", "a"))
            assert row is not None
            assert row.seq == 1  # marked once
        await log.close()

    asyncio.run(scene())


def test_commands_of_an_encrypted_log_cannot_be_read_in_its_tables() -> None:
    with on_server(b"k" * 32) as place:

        def work(tables: LeaseTables) -> None:
            row = tables.commands.add("s", "r", '{"text":"a secret"}', "host")
            worker = tables.register("one", ["host"], 5, 60_000)
            tables.claim(worker, 9)
            assert tables.commands.add("s", "r", '{"text":"a secret"}', "host") == row
            tables.commands.answer(worker, row, "an answer")
            found = tables.commands.find("s", "r")
            assert found is not None
            assert (found.body, found.answer) == ('{"text":"a secret"}', "an answer")

        on_tables(place, work)
        ((body, answer),) = execute(f"SELECT body, answer FROM {place.schema}.commands")
        assert "secret" not in body
        assert "answer" not in answer
