"""A log of 1 GB is looked at in bounded memory: `make campaign` makes one and measures each view."""

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.effort import IS_CAMPAIGN
from tests.golden import golden

RESULTS = 2_000
RESULT_BYTES = 550_000
MEMORY_MIB = 200
"""The most that a view may hold: the interpreter with its modules has 50."""

VIEWS = (
    ("events", "large"),
    ("events", "large", "--grouped"),
    ("search", "large", "needle"),
    ("why", "large#7", "--value", "needle"),
    ("show", "large"),
    ("tree", "large"),
    ("sessions",),
    ("diagnose", "large"),
    ("diff", "large", "large"),
    ("export", "large"),
)


async def _write(path: Path) -> None:
    """Write a session with results that are all different."""
    random_bytes = random.Random(1).randbytes
    log = SQLiteLog(path, durability="process")
    await log.open()
    try:
        epoch = await log.create("large", 1_735_900_000_000, "")
        events = [event for event in golden("report") if event.seq <= 3]
        seq, at = events[-1].seq, events[-1].at
        await log.append([Append("large", 0, epoch, events)])
        for number in range(1, RESULTS + 1):
            text = ("needle " * (number == 2)) + random_bytes(RESULT_BYTES // 2).hex()
            call = CallTool(number, 0, "read", "read", Json(b'{"n":%d}' % number))
            two = [
                Event(seq + 1, at, "host", "tools", 3, call),
                Event(seq + 2, at, "tools", "host", seq + 1, ToolReturned(number, 0, "ok", text_json(text))),
            ]
            await log.append([Append("large", seq, epoch, two)])
            seq += 2
    finally:
        await log.close()


def _peak_mib(arguments: tuple[str, ...], log: Path) -> int:
    """Run a view in a process of its own. Return the memory that it held at most."""
    sink = os.open(os.devnull, os.O_WRONLY)
    command = [sys.executable, "-m", "callboard", *arguments, "--log", str(log)]
    child = os.posix_spawn(
        sys.executable, command, dict(os.environ), file_actions=[(os.POSIX_SPAWN_DUP2, sink, 1)]
    )
    os.close(sink)
    _, status, used = os.wait4(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, arguments
    return used.ru_maxrss // 1_024


@pytest.mark.timeout(900)
@pytest.mark.skipif(not IS_CAMPAIGN, reason="makes a log of 1 GB: CAMPAIGN=1")
def test_each_view_of_a_log_of_1_gb_holds_little_of_it(tmp_path: Path) -> None:
    log = tmp_path / "large.db"
    asyncio.run(_write(log))
    assert log.stat().st_size > RESULTS * RESULT_BYTES * 0.9
    peaks = {}
    for view in VIEWS:
        peaks[view] = _peak_mib(view, log)
    assert {view: peak for view, peak in peaks.items() if peak > MEMORY_MIB} == {}, peaks
