"""A guess about answers: an agent read the first page of a list, and told of the whole.

A result says that there is more: in a field such as `has_more` or `next_cursor`, by a total above the length
of its list, or in words such as "page 1 of 3", "1-20 von 57" or "and 37 more". Its agent went on if it made
the call again with another page, or any call with the cursor that the result names.

The answer tells of the whole if it has a word such as *all* or *insgesamt*, or gives the length of that page
as a number. One that names the total, or says that this was a part, is right. If the answer of a sub-agent
does neither, that of its parent counts.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

import msgspec

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DelegationEnded
from callboard.replay.diagnosis.conflicts import figures_of
from callboard.replay.diagnosis.finding import GROUPED, CallCheck, Finding, Returned, ToolCall
from callboard.replay.diagnosis.words import A_PART, ALL, PAGE, THERE_IS_MORE
from callboard.replay.json_values import opened

_OPEN_MAX: Final = 1_000  # results of one agent that say that there is more
_UNREAD_MAX: Final = 4 * 2**20  # bytes of results that are not looked at yet
_BYTES_MAX: Final = 262_144  # of a result that is looked at
_PAGE_MIN: Final = 10  # items of a page of a usual size
_DEPTH: Final = 3  # of objects in objects
_EDGE: Final = 400  # characters at both ends of a text, where it says that there is more

_MORE: Final = re.compile(
    r"(?i)\w*more|more\w*|\w*truncated|has_?next(?:_?page)?|is_?(?:incomplete|partial)$"
)
_NEXT: Final = re.compile(
    r"(?i)@?(?:odata\.)?(?:next|continuation)(?:[_-]?(?:page|records?))?"
    r"[_-]?(?:token|cursor|link|url|offset|start|key)?$"
)
_COUNTED: Final = r"(?:count|results|items|hits|rows|records|docs|elements|entries|matches|size|anzahl)"
_TOTAL: Final = re.compile(
    rf"(?i)(?:total|gesamt)_?{_COUNTED}$|{_COUNTED}_?(?:total|all)$|num_?found$|@odata\.count$|总数|總數"
)
_SUM: Final = re.compile(r"(?i)(?:total|gesamt|totale|totaal|totalt|итого|合計)$")
_LIMIT: Final = re.compile(r"(?i)(?:limit|offset|skip|start|per_?page|page_?size|page|cursor|top|first)$")
_PAGE_FIELD: Final = re.compile(rf"(?i)(?:current_?)?{PAGE}(?:_?(?:number|no|nr|index))?$")
_PAGES_FIELD: Final = re.compile(rf"(?i)(?:total|num|last|max|of)?_?{PAGE}(?:_?(?:count|total|max|gesamt))?$")
_PAGING: Final = re.compile(
    rf"(?i){PAGE}|offset|cursor|token|start|skip|limit|size|count|after|before|from|to|next|per_|anzahl|top$|max"
)
"""Names of arguments that choose a page."""


class _More(NamedTuple):
    """A result that was not all.

    says: how it says so. token: of the next page. totals: as `figures_of` writes them. held: the items in it.
    query: the arguments of its call without those that choose a page.
    """

    call: ToolCall
    seq: int
    says: str
    token: str
    totals: frozenset[str]
    held: int
    query: object


class FirstPages(CallCheck):
    """Incomplete results whose rest was never requested, although the answer is about all of it."""

    kinds: ClassVar = frozenset({"DelegationEnded", "AskEnded"})
    results: ClassVar = "all"

    def __init__(self) -> None:
        # Results are looked at once an answer speaks of all: in many sessions, none does.
        self._unread: dict[str, list[tuple[ToolCall, Returned]]] = {}
        self._unread_bytes = 0
        self._open: dict[str, list[_More]] = {}
        self._found: list[Finding] = []

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in a result, which may be the rest of an earlier one."""
        size = len(result.output)
        if call.effect == "read" and size <= _BYTES_MAX:
            if (unread := self._unread.get(call.agent)) is None:
                unread = self._unread[call.agent] = []
            unread.append((call, result))
            self._unread_bytes += size
            if self._unread_bytes > _UNREAD_MAX:
                for agent in [*self._unread]:
                    self._look(agent)

    def _look(self, agent: str) -> list[_More]:
        """Look at the results of an agent. Return those whose rest was not read."""
        found = self._open.setdefault(agent, [])
        for call, result in self._unread.pop(agent, ()):
            self._unread_bytes -= len(result.output)
            if found:
                query = _without_pages(call.arguments)
                found[:] = [one for one in found if not _goes_on(one, call, query)]
            if result.status == "ok" and len(found) < _OPEN_MAX and (more := _more(call, result)) is not None:
                found.append(more)
        return found

    def take(self, event: Event) -> None:
        """Take in the answer of an agent."""
        body = event.body
        if isinstance(body, DelegationEnded):
            if not self._is_judged(body.address, body):
                self._unread.setdefault(event.recipient, []).extend(self._unread.pop(body.address, ()))
                self._open.setdefault(event.recipient, []).extend(self._open.pop(body.address, ()))
        elif isinstance(body, AskEnded):
            self._is_judged(HOST, body)
            self._forget(HOST)

    def _is_judged(self, agent: str, end: DelegationEnded | AskEnded) -> bool:
        """Judge an answer. Return False for one that says neither that it is about all nor about a part."""
        said = f"{end.text}\n{bytes(end.value).decode()}"
        if STATUS[end.kind] != "ok" or A_PART.search(said):
            self._forget(agent)
            return True
        is_all, figures = ALL.search(said) is not None, figures_of(said)
        if not is_all and not figures:
            return False
        more = self._look(agent)
        more[:] = [one for one in more if figures.isdisjoint(one.totals)]
        told = [one for one in more if is_all or (one.held > 1 and str(one.held).strip("0") in figures)]
        self._found += [_finding(agent, one) for one in told]
        if is_all or told:
            self._forget(agent)
        return bool(is_all or told)

    def _forget(self, agent: str) -> None:
        self._open.pop(agent, None)
        self._unread_bytes -= sum(len(result.output) for _, result in self._unread.pop(agent, ()))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


