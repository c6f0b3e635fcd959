"""The data of a page, as lines of text. `assets/data.js` reads them.

    {...}              the body of the next event, as the log has it
    >... or !...       its meaning in words; with `!` it tells of a failure
    [seq,{...},[...]]  the change that event `seq` made in its recipient's state: new values by path, dropped
                       paths; written as soon as it is known, so in the order of each agent's events
    +[seq,[[...],...]] the files that the answer at event `seq` tells of: path, and its unified difference
    <n                 the first n bodies and words are those of the session beside this one
    =...               a value that several changes name: the first such line is number 0
    *{...}             the last line: the session, names, columns, agents, spans and findings; the answered
                       questions of programs to models apart, for they are turns of their programs

A text of a change stands for another one if it begins with `~`: `~12.3` is the string number 3 (from 0) in
the body of event 12, `~p4` is the value number 4, and `~~` is a `~` of its own. So content that an event
has already is in the page once.
"""

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from callboard.actors.protocol.addresses import is_agent, parent_of
from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.endings import EXPLAINED
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.actors.protocol.prompts import ASK_MODEL
from callboard.replay.descriptions import BAD_OUTCOMES, CHARS_MAX, DESCRIPTIONS, fails, words_of
from callboard.replay.diagnosis.diagnose import Diagnosis
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.grouping import Span, Spans, with_refusals
from callboard.replay.page.changes import Change, Changes, FileWrites
from callboard.replay.page.packing import TEXT_CHARS_MAX, Cutting
from callboard.replay.reading import Source, title_in, whole
from callboard.replay.refused_calls import RefusedCall
from callboard.runtime.log.protocol import Head, Sealed, Stored
from callboard.runtime.log.session_rows import SessionRow
from callboard.runtime.log.tree import Node, Tree

Progress: TypeAlias = Callable[[str, int, int], object]
"""Called with a session's id, how many of its events are written, and how many there are."""

FORMAT: Final = 1
_SHARED_BYTES: Final = 64
"""Strings and values from this length on are written once."""

_KINDS: Final = {
    kind.__name__: [one.topic, *(name for name in one.links if name != "new")]
    for kind, one in DESCRIPTIONS.items()
}
"""The topic of each kind of event, and the field that names the event which it stands for or comes from."""

_WEIGHTS: Final = {kind.__name__: one.weight for kind, one in DESCRIPTIONS.items() if one.weight}

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# A long string or name, which has a colon behind it, and all before it that stays as it is: short strings.
# It always matches from where the last one ended, so never from within a string.
_TOKEN: Final = re.compile(
    rb'((?:[^"]++|"(?!~)[^"\\]{,%d}+")*+)(?:(%s)(\s*+:)?+)?' % (_SHARED_BYTES - 3, _STRING.pattern),
    re.DOTALL,
)
_encode: Final = msgspec.json.Encoder().encode


