"""Disturb writers of a log on PostgreSQL, and check that it has what they were told and nothing else.

    python -m tests.crash.postgres --rounds 100 --seed 1

A round lets a writer append to some sessions and meanwhile does one of these, at a random moment:

    backend   kill -9 the server's process of the writer; the server recovers, all its connections are cut
    restart   stop the server, at once or after its statements, and start it again
    request   cut the connection inside what the writer sends
    answer    cut the connection inside what the server answers
    client    kill -9 the writer's process; another one takes its sessions over
    paused    stop the writer's process, take its sessions over, let it go on

The writer must go on by itself after the first four. It must never be told a head that the log does not have,
no event may be stored twice or without its writer's knowledge, and a writer that was taken over must be told.
"""

import argparse
import asyncio
import contextlib
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from callboard.actors.protocol.errors import Fenced
from callboard.runtime.log.postgres.address import address_of
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.postgres.reader import PostgresReader
from callboard.runtime.log.protocol import Append, EventLog, Head
from tests.postgres_server import Server, started
from tests.runtime.log.kit import ROOT, events, large

SESSIONS: Final = ("a", "b", "c", "d")
SETTINGS: Final = {"synchronous_commit": "on", "restart_after_crash": "on"}
"""A commit that was told survives the server's processes. No power is lost here, so nothing is synced."""

AFTER: Final = 8  # appends that a writer must do after it was disturbed


class Writer:
    """Appends to all sessions again and again, and notes what it was told."""

    def __init__(self, log: EventLog, heads: dict[str, Head], epochs: dict[str, int], chance: Random) -> None:
        self.heads = heads
        self.appends = 0
        self.fenced: set[str] = set()
        self._log = log
        self._epochs = epochs
        self._chance = chance

    async def write(self) -> None:
        """Append one batch. Raises StoreFailed."""
        batch = []
        for name in self._chance.sample(SESSIONS, self._chance.randint(1, len(SESSIONS))):
            first = self.heads[name].seq + 1
            more = events(first, first + self._chance.randint(0, 6))
            if self._chance.random() < 0.2:
                more.append(large(more[-1].seq + 1, 1_500 + first % 7))
            batch.append(Append(name, first - 1, self._epochs[name], more))
        answers = await self._log.append(batch)
        for part, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Fenced):
                self.fenced.add(part.session_id)
            elif isinstance(answer, Exception):
                raise answer
            else:
                assert answer.seq == part.events[-1].seq
                self.heads[part.session_id] = answer
        self.appends += 1


async def opened(url: str) -> tuple[PostgresLog, dict[str, Head], dict[str, int]]:
    """Open a log, make its sessions if they are missing, and take them over."""
    log = PostgresLog(url)
    await log.open()
    known = {row.session_id for row in await log.sessions()}
    heads, epochs = {}, {}
    for name in SESSIONS:
        if name not in known:
            await log.create(name, 1, "")
        epochs[name], heads[name] = await log.take_over(name)
    return log, heads, epochs


def check(url: str, heads: dict[str, Head]) -> None:
    """Check that the log has these heads, and every event once. Raises CorruptLog, AssertionError."""
    with PostgresReader(url) as reader:
        for name, head in heads.items():
            assert reader.verify_chain(name, head=head) == head, name
            rows = reader.events(name, 1, head.seq + 1)
            assert [row.seq for row in rows] == [*range(1, head.seq + 1)]


# --- disturbances under which the writer goes on --------------------------------------


class Proxy:
    """Passes the bytes of connections on to a server's socket, and cuts one after some of them."""

    def __init__(self, server: Server) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pgp-")
        self.folder = self._folder.name
        self._target = str(server.home / ".s.PGSQL.5432")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{self.folder}/.s.PGSQL.5432")
        self._listener.listen()
        self._left: dict[str, int | None] = {"request": None, "answer": None}
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, way: str, size: int) -> None:
        """Cut the connection that passes this many bytes from now on."""
        self._left[way] = size

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()
        self._folder.cleanup()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        with client, server, contextlib.suppress(OSError):
            server.connect(self._target)
            ways = {client: ("request", server), server: ("answer", client)}
            while True:
                for one in select.select([client, server], [], [])[0]:
                    way, other = ways[one]
                    data = one.recv(65_536)
                    left = self._left[way]
                    if left is not None and left <= len(data):
                        self._left[way] = None
                        other.sendall(data[:left])
                        return
                    if not data:
                        return
                    self._left[way] = None if left is None else left - len(data)
                    other.sendall(data)


def kill_backend(server: Server, chance: Random) -> None:
    """Kill one of the server's processes that serve callboard."""
    query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'callboard'"
    with server.connection() as connection:
        found = [pid for (pid,) in connection.execute(query).fetchall()]
    with contextlib.suppress(ProcessLookupError):
        os.kill(chance.choice(found), signal.SIGKILL)


