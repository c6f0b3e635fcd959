"""Opening a log on a server: places, rights and keys that will not do are refused, each in words."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import (
    CorruptLog,
    StoreError,
    StoreReadOnly,
    StoreTooNew,
    StoreUnreadable,
    WrongKey,
)
from callboard.runtime.log.opening import open_log
from callboard.runtime.log.postgres import schema as schemas
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.postgres.reader import PostgresReader
from callboard.runtime.log.reading import open_reader
from tests.postgres_server import Server, execute, shared
from tests.runtime.log.kit import added, events, run
from tests.runtime.log.postgres.places import OnServer, on_server

KEY = b"k" * 32


def open_once(url: str, key: bytes | None = None, encryption_key: bytes | None = None) -> None:
    async def work() -> None:
        log = PostgresLog(url, key, encryption_key=encryption_key)
        try:
            await log.open()
        finally:
            await log.close()

    run(work)


def refused(kind: type[Exception], url: str, **options: bytes) -> str:
    """Open a log that must be refused. Return the message, in which there is no password."""
    with pytest.raises(kind) as caught:
        open_once(url, **options)
    shown = "".join(str(one) for one in (caught.value, caught.value.__cause__, caught.value.__context__))
    assert "s3cret" not in shown
    return str(caught.value)


@pytest.fixture
def server() -> Server:
    return shared()


@pytest.fixture
def role(server: Server) -> Iterator[str]:
    """Make a role without rights, whose connections need the password s3cret."""
    execute("DROP ROLE IF EXISTS guarded; CREATE ROLE guarded LOGIN PASSWORD 's3cret'")
    yield "guarded"
    execute("DROP OWNED BY guarded; DROP ROLE guarded")


def guarded(url: str, password: str = "s3cret") -> str:
    return url.replace("owner@", f"guarded:{password}@")


def test_a_server_that_is_not_there_and_a_missing_database_are_refused(
    server: Server, tmp_path: Path
) -> None:
    assert "check that the server runs" in refused(
        StoreUnreadable, f"postgresql://u:s3cret@/db?host={tmp_path}"
    )
    assert "createdb" in refused(StoreUnreadable, server.url().replace(server.database, "nowhere"))


def test_a_wrong_password_is_refused_and_a_right_one_is_not_shown(server: Server, role: str) -> None:
    url = server.url()
    assert "check the user name and the password" in refused(StoreUnreadable, guarded(url, "s3cretx"))
    execute(f"GRANT CREATE ON DATABASE {server.database} TO {role}")
    mine = guarded(server.url("of_guarded"))
    open_once(mine)
    with open_reader(mine) as reader:
        assert reader.sessions() == []
        assert "s3cret" not in repr(reader)
    assert "s3cret" not in repr(open_log(mine))


def test_missing_privileges_are_named_and_a_role_that_only_reads_can_read(place: OnServer, role: str) -> None:
    assert "GRANT CREATE" in refused(StoreReadOnly, guarded(shared().url("another")))

    async def fill() -> None:
        log = place.log()
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, 3))
        await log.close()

    run(fill)
    execute(f"GRANT USAGE ON SCHEMA {place.schema} TO guarded")
    execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {place.schema} TO guarded")
    with PostgresReader(guarded(place.url)) as reader:
        assert reader.verify_chain("s").seq == 3

    async def write() -> None:
        log = PostgresLog(guarded(place.url))
        await log.open()
        try:
            with pytest.raises(StoreReadOnly, match="permission denied"):
                await log.create("t", 1, "")
        finally:
            await log.close()

    run(write)


def test_a_role_whose_transactions_are_read_only_is_refused(server: Server, role: str) -> None:
    execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    assert "default_transaction_read_only" in refused(StoreReadOnly, guarded(server.url()))


def test_a_role_with_another_isolation_level_is_refused(server: Server, role: str) -> None:
    execute(f"ALTER ROLE {role} SET default_transaction_isolation = 'repeatable read'")
    assert "needs read committed" in refused(StoreUnreadable, guarded(server.url()))


def test_a_server_that_is_too_old_or_a_replica_is_refused(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_once(place.url)
    with monkeypatch.context() as patched:
        patched.setattr(schemas, "SERVER_MIN", 990_000)
        assert "callboard needs 99 or later" in refused(StoreUnreadable, place.url)
        with pytest.raises(StoreUnreadable, match="update the server"):
            place.reader()

    def answers(encoding: str, is_replica: bool) -> list[tuple[object, ...]]:
        return [(encoding, is_replica, "off", "read committed")]

    with pytest.raises(StoreReadOnly, match="read-only replica"):
        schemas.check_server(lambda query: answers("UTF8", True), 150_000, "here")
    with pytest.raises(StoreUnreadable, match="encoding=UTF8"):
        schemas.check_server(lambda query: answers("SQL_ASCII", False), 150_000, "here")


def test_a_schema_of_a_newer_callboard_is_refused_by_writers_and_readers(place: OnServer) -> None:
    open_once(place.url)
    place.is_changed = True
    execute(f"UPDATE {place.schema}.meta SET value = '99' WHERE key IN ('schema', 'since')")
    assert "schema 99" in refused(StoreTooNew, place.url)
    with pytest.raises(StoreTooNew, match="use the newer callboard"):
        place.reader()


def test_a_reader_makes_no_log(server: Server) -> None:
    with pytest.raises(StoreUnreadable, match="there is no log at postgresql://owner@/"):
        PostgresReader(server.url("not_there"))
    assert execute("SELECT to_regnamespace('not_there') IS NULL") == [(True,)]


def test_a_schema_of_another_program_is_refused(server: Server) -> None:
    execute("DROP SCHEMA IF EXISTS foreign_one CASCADE; CREATE SCHEMA foreign_one")
    execute("CREATE TABLE foreign_one.meta(key text, value text)")
    assert "choose another one" in refused(StoreUnreadable, server.url("foreign_one"))


def test_keys_that_do_not_fit_are_refused(place: OnServer) -> None:
    open_once(place.url)
    assert "without a digest key" in refused(WrongKey, place.url, key=b"a key")
    assert "made without encryption" in refused(WrongKey, place.url, encryption_key=KEY)
    with on_server(KEY) as secret:
        open_once(secret.url, encryption_key=KEY)
        assert "is encrypted" in refused(WrongKey, secret.url)
        assert "another key" in refused(WrongKey, secret.url, encryption_key=b"x" * 32)


@pytest.mark.parametrize("key", ["digest", "key_check", "encryption"])
def test_a_table_meta_without_a_value_is_damage(place: OnServer, key: str) -> None:
    open_once(place.url)
    place.is_changed = True
    execute(f"DELETE FROM {place.schema}.meta WHERE key = '{key}'")
    assert repr(key) in refused(CorruptLog, place.url)


def test_digests_of_another_kind_are_damage(place: OnServer) -> None:
    open_once(place.url)
    place.is_changed = True
    execute(f"UPDATE {place.schema}.meta SET value = 'md5' WHERE key = 'digest'")
    assert "no valid 'digest'" in refused(CorruptLog, place.url)


def test_only_a_log_in_plain_text_has_a_view_for_people(place: OnServer) -> None:
    with on_server(KEY) as secret:
        open_once(place.url)
        open_once(secret.url, encryption_key=KEY)
        views = "SELECT schemaname FROM pg_views WHERE viewname = 'log' AND schemaname = ANY(ARRAY"
        assert execute(f"{views}['{place.schema}', '{secret.schema}'])") == [(place.schema,)]


def test_two_clusters_in_one_database_have_a_schema_each(place: OnServer) -> None:
    async def work() -> None:
        with on_server() as second:
            logs = [place.log(), second.log()]
            for at, log in enumerate(logs):
                await log.open()
                await log.create("s", at, "")
                await added(log, "s", 1, events(1, at + 1))
            assert [(await log.head("s")).seq for log in logs] == [1, 2]
            await logs[0].delete("s")
            assert [len(await log.sessions()) for log in logs] == [0, 1]
            for log in logs:
                await log.close()

    run(work)


def test_tables_that_were_removed_below_a_log_are_an_error_that_says_so(place: OnServer) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        place.is_changed = True
        execute(f"DROP SCHEMA {place.schema} CASCADE")
        with pytest.raises(StoreError, match="restore a copy of the database"):
            await log.create("s", 1, "")
        await log.close()

    run(work)
