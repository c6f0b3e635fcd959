"""The worker process: answers checks that are too much for the event loop, and can be killed.

It reads requests from stdin and writes answers to stdout, in frames: a length of four bytes, then JSON. It
ends when stdin does, so when its parent is gone; in the middle of a check, a second after the check's time.
"""

import contextlib
import faulthandler
import gc
import os
import struct
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.runtime.schemas import json_text
from callboard.runtime.schemas.engine import Engine

LENGTH: Final = struct.Struct(">I")
HELLO: Final = b"callboard schema worker 2"  # a worker's first frame, when it is ready
# No frame is longer: a schema and a value at their limits take 1.1 MiB, an answer 10 KiB.
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024

_ENCODER: Final = msgspec.json.Encoder()
_REQUESTS: Final = msgspec.json.Decoder(CheckSchema)
ANSWERS: Final = msgspec.json.Decoder(SchemaChecked)

# Seconds after a check's time until the worker ends itself; the parent kills it earlier, if it lives.
_GRACE_S = 1.0
_DAY_S = 86_400.0  # no check takes longer; faulthandler refuses times that its clock cannot count


def frame(body: bytes) -> bytes:
    """Put a frame around a body."""
    return LENGTH.pack(len(body)) + body


def message_frame(message: CheckSchema | SchemaChecked) -> bytes:
    """Put a frame around a message."""
    return frame(_ENCODER.encode(message))


def main() -> None:
    """Serve until stdin ends, on a thread whose stack is deep enough for the deepest check."""
    _bound_resources()
    sys.setrecursionlimit(json_text.RECURSION_MAX)
    threading.stack_size(json_text.WORKER_STACK)
    thread = threading.Thread(target=_serve, daemon=True)
    thread.start()
    thread.join()


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer every request of the stream; its end ends this."""
    import_module("callboard.runtime.schemas.validation")  # before HELLO: no check's time pays for it
    gc.freeze()  # the searches for garbage leave the modules out, also the one at the end
    engine = Engine()
    _write(answers, frame(HELLO))
    while header := requests.read(LENGTH.size):
        (length,) = LENGTH.unpack(header)
        request = _REQUESTS.decode(requests.read(length))
        _write(answers, message_frame(_answer(engine, request)))


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
        import resource  # Windows has no such module

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (json_text.WORKER_MEMORY, json_text.WORKER_MEMORY))
