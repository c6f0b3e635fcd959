"""A log behind PgBouncer in transaction mode: each transaction gets another connection of the server."""

import asyncio
import contextlib
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from callboard.actors.protocol.errors import StoreError
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.cluster.worker import ClusterWorker
from callboard.runtime.log.postgres.address import address_of
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.link import Link
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool
from tests.postgres_server import USER, Server, shared
from tests.runtime.log.postgres.places import on_server

SKIP = "needs PgBouncer (Debian: pgbouncer)"


class Pooler:
    """A private PgBouncer on a unix socket in front of the server of this run."""

    def __init__(self, server: Server, home: Path) -> None:
        self.server, self.home = server, home
        self.process: subprocess.Popen[bytes] | None = None
        self.mode = "transaction"

    def url(self, schema: str, **parameters: str) -> str:
        more = "".join(f"&{name}={value}" for name, value in parameters.items())
        return f"postgresql://{USER}@/agents?host={quote(str(self.home))}&port=6432&schema={schema}{more}"

    def start(self) -> None:
        """Start it with two connections to the server, and wait until it answers."""
        settings = self.home / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\nagents = host={self.server.home} dbname={self.server.database}\n[pgbouncer]\n"
            f"listen_addr =\nunix_socket_dir = {self.home}\nlisten_port = 6432\nauth_type = trust\n"
            f"pool_mode = {self.mode}\ndefault_pool_size = 2\nlogfile = {self.home}/log\n"
            f"auth_file = {self.home}/users\n"
        )
        (self.home / "users").write_text(f'"{USER}" ""\n')
        command = [shutil.which("pgbouncer") or "/usr/sbin/pgbouncer", "--quiet"]
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            for path in (self.home, *self.home.iterdir()):
                os.chown(path, account.pw_uid, account.pw_gid)
            command += ["--user", "postgres"]
        self.process = subprocess.Popen([*command, str(settings)], cwd="/", stderr=subprocess.DEVNULL)
        for _ in range(200):
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(host=str(self.home), port=6432, user=USER, dbname="agents").close()
                return
            time.sleep(0.02)
        raise AssertionError((self.home / "log").read_text())

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def pooler() -> Iterator[Pooler]:
    if shutil.which("pgbouncer") is None and not Path("/usr/sbin/pgbouncer").exists():
        pytest.skip(SKIP)
    server = shared()
    # Beside the server's folder: its user may not enter the folder of a test.
    home = server.home.with_name(f"{server.home.name}-pool-{os.getpid()}")
    home.mkdir()
    pooler = Pooler(server, home)
    try:
        pooler.start()
        yield pooler
    finally:
        pooler.stop()
        shutil.rmtree(home, ignore_errors=True)


@tool(effect="write")
async def put() -> str:
    """Do it."""
    return "done"


HOST = Agent(
    "host",
    tools=[put],
    model=ScriptedModel(lambda request: call("put") if request.turn == 1 else say("Done.")),
)


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{"prepare": "off"}, {}], ids=["prepare=off", "as it is"])
def test_workers_run_sessions_through_it_and_survive_its_restart(
    pooler: Pooler, parameters: dict[str, str]
) -> None:
    with on_server() as place:
        url = pooler.url(place.schema, **parameters)

        async def scene() -> None:
            stop = asyncio.Event()
            async with Leases(url) as leases, Runtime(url) as runtime:
                for at in range(20):
                    if at == 10:
                        pooler.stop()
                        pooler.start()
                    await leases.change(lambda one, name=f"s{at}": one.submit(name, "host", name, "hi"))  # type: ignore[misc]  # a lambda's default
                one = ClusterWorker(runtime, leases, [HOST])
                task = asyncio.create_task(one.run(stop))
                while await leases.change(lambda one: one._run("SELECT 1 FROM {s}.leases")):  # noqa: ASYNC110  # the server tells no one
                    await asyncio.sleep(0.05)
                stop.set()
                await task

        asyncio.run(asyncio.wait_for(scene(), 30))
        for at in range(20):
            with Recording.open(url, f"s{at}") as recording:
                recording.verify().check()


def test_behind_a_pooler_no_statement_is_prepared(pooler: Pooler) -> None:
    direct, behind = Link(address_of(pooler.server.url())), Link(address_of(pooler.url("callboard")))
    for link, threshold in ((direct, 5), (behind, None)):
        link.connect()
        assert link._connection.prepare_threshold == threshold
        link.close()


def test_a_pooler_without_its_server_is_a_store_error(pooler: Pooler) -> None:
    url = pooler.url("callboard").replace("/agents", "/nowhere")

    async def scene() -> None:
        async with Runtime(url):
            pytest.fail("opened")

    with pytest.raises(StoreError, match="no such database"):
        asyncio.run(scene())
