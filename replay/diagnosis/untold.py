"""Guesses about news that got lost on its way up.

Guesses about bad news that got lost: an agent ended well after it, and its answer tells of none.

Bad news is an error or a denied approval without a later result, or a report that counts failures. An answer
tells of it by a word or a number that is new in the error, in any language, or by words of trouble, of which
the commonest of some languages are known. Words that may tell are taken for telling: a guess that is wrong
costs more than one that is missing.

A guess about reports: a value that an agent left empty, or left out, after an error it does not tell of.

The error is that of a tool which gave nothing else after it, or a report without the value that was refused.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, ReportJudged
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.replay.diagnosis.finding import GROUPED, CallCheck, Finding, Returned, ToolCall
from callboard.replay.json_values import leaves
from callboard.replay.reports import reported

_TELLS: Final = re.compile(
    r"(?i)err|fail|unavail|\b(?:not|no|none|nothing|un\w+able|without|but|however|sorry)\b|n't|cannot|missing"
    r"|time-?d? ?out|unknown|problem|issue|reject|refus|deni|broke|wrong|bug|warn|\?"
)
_TELLS_ELSEWHERE: Final = re.compile(
    r"(?i)\b(?:nicht|kein\w*|leider|nein|pas|aucun\w*|impossible|n[ãa]o|sin|ning[uú]n\w*|niet|geen|non|nie)\b|fehl"
    r"|[ée]chou|erro|fallo|ошиб|не\b|нет|不|没|沒|無|错|錯|ない|ません|エラー|않|없"
)
_TOKEN: Final = re.compile(r"[^\W\d_]{4,}|\d{2,}")
_VERB_CHARS_MIN: Final = 4
_COUNT: Final = re.compile(r"(?i)\b(?:fail(?:ed|ures?)|errors?)$")


class _News(NamedTuple):
    """Bad news. new: the words and numbers that only these have. arguments: of a program's call that failed.

    denied: the first word of a tool whose call was denied. is_read_on: its agent has read something since.
    """

    said: str
    new: frozenset[str]
    arguments: bytes = b""
    denied: str = ""
    is_read_on: bool = False

    def is_made_good(self, call: ToolCall) -> bool:
        """Return whether a call that succeeded is the way out.

        A model looks for one, so any call may be it. A read after a denial may have brought another answer,
        but it has not done what was denied. The code of a program goes on to its next call whatever has
        failed, so it has to be the same one, or that of another tool.
        """
        if self.arguments:
            return call.arguments == self.arguments
        return not self.denied or call.effect != "read"

    def is_told(self, said: str) -> bool:
        """Return whether an answer tells of the news, or is about something else."""
        if self.is_read_on and (len(self.denied) < _VERB_CHARS_MIN or self.denied not in said.casefold()):
            return True
        return _is_told(said, self.new)


def _error(call: ToolCall, result: Returned, *, is_program: bool) -> _News:
    asked = _tokens(f"{call.tool} {call.arguments.decode()}")
    new = _tokens(result.output.decode("utf-8", "replace")) - asked
    said = f"{call.tool} had given it an error ({result.seq})"
    return _News(said, new, call.arguments if is_program else b"")


class UntoldErrors(CallCheck):
    """Agents that ended well right after bad news, with an answer that does not mention it."""

    kinds: ClassVar = frozenset(
        {"RequestApproval", "ApprovalGiven", "Begin", "Delegate", "DelegationEnded", "AskEnded"}
    )
    results: ClassVar = "errors"

    def __init__(self) -> None:
        self._turns: set[tuple[str, int, int]] = set()
        self._asked: dict[tuple[str, int, int], RequestApproval] = {}
        self._news: dict[str, _News] = {}
        self._programs: set[str] = set()
        self._found: list[Finding] = []

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in a result: one that is not an error may be the way out of those before it."""
        before, is_program = self._news.get(call.agent), call.agent in self._programs
        if result.status == "error" and not (before and is_program):
            self._news[call.agent] = _error(call, result, is_program=is_program)
        elif result.status == "ok" and before is not None:
            self._go_on(call, before)

    def _go_on(self, call: ToolCall, before: _News) -> None:
        if before.is_made_good(call):
            del self._news[call.agent]
        elif before.denied:
            self._news[call.agent] = before._replace(is_read_on=True)

    def take(self, event: Event) -> None:
        """Take in the answer of a person, or the end of an agent."""
        body = event.body
        if isinstance(body, RequestApproval):
            self._asked[event.sender, body.turn, body.call] = body
        elif isinstance(body, ApprovalGiven):
            self._decide(event, body)
        elif isinstance(body, Delegate):
            # A question with its whole request is a turn of a program's own model, which reads of the error.
            if body.asked is not None:
                self._turns.add((event.sender, body.turn, body.call))
                self._programs.discard(event.sender)
        elif isinstance(body, Begin):
            if body.model.is_program:
                self._programs.add(event.recipient)
        elif isinstance(body, DelegationEnded):
            self._end(event, body, body.address)
            if (event.recipient, body.turn, body.call) not in self._turns:
                self._report(event, body.address)
        elif isinstance(body, AskEnded):
            self._end(event, body, HOST)

    def _decide(self, event: Event, given: ApprovalGiven) -> None:
        asked = self._asked.pop((event.recipient, given.turn, given.call), None)
        if asked is not None and given.verdict == "denied":
            new = _tokens(given.note) - _tokens(f"{asked.tool} {bytes(asked.arguments).decode()}")
            said = f"its call of {asked.tool} had been denied ({event.seq})"
            self._news[event.recipient] = _News(said, new, denied=asked.tool.partition("_")[0].casefold())

    def _end(self, event: Event, body: DelegationEnded | AskEnded, agent: str) -> None:
        news = self._news.pop(agent, None)
        said = f"{body.text} {bytes(body.value).decode()}"
        if news is not None and STATUS[body.kind] == "ok" and not news.is_told(said):
            says = f"{agent} ended well after {news.said}, and its answer does not mention that"
            command = GROUPED + agent
            self._found.append(Finding("untold_error", event.seq, agent, says, command, (agent,)))

    def _report(self, event: Event, agent: str) -> None:
        """Take in what a report means for the parent: failures, or that the work is done after all."""
        bad = [
            (f"{path.removeprefix('.')} = {leaf}", str(leaf))
            for path, leaf in leaves(reported(event), "")
            if isinstance(leaf, int) and leaf > 0 and _COUNT.search(path)
        ]
        if bad:
            counts = frozenset(count for _, count in bad)
            said = f"{agent} had reported {bad[0][0]:.80} ({event.seq})"
            self._news[event.recipient] = _News(said, counts)
        elif event.recipient not in self._programs:
            self._news.pop(event.recipient, None)

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


