"""The engine of the `schema` port: checks cheap reports on the event loop, the rest in a worker.

    small schema, valid report                       jsonschema-rs, on the loop    4 us
    invalid, large, or a schema that refers to itself    in a worker                   1 ms and up
    longer than the request's time                       the worker is killed, `failed`

Nothing here reads a file or the network for a schema, holds the loop for 50 ms, or raises for any
schema or value. Workers are started when first needed. A worker inherits no environment and no files but its
pipes, and runs in a session of its own, so that Ctrl-C in a terminal reaches the parent alone.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

import msgspec

from callboard.actors.protocol.errors import InvalidSchema
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.runtime.schemas.engine import Engine, TooMuch, failed
from callboard.runtime.schemas.json_text import START_S, WORKERS_MAX
from callboard.runtime.schemas.validators import Validators
from callboard.runtime.schemas.worker import ANSWERS, FRAME_BYTES_MAX, HELLO, LENGTH, message_frame

# With -I the interpreter takes neither PYTHONPATH nor the current folder; the parent's own import path is
# handed over instead, so that a checkout, a wheel and a zip file all work.
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from callboard.runtime.schemas.worker import main; main()"
)

# Variables without which some interpreters do not start. Nothing else is handed over.
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")

_ENDED = "the schema worker ended in the middle of the check"
_END_S = 5.0  # seconds that a worker without work may take to end by itself


class WorkerLost(Exception):
    """The worker did not start, ended, or broke the protocol; the message says which."""


class SchemaChecker:
    """Answers `CheckSchema` requests. Belongs to one event loop; close it when done.

    validators: run those of output types, after the check of the schema.
    """

    def __init__(self) -> None:
        self.validators = Validators()
        self._engine = Engine(is_bounded=True)
        self._pool = Pool()
        self._loading: asyncio.Future[ModuleType] | None = None

    def load(self) -> "asyncio.Future[ModuleType]":
        """Begin to import jsonschema-rs in a thread, unless that has begun; return its end.

        Without this the first check begins it. It takes 6 ms and 6 MB, of which 5 are pages of the library's
        file that processes share.
        """
        if self._loading is None:
            loop = asyncio.get_running_loop()
            self._loading = loop.run_in_executor(None, import_module, "callboard.runtime.schemas.compiled")
        return self._loading

    def check(self, request: CheckSchema) -> SchemaChecked | Awaitable[SchemaChecked]:
        """Answer at once if that is cheap; else return an awaitable, which may be cancelled at any time.

        Never raises for a schema or value.
        """
        if not self.load().done():
            return self._check_when_loaded(request)
        try:
            return self._engine.check(request)
        except TooMuch:
            return self._pool.check(request)

    async def refuse_broken(self, schema: Json) -> None:
        """Refuse an output schema that `check` would not accept. Raises InvalidSchema."""
        if schema == NULL:
            return
        answer = self.check(CheckSchema(0, "accept", schema))
        checked = answer if isinstance(answer, SchemaChecked) else await answer
        # A check that failed, for want of a worker for example, is not a fault of the schema.
        if checked.status == "invalid":
            why = "; ".join(map(str, checked.problems))
            raise InvalidSchema(f"output_schema is not a valid JSON schema: {why}")

    async def aclose(self) -> None:
        """End the workers. Checks under way, and later ones that need a worker, are answered `failed`."""
        self.validators.close()
        await self._pool.aclose()

    async def _check_when_loaded(self, request: CheckSchema) -> SchemaChecked:
        await asyncio.shield(self.load())  # a cancelled check must not end the import for the others
        answer = self.check(request)
        return answer if isinstance(answer, SchemaChecked) else await answer


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
        async with AsyncExitStack() as slots:
            for _ in range(WORKERS_MAX):  # all of them: nothing is under way any more
                await slots.enter_async_context(self._slots)
            while self._idle:
                self._end(self._idle.pop())
        while self._endings:
            await asyncio.wait(self._endings)

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[Process]:
        """Lend a ready worker. Keep it if all goes well, end it if anything does not, a cancel included."""
        worker = self._take_idle()
        is_new = worker is None
        worker = worker or await _spawn()
        self._busy.add(worker)
        try:
            if is_new:
                await _greet(worker)
            self._check_open()
            yield worker
        except BaseException as error:
            if not isinstance(error, WorkerLost):
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
            if (worker := self._idle.pop()).returncode is None:
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
    if hello != HELLO:
        raise WorkerLost("the schema worker is of another version: reinstall callboard")


async def _exchange(worker: Process, request: CheckSchema) -> SchemaChecked:
    assert worker.stdin is not None
    try:
        worker.stdin.write(message_frame(request))
        await worker.stdin.drain()
        return ANSWERS.decode(await _read(worker))
    except (ConnectionError, msgspec.DecodeError):
        raise WorkerLost(_ENDED) from None


async def _read(worker: Process) -> bytes:
    """Return the body of the next frame."""
    assert worker.stdout is not None
    try:
        (length,) = LENGTH.unpack(await worker.stdout.readexactly(LENGTH.size))
        if length <= FRAME_BYTES_MAX:
            return await worker.stdout.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        raise WorkerLost(_ENDED) from None
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
