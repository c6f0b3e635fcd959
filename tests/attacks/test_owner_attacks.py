"""Attack cases O1, O2, O3 and O5: two writers of one log, and a clock that goes back.

O4 (a PostgreSQL server that fails over) belongs to a store that does not exist.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from callboard.actors.protocol.errors import Fenced, StoreLocked
from callboard.actors.protocol.limits import Limits
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.clock import now_ms
from callboard.runtime.log.sqlite import meta
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool
from tests.runtime.log.kit import OWNER, ROOT, add, added, child, event, run

ROUNDS = 100

LOSER = """
import asyncio, sys
from callboard.actors.protocol.errors import Fenced
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.runtime.log.kit import add, event

async def main(path):
    log = SQLiteLog(path, "process")
    await log.open()
    await log.create("s", 1, "")
    seq = 0
    while True:
        more = [event(at, sender="loser") for at in range(seq + 1, seq + 4)]
        answer = await add(log, "s", 1, more)
        if isinstance(answer, Fenced):
            break
        seq = answer.seq
        print(seq, flush=True)
    refused = 0
    for ask in (lambda: log.create("t", 1, ""), lambda: log.take_over("s"), lambda: add(log, "s", 2, more)):
        try:
            refused += isinstance(await ask(), Fenced)
        except Fenced:
            refused += 1
    await log.close()
    print("lost", refused, answer, flush=True)

for line in sys.stdin:
    asyncio.run(main(line.strip()))
"""


class Loser:
    """A process that writes a log until it loses it, and then starts on the next log."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.acknowledged = 0
        self.last_words = ""

    def write(self, path: Path) -> None:
        """Tell the process to open a log and write to it."""
        self.acknowledged, self.last_words = 0, ""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()

    def listen(self, lines: int) -> None:
        """Read reports of acknowledged batches, one a line, until the process reports its end."""
        assert self.process.stdout is not None
        for _ in range(lines):
            line = self.process.stdout.readline()
            if line.startswith("lost"):
                self.last_words = line
                return
            self.acknowledged = int(line)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def hear_the_end(self) -> None:
        while not self.last_words:
            self.listen(1)


