"""Near names for a name that a service or a price list does not know."""

import difflib
from collections.abc import Iterable

import msgspec

from callboard.actors.protocol.value_types import ModelFailure


def near_names(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'a' or 'b'?` with the known names that are nearest; "" if none is near.

    >>> near_names("gtp-5", ["gpt-5", "o3"]), near_names("gpt-5", ["gpt-5", "gpt-6"]), near_names("x", ["o3"])
    ("; did you mean 'gpt-5'?", '', '')
    """
    names = list(known)
    near = [] if name in names else difflib.get_close_matches(name, names, 2, cutoff=0.7)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def with_near_names(failure: ModelFailure, name: str, known: Iterable[str]) -> ModelFailure:
    """Add near names to the failure of a service that does not know its model."""
    if failure.code != "not_found_error":
        return failure
    return msgspec.structs.replace(failure, message=failure.message + near_names(name, known))