def _finding(agent: str, more: _More) -> Finding:
    call = more.call
    by = f" of {call.agent}" if call.agent != agent else ""
    says = (
        f"{agent} answered about all, but the result{by} of {call.tool} ({more.seq}) says that there is more "
        f"({more.says}), and nobody asked for it"
    )
    return Finding("first_page", more.seq, agent, says, GROUPED + call.agent)


def _goes_on(more: _More, call: ToolCall, query: object) -> bool:
    """Return whether a call asks for the rest of a result. query: its arguments without those of the page."""
    return (call.tool, query) == (more.call.tool, more.query) or (
        bool(more.token) and more.token.encode() in call.arguments
    )


def _without_pages(arguments: bytes) -> object:
    value = msgspec.json.decode(arguments)
    if not isinstance(value, dict):
        return value
    return {name: one for name, one in value.items() if not _PAGING.search(name)}


def _more(call: ToolCall, result: Returned) -> _More | None:
    """Return what a result says of its rest; None if it says nothing."""
    value = opened(msgspec.json.decode(result.output))
    if isinstance(value, str):
        return _in_text(call, result.seq, value)
    return _in_fields(call, result.seq, dict(_fields(value, _DEPTH)))


def _fields(value: object, depth: int) -> Iterator[tuple[str, object]]:
    """Yield the fields of an object and of those in it, but not of the items of its lists."""
    for name, one in value.items() if isinstance(value, dict) else ():
        yield name, one
        if isinstance(one, dict) and type(one.get("value")) is int:  # of Elasticsearch
            yield f"{name}_count", one["value"]
        if depth:
            yield from _fields(one, depth - 1)


def _in_fields(call: ToolCall, seq: int, fields: dict[str, object]) -> _More | None:
    held = max((len(one) for one in fields.values() if isinstance(one, list)), default=0)
    numbers = {name: one for name, one in fields.items() if type(one) is int}
    # A `total` beside a list may be the sum of an order, unless the list is told to be cut at a limit.
    is_limited = any(_LIMIT.match(name) for name in fields) or (held >= _PAGE_MIN and held % 5 == 0)
    is_total = (
        name
        for name, one in numbers.items()
        if one > held > 0 and (_TOTAL.match(name) or (is_limited and _SUM.match(name)))
    )
    totals = {name: numbers[name] for name in is_total}
    page = next((one for name, one in numbers.items() if _PAGE_FIELD.match(name)), 0)
    pages = {name: one for name, one in numbers.items() if _PAGES_FIELD.match(name) and one > page > 0}
    said = frozenset(str(one).strip("0") for one in totals.values())
    token = next((str(one) for name, one in fields.items() if one and _is_next(name, one)), "")
    has_more = next((name for name, one in fields.items() if one is True and _MORE.fullmatch(name)), "")
    if token or has_more or totals or pages:
        name, more = next(iter({**totals, **pages}.items()), ("", 0))
        named = f"{name} = {more:,}" if name else has_more or "it names a next page"
        return _More(call, seq, named, token, said, held, _without_pages(call.arguments))
    return None


def _is_next(name: str, value: object) -> bool:
    """Return whether a field names a next page. Under `next` alone, a word is something else."""
    is_token = type(value) is int or (isinstance(value, str) and re.search(r"[\d/=]", value) is not None)
    return _NEXT.match(name) is not None and (is_token or name.casefold() != "next")


def _in_text(call: ToolCall, seq: int, text: str) -> _More | None:
    for part in (text,) if len(text) <= 2 * _EDGE else (text[:_EDGE], text[-_EDGE:]):
        for found in THERE_IS_MORE.finditer(part):
            given = {name.partition("_")[0]: one for name, one in found.groupdict().items() if one}
            number = {name: int(re.sub(r"\D", "", one)) for name, one in given.items()}
            shown = number.get("page") or number.get("high") or number.get("shown") or 0
            last = number.get("pages") or number.get("total") or 0
            if not number or "more" in number or 0 < shown < last:
                totals = frozenset({str(last).strip("0")}) if "total" in number else frozenset[str]()
                held = number.get("high") or number.get("shown") or 0
                said = " ".join(found[0].split())
                return _More(call, seq, said, "", totals, held, _without_pages(call.arguments))
    return None
