"""The digest of a decider's state: equal states have equal digests, in any process and under any Python.

It belongs to no format, unlike the bytes of events. Digests are compared between runs of one version: they
show that two runs differ before the events do.
"""

from hashlib import sha256
from typing import Final, NoReturn

import msgspec

from callboard.actors.session.step import ActorState


def _refuse(value: object) -> NoReturn:
    raise NotImplementedError(f"a state holds a {type(value).__name__}, which has no canonical form")


_ENCODER: Final = msgspec.json.Encoder(order="deterministic", enc_hook=_refuse)


def state_digest(state: ActorState) -> str:
    """Return the digest of a state: SHA-256 of its kind and its canonical JSON, in hex.

    Raises NotImplementedError for a state with a value that has no canonical form.
    """
    return sha256(type(state).__name__.encode() + b"\0" + _ENCODER.encode(state)).hexdigest()
