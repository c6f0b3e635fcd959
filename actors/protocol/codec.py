"""One encoder and one decoder for message bodies.

Encoding is canonical: fields in the order of the class, defaults left out, foreign JSON byte for byte.
Decoding refuses unknown kinds and unknown fields. A body that an older format has written is upcast first
(upcasters.py); `canonical` returns the bytes that this version would have written for it.
"""

from collections.abc import Iterable

import msgspec

from callboard.actors.protocol import upcasters
from callboard.actors.protocol.messages import AnyMessage

# No second encoder to fall back to: LangGraph's CVE-2025-64439 was such a fallback. A body that cannot be
# encoded passed the boundary by mistake.
_ENCODER = msgspec.json.Encoder(order=None)
_DECODER: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)

encode = _ENCODER.encode
"""Encode a message, or a part of one."""

_NEWER = ("Invalid value", "Object contains unknown field")
"""The beginnings of the decoder's errors about an unknown kind or field: of a newer format, or damaged."""


class UnreadableBody(ValueError):
    """Bytes that are no message of this version."""


def decode(body: bytes | str) -> AnyMessage:
    """Decode a message of this format or an older one. Raises UnreadableBody."""
    try:
        # Without a call while there are no upcasters: this runs for every event that is read.
        return _DECODER.decode(upcasters.upcast(body) if upcasters.UPCASTERS else body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        newer = f"; this callboard reads format {upcasters.FORMAT}, and a newer one may read it"
        raise UnreadableBody(
            f"not a message: {error}{newer if str(error).startswith(_NEWER) else ''}"
        ) from None


def decode_all(bodies: Iterable[bytes]) -> list[AnyMessage]:
    """Decode messages, in half the time of one call for each. Raises UnreadableBody."""
    try:
        return [*map(decode if upcasters.UPCASTERS else _DECODER.decode, bodies)]
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise UnreadableBody(str(error)) from None


def canonical(body: bytes) -> bytes:
    """Return a stored body as this version writes it. Raises UnreadableBody for one that it cannot read."""
    return body if not upcasters.UPCASTERS or upcasters.upcast(body) is body else encode(decode(body))
