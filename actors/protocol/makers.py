"""The makers of the assistant messages of a conversation, in runs.

Almost every conversation has one maker. It is kept as a run from the beginning, which is one object for all
agents with that maker. A further entry stands for each change.
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from callboard.actors.protocol.conversation import is_by
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.origin import Origin

Origins: TypeAlias = IntMap[Origin]
"""The origins of assistant messages: under the place of a message, the origin from that message on."""

NO_ORIGINS: Final[Origins] = IntMap()


@lru_cache(maxsize=1_024)
def _from_the_start(origin: Origin) -> Origins:
    return NO_ORIGINS.put(0, origin)


@lru_cache(maxsize=1_024)
def mark(origin: Origin) -> Json:
    """Return the part of a request's digest that stands for a change of origin."""
    return Json(msgspec.json.encode(origin))


def with_reply(origins: Origins, place: int, origin: Origin) -> Origins:
    """Record the origin of a new message. place: its place in the conversation."""
    usual = _from_the_start(origin)
    if origins is usual or not origins.size:  # as in almost every conversation
        return usual
    return origins if origins.last() == origin else origins.put(place, origin)


def maker_of(origins: Origins) -> Callable[[int], Origin | None]:
    """Return a function from the place of a message to its maker; None where none is recorded."""
    runs = [*origins.items()]
    starts = [start for start, _ in runs]

    def maker(place: int) -> Origin | None:
        found = bisect_right(starts, place)
        return runs[found - 1][1] if found else None

    return maker


def without_system(history: IntMap[Json], origins: Origins) -> tuple[IntMap[Json], Origins]:
    """Return a conversation without its messages about the conversation itself, such as other tools."""
    kept: IntMap[Json] = IntMap()
    makers, maker = NO_ORIGINS, maker_of(origins)
    for place, message in enumerate(history.values()):
        if not is_by("system", message):
            if is_by("assistant", message) and (made := maker(place)) is not None:
                makers = with_reply(makers, kept.size, made)
            kept = kept.append(message)
    return kept, makers
