"""The worker processes of a checker: started when first needed, killed when they take too long.

A worker inherits no environment and no files but its pipes, and runs in a session of its own, so that
Ctrl-C in a terminal reaches the parent alone. It answers one check at a time; further checks wait.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from callboard.actors.protocol.messages import CheckSchema, SchemaChecked
from callboard.runtime.schemas import worker_protocol
from callboard.runtime.schemas.engine import failed
from callboard.runtime.schemas.limits import START_S, WORKERS_MAX

# With -I the interpreter takes neither PYTHONPATH nor the current folder; the parent's own import path is
# handed over instead, so that a checkout, a wheel and a zip file all work.
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from callboard.runtime.schemas.worker import main; main()"
)

# Variables without which some interpreters do not start. Nothing else is handed over.
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")

_END_S = 5.0  # seconds that a worker without work may take to end by itself


class WorkerLost(Exception):
    """The worker did not start, ended, or broke the protocol; the message says which."""


class Pool:
    """At most WORKERS_MAX workers, of one event loop."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(WORKERS_MAX)
        self._idle: list[Process] = []
        self._busy: set[Process] = set()
        self._endings: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def check(self, request: CheckSchema) -> SchemaChecked:
        """Return the worker's answer, or `failed`. The request's time counts from when a worker is free."""
        try:
            async with self._slots, self._worker() as worker:
                async with asyncio.timeout(request.timeout_ms / 1_000):
                    return await _exchange(worker, request)
        except TimeoutError:
            took = f"the check took longer than {request.timeout_ms:,} ms and was stopped"
            return failed(request, f"{took}: simplify the schema, or make the value smaller")
        except WorkerLost as error:
            return failed(request, str(error))

    async def aclose(self) -> None:
        """End the workers; checks under way are answered `failed`."""
        self._is_closed = True
        for worker in self._busy:
            _kill(worker)
        taken = 0
        try:
            while taken < WORKERS_MAX:  # all of them: nothing is under way any more
                await self._slots.acquire()
                taken += 1
            while self._idle:
                self._end(self._idle.pop())
        finally:
            for _ in range(taken):
                self._slots.release()
        while self._endings:
            await asyncio.wait(self._endings)

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[Process]:
        """Lend a ready worker. Keep it if all goes well, end it if anything does not, a cancel included."""
        worker = self._take_idle()
        is_new = worker is None
        if worker is None:
            worker = await _spawn()
        self._busy.add(worker)
        try:
            if is_new:
                await _greet(worker)
            self._check_open()
            yield worker
        except WorkerLost:
            self._end(worker)
            raise
        except BaseException:
            _kill(worker)
            self._end(worker)
            raise
        else:
            self._idle.append(worker)
        finally:
            self._busy.discard(worker)

    def _take_idle(self) -> Process | None:
        """Return an idle worker that still lives, if there is one."""
        self._check_open()
        while self._idle:
            worker = self._idle.pop()
            if worker.returncode is None:
                return worker
            self._end(worker)
        return None

    def _check_open(self) -> None:
        if self._is_closed:
            raise WorkerLost("the schema checker is closed")

    def _end(self, worker: Process) -> None:
        """Collect a worker in the background, as the check that used it may have been cancelled."""
        ending = asyncio.get_running_loop().create_task(_collect(worker))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)


def _command() -> tuple[str, ...]:
    paths = [str(Path(each).absolute()) for each in sys.path if each]
    return sys.executable, "-I", "-c", _BOOT, json.dumps(paths)


async def _spawn() -> Process:
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    try:
        return await asyncio.create_subprocess_exec(
            *_command(), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment, start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise WorkerLost(f"the schema worker cannot be started: {type(error).__name__}") from None


async def _greet(worker: Process) -> None:
    """Wait until a new worker is ready."""
    try:
        async with asyncio.timeout(START_S):
            hello = await _read(worker)
    except TimeoutError:
        raise WorkerLost(f"the schema worker did not start within {START_S:g} s") from None
    if hello != worker_protocol.HELLO:
        raise WorkerLost("the schema worker is of another version: reinstall callboard")


async def _exchange(worker: Process, request: CheckSchema) -> SchemaChecked:
    if worker.stdin is None:
        raise WorkerLost("the schema worker has no input")
    try:
        worker.stdin.write(worker_protocol.message_frame(request))
        await worker.stdin.drain()
        return worker_protocol.ANSWERS.decode(await _read(worker))
    except (ConnectionError, msgspec.DecodeError):
        raise WorkerLost("the schema worker ended in the middle of the check") from None


async def _read(worker: Process) -> bytes:
    """Return the body of the next frame."""
    if worker.stdout is None:
        raise WorkerLost("the schema worker has no output")
    try:
        (length,) = worker_protocol.LENGTH.unpack(
            await worker.stdout.readexactly(worker_protocol.LENGTH.size)
        )
        if length <= worker_protocol.FRAME_BYTES_MAX:
            return await worker.stdout.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        raise WorkerLost("the schema worker ended in the middle of the check") from None
    raise WorkerLost("the schema worker sent no answer but something else")


def _kill(worker: Process) -> None:
    with suppress(ProcessLookupError):
        worker.kill()


async def _collect(worker: Process) -> None:
    """Close the worker's pipes, which ends it if it still lives, and wait: no zombie and no handle is left.

    It is killed only if that does not help, since asyncio before 3.12 reports a child that was killed
    after its end as unknown.
    """
    try:
        async with asyncio.timeout(_END_S):
            await worker.communicate(b"")
    except TimeoutError:
        _kill(worker)
        await worker.wait()
