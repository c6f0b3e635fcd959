"""Find the events of a session that hold a text, or a value at a path.

    search(source.sealed_pages(), Query(text="refund"))
    search(pages, Query(path="body.output.cents", tests=(("gt", 1000),)))

A text is looked for in every string and number of a message but its own ids and digests, and in the names of
fields inside foreign JSON. A path leads to ids and digests, too. Letters match in either case as long as the
text has no capital letter. The reason for which an agent refused a call by itself stands in no message:
`search_all` looks there.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.replay.divergence import FOREIGN, IDS
from callboard.replay.json_values import at_path, names, parts_of, written
from callboard.replay.reading import Source, concerns, kind_of, whole
from callboard.replay.refused_calls import RefusedCall, Suspects
from callboard.runtime.log.protocol import Sealed, Stored

COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": eq,
    "ne": ne,
    "gt": gt,
    "ge": ge,
    "lt": lt,
    "le": le,
}
_REPLY: Final = "ModelReplied"
_CALLS: Final = frozenset({"CallTool", "RequestApproval"})
_BARE: Final = frozenset("0123456789+-.etrufalsn")  # of numbers, true, false and null
_ESCAPES: Final = re.compile(rb"\\[u/]")
_NAME: Final = re.compile(r"[^\W\d]\w*")  # no place in a list, and nothing that JSON writes in another way
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode

RefusedBy: TypeAlias = Callable[[Suspects], Iterable[RefusedCall]]
_FirstLeaf: TypeAlias = Callable[[object, bool], tuple[str, object] | None]


class _Call(msgspec.Struct):
    tool: str


_call: Final = msgspec.json.Decoder(_Call).decode


class Match(NamedTuple):
    """An event that was found. path: to the first value that matches. value: that value."""

    row: Stored
    kind: str
    path: str
    value: object


@dataclass(frozen=True)
class Query:
    """A search. All conditions that are given must hold.

    text: stands in the event. path: of a value, with `*` for each field or item. tests: (comparison, value)
    pairs for it, of `COMPARISONS`; numbers compare with numbers, texts with texts. agent: an address that
    sent or received the event. kinds: of messages. tool: the name of the tool that a call, or the answer to
    one, is about. is_exact: letters must be as in the text.
    Raises MisuseError if neither text nor path is given, or one is not valid.
    """

    text: str = ""
    path: str = ""
    tests: tuple[tuple[str, object], ...] = ()
    agent: str = ""
    kinds: frozenset[str] = frozenset()
    tool: str = ""
    is_exact: bool = False

    def __post_init__(self) -> None:
        refused = self._why_refused()
        if refused:
            raise MisuseError(refused)

    def _why_refused(self) -> str:
        if self.path:
            is_body = self._parts[0] == "body"
            return "" if is_body else f"the path {self.path!r} must begin with body: write body.{self.path}"
        if self.tests:
            return "a comparison needs the path of a value"
        return "" if self.text else "a search needs a text or a path"

    @cached_property
    def _parts(self) -> tuple[str, ...]:
        return parts_of(self.path) if self.path else ()

    @cached_property
    def _fields(self) -> tuple[bytes, ...]:
        """Return the names in the path that a body with such a value spells as they are."""
        return tuple(part.encode() for part in self._parts[1:] if _NAME.fullmatch(part))

    @cached_property
    def is_any_case(self) -> bool:
        """Return whether letters match in either case."""
        return not self.is_exact and self.text == self.text.casefold()

    @cached_property
    def _needle(self) -> bytes:
        return _encode(self._folded(self.text))[1:-1]

    def _folded(self, text: str) -> str:
        return text.casefold() if self.is_any_case else text

    @cached_property
    def may_hold(self) -> Callable[[bytes], bool]:
        """Return a function that is false for a body that certainly does not hold the text or the path."""
        fields, needle = self._fields, self._needle
        is_folded = self.is_any_case and bool(self.text)

        # `find` takes half the time of `in`
        def may_hold(body: bytes) -> bool:
            is_held = body.find(needle) >= 0
            if not is_held and is_folded:
                is_held = (body.lower() if body.isascii() else _casefolded(body)).find(needle) >= 0
            if is_held and (not fields or all(name in body for name in fields)):
                return True
            return body.find(b"\\") >= 0 and _ESCAPES.search(body) is not None

        return may_hold

    def takes(self, row: Stored | Sealed, kind: str) -> bool:
        """Return whether a row is one of the agent's, and of the kinds."""
        return (not self.kinds or kind in self.kinds) and (not self.agent or concerns(row, self.agent))

    def is_in(self, event: Event) -> bool:
        """Return whether an event's message matches the text and the path."""
        body = encode(event.body)
        return self.may_hold(body) and self.found(_decode(body)) is not None

    def found(self, value: object) -> tuple[str, object] | None:
        """Return the first value of a decoded body that matches, with its path; None without any."""
        at = self._at_path(value) if self.path else None
        held = self._text(value) if self.text else None
        is_found = bool(at or not self.path) and bool(held or not self.text)
        return (at or held) if is_found else None

    def _at_path(self, value: object) -> tuple[str, object] | None:
        for path, one in at_path({"body": value}, self._parts):
            if all(_compares(one, name, other) for name, other in self.tests):
                return path, one
        return None

    @property
    def may_match_refusal(self) -> bool:
        """Return False if no refused call can match: the search names a path, or other messages."""
        return bool(self.text) and not self.path and (not self.kinds or _REPLY in self.kinds)

    def holds_text(self, said: str) -> bool:
        """Return whether a text contains the text of the search."""
        return self._folded(self.text) in self._folded(said)

    def _text(self, value: object) -> tuple[str, object] | None:
        if (found := self._first_leaf(value, True)) is not None:
            return f"body.{found[0]}", found[1]
        return next((one for one in _foreign_names(value) if self.holds_text(one[1])), None)

    @cached_property
    def _first_leaf(self) -> _FirstLeaf:
        """Return a function that finds the first leaf with the text, behind its path.

        It is told whether a value is callboard's own, whose ids and digests are passed over: most short texts
        are in some digest.
        """
        wanted, is_any_case = self._folded(self.text), self.is_any_case
        is_in_bare = _BARE.issuperset(wanted)

        # A common text is in most events, so this calls nothing for a leaf and builds no path on the way.
        def first(value: Any, is_own: bool) -> tuple[str, object] | None:
            for name, inner in value.items() if type(value) is dict else enumerate(value):
                kind = type(inner)
                if kind is str:
                    if wanted not in inner and not (is_any_case and wanted in inner.casefold()):
                        continue
                elif kind is dict or kind is list:
                    if (found := first(inner, is_own and name not in FOREIGN)) is not None:
                        return f"{_written(name)}.{found[0]}", found[1]
                    continue
                elif not is_in_bare or wanted not in _encode(inner).decode():
                    continue
                if not (is_own and name in IDS):
                    return _written(name), inner
            return None

        return first


