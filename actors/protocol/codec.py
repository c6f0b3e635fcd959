"""One encoder and one decoder for message bodies.

Encoding is canonical: fields in the order of the class, defaults left out, foreign JSON as it came.
There is no second encoder to fall back to: a body that cannot be encoded was let in wrongly
(LangGraph's CVE-2025-64439 was such a fallback). Unknown kinds and unknown fields are refused.
"""

import msgspec

from callboard.actors.protocol.messages import AnyMessage

_ENCODER = msgspec.json.Encoder(order=None)
_DECODER: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)

encode = _ENCODER.encode
"""The bytes of a message, or of a part of one."""


class UnreadableBody(ValueError):
    """The bytes are not a message that this version knows."""


def decode(body: bytes | str) -> AnyMessage:
    """The message of these bytes. Raises UnreadableBody."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise UnreadableBody(f"not a message: {error}") from None
