"""Findings, what the checks that make them share, and the choice of those to tell.

A finding of the diagnosis, and the interface of the checks that make them.

Tool calls with their results: paired once, for all checks that look at them.

Tell each cause once.

Rules
  - An end of an agent, at a limit or by a failure, is told with the loop, the error or the repeated task that
    explains it. An end without one stays a finding of its own.
  - Agents that do the same, such as twelve that are refused one tool, share one finding: that of the first.
  - Of findings about one agent at one event, the most telling one stays.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, ToolReturned

FindingKind: TypeAlias = Literal[
    "failed_ask",
    "failed_delegation",
    "refused",
    "refused_call",
    "loop",
    "retried",
    "sent_again",
    "in_doubt",
    "repeated_error",
    "changed_approval",
    "other_model",
    "unread_message",
    "late_report",
    "given_up",
    "refused_replies",
    "lost_cache",
    "cleared_again",
    "above_need",
    "charged_calls",
    "cut_answer",
    "empty_answer",
    "other_way",
    "wrong_id",
    "wrong_number",
    "sibling_id",
    "overwritten",
    "followed_text",
    "late_message",
    "stale_read",
    "defaulted",
    "untold_error",
    "asked_back",
    "repeated_effect",
    "outlier",
    "conflict",
    "first_page",
    "unused_report",
    "same_answers",
]
"""The kinds of findings, in the order of the report."""

MAYBE: frozenset[FindingKind] = frozenset(
    {
        *("late_message", "stale_read", "defaulted", "untold_error", "repeated_effect", "outlier"),
        *(
            "unused_report",
            "same_answers",
            "sent_again",
            "other_way",
            "wrong_id",
            "wrong_number",
            "overwritten",
            "asked_back",
            "sibling_id",
            "followed_text",
            "conflict",
            "first_page",
        ),
    }
)
"""The kinds that are guesses. All others are facts."""

GROUPED: Final = "events {session} --grouped --actor "


class Finding(NamedTuple):
    """One cause that a person should look at.

    seq: of the event that shows it. agent: the address of the agent it is about. says: one sentence. command:
    the next one to run, a sub-command of `callboard` with `{at}` for SESSION#SEQ and `{session}` for SESSION.
    ends: the agents whose end it tells of, or explains; so for reads. An end that another finding explains is
    told with it.
    """

    kind: FindingKind
    seq: int
    agent: str
    says: str
    command: str = "why {at}"
    ends: tuple[str, ...] = ()

    @property
    def is_maybe(self) -> bool:
        """Return whether this is a guess."""
        return self.kind in MAYBE


def is_at_or_below(agent: str, other: str) -> bool:
    """Return whether an agent is another one, or a sub-agent at any depth of it."""
    return agent == other or agent.startswith(f"{other}.")


class Taker(Protocol):
    """A reader of the events of some kinds, in order."""

    kinds: ClassVar[frozenset[str]]

    def take(self, event: Event) -> None:
        """Add the next event."""


class Check(Taker, Protocol):
    """A check of one session. It is given the events of its kinds, in order, and then asked."""

    def findings(self) -> Iterator[Finding]:
        """Yield the findings, after the last event."""


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A call. seq: of its `CallTool`. arguments: as the model wrote them."""

    seq: int
    agent: str
    tool: str
    effect: Effect
    arguments: bytes


class Returned(msgspec.Struct, frozen=True, gc=False):
    """The result of a call. seq: of its `ToolReturned`. digest: equal for equal outputs. output: the JSON."""

    seq: int
    status: str
    digest: int
    output: bytes


class CallCheck:
    """A check that is given calls, and may take further events in.

    results: those that it is given: of all calls, of those with an effect, or of an agent's calls from its
    first error, interruption or denied approval on.
    """

    kinds: ClassVar[frozenset[str]] = frozenset()
    results: ClassVar[Literal["all", "effects", "errors"]] = "all"

    def take(self, event: Event) -> None:
        """Take in an event of its kinds; a check without kinds is given none."""

    def called(self, call: ToolCall) -> None:
        """Take in the start of a call with an effect."""

    @abstractmethod
    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""

    def findings(self) -> Iterator[Finding]:
        """Yield the findings, after the last event."""
        yield from ()