def restart(server: Server, chance: Random) -> None:
    """Stop the server and start it again."""
    server.stop(chance.choice(("fast", "immediate")))
    server.start()


async def goes_on(url: str, chance: Random, disturb: Callable[[], object]) -> None:
    """Disturb a writer, and let it go on."""
    log, heads, epochs = await opened(url)
    writer = Writer(log, heads, epochs, chance)
    for _ in range(chance.randint(1, 5)):
        await writer.write()
    disturbing = asyncio.create_task(asyncio.to_thread(disturb))
    while not disturbing.done():
        await writer.write()
    await disturbing
    for _ in range(AFTER):
        await writer.write()
    assert not writer.fenced
    await log.close()
    check(url, writer.heads)


# --- disturbances of the writer's process ----------------------------------------------


CHILD: Final = """
import asyncio, sys
from random import Random
from tests.crash.postgres import Writer, opened

async def main():
    log, heads, epochs = await opened(sys.argv[1])
    writer = Writer(log, heads, epochs, Random(sys.argv[2]))
    while not writer.fenced:
        await writer.write()
        print(*(f"{name}:{head.seq}:{head.digest.hex()}" for name, head in writer.heads.items()), flush=True)
    print("fenced", flush=True)

asyncio.run(main())
"""


def told(line: str) -> dict[str, Head]:
    """Return the heads of a line that the child has printed."""
    parts = (one.split(":") for one in line.split())
    return {name: Head(int(seq), bytes.fromhex(digest)) for name, seq, digest in parts}


def begun(url: str, chance: Random) -> "subprocess.Popen[str]":
    """Start a process that writes."""
    command = [sys.executable, "-c", CHILD, url, str(chance.random())]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


async def leaves(url: str, chance: Random, how: signal.Signals) -> None:
    """Kill or stop a process that writes, take its sessions over, and let it go on if it can."""
    child = begun(url, chance)
    assert child.stdout is not None
    line = ""
    for _ in range(chance.randint(2, 12)):
        line = child.stdout.readline()
    child.send_signal(how)
    log, heads, epochs = await opened(url)
    for name, head in told(line).items():
        assert head.seq <= heads[name].seq, (
            f"{name}: {head.seq} was told, and the log ends at {heads[name].seq}"
        )
    check(url, heads)
    writer = Writer(log, heads, epochs, chance)
    for _ in range(AFTER):
        await writer.write()
    if how == signal.SIGSTOP:
        child.send_signal(signal.SIGCONT)
    said = child.stdout.read().split("\n")  # nothing else waits on this loop
    child.wait(30)
    assert (said[-2:-1] == ["fenced"]) is (how == signal.SIGSTOP), said[-3:]
    await writer.write()
    assert not writer.fenced
    await log.close()
    child.stdout.close()
    check(url, writer.heads)


# --- rounds -----------------------------------------------------------------------------


KINDS: Final = ("backend", "restart", "request", "answer", "client", "paused")


def round_of(kind: str, server: Server, chance: Random) -> None:
    """Do one round on a new log of the server."""
    url = server.url(f"r{chance.getrandbits(40):x}")
    if kind in ("client", "paused"):
        how = signal.SIGKILL if kind == "client" else signal.SIGSTOP
        asyncio.run(leaves(url, chance, how))
        return
    if kind == "backend":
        asyncio.run(goes_on(url, chance, lambda: kill_backend(server, chance)))
        return
    if kind == "restart":
        asyncio.run(goes_on(url, chance, lambda: restart(server, chance)))
        return
    proxy = Proxy(server)
    through = url.replace(server.url().partition("host=")[2].partition("&")[0], proxy.folder)
    assert address_of(through).parameters["host"] == proxy.folder
    sizes = 6_000 if kind == "request" else 400
    try:
        asyncio.run(goes_on(through, chance, lambda: proxy.cut_after(kind, chance.randint(0, sizes))))
    finally:
        proxy.close()


def main() -> int:
    """Run the campaign and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--only", choices=KINDS, default="")
    args = parser.parse_args()
    print(f"seed {args.seed}: {args.rounds} rounds", flush=True)
    counts = dict.fromkeys(KINDS, 0)
    with tempfile.TemporaryDirectory(prefix="cb-") as folder:
        Path(folder).chmod(0o755)
        with started(Path(folder), **SETTINGS) as server:
            for number in range(args.rounds):
                kind = args.only or KINDS[number % len(KINDS)]
                try:
                    round_of(kind, server, Random(f"{args.seed} {number}"))
                except BaseException:
                    print(f"round {number} ({kind}) of seed {args.seed} has failed")
                    raise
                counts[kind] += 1
    print(", ".join(f"{kind} {count}" for kind, count in counts.items() if count) + ": all as told")
    return 0


if __name__ == "__main__":
    sys.exit(main())
