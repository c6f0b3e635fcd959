"""States as JSON can show them: a map by number as a list, if it is a sequence, or else as an object."""

import msgspec

from callboard.actors.protocol.intmap import IntMap


def shown(value: object) -> object:
    """A state, or a part of it, with values in place of its maps that the JSON encoder knows how to show."""
    if isinstance(value, IntMap):
        found = {key: shown(one) for key, one in value.items()}
        return list(found.values()) if list(found) == list(range(len(found))) else found
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    return value


def _fields(struct: msgspec.Struct) -> object:
    """What a state's own structs hold; messages and their parts hold no maps, and show themselves."""
    config = struct.__struct_config__
    if config.tag is not None or config.omit_defaults:
        return struct
    return {name: shown(getattr(struct, name)) for name in struct.__struct_fields__}