class ToolCalls:
    """Pairs calls and results. checks: are given each pair."""

    kinds: ClassVar = frozenset({"CallTool", "ToolReturned", "ApprovalGiven"})

    def __init__(self, checks: Iterable[CallCheck]) -> None:
        self._checks = list(checks)
        of_all, of_effects, self._of_errors = (
            [check.returned for check in self._checks if check.results == results]
            for results in ("all", "effects", "errors")
        )
        self._of_reads, self._of_effects = of_all, of_all + of_effects
        self._erred: set[str] = set()
        self._open: dict[int, ToolCall] = {}

    def take(self, event: Event) -> None:
        """Take in a call or a result."""
        body = event.body
        if type(body) is CallTool:
            call = ToolCall(event.seq, event.sender, body.tool, body.effect, bytes(body.arguments))
            self._open[event.seq] = call
            if body.effect != "read":
                for check in self._checks:
                    check.called(call)
        elif type(body) is ToolReturned and event.cause in self._open:
            call = self._open.pop(event.cause)
            output = bytes(body.output)
            result = Returned(event.seq, body.status, hash(output), output)
            for returned in self._of_reads if call.effect == "read" else self._of_effects:
                returned(call, result)
            if result.status in ("error", "interrupted"):
                self._erred.add(call.agent)
            if call.agent in self._erred:
                for returned in self._of_errors:
                    returned(call, result)
        elif type(body) is ApprovalGiven and body.verdict != "approved":
            self._erred.add(event.recipient)


_ENDS: Final[frozenset[FindingKind]] = frozenset(
    {"failed_delegation", "refused", "given_up", "untold_error", "stale_read"}
)
_SHARED: Final[frozenset[FindingKind]] = frozenset(
    {"loop", "repeated_error", "refused_call", "other_model", "refused_replies", "lost_cache", "same_answers"}
)
_NAMED: Final = 3  # further agents in a sentence
_NUMBER: Final = re.compile(r"\d[\d,]*")


def each_once(found: Sequence[Finding]) -> list[Finding]:
    """Return findings without those that tell of a cause again. found: the most telling kind first."""
    told = _with_ends(_shared(found))
    first: dict[tuple[int, str], Finding] = {}
    for one in told:
        first.setdefault((one.seq, one.agent), one)
    return [one for one in told if first[one.seq, one.agent] is one]


def _shared(found: Iterable[Finding]) -> list[Finding]:
    """Let agents that do the same share a finding."""
    groups: dict[object, list[Finding]] = {}
    for one in found:
        said = _NUMBER.sub("", one.says.replace(one.agent, ""))
        groups.setdefault((one.kind, said) if one.kind in _SHARED else id(one), []).append(one)
    return [_of_all(group) for group in groups.values()]


def _of_all(group: Sequence[Finding]) -> Finding:
    first, *others = group
    if not others:
        return first
    names = [one.agent for one in others]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    ends = tuple(agent for one in group for agent in one.ends)
    return first._replace(says=f"{first.says}; the same for {', '.join(names[:_NAMED])}{more}", ends=ends)


def _with_ends(found: Iterable[Finding]) -> list[Finding]:
    """Let the findings that explain ends tell of them, instead of findings of their own."""
    found = list(found)
    why = {agent: one for one in reversed(found) if one.kind not in _ENDS for agent in one.ends}
    told: dict[int, str] = {}  # by the finding that tells of them
    left = []
    for one in found:
        if one.kind not in _ENDS or not one.ends or any(agent not in why for agent in one.ends):
            left.append(one)
        else:
            told.setdefault(id(why[one.ends[0]]), f"; {one.says}")
    return [one._replace(says=one.says + told.get(id(one), "")) for one in left]
