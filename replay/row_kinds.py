"""The kind of a stored message, and the agent it is about, without decoding the whole message."""

from typing import Final

import msgspec

from callboard.runtime.log.protocol import Sealed, Stored

START: Final = len(b'{"type":"')
"""The place at which the kind begins in a body."""


class _Agent(msgspec.Struct):
    agent: str


_agent: Final = msgspec.json.Decoder(_Agent).decode
_GRANT: Final = b'{"type":"CallModel"'


def kind_of(body: bytes) -> str:
    """Return the kind of a message: every body begins with it, as the encoder writes the tag first."""
    return body[START : body.index(b'"', START)].decode()


def agent_of(row: Stored | Sealed) -> str:
    """Return the agent that a model call is for; '' for another message."""
    return _agent(row.body).agent if row.body.startswith(_GRANT) else ""


def concerns(row: Stored | Sealed, address: str) -> bool:
    """Return whether an actor sent or received this event, or it is a grant for that agent."""
    return address in (row.sender, row.recipient) or agent_of(row) == address
