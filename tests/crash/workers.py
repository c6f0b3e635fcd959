"""Kill and pause workers that share sessions, and count the effects that happened twice.

    python -m tests.crash.workers --sessions 60 --calls 80 --kills 10 --pauses 10 --seed 1

Three workers run sessions whose every turn is one `write` tool, which appends a line to a file. Again and
again one of them, drawn by the seed, is killed with SIGKILL and started again, or stopped with SIGSTOP for
longer than its lease. All sessions must end, and no effect may have happened twice.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.replay.recording import Recording
from callboard.runtime.log.reading import open_reader
from tests.postgres_server import Server, started

ROOT = Path(__file__).parent.parent.parent
WORKERS = 3
PATIENCE_S = 400


class Verdict(NamedTuple):
    """The count after a campaign. twice: effects that happened more than once. unknown: to their agents.

    resumed: takeovers. faults: those that came before the last session had ended; others try nothing.
    """

    ended: int
    effects: int
    twice: int
    unknown: int
    resumed: int
    faults: int


class Fleet:
    """Worker processes on one log."""

    def __init__(self, url: str, folder: Path, calls: int, lease_s: float, pause_s: float) -> None:
        self.url, self.folder, self.lease_s = url, folder, lease_s
        self.environment = {
            **os.environ,
            "CLUSTER_CALLS": str(calls),
            "CLUSTER_PAUSE_S": str(pause_s),
            "CLUSTER_DEEDS": str(folder / "deeds"),
        }
        self.processes = [self.start() for _ in range(WORKERS)]

    def start(self) -> subprocess.Popen[bytes]:
        """Start a worker."""
        command = [sys.executable, "-m", "callboard", "worker", "tests.crash.cluster_agents:host"]
        with (self.folder / "workers.log").open("ab") as said:
            return subprocess.Popen(
                [
                    *command,
                    "--limit",
                    "max_iterations=1000",
                    "--max-losses",
                    "0",
                    "--lease",
                    str(self.lease_s),
                    "--log",
                    self.url,
                ],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    def kill(self, at: int) -> None:
        """Kill a worker, and start another one in its place."""
        self.processes[at].kill()
        self.processes[at].wait()
        self.processes[at] = self.start()

    def pause(self, at: int) -> None:
        """Stop a worker for longer than its lease, and let it go on."""
        self.processes[at].send_signal(signal.SIGSTOP)
        time.sleep(self.lease_s * 1.5)
        self.processes[at].send_signal(signal.SIGCONT)

    def end(self) -> list[int]:
        """Ask all workers to drain. Return their exit codes."""
        for one in self.processes:
            one.terminate()
        return [one.wait(timeout=30) for one in self.processes]

    def abandon(self) -> None:
        """Kill those that are left."""
        for one in self.processes:
            if one.poll() is None:
                one.kill()
                one.wait()


def left(server: Server) -> int:
    """Return the number of submitted sessions that have not ended."""
    with server.connection() as connection:
        row: Any = connection.execute("SELECT count(*) FROM callboard.leases").fetchone()
    return int(row[0])


def submit(url: str, sessions: int) -> None:
    """Submit sessions s0, s1, ..."""
    import asyncio

    from callboard.cli.worker_command import leases_of

    async def work() -> None:
        async with leases_of(url) as leases:
            for at in range(sessions):
                name = f"s{at}"
                await leases.change(lambda one, name=name: one.submit(name, "host", name, "do it"))  # type: ignore[misc]  # a lambda's default

    asyncio.run(work())


def campaign(
    server: Server,
    folder: Path,
    *,
    sessions: int,
    calls: int,
    kills: int,
    pauses: int,
    seed: int,
    lease_s: float = 2.0,
    pause_s: float = 0.8,
) -> Verdict:
    """Run it. Raises AssertionError with the workers' output if a session does not end."""
    url, rng = server.url(), Random(seed)
    submit(url, sessions)
    fleet = Fleet(url, folder, calls, lease_s, pause_s)
    deeds = folder / "deeds"
    try:
        begun = time.monotonic()
        while not deeds.exists() and time.monotonic() - begun < 30:
            time.sleep(0.05)
        faults = ["kill"] * kills + ["pause"] * pauses
        rng.shuffle(faults)
        done = 0
        for fault in faults:
            if not left(server):
                break
            done += 1
            time.sleep(rng.uniform(0.2, 0.8))
            getattr(fleet, fault)(rng.randrange(WORKERS))
        while left(server) and time.monotonic() - begun < PATIENCE_S:
            time.sleep(0.1)
        assert not left(server), (left(server), (folder / "workers.log").read_text()[-3_000:])
        # One that was started a moment ago may not listen to the signal yet, and just ends.
        assert set(fleet.end()) <= {0, -signal.SIGTERM}, (folder / "workers.log").read_text()[-3_000:]
    finally:
        fleet.abandon()
    return verdict(url, deeds, sessions)._replace(faults=done)


def verdict(url: str, deeds: Path, sessions: int) -> Verdict:
    """Count effects, and the sessions whose chain is whole and whose outcome is an answer."""
    found = Counter(deeds.read_text().splitlines())
    ended = unknown = resumed = 0
    with open_reader(url) as reader:
        rows = {row.session_id: (row.status, row.kind) for row in reader.sessions()}
    for at in range(sessions):
        with Recording.open(url, f"s{at}") as recording:
            bodies = [one.body for one in recording.events_after(0)]
            unknown += sum(isinstance(one, ToolReturned) and one.status == "interrupted" for one in bodies)
            resumed += sum(isinstance(one, Resumed) for one in bodies)
            recording.verify().check()
            ended += rows[f"s{at}"] == ("closed", "answered")
    return Verdict(ended, found.total(), sum(count > 1 for count in found.values()), unknown, resumed, 0)


def main() -> int:
    """Run a campaign on a private server. Return 1 if an effect happened twice or a session did not end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("sessions", 60), ("calls", 80), ("kills", 10), ("pauses", 10), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    base = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())
    with tempfile.TemporaryDirectory() as folder, started(base) as server:
        found = campaign(server, Path(folder), **vars(given))
    print(
        f"{found.ended} of {given.sessions} sessions ended, their chains verified; {found.effects:,} effects"
    )
    print(f"{found.twice} effects happened twice; {found.unknown} are unknown to their agents")
    print(f"{found.faults} faults, {found.resumed} takeovers of sessions")
    is_whole = found.ended == given.sessions and found.faults == given.kills + given.pauses
    return int(found.twice > 0 or not is_whole)


if __name__ == "__main__":
    sys.exit(main())