@contextmanager
def a_loser() -> Iterator[Loser]:
    command = [sys.executable, "-W", "error", "-c", LOSER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        yield Loser(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0


class Round(NamedTuple):
    refused: int
    head: int
    acknowledged: int


async def one_round(loser: Loser, path: Path, chance: random.Random) -> Round:
    """Stop the owner, take over its log, let it continue, and return the counts of both sides."""
    loser.write(path)
    loser.listen(1)
    refused = 0
    while True:
        loser.listen(chance.randint(1, 3))
        loser.stop()
        with pytest.raises(StoreLocked, match=f"process {loser.process.pid}"):
            await SQLiteLog(path).open()
        log = SQLiteLog(path, "process", force=True)
        try:
            await log.open()
            break
        except StoreLocked:  # it was stopped in the middle of a write: its lock cannot be taken
            refused += 1
            loser.go_on()
    epoch, head = await log.take_over("s")
    await added(log, "s", epoch, [event(seq, sender="winner") for seq in range(head.seq + 1, head.seq + 3)])
    loser.go_on()
    loser.hear_the_end()
    await added(log, "s", epoch, [event(head.seq + 3, sender="winner")])
    await log.close()
    return Round(refused, head.seq, loser.acknowledged)


@pytest.mark.slow
def test_o1_a_stopped_owner_that_wakes_up_appends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meta, "CONTEST_TIMEOUT_MS", 10)
    chance = random.Random(7)
    with a_loser() as loser:
        for number in range(ROUNDS):
            path = tmp_path / f"{number}.db"
            found = run(partial(one_round, loser, path, chance))
            assert "lost 3 " in loser.last_words
            assert "was taken over by another process" in loser.last_words
            with SQLiteReader(path) as reader:
                senders = [row.sender for row in reader.events("s")]
                assert senders == ["loser"] * found.head + ["winner"] * 3
                assert found.acknowledged <= found.head
                assert reader.verify_chain("s").seq == found.head + 3
                assert [row.session_id for row in reader.sessions()] == ["s"]


def test_o1_a_former_owner_in_the_same_process_is_refused_in_every_call(tmp_path: Path) -> None:
    # The lock file is removed: otherwise the second owner could not open the log.
    path = tmp_path / "log.db"

    async def work() -> None:
        first = SQLiteLog(path)
        await first.open()
        for name in "ab":
            await first.create(name, 1, "")
            await added(first, name, 1, [event(1, sender="first")])
        (tmp_path / "log.db.lock").unlink()
        second = SQLiteLog(path)
        await second.open()
        assert isinstance(await add(first, "a", 1, [event(2, sender="first")]), Fenced)
        for ask in (
            lambda: first.create("c", 1, ""),
            lambda: first.take_over("b"),
            lambda: first.read("a"),
            first.sessions,
        ):
            with pytest.raises(Fenced, match="taken over by another process"):
                await ask()
        await added(second, "b", 1, [event(2, sender="second")])
        await first.close()
        with pytest.raises(StoreLocked):
            await SQLiteLog(path).open()
        await added(second, "b", 1, [event(3, sender="second")])
        await second.close()

    run(work)
    with SQLiteReader(path) as reader:
        assert [row.sender for row in reader.events("a")] == ["first"]
        assert [row.sender for row in reader.events("b")] == ["first", "second", "second"]


def test_o1_a_process_cannot_take_its_own_log_by_force(tmp_path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(tmp_path / "log.db")
        await log.open()
        with pytest.raises(StoreLocked, match="this process"):
            await SQLiteLog(tmp_path / "log.db", force=True).open()
        await log.create("s", 1, "")
        await log.close()
        forced = SQLiteLog(tmp_path / "log.db", force=True)  # it has no owner: force makes no difference
        await forced.open()
        with pytest.raises(StoreLocked):
            await SQLiteLog(tmp_path / "log.db").open()
        await forced.close()

    run(work)


@pytest.mark.slow
def test_o2_a_second_process_is_refused_and_appends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    script = """
import asyncio, sys
from callboard.actors.protocol.errors import StoreLocked
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.runtime.log.kit import added, events

async def main():
    log = SQLiteLog(sys.argv[1])
    try:
        await log.open()
    except StoreLocked as error:
        print(error)
    await added(log, "s", 1, events(2, 2))

asyncio.run(main())
"""

    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, [event(1)])
        done = await asyncio.to_thread(child, script, path)
        assert f"owned by process {os.getpid()}" in done.stdout
        assert "is not open" in done.stderr
        await added(log, "s", 1, [event(2)])
        await log.close()

    run(work)
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == 2


@pytest.mark.slow
def test_o3_a_forked_child_appends_nothing_and_its_parent_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    script = (
        OWNER
        + """
async def as_child():
    for ask in (lambda: added(log, "s", 1, events(4, 6)), lambda: log.take_over("s")):
        try:
            await ask()
        except StoreLocked as error:
            print(error, flush=True)

pid = os.fork()
if pid == 0:
    asyncio.run(as_child())
    os._exit(0)
print("status", os.waitpid(pid, 0)[1], flush=True)
loop.run_until_complete(added(log, "s", 1, events(4, 9)))
loop.run_until_complete(log.close())
loop.close()
"""
    )
    done = child(script, path)
    assert done.stderr == ""
    assert done.stdout.count("from which this one was forked") == 2
    assert "status 0" in done.stdout
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == 9


@tool(effect="write")
def note(text: str) -> str:
    """Note something."""
    return text


def test_o5_a_clock_that_goes_back_an_hour_never_goes_back_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, hour_ms = tmp_path / "log.db", 3_600_000
    posted = 0

    def wrong() -> int:
        nonlocal posted
        posted += 1
        return now_ms() - (hour_ms if posted > 6 else 0)

    monkeypatch.setattr("callboard.runtime.sessions.board.now_ms", wrong)

    async def work() -> tuple[int, str]:
        model = ScriptedModel([call("note", text="a"), call("note", text="b"), say("Done.")])
        async with Runtime(path, model=model) as runtime:
            limits = Limits(deadline_s=1_800)  # the hour is twice as long
            outcome = await runtime.run(Agent("host", tools=[note]), "Note.", session_id="s", limits=limits)
            assert outcome.is_ok
            assert outcome.text == "Done."
            return outcome.head

    seq, digest = run(work)
    recording = Recording.open(path, "s")
    assert recording.verify().is_ok
    assert (recording.head.seq, recording.head.digest.hex()) == (seq, digest)
    times = [one.at for one in recording.events]
    assert posted > 6
    assert times == sorted(times)
