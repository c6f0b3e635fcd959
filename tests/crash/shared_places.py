"""Kill and pause workers that share the places of a model, and count the calls in flight at its service.

    python -m tests.crash.shared_places --sessions 60 --calls 4 --kills 3 --pauses 3 --seed 1

A service on loopback counts each call until it has computed the answer, whether or not its worker still
waits. One worker after another, drawn by the seed among those with calls in flight, is killed and started
again, or stopped for longer than its lease and the longest call. There must never be more calls than places.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, Final, NamedTuple

from tests.crash.workers import ROOT, left, submit
from tests.postgres_server import Server, started

WORKERS: Final = 3
LEASE_S: Final = 2.0  # a busy machine lets a process wait for a second
CALL_S: Final = 0.5
CALL_S_MAX: Final = 2.0  # `model_timeout_s` of the sessions
PATIENCE_S: Final = 120


class Verdict(NamedTuple):
    """The count after a campaign. most: calls in flight at a time. faults: those with calls in flight."""

    calls: int
    most: int
    faults: int
    workers: int


class Service(ThreadingTCPServer):
    """A model service that counts the calls in flight, by worker."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Call)
        self.lock = threading.Lock()
        self.in_flight = Counter[int]()
        self.calls = Counter[int]()
        self.most = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Call(StreamRequestHandler):
    server: Service

    def handle(self) -> None:
        worker = int(self.rfile.readline() or 0)
        with self.server.lock:
            self.server.in_flight[worker] += 1
            self.server.calls[worker] += 1
            self.server.most = max(self.server.most, self.server.in_flight.total())
        time.sleep(CALL_S)
        with self.server.lock:
            self.server.in_flight[worker] -= 1
        try:
            self.wfile.write(b"done\n")
        except OSError:
            return  # its worker was killed, or gave the call up


class Fleet:
    """Worker processes on one log, with one model service."""

    def __init__(self, url: str, folder: Path, calls: int) -> None:
        self.service, self.folder = Service(), folder
        self.command = [sys.executable, "-m", "callboard", "worker", "tests.crash.counted_agents:host"]
        self.command += ["--lease", str(LEASE_S), "--limit", f"model_timeout_s={CALL_S_MAX}", "--log", url]
        self.command += ["--capacity", f"m={calls}", "--slots", "30"]
        self.processes = [self.start() for _ in range(WORKERS)]

    def start(self) -> subprocess.Popen[bytes]:
        """Start a worker."""
        environment = {**os.environ, "COUNTED_PORT": str(self.service.server_address[1])}
        with (self.folder / "workers.log").open("ab") as said:
            return subprocess.Popen(
                self.command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )

    def busy(self) -> list[int]:
        """Return the workers that have calls in flight."""
        return [at for at, one in enumerate(self.processes) if self.service.in_flight[one.pid]]

    def kill(self, at: int) -> None:
        """Kill a worker, and start another one in its place."""
        self.processes[at].kill()
        self.processes[at].wait()
        self.processes[at] = self.start()

    def pause(self, at: int) -> None:
        """Stop a worker until others have its places, and let it go on."""
        self.processes[at].send_signal(signal.SIGSTOP)
        time.sleep((LEASE_S + CALL_S_MAX) * 1.2)
        self.processes[at].send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill the workers, and stop the service."""
        for one in self.processes:
            one.kill()
            one.wait()
        self.service.shutdown()
        self.service.server_close()


def campaign(
    server: Server, folder: Path, *, sessions: int, calls: int, kills: int, pauses: int, seed: int
) -> Verdict:
    """Run it. Raises AssertionError with the workers' output if a session does not end."""
    url, rng = server.url(), Random(seed)
    submit(url, sessions)
    fleet = Fleet(url, folder, calls)
    faults = ["kill"] * kills + ["pause"] * pauses
    rng.shuffle(faults)
    done, begun = 0, time.monotonic()
    try:
        while left(server):
            said: Any = time.monotonic() - begun < PATIENCE_S or (folder / "workers.log").read_text()[-3_000:]
            assert said is True, (left(server), said)
            if faults and (busy := fleet.busy()):
                getattr(fleet, faults.pop())(rng.choice(busy))
                done += 1
            time.sleep(0.05)
    finally:
        fleet.close()
    found = fleet.service
    return Verdict(found.calls.total(), found.most, done, len(found.calls))


def main() -> int:
    """Run a campaign on a private server. Return 1 if calls exceeded places, or for too few faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("sessions", 200), ("calls", 4), ("kills", 3), ("pauses", 3), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    base = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())
    with tempfile.TemporaryDirectory() as folder, started(base) as server:
        found = campaign(server, Path(folder), **vars(given))
    print(f"{found.calls:,} calls of {found.workers} workers, at most {found.most} in {given.calls} places")
    print(f"{found.faults} faults of workers with calls in flight")
    return int(found.most > given.calls or found.faults < given.kills + given.pauses)


if __name__ == "__main__":
    sys.exit(main())
