"""The worker process: answers checks that are too much for the event loop, and can be killed.

It reads requests from stdin and writes answers to stdout. It ends when stdin does, that is when its
parent is gone; in the middle of a check, a second after the check's own time.
"""

import contextlib
import faulthandler
import os
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from callboard.actors.protocol.messages import CheckSchema, SchemaChecked
from callboard.runtime.schemas import limits, worker_protocol
from callboard.runtime.schemas.engine import Engine

# Seconds after a check's time until the worker ends itself; the parent kills it earlier, if it lives.
_GRACE_S = 1.0

_DAY_S = 86_400.0  # no check takes longer; faulthandler refuses times that its clock cannot count


def main() -> None:
    """Serve until stdin ends, on a thread whose stack is deep enough for the deepest check."""
    _bound_resources()
    sys.setrecursionlimit(limits.RECURSION_MAX)
    threading.stack_size(limits.WORKER_STACK)
    thread = threading.Thread(target=_serve, daemon=True)
    thread.start()
    thread.join()


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer every request of the stream; its end ends this."""
    import_module("callboard.runtime.schemas.explain")  # before HELLO: no check's time pays for it
    engine = Engine()
    _write(answers, worker_protocol.frame(worker_protocol.HELLO))
    while header := requests.read(worker_protocol.LENGTH.size):
        (length,) = worker_protocol.LENGTH.unpack(header)
        request = worker_protocol.REQUESTS.decode(requests.read(length))
        _write(answers, worker_protocol.message_frame(_answer(engine, request)))


def _serve() -> None:
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, sys.stdout.buffer)


def _answer(engine: Engine, request: CheckSchema) -> SchemaChecked:
    seconds = min(max(request.timeout_ms / 1_000, 0.0), _DAY_S) + _GRACE_S
    with Path(os.devnull).open("w") as nowhere:
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        try:
            return engine.check(request)
        finally:
            faulthandler.cancel_dump_traceback_later()


def _write(answers: BinaryIO, data: bytes) -> None:
    answers.write(data)
    answers.flush()


def _bound_resources() -> None:
    """Give way to the parent, bound memory and leave no core dumps, where the platform can."""
    with contextlib.suppress(AttributeError, OSError):
        os.nice(10)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # there is none on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (limits.WORKER_MEMORY, limits.WORKER_MEMORY))
