"""Backup, restore to a point in time and failover of a server, as docs/operate-cluster.md describes them."""

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from callboard.actors.protocol.errors import StoreError
from callboard.cli.main import cli
from callboard.runtime.agent import Agent
from callboard.runtime.log.reading import open_reader
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.runtime import Runtime
from tests.postgres_server import Server, programs, started

HOST = Agent("host", model=ScriptedModel(lambda request: say("Done.")))
DURABLE = {"synchronous_commit": "on", "fsync": "on", "full_page_writes": "on"}


@pytest.fixture
def primary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path_factory.getbasetemp())
    archive = "'test ! -f ../archive/%f && cp %p ../archive/%f'"
    with started(base, **DURABLE, archive_mode="on", archive_command=archive) as server:
        archived = server.home / "archive"
        archived.mkdir()
        owner = server.data.stat()
        os.chown(archived, owner.st_uid, owner.st_gid)
        with (server.data / "pg_hba.conf").open("a") as file:
            file.write("local replication all trust\n")
        with server.connection() as connection:
            connection.execute("SELECT pg_reload_conf()")
        yield server


@contextlib.contextmanager
def copied(primary: Server, *options: str) -> Iterator[Server]:
    """Take a base backup with pg_basebackup, as a server of its own that is not started."""
    copy = Server(primary.home.with_name(f"{primary.home.name}-copy"))
    copy.home.mkdir()
    owner = primary.data.stat()
    os.chown(copy.home, owner.st_uid, owner.st_gid)
    folder = programs()
    assert folder is not None
    command = [
        folder / "pg_basebackup",
        "-h",
        primary.home,
        "-U",
        "owner",
        "-D",
        copy.data,
        "-c",
        "fast",
        "-N",
    ]
    try:
        primary._run([*command, *options])
        with (copy.data / "postgresql.conf").open("a") as file:
            file.write(f"unix_socket_directories = '{copy.home}'\narchive_mode = off\n")
        yield copy
    finally:
        with contextlib.suppress(RuntimeError):
            copy.stop()
        shutil.rmtree(copy.home, ignore_errors=True)


def asked(url: str, *sessions: str) -> None:
    """Ask in sessions, which are made or go on."""

    async def work() -> None:
        async with Runtime(url) as runtime:
            for name in sessions:
                session = await runtime.open(HOST, session_id=name, resume=True)
                assert (await session.ask("Do it.")).text == "Done."

    asyncio.run(work())


def shown(url: str, *words: str) -> str:
    done = CliRunner().invoke(cli, [*words, "--log", url])
    assert done.exit_code == 0, done.output
    return done.stdout


def sessions_of(url: str) -> set[str]:
    with open_reader(url) as reader:
        return {row.session_id for row in reader.sessions()}


def warnings_of(url: str) -> list[str]:
    found: list[str] = json.loads(shown(url, "cluster", "status", "--json"))["warnings"]
    return found


@pytest.mark.slow
def test_a_log_is_restored_to_a_point_before_a_mistake_and_goes_on(primary: Server) -> None:
    asked(primary.url(), "before")
    assert warnings_of(primary.url()) == []
    with copied(primary) as copy:
        asked(primary.url(), "before", "after")  # in the archive of WAL alone
        with primary.connection() as connection:
            connection.execute("SELECT pg_create_restore_point('sound')")
        shown(primary.url(), "delete", "before", "--yes")
        asked(primary.url(), "late")
        with primary.connection() as connection:
            connection.execute("SELECT pg_switch_wal()")
        primary.stop("fast")  # it archives the rest
        with (copy.data / "postgresql.conf").open("a") as file:
            file.write(
                f"restore_command = 'cp {primary.home}/archive/%f %p'\nrecovery_target_name = 'sound'\n"
                "recovery_target_action = 'promote'\n"
            )
        (copy.data / "recovery.signal").touch()
        copy.start()
        assert sessions_of(copy.url()) == {"before", "after"}
        shown(copy.url(), "verify", "--all")
        asked(copy.url(), "before", "late")
        shown(copy.url(), "verify", "--all")


@pytest.mark.slow
def test_a_failover_to_a_synchronous_replica_loses_nothing_and_status_warns_without_one(
    primary: Server,
) -> None:
    asked(primary.url(), "s")
    with copied(primary, "-R", "-X", "stream") as replica:
        replica.start()
        assert ["no replica is synchronous" in one for one in warnings_of(primary.url())] == [True]
        with primary.connection() as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        asked(primary.url(), "s")
        found = json.loads(shown(primary.url(), "cluster", "status", "--json"))
        assert (found["warnings"], [one["mode"] for one in found["replicas"]]) == ([], ["sync"])
        primary.stop("immediate")
        replica._control("promote", "-w")
        both = f"{primary.home},{replica.home}"
        url = f"postgresql://owner@/postgres?host={both}&target_session_attrs=read-write"
        shown(url, "verify", "--all")
        asked(url, "s")
        assert sessions_of(url) == {"s"}


@pytest.mark.slow
def test_a_replica_refuses_a_writer_and_lets_readers_verify(primary: Server) -> None:
    asked(primary.url(), "s")
    with copied(primary, "-R", "-X", "stream") as replica:
        replica.start()
        shown(replica.url(), "verify", "--all")
        with pytest.raises(StoreError, match="read-only replica"):
            asked(replica.url(), "s")