class SessionLines:
    """The lines of one session's data. Feed it every event in order, then ask for the last line.

    known: the number of first events whose bodies the page has already.
    """

    def __init__(self, known: int = 0) -> None:
        self._known = known
        self._columns = _Columns()
        self._tree, self._spans, self._changes = Tree(), Spans(), Changes()
        self._writes = FileWrites()
        self._cutting = Cutting()
        self._shared = Shared(self._cutting)
        self._title = ""
        self._kind = ""
        self._asked: dict[tuple[str, int, int], int] = {}
        self._answered: set[int] = set()

    def take(self, row: Stored | Sealed, event: Event) -> list[bytes]:
        """Take an event in. Return its lines, and those of the changes that are known now."""
        lines: list[bytes] = []
        body = row.body if not _has_space(row.body) else msgspec.json.format(row.body, indent=-1)
        if row.seq > self._known:
            lines += self._cutting.body(row.seq, body), _words(event)
        lines += self._writes.take(event)
        self._columns.take(event)
        self._tree.add(event)
        self._spans.take(event)
        self._title = self._title or title_in(event)
        self._note(event)
        if is_agent(event.recipient):
            self._shared.note(event.seq, body)
        for change in self._changes.take(event):
            lines += self._shared.lines_of(change)
        return lines

    def _note(self, event: Event) -> None:
        """Note how the latest ask ended, and the delegations that are answered questions of a program."""
        body = event.body
        if isinstance(body, Ask | AskEnded):
            self._kind = body.kind if isinstance(body, AskEnded) else ""
        elif isinstance(body, Delegate):
            self._asked[event.sender, body.turn, body.call] = event.seq
        elif isinstance(body, DelegationEnded):
            asked = self._asked.pop((event.recipient, body.turn, body.call), 0)
            if self._tree.is_answered_question(body.address):
                self._answered.add(asked)

    def finish(self) -> Iterator[bytes]:
        """Yield the changes of the last events of agents."""
        for change in self._changes.finish():
            yield from self._shared.lines_of(change)

    @property
    def refused(self) -> list[RefusedCall]:
        """Return the calls that agents refused by themselves, as far as the changes are known."""
        return sorted(self._changes.refused)

    def last(
        self,
        row: SessionRow,
        head: Head,
        findings: Sequence[Finding],
        extra: Mapping[str, object],
        since: int = 0,
    ) -> bytes:
        """Return the last line. extra: its further entries. since: the columns begin behind this event."""
        return b"*" + _encode(
            {
                "format": FORMAT,
                "session": row.session_id,
                "head": f"{head.seq}:{head.digest.hex()}",
                "title": row.title or self._title,
                "kind": row.kind or self._kind,  # a fork that began after an outcome has none of its own
                "status": row.status,
                "diverged": self._changes.diverged,
                "cut": self._cutting.cut,
                "kinds": _KINDS,
                "weights": _WEIGHTS,
                "bad": sorted(BAD_OUTCOMES),
                **self._columns.plain(since),
                **extra,
                "agents": [_agent(depth, node) for depth, node in self._tree.folded()],
                "questions": [
                    _agent(depth, node) for depth, node in self._tree.walk() if node.is_answered_question
                ],
                "spans": [_span(one) for one in self._shown_spans()],
                "findings": [
                    [one.kind, one.is_maybe, one.seq, one.agent, one.says, one.command] for one in findings
                ],
            }
        )

    def _shown_spans(self) -> Iterator[Span]:
        """Yield the spans of all agents. The turns of an answered question are those of its program."""
        for span in with_refusals(self._spans.found, self.refused):
            if self._tree.is_answered_question(span.agent):
                yield replace(span, agent=parent_of(span.agent), name=ASK_MODEL)
            elif span.first.seq not in self._answered:
                yield span


class PageLines:
    """The lines of a whole session. Everything is read once, and digests are checked on the way.

    diagnosis: of no event so far; None for a page without findings. extra: further entries of the last line.
    known: as for `SessionLines`.
    """

    def __init__(
        self,
        source: Source,
        row: SessionRow,
        diagnosis: Diagnosis | None,
        progress: Progress,
        extra: Mapping[str, object],
        known: int = 0,
    ) -> None:
        self._source = source
        self._progress = progress
        self._row = row
        self._diagnosis = diagnosis
        self._extra = extra
        self._known = known

    def __iter__(self) -> Iterator[bytes]:
        source, lines, diagnosis = self._source, SessionLines(self._known), self._diagnosis
        if self._known:
            yield b"<%d" % self._known
        for page in source.sealed_pages():
            rows = whole(page)
            for row, event in zip(rows, source.events(rows), strict=True):
                if diagnosis is not None:
                    diagnosis.take(event)
                yield from lines.take(row, event)
            self._progress(source.session_id, page[-1].seq, source.head.seq)
        yield from lines.finish()
        findings = diagnosis.findings(lines.refused) if diagnosis is not None else ()
        yield lines.last(self._row, source.head, findings, self._extra)


