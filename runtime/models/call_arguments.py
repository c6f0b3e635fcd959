"""The arguments of one call, settled from the pieces and the whole texts in which a stream gave them.

A stream gives arguments in pieces, and at the end of a call, of its item or of the answer once more as a
whole. Servers leave out either, send a piece or a whole twice, or let them differ. The arguments that come
out are those that every text agrees on; of any other call the texts are kept, and it does not run.

    pieces make an object, no other whole        that object
    pieces are parts of the whole, in order      the whole
    pieces repeat earlier ones (`{"a` `{"a":1}`)    the last of them
    both blank, and their end was told           {}: the call has no arguments
    both blank, and no end was told              refused: they are lost
    line breaks and tabs within strings          read as if they were escaped
    two objects that differ                      refused: nothing tells which one is meant

The calls of a stream of blocks (Messages, Converse), each a block with an index and an id.

A block is named by its index. Behind some proxies that is absent, or the same for all, and a block comes
twice. So a piece belongs to the last block of its index, and a call is judged when all have come: one that
comes again is left out, and one to which pieces may belong that went elsewhere is not run.
"""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.runtime.sanitize import check_json, clean_text

LOST: Final = "its arguments did not arrive"
CONTRADICTED: Final = "its arguments came in versions that contradict each other"
UNCLEAR: Final = "the pieces of several calls came without telling which call each of them belongs to"
DOUBLED: Final = "an equal call came before it, and nothing tells whether it is the same one"
NAMELESS: Final = "its name did not arrive"
UNFINISHED: Final = "the service did not say that its arguments were whole"
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
# An unended string goes to the end of the text, so that no quote in it is tried as the next beginning.
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_IN_STRING: Final = re.compile(r"\\.|[\x00-\x1f]", re.DOTALL)
NO_NAME: Final = "unnamed"
"""The name of a call whose name did not arrive. It is not a tool's, and every service takes it back."""


class Settled(NamedTuple):
    """The arguments of a call. text: as they came. why: the reason not to run the call; "" to run it."""

    text: str
    why: str = ""


def settled(pieces: Sequence[str], wholes: Sequence[str], *, is_told: bool) -> Settled:
    """Settle the arguments of one call.

    pieces: in the order in which they came. wholes: the texts that were given as whole. is_told: the end of
    the arguments was told, so that blank ones are empty.
    """
    streamed = cleaned("".join(pieces))
    if not wholes and is_object(streamed):
        return Settled(streamed)  # nearly every call
    told = [cleaned(whole) for whole in wholes if whole.strip()]
    if not streamed.strip() and not told:
        return Settled("{}") if is_told else Settled("", LOST)
    objects = _differing([text for text in (_once(pieces), *told) if is_object(text)])
    if (
        len(objects) == 1
        and _is_told_by(pieces, objects[0])
        and all(_agrees(one, objects[0]) for one in told)
    ):
        return Settled(objects[0])
    texts = list(dict.fromkeys(filter(str.strip, (streamed, *told))))
    # A single text that is not an object is its own explanation, so no reason is added.
    return Settled("\n".join(texts), "" if len(texts) == 1 and not objects else CONTRADICTED)


def cleaned(text: str) -> str:
    """Return arguments as they can be read: models write line breaks and tabs into strings as they are.

    JSON wants them escaped, and without that many a model makes the same call again and again.
    """
    text = clean_text(text)
    if not _CONTROL.search(text) or is_object(text):
        return text
    escaped = _STRING.sub(lambda found: _IN_STRING.sub(_escaped, found[0]), text)
    return escaped if is_object(escaped) else text


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("\\") else json.dumps(found[0])[1:-1]


