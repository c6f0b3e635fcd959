"""States as digests and as JSON. Equal states have equal digests, in any process and under any Python."""

from hashlib import sha256
from typing import Final, NoReturn

import msgspec
from msgspec.structs import StructConfig

from callboard.actors.protocol.intmap import IntMap
from callboard.actors.session.step import ActorState


def _refuse(value: object) -> NoReturn:
    raise NotImplementedError(f"a state holds a {type(value).__name__}, which has no canonical form")


_ENCODER: Final = msgspec.json.Encoder(order="deterministic", enc_hook=_refuse)


def state_digest(state: ActorState) -> str:
    """Return SHA-256 of a state's kind and canonical JSON, in hex. Raises NotImplementedError without one."""
    return sha256(type(state).__name__.encode() + b"\0" + _ENCODER.encode(state)).hexdigest()


def to_jsonable(value: object) -> object:
    """Return a state, or a part of it, with lists and dicts in place of its maps."""
    if isinstance(value, IntMap):
        found = {key: to_jsonable(one) for key, one in value.items()}
        return list(found.values()) if list(found) == list(range(len(found))) else found
    # Messages and their parts are tagged or leave defaults out; they hold no maps, so the encoder takes them.
    if not isinstance(value, msgspec.Struct) or _is_tagged(value.__struct_config__):
        return value
    return {name: to_jsonable(getattr(value, name)) for name in value.__struct_fields__}


def _is_tagged(config: StructConfig) -> bool:
    return config.tag is not None or config.omit_defaults
