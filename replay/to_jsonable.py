"""States as values that the JSON encoder takes: an `IntMap` becomes a list or a dict."""

import msgspec

from callboard.actors.protocol.intmap import IntMap


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
