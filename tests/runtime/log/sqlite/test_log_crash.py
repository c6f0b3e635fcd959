"""A process that is killed while it writes loses nothing that it was told is stored."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import CorruptLog
from callboard.runtime.log.protocol import Head
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.processes import running
from tests.runtime.log.kit import ROOT, added, event, events, run

WRITER = """
import asyncio, sys
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.writer import GroupWriter
from tests.runtime.log.kit import event, large

async def main():
    log = SQLiteLog(sys.argv[1], sys.argv[2])
    await log.open()
    writer = GroupWriter(log)
    for name in ("a", "b"):
        epoch, head = await log.take_over(name)
        writer.attach(name, epoch, head)
        writer.on_durable(name, lambda head, name=name: print(name, head.seq, head.digest.hex(), flush=True))
    seqs = {name: (await writer.wait(name, 0)).seq for name in ("a", "b")}
    while True:
        for name in seqs:
            for size in (1, 3, 7):  # decisions of so many events
                first = seqs[name] + 1
                seqs[name] += size
                decision = [event(seq, cause=first) for seq in range(first, first + size)]
                decision[-1] = large(seqs[name], 1_500 + seqs[name] % 90)
                writer.stage(name, epoch, decision)
        await asyncio.sleep(0.0002)

asyncio.run(main())
"""


def killed_after(path: Path, durability: str, seconds: float) -> dict[str, Head]:
    """Return the last heads that a writer printed before it was killed."""
    command = [sys.executable, "-c", WRITER, str(path), durability]
    with running(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline()]
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.read().splitlines()
    heads = {}
    for line in lines:
        if line.count(" ") == 2 and len(line.strip()) > 66:  # not the half of a line
            name, seq, digest = line.split()
            heads[name] = Head(int(seq), bytes.fromhex(digest))
    return heads


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["full", "process"])
def test_kill_9_loses_nothing_acknowledged_and_leaves_whole_batches(tmp_path: Path, durability: str) -> None:
    path = tmp_path / "log.db"

    async def make() -> None:
        log = SQLiteLog(path)
        await log.open()
        for name in ("a", "b"):
            await log.create(name, 1, "")
        await log.close()

    run(make)
    chance = random.Random(5)
    lasting = {"a": 0, "b": 0}
    for _ in range(3):
        heads = killed_after(path, durability, chance.uniform(0, 0.12))
        with SQLiteReader(path) as reader:
            for name, least in lasting.items():
                found = reader.verify_chain(name, head=heads.get(name))
                assert found.seq >= max(least, heads[name].seq if name in heads else 0)
                last = reader.events(name, found.seq)[0]
                assert len(last.body) > 1_500, "a decision was cut in two"
                lasting[name] = found.seq
    assert min(lasting.values()) > 100
    run(lambda: go_on(path, lasting["a"]))


async def go_on(path: Path, head: int) -> None:
    """Take over where the killed owner stopped."""
    log = SQLiteLog(path)
    await log.open()
    epoch, found = await log.take_over("a")
    assert (epoch, found.seq) == (5, head)
    await added(log, "a", epoch, events(head + 1, head + 3))
    await log.close()


def test_a_damaged_wal_is_found_by_a_head_that_was_kept(tmp_path: Path) -> None:
    """Show that SQLite sees no error, and that its integrity check passes."""
    path, copy = tmp_path / "log.db", tmp_path / "copy.db"

    async def write() -> Head:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        for seq in range(1, 30):
            await added(log, "s", 1, [event(seq)])
        head = await added(log, "s", 1, [event(30)])
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
        await log.close()
        return head

    head = run(write)
    wal = Path(f"{copy}-wal")
    damaged = bytearray(wal.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    wal.write_bytes(damaged)
    with SQLiteReader(copy) as reader:
        found = reader.verify_chain("s")
        assert 0 < found.seq < head.seq
        with pytest.raises(CorruptLog, match=f"event {found.seq + 1} is missing"):
            reader.verify_chain("s", head=head)
