"""One encoder and one decoder for message bodies.

Encoding is canonical: fields in the order of the class, defaults left out, foreign JSON byte for byte.
Decoding refuses unknown kinds and unknown fields.
"""

import msgspec

from callboard.actors.protocol.messages import AnyMessage

# No second encoder to fall back to: LangGraph's CVE-2025-64439 was such a fallback. A body that cannot be
# encoded passed the boundary by mistake.
_ENCODER = msgspec.json.Encoder(order=None)
_DECODER: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)

encode = _ENCODER.encode
"""Encode a message, or a part of one."""


class UnreadableBody(ValueError):
    """Bytes that are no message of this version."""


def decode(body: bytes | str) -> AnyMessage:
    """Decode a message. Raises UnreadableBody."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise UnreadableBody(f"not a message: {error}") from None