def is_object(text: str) -> bool:
    """Return True for the text of a JSON object that may be the arguments of a call."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        check_json(text)
    except InvalidPrompt:
        return False
    return True


def _once(pieces: Sequence[str]) -> str:
    """Return pieces as one text, without repetition: a last piece that holds all others, or one text twice.

    Some servers flush the whole arguments at the end of a call whose pieces they have sent.
    """
    text = cleaned("".join(pieces))
    if len(pieces) < 2 or is_object(text):
        return text
    last, before = pieces[-1], "".join(pieces[:-1])
    if is_object(last) and (last.startswith(before) or _repeats(pieces)):
        return last
    period = (text + text).find(text, 1)  # the length of the shortest text that this one repeats
    return text[:period]


def _repeats(pieces: Sequence[str]) -> bool:
    """Return True if each piece begins with the one before it: the arguments so far."""
    return all(later.startswith(earlier) for earlier, later in pairwise(pieces))


def _is_told_by(pieces: Sequence[str], whole: str) -> bool:
    """Return True if pieces are an object in themselves, or parts of the whole in their order."""
    if is_object(_once(pieces)):
        return True
    at = 0
    for piece in filter(None, pieces):
        found = whole.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _agrees(text: str, whole: str) -> bool:
    """Return True if a text is the beginning of the whole, or the same object in another spelling."""
    return whole.startswith(text) or same_object(text, whole)


def same_object(one: str, other: str) -> bool:
    """Return True for two texts of one object: key order, spaces and escapes do not matter."""
    if one == other:
        return True
    return is_object(one) and is_object(other) and _plain(one) == _plain(other)


def _plain(text: str) -> str:
    # Not compared as values of Python, for which 1, 1.0 and true are equal.
    return json.dumps(msgspec.json.decode(check_json(text)), sort_keys=True)


def _differing(texts: Sequence[str]) -> list[str]:
    """Return the texts of different objects, of equal ones the first."""
    found: list[str] = []
    for text in texts:
        if not any(same_object(text, one) for one in found):
            found.append(text)
    return found


class CallBlock:
    """The call of one block while it streams.

    index: None if the service tells none. id: empty for none. whole: the arguments at its start, if they are
    there. is_stopped: its end was told, so that a call without arguments so far has none.
    """

    def __init__(self, index: object, call_id: str, name: object, whole: str = "") -> None:
        self.index = index
        self.id = call_id
        self.name = name
        self.is_stopped = False
        self._whole = [whole] if whole else []
        self._pieces: list[str] = []
        self._why = ""

    @property
    def has_begun(self) -> bool:
        """Return True if more than its start has come."""
        return bool(self._pieces) or self.is_stopped

    def add(self, piece: str) -> None:
        """Add a piece of its arguments."""
        if self.is_stopped and piece:
            self.refuse(UNCLEAR)  # of another call perhaps
        self._pieces.append(piece)

    def follows(self, before: "CallBlock") -> None:
        """Begin at the index of another call. Pieces of either may come, unless that one is whole."""
        if not before.is_stopped and not is_object(before.settled().text):
            before.refuse(UNCLEAR)
            self.refuse(UNCLEAR)

    def refuse(self, why: str) -> None:
        """Do not run it, for this reason if there is no earlier one."""
        self._why = self._why or why

    def settled(self) -> Settled:
        """Return its arguments."""
        found = settled(self._pieces, self._whole, is_told=self.is_stopped)
        return Settled(found.text, found.why or self._why)


def once_each(calls: Sequence[CallBlock]) -> frozenset[CallBlock]:
    """Return the calls that came before under the same id. Refuse those that contradict each other.

    Without ids an equal call at the same index may be the same one or another: it stays, and is refused.
    """
    again = set()
    for at, call in enumerate(calls):
        for before in calls[:at]:
            if before.id != call.id or before in again:
                continue
            is_equal = (before.name, before.settled().text) == (call.name, call.settled().text)
            if call.id and is_equal:
                again.add(call)
                break
            if call.index != before.index:
                continue
            if is_equal:
                call.refuse(DOUBLED)
            elif call.id:
                before.refuse(CONTRADICTED)
                call.refuse(CONTRADICTED)
    return frozenset(again)
