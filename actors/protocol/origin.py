"""The origin of the messages of a conversation: the models that made them, and the way to those models.

A service understands its own blocks only: the reasoning, signatures and item ids of one are noise to another.
So an agent keeps who made each assistant message (`makers.py`). That is ours, and no part of a message.
"""

from functools import lru_cache
from typing import TypeAlias

from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.near_names import NamedFields


class Origin(Value, frozen=True, metaclass=NamedFields):
    """The maker of a message. An equal origin gets its blocks back unchanged.

    adapter: the code that speaks to the service, and so the form of the blocks. provider: the service's name.
    endpoint: its address, without keys. model: the model's name there. An empty text means the usual one.
    """

    adapter: str = ""
    provider: str = ""
    endpoint: str = ""
    model: str = ""


Makers: TypeAlias = tuple[tuple[int, Origin], ...]
"""The makers of assistant messages in a message of the log: from a place on, in order of the places."""


@lru_cache(maxsize=1_024)
def named(model: str) -> Origin:
    """Return the origin of a model that is known by its name alone."""
    return Origin(model=model)
