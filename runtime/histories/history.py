"""`History`: the messages of another product, from which a sub-agent goes on.

def from_elsewhere(view: ContextRequest) -> History:
    return History(json.loads(Path("messages.json").read_text()), repair=True)

Agent("helper", context=from_elsewhere)
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.handed_history import FOREIGN
from callboard.actors.protocol.histories import history_of, origins_of
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.makers import maker_of
from callboard.actors.protocol.origin import Makers
from callboard.runtime.foreign_values import taken
from callboard.runtime.histories.joining import Joiner
from callboard.runtime.histories.repairs import Repair, Repairs
from callboard.runtime.histories.shapes import Reader, Shape
from callboard.runtime.sanitize import MAX_DEPTH, clean_text, to_json

REPAIRS_RECORDED_MAX: Final = 100
"""Repairs of one history that the log names."""

_DEPTH_MAX: Final = 2 * MAX_DEPTH
_LOG = logging.getLogger("callboard.histories")


class History:
    """A conversation in any common format, as the beginning of a sub-agent's own.

    given: the messages, oldest first: dicts, objects of an SDK, or JSON in any spelling, in the shapes of the
        Messages API, Chat Completions or the Responses API; or the JSON of them all, as a list or in lines.
    makers: of the assistant messages: the origin of those from a place on, as `WholeHistory` states them. By
        default a model reads them as another's: without reasoning and signatures.
    note: a text or content blocks before the prompt; None for none.
    shape: of the messages; None for the one that each of them has.
    repair: True repairs broken turns; `repairs` says how, and so do the log and the logger
        `callboard.histories`.

    Raises InvalidHistory for a broken history, unless it is repaired.

    >>> History([{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}])
    History(2 messages)
    """

    def __init__(
        self,
        given: Iterable[object] | str | bytes = (),
        makers: Makers = (),
        note: object = None,
        *,
        shape: Shape | None = None,
        repair: bool = False,
    ) -> None:
        repairs = Repairs()
        reader, joiner, maker = Reader(shape, repairs), Joiner(repairs), maker_of(origins_of(makers))
        for index, item in enumerate(_items(given)):
            joiner.take(index, reader.read(_plain(item), index), maker(index) or FOREIGN)
        said = joiner.messages()
        if not repair:
            repairs.refuse()
        before = to_json(note, what="The note")
        self.repairs: tuple[Repair, ...] = repairs.made
        self.handed = replace(
            history_of(said, before), repairs=tuple(map(str, self.repairs[:REPAIRS_RECORDED_MAX]))
        )
        if self.repairs:
            told = "; ".join(map(str, self.repairs[:5]))
            _LOG.warning("a history was repaired in %d places: %s", len(self.repairs), told)

    @property
    def messages(self) -> tuple[Json, ...]:
        """Return the messages in the format of the Messages API, each with its own JSON."""
        return self.handed.messages

    @property
    def makers(self) -> Makers:
        """Return the makers of the assistant messages: place -> the origin from there on."""
        return self.handed.makers

    @property
    def note(self) -> Json:
        """Return the content before the prompt, null for none."""
        return self.handed.note

    def __repr__(self) -> str:
        repaired = f", {len(self.repairs)} repairs" if self.repairs else ""
        return f"History({len(self.messages)} messages{repaired})"


def _items(given: Iterable[object] | str | bytes) -> Iterable[object]:
    """Return the items of a history, which may be the JSON of a list, or a line of JSON for each of them."""
    if not isinstance(given, str | bytes | msgspec.Raw | Mapping):
        return given
    found = _plain(given)
    if isinstance(found, str):
        return [line for line in found.splitlines() if line.strip()]
    return found if isinstance(found, list) else [found]


def _plain(item: object) -> object:
    """Return an item as plain values; a text that is not JSON stays a text."""
    if isinstance(item, str | bytes):
        item = Json(clean_text(item).encode() if isinstance(item, str) else item)
    return msgspec.json.decode(taken(item, max_depth=_DEPTH_MAX).json)
