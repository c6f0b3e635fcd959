"""Shared parts of the log's tests: events, a batch, a child process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from callboard.actors.protocol.addresses import HOST, MODEL, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.replay.testing.stores.events import add as add
from callboard.replay.testing.stores.events import added as added
from callboard.replay.testing.stores.events import event as event
from callboard.replay.testing.stores.events import events as events
from callboard.replay.testing.stores.events import json_text as json_text
from callboard.replay.testing.stores.events import large as large
from callboard.replay.testing.stores.events import run as run
from callboard.replay.testing.stores.events import same as same
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import Sealed
from callboard.runtime.log.sqlite.log import SQLiteLog

ROOT = Path(__file__).parents[3]
NOBODY = 65_534


def turn(seq: int) -> list[Event]:
    """Return the six events of a turn with one tool call, with bodies of 180 bytes."""
    ways = (
        (HOST, SUPERVISOR),
        (SUPERVISOR, MODEL),
        (MODEL, HOST),
        (HOST, TOOLS),
        (TOOLS, HOST),
        (TOOLS, HOST),
    )
    rest = 180 - len(encode(Cancel("")))
    return [
        event(seq + at, Cancel("r" * (rest - len(',"reason":""'))), sender=sender, recipient=recipient)
        for at, (sender, recipient) in enumerate(ways)
    ]


OWNER = """
import asyncio, os, sys
from callboard.actors.protocol.errors import StoreLocked
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.runtime.log.kit import added, events

async def main():
    log = SQLiteLog(sys.argv[1])
    await log.open()
    await log.create("s", 1, "")
    await added(log, "s", 1, events(1, 3))
    return log

loop = asyncio.new_event_loop()
log = loop.run_until_complete(main())
"""
"""The beginning of a script for `child`: open the log at a path, with three events of session s."""


def child(script: str, *arguments: object, timeout_s: float = 20) -> "subprocess.CompletedProcess[str]":
    """Run a Python script in a process of its own, warnings being errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=timeout_s,
        check=False,
    )


@contextmanager
def as_nobody() -> Iterator[None]:
    """Drop root's right to write everywhere, if the tests have it."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def write_some(path: Path, count: int = 10) -> None:
    """Write a closed log with one session."""

    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, count))
        await log.close()

    run(work)


def seal_one(hash_chain: HashChain, session_id: str, previous: bytes, event: Event) -> Sealed:
    """Return an event in its stored form, with its digest."""
    return next(hash_chain.seal_all(session_id, previous, (event,)).rows((event,)))