def _written(part: object) -> str:
    """Return a field's name, or an item's place, as a path holds it."""
    return written(part) if type(part) is str else str(part)


def _casefolded(body: bytes) -> bytes:
    return body.decode().casefold().encode()


def _foreign_names(value: object) -> Iterator[tuple[str, str]]:
    """Yield the names of fields inside the fields of a message, which are not callboard's own."""
    return ((path, name) for path, name in names(value, "body") if path.count(".") > 1)


def search(pages: Iterable[Sequence[Stored | Sealed]], query: Query) -> Iterator[Match]:
    """Yield the events that match, page by page as they are read."""
    tools: dict[int, str] = {}
    for page in pages:
        yield from _search(_of_tool(whole(page), query.tool, tools) if query.tool else page, query)


def _search(page: Sequence[Stored | Sealed], query: Query) -> Iterator[Match]:
    may_hold, is_any = query.may_hold, not (query.kinds or query.agent)
    bodies = [row.whole().body if row.cuts else row.body for row in page]
    # Most pages of a long log end here. No text has a line break in JSON, so none is found across two bodies.
    if (joined := b"\n".join(bodies)).isascii() and not may_hold(joined):
        return
    for row, body in zip(page, bodies, strict=True):
        # In this order: most events end at the first question.
        if may_hold(body) and (is_any or query.takes(row, kind_of(body))):
            found = query.found(_decode(body))
            if found is not None:
                yield Match(row.whole(), kind_of(body), *found)


def search_all(source: Source, refused_by: RefusedBy, query: Query) -> Iterator[Match]:
    """Yield the events that match, then the replies with a call that was refused in such words.

    refused_by: returns the calls that suspects refused.
    """
    suspects = Suspects()
    yield from search(suspects.through(source.sealed_pages()), query)
    for call in refused_by(suspects) if query.may_match_refusal else ():
        is_of_tool = query.tool in ("", call.tool)
        if is_of_tool and query.holds_text(call.reason) and query.agent in ("", call.agent):
            (row,) = source.between(call.reply, call.reply)
            yield Match(row, _REPLY, f"refused.{call.call}", call.reason)


def _of_tool(rows: Iterable[Stored], tool: str, tools: dict[int, str]) -> list[Stored]:
    """Return the calls of a tool, and what answers them. tools: of the calls so far, by their seqs."""
    tools |= {row.seq: _call(row.body).tool for row in rows if kind_of(row.body) in _CALLS}
    return [row for row in rows if tool in (tools.get(row.seq), tools.get(row.cause))]


def _compares(value: object, name: str, other: object) -> bool:
    """Return whether a comparison holds. Values of different types are only ever unequal."""
    both_numbers = _is_number(value) and _is_number(other)
    if not both_numbers and type(value) is not type(other):
        return name == "ne"
    try:
        return COMPARISONS[name](value, other)
    except TypeError:  # null or a list has no order
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