class Shared:
    """The strings of bodies and the values that changes hold again. cutting: of the session."""

    def __init__(self, cutting: Cutting) -> None:
        self._cutting = cutting
        self._strings: dict[bytes, str] = {}
        self._values: dict[bytes, int] = {}

    def note(self, seq: int, body: bytes) -> None:
        """Note the long strings of a body."""
        if len(body) < _SHARED_BYTES:
            return
        for place, found in enumerate(_STRING.finditer(body)):
            if found.end() - found.start() >= _SHARED_BYTES:
                self._strings.setdefault(_key(found[0]), f"~{seq}.{place}")

    def lines_of(self, change: Change) -> list[bytes]:
        """Return the line of a change, after those of the values that are new in it."""
        lines, written = [], []
        for path, value in change.values.items():
            text, fresh = self._shortened(change.seq, value)
            if fresh:
                lines.append(fresh)
            written.append(b'"%s":%s' % (path.encode(), text))
        dropped = b"," + _encode(change.dropped) if change.dropped else b""
        lines.append(b"[%d,{%s}%s]" % (change.seq, b",".join(written), dropped))
        return lines

    def _shortened(self, seq: int, value: bytes) -> tuple[bytes, bytes]:
        """Return a value in its short form, and the line of a shared value if it is the first use of it."""
        if _has_space(value):
            value = msgspec.json.format(value, indent=-1)
        if len(value) >= _SHARED_BYTES or b'"~' in value:
            value = _TOKEN.sub(self._token, value)
            if self._cutting.is_over and len(value) > TEXT_CHARS_MAX:
                value = self._cutting.short(seq, value)
        if len(value) < _SHARED_BYTES:
            return value, b""
        key, number = _key(value), len(self._values)
        known = self._values.setdefault(key, number)
        return b'"~p%d"' % known, b"=" + value if known == number else b""

    def _token(self, found: "re.Match[bytes]") -> bytes:
        before, text, colon = found.groups(b"")
        if colon:
            return found[0]
        if len(text) >= _SHARED_BYTES and (place := self._strings.get(_key(text))):
            return b'%s"%s"' % (before, place.encode())
        return b'%s"~%s' % (before, text[1:]) if text.startswith(b'"~') else before + text


def _words(event: Event) -> bytes:
    """Return an event in words, in one line."""
    said = " ".join(words_of(event.body)[: 4 * CHARS_MAX].split())
    said = said if len(said) <= CHARS_MAX else f"{said[: CHARS_MAX - 1]}…"
    mark = "!" if fails(event.body) else ">"
    return f"{mark}{said}".encode("utf-8", "replace")


def _has_space(text: bytes) -> bool:
    return b"\n" in text or b"\t" in text or b"\r" in text


def _key(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


class _Columns:
    """The envelopes, column by column: times and causes as differences, actors as places among the names."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._senders, self._recipients = array("l"), array("l")
        self._times, self._causes = array("q"), array("l")
        self._start, self._last = 0, 0

    def take(self, event: Event) -> None:
        names = self._names
        self._start = self._start or event.at
        self._senders.append(names.setdefault(event.sender, len(names)))
        self._recipients.append(names.setdefault(event.recipient, len(names)))
        self._times.append(event.at - (self._last or event.at))
        self._causes.append(event.seq - event.cause if event.cause else 0)
        self._last = event.at

    def plain(self, since: int) -> dict[str, object]:
        return {
            "names": list(self._names),
            "start": self._start,
            "times": self._times[since:].tolist(),
            "senders": self._senders[since:].tolist(),
            "recipients": self._recipients[since:].tolist(),
            "causes": self._causes[since:].tolist(),
        }


def _span(span: Span) -> list[object]:
    said = span.reason if span.kind == "refused" else span.note  # the answer has the reason of any other
    note = (said,) if said else ()
    places = span.first.seq, span.last.seq
    return [span.kind, *places, span.agent, span.name, span.attempts, span.outcome, *note]


def _agent(depth: int, node: Node) -> list[object]:
    usage = node.usage
    return [
        node.address,
        depth,
        node.profile,
        f"{node.description}: {node.prompt}" if node.description else node.prompt,
        node.kind,
        node.status,
        node.detail or (EXPLAINED[node.kind] if node.kind and node.status == "failed" else ""),
        node.asked,
        node.tools,
        node.retries,
        usage.tokens,
        usage.micro_usd,
        node.started_at,
        node.ended_at,
    ]
