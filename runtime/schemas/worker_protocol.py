"""The frames between a checker and its worker: a length of four bytes, then JSON."""

import struct
from typing import Final

import msgspec

from callboard.actors.protocol.messages import CheckSchema, SchemaChecked

LENGTH: Final = struct.Struct(">I")

HELLO: Final = b"callboard schema worker 2"  # a worker's first frame, when it is ready

# No frame is longer: a schema and a value at their limits take 1.1 MiB, an answer 10 KiB.
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024

_ENCODER: Final = msgspec.json.Encoder()
REQUESTS: Final = msgspec.json.Decoder(CheckSchema)
ANSWERS: Final = msgspec.json.Decoder(SchemaChecked)


def frame(body: bytes) -> bytes:
    """Put a frame around a body."""
    return LENGTH.pack(len(body)) + body


def message_frame(message: CheckSchema | SchemaChecked) -> bytes:
    """Put a frame around a message."""
    return frame(_ENCODER.encode(message))
