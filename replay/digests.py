"""States as digests and as JSON.

Equal states have equal digests, in any process and under any Python. Digests belong to no format, unlike the
bytes of events: those of two runs of one version show that the runs differ before the events do.
"""

from hashlib import sha256
from typing import Final, NoReturn

import msgspec

from callboard.actors.protocol.intmap import IntMap
from callboard.actors.session.step import ActorState


def _refuse(value: object) -> NoReturn:
    raise NotImplementedError(f"a state holds a {type(value).__name__}, which has no canonical form")


_ENCODER: Final = msgspec.json.Encoder(order="deterministic", enc_hook=_refuse)


def state_digest(state: ActorState) -> str:
    """Return the digest of a state: SHA-256 of its kind and its canonical JSON, in hex.

    Raises NotImplementedError for a state with a value that has no canonical form.
    """
    return sha256(type(state).__name__.encode() + b"\0" + _ENCODER.encode(state)).hexdigest()


def to_jsonable(value: object) -> object:
    """Return a state, or a part of it, with lists and dicts in place of its maps."""
    if isinstance(value, IntMap):
        found = {key: to_jsonable(one) for key, one in value.items()}
        return list(found.values()) if list(found) == list(range(len(found))) else found
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    return value


def _fields(struct: msgspec.Struct) -> object:
    """Return the fields of a state's own structs, and any other struct as it is."""
    # Messages and their parts are tagged or leave defaults out; they hold no maps, so the encoder takes them.
    config = struct.__struct_config__
    if config.tag is not None or config.omit_defaults:
        return struct
    return {name: to_jsonable(getattr(struct, name)) for name in struct.__struct_fields__}
