"""The parts of foreign traffic, in the order in which they came.

    Said       an assistant's message, or a piece of one that was written in pieces
    Returned   the result of one call
    Words      a text of a user, or of the program in a user's name
    Broken     the user broke the work off

Times are in milliseconds since 1970 UTC; 0 for a part without one.
"""

from typing import TypeAlias

import msgspec

from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.usage import Usage

Block: TypeAlias = JsonObject


class Said(msgspec.Struct, gc=False):
    """An assistant's message. id: the service's name of it; empty for one of its own.

    usage: None if the traffic does not have it. failure: of a call without an answer; empty for an answer.
    differs: the ways in which it was changed, in words.
    """

    at: int
    blocks: list[Block]
    id: str = ""
    stop_reason: str = ""
    usage: Usage | None = None
    model: str = ""
    failure: str = ""
    differs: tuple[str, ...] = ()


class Returned(msgspec.Struct, gc=False):
    """The result of a call. call: the id that the model gave it."""

    at: int
    call: str
    content: str | list[Block]
    is_error: bool = False


class Words(msgspec.Struct, gc=False):
    """A user's words."""

    at: int
    blocks: list[Block]


class Broken(msgspec.Struct, gc=False):
    """The end of the work under way. words: that the model reads of it, if it goes on."""

    at: int
    words: str = ""


Part: TypeAlias = Said | Returned | Words | Broken
