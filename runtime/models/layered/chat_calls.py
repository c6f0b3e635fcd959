"""The calls of a Chat Completions stream, joined from their pieces by every key that they have.

A piece names its call by index, by id, or by coming after the piece with the name. Servers leave out an
index or an id, give all calls the same one, or one piece of a call another. So the pieces are read in
several ways, the most trusted first:

    by index and id     as the API says; a piece without an id belongs to the last id of its index
    by index            the ids change from piece to piece, and one of them has the name
    by id               the indexes change, or the pieces of a call come under several
    by opening          within an index, each piece with a name begins a call
    by order            the same over all pieces, where index and id are new for each piece, or always one

The first way in which every call has the name of a tool and whole arguments is taken. Without one, the
calls that share no key with another one are taken as the API says, and the others are refused. A piece that
repeats id and index never begins a call: a server that says a call once more, with other arguments, would
have both run.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.models.call_arguments import (
    CONTRADICTED,
    DOUBLED,
    LOST,
    NAMELESS,
    NO_NAME,
    UNCLEAR,
    Settled,
    is_object,
    same_object,
    settled,
)

Key: TypeAlias = tuple[int | str | None, ...]
_KEYS: Final = frozenset({"index", "id", "type", "function"})


class Piece(NamedTuple):
    """A piece of a call. place: its index. id, name: empty for none. arguments: None if it tells none."""

    place: int | None
    id: str
    name: str
    arguments: str | None
    rest: JsonObject


class JoinedCall(NamedTuple):
    """A call of an answer. rest: its further keys. is_alone: its pieces can be told from those of others.

    has_own_id: it has one id, and no other call has it. has_text: some of its arguments came as text.
    """

    id: str
    name: str
    arguments: Settled
    rest: JsonObject
    place: int | None = None
    is_alone: bool = True
    has_own_id: bool = True
    has_text: bool = True

    @property
    def is_whole(self) -> bool:
        """Return True if it has a name and the arguments of a call."""
        return not self.arguments.why and is_object(self.arguments.text)

    def refused(self, why: str) -> "JoinedCall":
        """Return the call as one that is not run. why: unless there is a reason already."""
        return self._replace(arguments=Settled(self.arguments.text, self.arguments.why or why))


def piece_of(call: JsonObject, place: int | None) -> Piece:
    """Read a piece. place: among several in one event, None for a single one."""
    function: JsonObject = call.get("function") or {}
    index, arguments = call.get("index"), function.get("arguments")
    if isinstance(arguments, dict):  # of a server that writes the object itself
        arguments = json.dumps(arguments)
    rest = {key: value for key, value in call.items() if key not in _KEYS}
    at = place if index is None else int(index)
    return Piece(at, str(call.get("id") or ""), _text(function.get("name")) or "", _text(arguments), rest)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"a call of the stream has {value!r:.80} in the place of a text")


def joined(
    pieces: Sequence[Piece], closing: Sequence[Piece] = (), tools: frozenset[str] = frozenset()
) -> list[JoinedCall]:
    """Join the calls of an answer.

    pieces: in the order in which they came. closing: the calls of the message at the end, each of them whole.
    tools: the names of the tools that were offered.
    """
    indexes = _by_index(pieces)
    usual = _calls(pieces, _by_key(pieces, indexes), tools)
    found = usual
    if not _fit(usual, tools):
        others = (indexes, _by_id(pieces), _by_opening(pieces, indexes), _by_order(pieces, tools))
        ways = (_calls(pieces, keys, tools) for keys in others if keys)
        found = next((calls for calls in ways if _fit(calls, tools)), []) or _certain(usual)
    found = _in_order(_without_doubles(found, has_ids=not _ids_are_doubtful(pieces, indexes)))
    return _reconciled(found, [_call([piece], frozenset(), tools) for piece in closing]) if closing else found


def _fit(calls: Sequence[JoinedCall], tools: frozenset[str]) -> bool:
    """Return True if each of these is a whole call of a tool that was offered, not of a piece of one."""
    return all(call.is_whole and (not tools or call.name in tools) for call in calls)


def _by_index(pieces: Sequence[Piece]) -> list[Key]:
    keys: list[Key] = []
    for piece in pieces:
        keys.append((piece.place,) if piece.place is not None or not keys else keys[-1])
    return keys


def _by_key(pieces: Sequence[Piece], indexes: Sequence[Key]) -> list[Key]:
    """Return the index and id of each piece."""
    last: dict[Key, str] = {}
    keys: list[Key] = []
    for piece, index in zip(pieces, indexes, strict=True):
        if piece.id and not last.get(index):  # an id that comes late is that of the pieces before it
            keys = [(*index, piece.id) if key == (*index, "") else key for key in keys]
        last[index] = piece.id or last.get(index, "")
        keys.append((*index, last[index]))
    return keys


def _by_id(pieces: Sequence[Piece]) -> list[Key]:
    """Return the id of each piece; of one without an id the last one of its index, else the last one."""
    last: dict[int | None, Key] = {}
    keys: list[Key] = []
    for piece in pieces:
        known = last.get(piece.place) if piece.place is not None else keys[-1] if keys else None
        last[piece.place] = (piece.id,) if piece.id else known or (None, piece.place)
        keys.append(last[piece.place])
    return keys


def _by_opening(pieces: Sequence[Piece], indexes: Sequence[Key]) -> list[Key]:
    """Return the index of each piece, and the number of its call there; none where an id comes back."""
    begun: dict[Key, tuple[int, str]] = {}
    keys: list[Key] = []
    left: set[tuple[Key, str]] = set()  # ids of calls before the last one of an index
    for piece, index in zip(pieces, indexes, strict=True):
        number, last_id = begun.get(index, (-1, ""))
        if piece.id and last_id not in ("", piece.id):
            left.add((index, last_id))
        if (index, piece.id) in left:
            return []  # the piece is of that call, not of the one that began last
        is_alike = number >= 0 and piece.id and piece.id == last_id
        number += bool(piece.name and not is_alike)
        begun[index] = (number, piece.id or last_id)
        keys.append((*index, number))
    return keys


def _by_order(pieces: Sequence[Piece], tools: frozenset[str]) -> list[Key]:
    """Return the number of the call of each piece; none where their indexes or ids tell calls apart."""
    ids = [piece.id for piece in pieces if piece.id]
    places = {piece.place for piece in pieces}
    if len(places) not in (1, len(pieces)) or len(set(ids)) < len(ids):
        return []
    keys: list[Key] = []
    number, name, known_id, has_text = -1, "", "", False
    for piece in pieces:
        if piece.name:
            goes_on = not has_text and piece.name not in tools and _begins_tool(name + piece.name, tools)
            number += not (goes_on and name)
            name, known_id, has_text = (name if goes_on else "") + piece.name, "", False
        elif piece.id and known_id and len(places) > 1:
            return []  # with an id and an index of its own it is a call of its own, whose name is lost
        known_id = piece.id or known_id
        has_text = has_text or bool((piece.arguments or "").strip())
        keys.append((number, "by order"))
    return keys


def _begins_tool(name: str, tools: frozenset[str]) -> bool:
    return any(tool.startswith(name) for tool in tools)


def _calls(pieces: Sequence[Piece], keys: Sequence[Key], tools: frozenset[str]) -> list[JoinedCall]:
    groups: dict[Key, list[Piece]] = {}
    for piece, key in zip(pieces, keys, strict=True):
        groups.setdefault(key, []).append(piece)
    shared = _shared(groups.values()) if len(groups) > 1 else frozenset()
    return [_call(group, shared, tools) for group in groups.values()]


def _shared(groups: Iterable[Sequence[Piece]]) -> frozenset[int | str | None]:
    """Return the indexes and ids that more than one call has."""
    seen: dict[int | str | None, int] = {}
    for group in groups:
        for key in {piece.place for piece in group} | {piece.id for piece in group if piece.id}:
            seen[key] = seen.get(key, 0) + 1
    return frozenset(key for key, times in seen.items() if times > 1)


def _call(group: Sequence[Piece], shared: frozenset[int | str | None], tools: frozenset[str]) -> JoinedCall:
    ids = list(dict.fromkeys(piece.id for piece in group if piece.id))
    call_id = ids[0] if ids else ""
    has_own_id = len(ids) == 1 and call_id not in shared
    has_own_place = not any(piece.place in shared for piece in group)
    is_alone = has_own_place and (group[0].place is not None or has_own_id or not shared)
    told = [piece.arguments for piece in group if piece.arguments is not None]
    has_one_place = len({piece.place for piece in group}) == 1
    is_certain = has_own_place and has_one_place and (has_own_id or not call_id)
    arguments = settled(told, (), is_told=is_certain and bool(told))
    name = _name_of(group, tools)
    if not name:
        arguments = Settled("".join(told), arguments.why or NAMELESS)
        name = "".join(dict.fromkeys(piece.name for piece in group)) or NO_NAME
    rest = {key: value for piece in group for key, value in piece.rest.items() if value is not None}
    has_text = any(map(str.strip, told))
    return JoinedCall(call_id, name, arguments, rest, group[0].place, is_alone, has_own_id, has_text)


def _name_of(group: Sequence[Piece], tools: frozenset[str]) -> str:
    """Return the name of a call, "" if the pieces have none, or may be those of several calls."""
    names = [piece.name for piece in group if piece.name]
    if len(names) < 2:
        return names[0] if names else ""
    whole = "".join(names)
    are_parts = whole in tools and not tools & set(names[1:])
    if len({piece.id for piece in group if piece.name} - {""}) > 1 and not are_parts:
        return ""  # each of them begins a call of its own
    if len(set(names)) > 1:
        last = max(at for at, piece in enumerate(group) if piece.name)
        has_text = any((piece.arguments or "").strip() for piece in group[:last])
        return "" if has_text or whole not in tools else whole
    is_again = whole not in tools and (len(names) == len(group) or not _opens_again(group))
    return names[0] if is_again else ""


def _opens_again(group: Sequence[Piece]) -> bool:
    """Return True if a piece with a name, but the first, may begin a call of its own."""
    texts = [piece.arguments or "" for piece in group]
    whole = settled(texts, (), is_told=False).text
    named = [text for piece, text in zip(group, texts, strict=True) if piece.name][1:]
    # Some servers give the name once more with the last piece, or with all arguments once more.
    return any(text != whole and (not text.strip() or text.lstrip().startswith("{")) for text in named)


def _certain(calls: Sequence[JoinedCall]) -> list[JoinedCall]:
    """Refuse each call that some piece may belong to although it went to another one, or the other way."""
    # A piece without a name is of some other call, and so may be one that is neither whole nor has an id.
    has_strays = any(
        call.arguments.why == NAMELESS or (call.has_text and not call.is_whole and not call.has_own_id)
        for call in calls
    )
    found = []
    for call in calls:
        if not call.is_alone or (has_strays and not call.has_own_id):
            call = call.refused(UNCLEAR)
        elif not call.has_text and call.is_whole:
            call = call._replace(arguments=Settled("", LOST))
        found.append(call)
    return found


def _ids_are_doubtful(pieces: Sequence[Piece], indexes: Sequence[Key]) -> bool:
    """Return True if ids do not tell equal calls apart.

    They change where a piece without a name has another id than those with one. A piece with a name and
    without an id, in an index of several ids, may begin the call whose id comes later.
    """
    named: dict[Key, set[str]] = {}
    for piece, index in zip(pieces, indexes, strict=True):
        if piece.name and piece.id:
            named.setdefault(index, set()).add(piece.id)
    for piece, index in zip(pieces, indexes, strict=True):
        known = named.get(index, set())
        if piece.id not in known if piece.id and known else bool(piece.name) and len(known) > 1:
            return True
    return False


def _without_doubles(calls: Sequence[JoinedCall], *, has_ids: bool = True) -> list[JoinedCall]:
    """Refuse a call that is equal to an earlier one in all: it may be the same, said twice.

    has_ids: their ids tell calls apart.
    """
    seen: dict[tuple[int | None, str, str], set[str]] = {}
    shared: set[tuple[str, str, str]] = set()  # with their ids, which are not theirs alone
    found = []
    for call in calls:
        said = (call.name, call.arguments.text)
        ids = seen.setdefault((call.place, *said), set())
        own_id = call.id if has_ids and call.has_own_id else ""
        is_again = own_id in ids or (bool(ids) and (not own_id or "" in ids)) or (call.id, *said) in shared
        shared |= {(call.id, *said)} if call.id and not call.has_own_id else set()
        found.append(call.refused(DOUBLED) if is_again else call)
        ids.add(own_id)
    return found


def _in_order(calls: list[JoinedCall]) -> list[JoinedCall]:
    """Return calls by their indexes, or as they came where those do not tell them apart."""
    places = {call.place for call in calls if call.place is not None}
    return sorted(calls, key=lambda call: call.place or 0) if len(places) == len(calls) else calls


def _reconciled(found: Sequence[JoinedCall], closing: Sequence[JoinedCall]) -> list[JoinedCall]:
    """Return the calls of a stream, each compared with that of its closing message."""
    if not found:
        return _without_doubles(closing)
    # A piece without a name may be of any call, so what is missing in a call may have come.
    has_strays = any(call.arguments.why == NAMELESS and call.has_text for call in found)
    has_text = any(call.has_text for call in found)
    left, settled_calls = list(closing), []
    for call in found:
        last = next((one for one in left if call.id and one.id == call.id), None)
        last = last or next((one for one in left if _same(call, one)), None)
        last = last or (left[0] if len(found) == len(closing) else None)
        if last is not None:
            left.remove(last)
        if last is None or (has_strays and not _same(call, last)):
            settled_calls.append(call.refused(CONTRADICTED))
        else:
            # Otherwise the missing part of a call may have gone to another call, and the two must agree.
            may_fill = call.is_alone or not has_text
            settled_calls.append(_settled_pair(call, last, may_fill=may_fill))
    return settled_calls


def _settled_pair(call: JoinedCall, closing: JoinedCall, *, may_fill: bool) -> JoinedCall:
    is_more = (
        may_fill and closing.arguments.text.startswith(call.arguments.text) and call.name == closing.name
    )
    if not _same(call, closing) and not is_more:
        return call.refused(CONTRADICTED)
    return call._replace(arguments=closing.arguments) if closing.is_whole else call


def _same(call: JoinedCall, closing: JoinedCall) -> bool:
    return call.name == closing.name and same_object(call.arguments.text, closing.arguments.text)