def _tokens(text: str) -> frozenset[str]:
    return frozenset(_TOKEN.findall(text.casefold()))


def _is_told(said: str, new: frozenset[str]) -> bool:
    """Return whether an answer may tell of bad news. new: the words and numbers that only the news have."""
    if _TELLS.search(said) or _TELLS_ELSEWHERE.search(said):
        return True
    return not new.isdisjoint((*_tokens(said), *re.findall(r"\d+", said)))


class RepeatedEffects(CallCheck):
    """Calls that may not be repeated, and were: at the same time, or with nothing else done in between."""

    results: ClassVar = "effects"

    def __init__(self) -> None:
        self._last: tuple[ToolCall, Returned] | None = None
        self._found: dict[tuple[str, bytes], Finding] = {}

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        last, self._last = self._last, (call, result) if result.status == "ok" else None
        if last is None or self._last is None or call.effect != "write" or len(call.arguments) <= len("{}"):
            return
        before, earlier = last
        is_beside = before.agent == call.agent and call.seq < earlier.seq
        is_equal = earlier.digest == result.digest
        if (before.tool, before.arguments) == (call.tool, call.arguments) and (is_equal or is_beside):
            by = f" by {before.agent}" if before.agent != call.agent else ""
            how = (
                "with the same result and nothing done in between" if is_equal else "with the same arguments"
            )
            says = (
                f"{call.agent} called {call.tool} as it was called before{by} ({before.seq}), {how}: "
                "its effect may have come twice"
            )
            command = f"events {{session}} --from {before.seq} --to {result.seq}"
            found = Finding("repeated_effect", call.seq, call.agent, says, command)
            self._found.setdefault((call.tool, call.arguments), found)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each call."""
        yield from self._found.values()


_EMPTY: Final = frozenset({"", "0", "0.0", "-1", "none", "null", "unknown", "n/a", "na", "-"})
_DEFAULTED_TELLS: Final = (
    "error",
    "fail",
    "unavailable",
    "could not",
    "cannot",
    "not found",
    "missing",
    "timeout",
)
"""Words of a report that tells of its error. A name of a field may hold them, too."""

_NAME: Final = re.compile(r"[\w$-]+")
_OTHERS_MIN: Final = 3  # siblings that have a field which a report lacks

_Siblings = tuple[str, tuple[str, ...]]


class _Report(NamedTuple):
    event: Event
    agent: str
    siblings: _Siblings
    values: Mapping[str, object]
    errors: dict[str, int]
    refused: dict[str, int]


class Defaulted(CallCheck):
    """Reports with a value that is empty or left out after an error that they do not tell of."""

    kinds: ClassVar = frozenset({"ReportJudged", "Delegate", "DelegationEnded"})
    results: ClassVar = "errors"

    def __init__(self) -> None:
        self._errors: dict[str, dict[str, int]] = {}
        self._refused: dict[str, dict[str, int]] = {}
        self._profiles: dict[tuple[str, int, int], tuple[str, ...]] = {}
        self._fields: dict[_Siblings, Counter[str]] = {}
        self._reports: Counter[_Siblings] = Counter()
        self._doubtful: list[_Report] = []

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        if result.status == "error":
            self._errors.setdefault(call.agent, {}).setdefault(call.tool, result.seq)
        elif call.agent in self._errors:
            self._errors[call.agent].pop(call.tool, None)

    def take(self, event: Event) -> None:
        """Take in a judgement, a delegation or its end."""
        body = event.body
        if isinstance(body, ReportJudged):
            refused = self._refused.setdefault(event.recipient, {})
            for problem in body.problems:
                for path in _paths(problem):
                    refused.setdefault(path, event.seq)
        elif isinstance(body, Delegate):
            self._profiles[event.sender, body.turn, body.call] = body.profiles
        elif isinstance(body, DelegationEnded):
            self._end(event, body)

    def _end(self, event: Event, body: DelegationEnded) -> None:
        errors, refused = self._errors.pop(body.address, {}), self._refused.pop(body.address, {})
        siblings = event.recipient, self._profiles.pop((event.recipient, body.turn, body.call), ())
        if body.kind != "reported":
            return
        values = {path.removeprefix("."): leaf for path, leaf in leaves(reported(event), "")}
        self._reports[siblings] += 1
        self._fields.setdefault(siblings, Counter()).update(values.keys())
        if errors or refused:
            self._doubtful.append(_Report(event, body.address, siblings, values, errors, refused))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        for one in self._doubtful:
            if not _tells(one.values) and (said := self._said(one)):
                command = GROUPED + one.agent
                yield Finding("defaulted", one.event.seq, one.agent, f"{one.agent} {said}", command)

    def _said(self, one: _Report) -> str:
        empty = [path for path, leaf in one.values.items() if _is_empty(leaf)]
        for path in empty:
            if path in one.refused:
                value = f"{path} = {one.values[path]!r}"
                return f"reported {value:.80} after its report without that was refused ({one.refused[path]})"
        if not one.errors:
            return ""
        tool, seq = next(iter(one.errors.items()))
        why = f"and {tool} had given it an error ({seq}) and nothing after it"
        if empty:
            return f"reported {f'{empty[0]} = {one.values[empty[0]]!r}':.80}, {why}"
        others = self._reports[one.siblings] - 1
        for path, count in self._fields[one.siblings].items():
            if path not in one.values and count == others >= _OTHERS_MIN:
                return f"reported no {path:.80} as its {others:,} siblings did, {why}"
        return ""


def _paths(problem: SchemaProblem) -> Iterator[str]:
    """Yield the path of a problem, and those of the words in its text: one may be a field that is missing."""
    path = problem.path.strip("/").replace("/", ".")
    yield path
    for name in _NAME.findall(problem.message):
        yield f"{path}.{name}" if path else name


def _tells(values: Mapping[str, object]) -> bool:
    said = " ".join(f"{path} {leaf}" for path, leaf in values.items() if not _is_empty(leaf)).casefold()
    return any(word in said for word in _DEFAULTED_TELLS)


def _is_empty(leaf: object) -> bool:
    return not isinstance(leaf, bool) and str(leaf).strip().casefold() in _EMPTY
