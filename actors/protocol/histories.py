"""Histories: messages of one agent that the conversation of another begins with.

Rules
  - A user's message comes first.
  - The results of a message's calls begin the next message, in call order, and each result has its call.
  - No message is about the conversation itself, such as one that changes the tools.
  - The makers of the messages are kept. So every model reads them in the form of `translation.py`: its own
    as they were made, with signatures, and those of others without.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from callboard.actors.protocol.blocks import content_of, kind_of
from callboard.actors.protocol.conversation import blocks_of, is_by
from callboard.actors.protocol.immutable import NULL, Json, Value
from callboard.actors.protocol.makers import NO_ORIGINS, Origins, maker_of, with_reply
from callboard.actors.protocol.origin import Makers, Origin


class HandedHistory(Value, frozen=True):
    """A context of messages, as `WholeHistory` returns it.

    messages: JSON objects with `role` and `content`, oldest first. makers: of the assistant messages: the
    origin of those from a place on. note: a text or content blocks before the prompt, null for none.
    repairs: the changes that made them whole, in words.
    """

    messages: tuple[Json, ...] = ()
    makers: Makers = ()
    note: Json = NULL
    repairs: tuple[str, ...] = ()


NO_HISTORY: Final = HandedHistory()


class _Ids(msgspec.Struct, gc=False):
    id: str = ""
    tool_use_id: str = ""


_IDS: Final = msgspec.json.Decoder(_Ids)


def history_of(said: Iterable[tuple[Json, Origin | None]], note: Json = NULL) -> HandedHistory:
    """Build a history. said: the messages, each with the model that made it, if one did."""
    messages: list[Json] = []
    origins: Origins = NO_ORIGINS
    for message, maker in said:
        if maker is not None and is_by("assistant", message):
            origins = with_reply(origins, len(messages), maker)
        messages.append(message)
    return HandedHistory(tuple(messages), tuple(origins.items()), note)


def with_makers(messages: Iterable[Json], makers: Makers) -> list[tuple[Json, Origin | None]]:
    """Return messages with the makers of a message of the log."""
    maker = maker_of(origins_of(makers))
    return [(said, maker(place)) for place, said in enumerate(messages)]


def origins_of(makers: Makers) -> Origins:
    """Return the makers of a message of the log in the form in which an agent keeps them."""
    origins = NO_ORIGINS
    for place, origin in makers:
        origins = with_reply(origins, place, origin)
    return origins


def why_broken(messages: Iterable[Json]) -> str:
    """Return the reason for which services refuse a conversation that begins so; empty if they do not."""
    owed: list[str] = []
    for place, said in enumerate(messages, 1):
        if why := _why_misplaced(said, place):
            return f"message {place} {why}"
        results, calls = _results_and_calls(said)
        if results != owed:
            return f"message {place} has the results {results} for the calls {owed}"
        owed = calls
    return f"the calls {owed} have no results" if owed else ""


def _why_misplaced(said: Json, place: int) -> str:
    if not is_by("user", said) and (place == 1 or not is_by("assistant", said)):
        return "is neither a user's nor, behind one, an assistant's"
    return "" if blocks_of(content_of(said)) else "is empty"


def _results_and_calls(said: Json) -> tuple[list[str], list[str]]:
    """Return the ids of a message's results, with a word for one behind another block, and of its calls."""
    blocks = blocks_of(content_of(said))
    results = [one.tool_use_id for one in _ids_in(blocks, "tool_result")]
    if len(_ids_in(blocks[: len(results)], "tool_result")) < len(results):
        results.append("behind another block")
    return results, [one.id for one in _ids_in(blocks, "tool_use")]


def _ids_in(blocks: Iterable[Json], kind: str) -> list[_Ids]:
    return [_IDS.decode(block) for block in blocks if kind_of(block) == kind]
