"""The digest of a decider's state: equal states have equal digests, in any process and under any Python.

Unlike the bytes of events it is no part of any format: it is compared between runs of one version, to find
that two of them went apart before they posted anything that differs.
"""

from hashlib import sha256
from typing import Final, NoReturn

import msgspec

from callboard.actors.session.step import ActorState


def _refuse(value: object) -> NoReturn:
    raise NotImplementedError(f"a state holds a {type(value).__name__}, which has no canonical form")


_ENCODER: Final = msgspec.json.Encoder(order="deterministic", enc_hook=_refuse)


def state_digest(state: ActorState) -> str:
    """The digest of everything that the state holds: SHA-256 of its kind and its canonical JSON, in hex.

    Raises NotImplementedError for a state that holds what has no canonical form.
    """
    return sha256(type(state).__name__.encode() + b"\0" + _ENCODER.encode(state)).hexdigest()
