"""The sessions of a killed worker, until all have ended elsewhere.

    python benchmarks/takeovers.py [--sessions 1000] [--calls 10] [--lease 2.0] [--folder FOLDER]

A worker runs the sessions to the last of their calls, each with about 5 events, and is killed there. Another
worker, which has waited beside it, takes them over and runs them to their end. The server is a private one in
the folder, with its durability on, and shares the processors with the workers.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.crash.workers import submit  # noqa: E402  # after the folder of the tests is on the path
from tests.postgres_server import Server, started  # noqa: E402  # as above

AGENT = "tests.crash.cluster_agents:host"
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "256MB"}


def worker(url: str, folder: Path, sessions: int, calls: int, lease_s: float) -> subprocess.Popen[bytes]:
    """Start a worker that has a slot for each session."""
    options = [
        "--slots",
        str(sessions),
        "--lease",
        str(lease_s),
        "--limit",
        "max_iterations=1000",
        "--max-losses",
        "0",
    ]
    with (folder / "workers.log").open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "callboard", "worker", AGENT, *options, "--log", url],
            cwd=ROOT,
            env={
                **os.environ,
                "CLUSTER_CALLS": str(calls),
                "CLUSTER_LAST_PAUSE_S": "3600",
                "CLUSTER_DEEDS": str(folder / "deeds"),
            },
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )


def measure(server: Server, folder: Path, sessions: int, calls: int, lease_s: float) -> tuple[float, float]:
    """Return the seconds from the kill until all sessions have gone on, and until the last has ended."""
    url, deeds = server.url(), folder / "deeds"
    submit(url, sessions)
    first = worker(url, folder, sessions, calls, lease_s)
    try:
        while not deeds.exists() or deeds.read_bytes().count(b"\n") < sessions * calls:
            if first.poll() is not None:
                raise SystemExit((folder / "workers.log").read_text()[-2_000:])
            time.sleep(0.1)
        second = worker(url, folder, sessions, calls, lease_s)
        try:
            with server.connection() as connection:

                def counted(what: str) -> int:
                    row = connection.execute(f"SELECT {what}".encode()).fetchone()
                    return int(row[0]) if row else 0

                while counted("count(*) FROM callboard.workers") < 2:
                    time.sleep(0.1)
                first.kill()
                begun = time.monotonic()
                head = counted("max(head) FROM callboard.sessions")
                while counted(f"count(*) FROM callboard.sessions WHERE head > {head}") < sessions:
                    time.sleep(0.05)
                gone_on = time.monotonic() - begun
                while counted("count(*) FROM callboard.leases"):
                    time.sleep(0.05)
                return gone_on, time.monotonic() - begun
        finally:
            second.kill()
            second.wait()
    finally:
        first.kill()
        first.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--lease", type=float, default=2.0, help="seconds")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="on the disk to measure"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="cb-") as name:
        Path(name).chmod(0o755)  # the server runs as another user where this one is root
        with started(Path(name), **DURABLE) as server:
            gone_on, ended = measure(server, Path(name), options.sessions, options.calls, options.lease)
    print(
        f"{options.sessions:,} sessions of {options.calls} calls: all run elsewhere {gone_on:.2f} s after "
        f"the kill, the lease and {gone_on - options.lease:.2f} s; all have ended after {ended:.2f} s"
    )


if __name__ == "__main__":
    main()
