"""A private PostgreSQL server for tests, in a folder of its own, on a unix socket only. Never the system's.

The processes of one run of pytest share a server: the first that needs one starts it, and the run stops it at
its end. Tests that stop or kill a server start one of their own (`started`).

It keeps no promise about a loss of power (`fsync = off`), which no test here is about.
"""

import contextlib
import fcntl
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg
import pytest

PROGRAMS: Final = "pg_ctl"
HOME: Final = "CALLBOARD_TEST_POSTGRES"
"""Variable of the environment with the folder of the server that the processes of a run share."""

SKIP: Final = "needs PostgreSQL's programs initdb and pg_ctl (Debian: postgresql)"
USER: Final = "owner"
SETTINGS: Final = {
    "listen_addresses": "''",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "shared_buffers": "64MB",
    "max_connections": "60",
    "max_wal_size": "4GB",
    "logging_collector": "off",
    "jit": "off",
}
_HBA: Final = "local all guarded scram-sha-256\nlocal all all trust\n"


def programs() -> Path | None:
    """Return the folder of the newest server's programs; None if there are none."""
    found = shutil.which(PROGRAMS)
    if found and (Path(found).resolve().parent / "initdb").exists():
        return Path(found).resolve().parent
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    sound = [one for one in folders if (one / "initdb").exists() and (one / PROGRAMS).exists()]
    return max(sound, key=lambda one: int(one.parent.name.split(".")[0]), default=None)


def _as_server() -> dict[str, Any]:
    """Return the arguments by which a program runs without the rights of root, which the server refuses."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


class Server:
    """A server in a folder."""

    def __init__(self, home: Path, database: str = "postgres") -> None:
        self.home = home
        self.data = home / "data"
        self.database = database

    def url(self, schema: str = "callboard", user: str = USER, **parameters: str) -> str:
        """Return the address of a log there."""
        more = "".join(f"&{name}={quote(value)}" for name, value in parameters.items())
        return f"postgresql://{user}@/{self.database}?host={quote(str(self.home))}&schema={schema}{more}"

    def make(self, **changed: str) -> None:
        """Make the folder and the data. changed: settings other than those of `SETTINGS`."""
        self.home.mkdir(parents=True, exist_ok=True)
        run_as = _as_server()
        if run_as:
            os.chown(self.home, run_as["user"], run_as["group"])
        folder = programs()
        assert folder is not None
        command = [folder / "initdb", "--no-sync", "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C"]
        self._run([*command, "-D", self.data])
        (self.data / "pg_hba.conf").write_text(_HBA)
        with (self.data / "postgresql.conf").open("a") as file:
            settings = {**SETTINGS, **changed, "unix_socket_directories": f"'{self.home}'"}
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._control("start", "-w", "-l", str(self.home / "server.log"))

    def stop(self, mode: str = "immediate") -> None:
        """Stop it, and wait for its end."""
        self._control("stop", "-m", mode, "-w")

    def connection(self) -> Any:
        """Return a connection as the owner of the server."""
        return psycopg.connect(host=str(self.home), user=USER, dbname=self.database, autocommit=True)

    def _control(self, *arguments: str) -> None:
        folder = programs()
        assert folder is not None
        self._run([folder / PROGRAMS, "-s", "-D", self.data, *arguments])

    def _run(self, command: list[Any]) -> None:
        # Not to a pipe: the server would inherit it, and `run` would wait for its end.
        with (self.home / "programs.log").open("ab") as said:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd="/",
                check=False,
                **_as_server(),
            )
        if done.returncode:
            raise RuntimeError(f"{command}: {(self.home / 'programs.log').read_text()[-2_000:]}")


_connections: Final[dict[str, Any]] = {}  # by the database


def shared() -> Server:
    """Return the server of this run, started if it is not. Skip the test where there are no programs."""
    if programs() is None:
        pytest.skip(SKIP)
    home = Path(os.environ[HOME])
    server = Server(home)
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            server.make()
            server.start()
    # A database for each process: VACUUM keeps rows that a snapshot of the same database may see.
    server.database = f"of_{os.getpid()}"
    if server.database not in _connections:
        with Server(home).connection() as connection:
            connection.execute(f"CREATE DATABASE {server.database}")
        _connections[server.database] = server.connection()
    return server


def execute(statement: str) -> list[Any]:
    """Run a statement in the database of this process, which has called `shared`. Return its rows."""
    (connection,) = _connections.values()  # a connection for each would take 5 ms of the server's time
    cursor = connection.execute(statement)
    return cursor.fetchall() if cursor.description else []


@contextlib.contextmanager
def started(folder: Path, **changed: str) -> Iterator[Server]:
    """Start a server of its own in a new folder, and stop it. changed: settings."""
    if programs() is None:
        pytest.skip(SKIP)
    # Not below the test's folder: its name is too long for a socket, and nobody else may enter it.
    home = Path(tempfile.mkdtemp(prefix="pg-", dir=folder))
    server = Server(home)
    server.make(**changed)
    server.start()
    try:
        yield server
    finally:
        with contextlib.suppress(RuntimeError):  # a test may have stopped it
            server.stop()
        shutil.rmtree(home, ignore_errors=True)


class SharedServer:
    """The plugin: names the folder before the processes of a run start, and stops the server after them."""

    def pytest_configure(self, config: pytest.Config) -> None:
        """Name the folder, in the process that starts the others."""
        if not hasattr(config, "workerinput"):
            base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
            os.environ[HOME] = f"{base}/callboard-pg-{os.getpid()}-{time.monotonic_ns() % 1_000_000}"

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Stop the server, if it was started."""
        while _connections:
            _connections.popitem()[1].close()
        if hasattr(config, "workerinput"):
            return
        home = Path(os.environ.pop(HOME))
        if home.exists():
            with contextlib.suppress(RuntimeError):
                Server(home).stop()
            shutil.rmtree(home, ignore_errors=True)
        home.with_suffix(".lock").unlink(missing_ok=True)
