"""Kill owners and clients between the steps of commands: each command has one event and one result.

    python -m tests.crash.commands --rounds 170 --seed 1

A client sends two asks and five commands for their sessions, and a process owns the sessions. In each round
one of the two is killed with SIGKILL at one of these points:

    in a claim        the sessions are claimed, and the transaction is not committed yet
    claimed           it is committed, and the sessions are not opened yet
    taken over        a session has its epoch, and nothing is posted yet
    read              the owner has the rows of the commands
    carrying out      it begins with one
    posted            the event of a command is in the memory of the owner alone
    before append     the log is about to store and mark it
    in an append      meanwhile, at a random moment
    appended          it is stored and marked, and the owner does not know it yet
    in an answer      a command without an event is answered, and the answer is not committed yet
    answered          it is committed
    in a finish       a session is taken out of those that are shared, and that is not committed yet
    finished          it is committed
    in a submit       the client's row is written, and not committed yet
    submitted         it is committed, and the client does not know it yet
    waiting           the client has asked for the answer in vain
    settled           there is one, which the client has not shown to anyone

Another process then goes on in place of the dead one, and the client sends every command again.
"""

import argparse
import asyncio
import multiprocessing
import secrets
import signal
import sys
import tempfile
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from unittest.mock import patch

from callboard.actors.protocol.client_messages import Ask, Cancel, Tell, ToolsChanged
from callboard.actors.protocol.port_messages import ApprovalGiven
from callboard.replay.recording import Recording
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.runtime import Runtime
from tests.crash.command_points import OF_OWNERS, PATIENCE_S, POINTS, QUICK, child, owning, results
from tests.postgres_server import Server, started


def round_of(server: Server, folder: Path, point: str, nth: int, chance: Random) -> None:
    """Do a round on a new log. Raises AssertionError if a command has no event, two, or another result."""
    url = server.url(f"r{chance.getrandbits(40):x}")
    deeds = folder / f"deeds-{chance.getrandbits(40):x}"
    # A server that forks: it imports the modules once, and no thread of this process is copied.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([child.__module__])
    dying = context.Process(target=child, args=(url, deeds, point, nth, chance.uniform(0, 0.004)))
    with patch.object(*QUICK[0]), patch.object(*QUICK[1]):
        work = _owner_dies(url, deeds, dying) if point in OF_OWNERS else _client_dies(url, deeds, dying)
        try:
            first, again = asyncio.run(asyncio.wait_for(work, PATIENCE_S))
        finally:
            if dying.is_alive():
                dying.kill()
            dying.join()
    assert dying.exitcode == -signal.SIGKILL, f"{point} was not reached: {dying.exitcode}"
    _check(url, deeds, first, again)


async def _owner_dies(url: str, deeds: Path, dying: BaseProcess) -> tuple[list[str], list[str]]:
    async with Runtime.connect(url) as client:
        first = asyncio.create_task(results(client))
        dying.start()
        await asyncio.to_thread(dying.join)
        await _end_lease(url)
        async with owning(url, deeds, "next"):
            return await first, await results(client)


async def _client_dies(url: str, deeds: Path, dying: BaseProcess) -> tuple[list[str], list[str]]:
    async with owning(url, deeds, "owner"):
        dying.start()
        await asyncio.to_thread(dying.join)
        async with Runtime.connect(url) as client:
            return await results(client), await results(client)


async def _end_lease(url: str) -> None:
    """End the lease of the process that was killed, which only saves the time until it ends."""
    async with Leases(url) as leases:
        await leases.change(lambda one: one._run("UPDATE {s}.workers SET ends_ms = 0 WHERE name = 'dying'"))


def _check(url: str, deeds: Path, first: list[str], again: list[str]) -> None:
    assert first == again
    assert "'all done'" in first[0], first
    assert [one.partition(":")[0] for one in first[3:6]] == ["None", "UnknownName", "True"], first
    counts, verdicts = Counter[type](), list[str]()
    for name in "sc":
        with Recording.open(url, name) as recording:
            bodies = [one.body for one in recording.events_after(0)]
            counts.update(map(type, bodies))
            verdicts += [one.verdict for one in bodies if isinstance(one, ApprovalGiven) and name == "s"]
            recording.verify().check()
    assert [counts[kind] for kind in (Ask, Tell, ToolsChanged, Cancel)] == [2, 1, 1, 1], counts
    assert verdicts == ["approved"], verdicts
    assert not deeds.exists() or deeds.read_text() == "1\n"  # it may be killed just before the effect


def main() -> int:
    """Run the campaign and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=170)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--only", choices=POINTS, default="")
    args = parser.parse_args()
    print(f"seed {args.seed}: {args.rounds} rounds", flush=True)
    counts = dict.fromkeys(POINTS, 0)
    with tempfile.TemporaryDirectory(prefix="cb-") as folder:
        Path(folder).chmod(0o755)
        with started(Path(folder)) as server:
            for number in range(args.rounds):
                chance = Random(f"{args.seed} {number}")
                point = args.only or [*POINTS][number % len(POINTS)]
                nth = chance.randint(1, POINTS[point])
                try:
                    round_of(server, Path(folder), point, nth, chance)
                except BaseException:
                    print(f"round {number} ({point}, {nth}) of seed {args.seed} has failed")
                    raise
                counts[point] += 1
    print(", ".join(f"{point} {count}" for point, count in counts.items() if count) + ": all as promised")
    return 0


if __name__ == "__main__":
    sys.exit(main())
