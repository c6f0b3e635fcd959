"""Large JSON values are cut out of a body's text and kept once, under the digest of their bytes.

Of bodies of more than 1 KiB, the fields that hold foreign JSON (`Json`, or a tuple of `Json`) of at least
1 KiB are cut out. `null` stands in their place, so the text is still JSON. Their offsets and digests are kept
beside the text, never in it: no user's data can be mistaken for a reference.
"""

from collections.abc import Iterable
from hashlib import blake2b
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage

BODY_BYTES_MAX: Final = 1_024  # size up to which bodies are stored unchanged, at the price of one comparison
PIECE_BYTES_MIN: Final = 1_024  # a blob costs some 90 bytes of its own (row, index, offset)
_HOLE: Final = b"null"
# To find the offsets, the message is encoded again with the byte 0xFF, which UTF-8 never has, for each large
# value (the encoder copies `Json` unread). The value's own bytes could be found in another field.
_PLACEHOLDER_BYTE: Final = b"\xff"
_PLACEHOLDER: Final[Json] = msgspec.Raw(_PLACEHOLDER_BYTE)


class Cut(NamedTuple):
    """A value that was cut out. offset: of its `null` in the stored text."""

    offset: int
    digest: bytes
    data: bytes


def blob_digest(data: bytes) -> bytes:
    """Return the digest of a blob: BLAKE2b, 32 bytes, person "callboard/blob"."""
    # Never keyed: the events' hash chain covers it, so the chain's key protects blobs too.
    return blake2b(data, digest_size=32, person=b"callboard/blob").digest()


def cut(message: AnyMessage, body: bytes) -> tuple[bytes, tuple[Cut, ...]]:
    """Cut large values out of a body. Return the text to store, and the values."""
    large: list[Json] = []
    holed = {name: _holed(getattr(message, name), large) for name in message.__struct_fields__}
    if not large:
        return body, ()
    parts = encode(msgspec.structs.replace(message, **holed)).split(_PLACEHOLDER_BYTE)
    if len(parts) != len(large) + 1:
        raise ValueError("a body holds bytes that are not UTF-8, so its large values cannot be distinguished")
    places = enumerate(zip(accumulate(map(len, parts)), map(bytes, large), strict=False))
    cuts = (Cut(end + holes * len(_HOLE), blob_digest(data), data) for holes, (end, data) in places)
    return _HOLE.join(parts), tuple(cuts)


def _holed(value: object, large: list[Json]) -> object:
    """Return a field with the placeholder for each large value in it, which goes to `large`."""
    if isinstance(value, tuple):
        return tuple(_holed(item, large) for item in value)
    if isinstance(value, msgspec.Raw) and len(value) >= PIECE_BYTES_MIN:
        large.append(value)
        return _PLACEHOLDER
    return value


def splice(text: bytes, cuts: Iterable[Cut]) -> bytes:
    """Return the body: the stored text with every value in the place of its `null`. Raises ValueError."""
    parts: list[bytes] = []
    at = 0
    for offset, _, data in cuts:
        if offset < at or text[offset : offset + len(_HOLE)] != _HOLE:
            raise ValueError(f"no value was cut out at byte {offset}")
        parts += (text[at:offset], data)
        at = offset + len(_HOLE)
    return b"".join((*parts, text[at:]))
