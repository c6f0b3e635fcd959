"""Checks of ends: failed asks, failures below answers, refusals, late reports, repairs, lost caches.

A check of ends: agents that ended well with nothing.
"""

from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

from callboard.actors.protocol.addresses import HOST, parent_of
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.endings import EXPLAINED, STATUS, OutcomeKind
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, ReportJudged, TurnRequested
from callboard.actors.protocol.prompts import NO_SUMMARY
from callboard.actors.protocol.repair_levels import START
from callboard.actors.protocol.wishes import wish_in
from callboard.replay.diagnosis.finding import GROUPED, Finding
from callboard.replay.diagnosis.models import is_one_task, words_of

_REFUSALS: Final[frozenset[OutcomeKind]] = frozenset({"budget", "denied", "deadline", "iteration_cap"})
_REASON_CHARS: Final = 240
_LEVELS: Final = {1: "every reply goes as if another model had made it", 2: "calls and results go as words"}


class FailedAsks:
    """Asks that failed, but by no limit: those are refusals."""

    kinds: ClassVar = frozenset({"AskEnded"})

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in the end of an ask."""
        body = event.body
        if not isinstance(body, AskEnded) or STATUS[body.kind] != "failed" or body.kind in _REFUSALS:
            return
        detail = f": {body.detail}" if body.detail else ""
        says = f"the ask failed ({body.kind}): {EXPLAINED[body.kind]}{detail}"
        self._found.append(Finding("failed_ask", event.seq, HOST, says))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


class CutAnswers:
    """Answers that went on, but for the most tokens of a reply."""

    kinds: ClassVar = frozenset({"DelegationEnded", "AskEnded"})

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in an end."""
        body = event.body
        if isinstance(body, DelegationEnded | AskEnded) and body.kind == "answered" and body.detail:
            agent = body.address if isinstance(body, DelegationEnded) else HOST
            detail = body.detail
            if isinstance(body, DelegationEnded) and body.value != NULL:  # a whole reply, and why it stopped
                if detail != "max_tokens":
                    return
                detail = "its reply was cut at max_tokens"
            says = f"{agent} answered, but {detail}"
            self._found.append(Finding("cut_answer", event.seq, agent, says))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


class FailedDelegations:
    """Delegations that failed below an ask that ended well: its answer may lack their work.

    A task that the parent gave again, and that ended well then, does not count.
    """

    kinds: ClassVar = frozenset({"Delegate", "DelegationEnded", "AskEnded", "ReportJudged"})

    def __init__(self) -> None:
        self._given: dict[tuple[str, int, int], tuple[tuple[str, ...], frozenset[str]]] = {}
        self._problems: dict[str, str] = {}  # of the last invalid report, by agent
        self._failed: list[_Failed] = []
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in a delegation or an end."""
        body = event.body
        if isinstance(body, Delegate):
            self._given[event.sender, body.turn, body.call] = body.profiles, words_of(body)
        elif isinstance(body, ReportJudged):
            self._problems[event.recipient] = "; ".join(map(str, body.problems))
        elif isinstance(body, DelegationEnded):
            profiles, words = self._given.pop((event.recipient, body.turn, body.call), ((), frozenset()))
            if STATUS[body.kind] == "failed":
                agent = body.address or event.recipient
                self._failed.append(_Failed(event.seq, agent, body, event.recipient, profiles, words))
            elif STATUS[body.kind] == "ok":
                self._failed = [
                    one
                    for one in self._failed
                    if not one.is_done(event.recipient, body.turn, profiles, words)
                ]
        elif isinstance(body, AskEnded):
            if STATUS[body.kind] == "ok" and self._failed:
                self._found.append(self._finding())
            self._failed = []

    def _finding(self) -> Finding:
        first = self._failed[0]
        more = f"; {len(self._failed) - 1:,} more failed" if len(self._failed) > 1 else ""
        kind, agent = first.end.kind, first.agent
        why = _reason(first.end, self._problems.get(agent, ""))
        says = f"the ask ended well, but {agent} failed below it ({kind}): {why}{more}"
        agents = tuple(one.agent for one in self._failed)
        return Finding("failed_delegation", first.seq, agent, says, _command(kind, agent), agents)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each ask."""
        yield from self._found


class _Failed(NamedTuple):
    seq: int
    agent: str
    end: DelegationEnded
    parent: str
    profiles: tuple[str, ...]
    words: frozenset[str]

    def is_done(self, parent: str, turn: int, profiles: tuple[str, ...], words: frozenset[str]) -> bool:
        """Return whether another delegation, which ended well, has done the work."""
        if (self.parent, self.profiles) != (parent, profiles):
            return False
        # A denied one has done no work, and mostly comes with arguments that have to be put right.
        return turn > self.end.turn if self.end.kind == "denied" else is_one_task(self.words, words)


def _reason(end: DelegationEnded | AskEnded, problems: str = "") -> str:
    """Return why an agent failed: in the words of its end. problems: of the last report that it gave."""
    said = end.detail or EXPLAINED[end.kind]
    if end.kind == "no_report" and problems:
        said = f"stopped after a report that was refused: {problems}"
    if isinstance(end, DelegationEnded) and end.kind == "denied" and end.problems:
        said = f"{said} ({'; '.join(map(str, end.problems))})"
    return _cut(said)


def _cut(said: str) -> str:
    return said if len(said) <= _REASON_CHARS else said[: _REASON_CHARS - 1] + "…"


def _command(kind: OutcomeKind, agent: str) -> str:
    """Return the command that shows an end: for one at a limit, the spending or the turns that led to it."""
    if kind == "budget":
        return "show {session} --budget --at {seq}"
    return GROUPED + agent if kind == "iteration_cap" else "why {at}"


class Refused:
    """The first refusal of each kind of limit.

    A denied delegation does not count if its parent delegated to the same agents in a later turn, and they
    ended well.
    """

    kinds: ClassVar = frozenset({"Delegate", "DelegationEnded", "AskEnded"})

    def __init__(self) -> None:
        self._given: dict[tuple[str, int, int], tuple[str, ...]] = {}
        self._ends: dict[OutcomeKind, list[_Refusal]] = {}

    def take(self, event: Event) -> None:
        """Take in a delegation or an end."""
        body = event.body
        if isinstance(body, Delegate):
            self._given[event.sender, body.turn, body.call] = body.profiles
        elif isinstance(body, DelegationEnded):
            self._ended(event, body, self._given.pop((event.recipient, body.turn, body.call), ()))
        elif isinstance(body, AskEnded) and body.kind in _REFUSALS:
            self._add(body.kind, _Refusal(event.seq, HOST, "the ask", _reason(body)))

    def _ended(self, event: Event, end: DelegationEnded, profiles: tuple[str, ...]) -> None:
        parent = event.recipient
        if end.kind in _REFUSALS:
            what = f"a delegation of {parent} to {', '.join(profiles)}"
            agent = end.address or parent
            one = _Refusal(event.seq, agent, what, _reason(end), parent, profiles, end.turn)
            self._add(end.kind, one)
        elif STATUS[end.kind] == "ok" and (denied := self._ends.get("denied")):
            denied[:] = [one for one in denied if not one.is_made_good(parent, profiles, end.turn)]

    def _add(self, kind: OutcomeKind, one: "_Refusal") -> None:
        self._ends.setdefault(kind, []).append(one)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each kind."""
        for kind, ends in self._ends.items():
            if not ends:
                continue
            first, count = ends[0], len(ends)
            more = f"; {count - 1:,} more such ends followed" if count > 1 else ""
            # A denied agent never began, so no agent ended.
            what = (
                f"{first.what} was denied" if kind == "denied" else f"{first.agent} ended at a limit ({kind})"
            )
            agents = tuple(one.agent for one in ends)
            yield Finding(
                "refused",
                first.seq,
                first.agent,
                f"{what}: {first.reason}{more}",
                _command(kind, first.agent),
                agents,
            )


class _Refusal(NamedTuple):
    """An end at a limit. what: the ask or the delegation. parent, profiles: of a delegation."""

    seq: int
    agent: str
    what: str
    reason: str
    parent: str = ""
    profiles: tuple[str, ...] = ()
    turn: int = 0

    def is_made_good(self, parent: str, profiles: tuple[str, ...], turn: int) -> bool:
        """Return whether a delegation of this turn, which ended well, repeats the one that was denied."""
        return (self.parent, self.profiles) == (parent, profiles) and turn > self.turn


class LateReports:
    """Reports that came too late, of delegations without a race: there the losers' reports are late."""

    kinds: ClassVar = frozenset({"Delegate", "ReportJudged"})

    def __init__(self) -> None:
        self._racing: set[str] = set()
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in a delegation or a judgement."""
        body = event.body
        if isinstance(body, Delegate) and len(body.profiles) > 1:
            self._racing.add(event.sender)
        elif isinstance(body, ReportJudged) and body.verdict == "late" and not self._is_racing(event):
            says = f"a report of {event.recipient} came too late and was not used"
            self._found.append(Finding("late_report", event.seq, event.recipient, says))

    def _is_racing(self, event: Event) -> bool:
        return parent_of(event.recipient) in self._racing

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


class RefusedReplies:
    """Requests that a service refused with replies in them, so that their agent raised its repair level."""

    kinds: ClassVar = frozenset({"TurnRequested"})

    def __init__(self) -> None:
        self._levels: dict[str, int] = {}
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in a request."""
        turn = event.body
        if type(turn) is not TurnRequested or turn.repair is None:
            return
        if turn.repair.level > self._levels.get(event.sender, START.level):
            self._levels[event.sender] = turn.repair.level
            says = (
                f"the service refused the conversation of {event.sender}, which goes on at repair level "
                f"{turn.repair.level}: {_LEVELS[turn.repair.level]}"
            )
            self._found.append(Finding("refused_replies", event.seq, event.sender, says))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


class LostCache:
    """Requests that do not begin with the one before them: the service cannot use its cache for them.

    A request to another model than the one before it does not count: a cache belongs to one model. Neither
    does one after a compaction, which is meant to begin again.
    """

    kinds: ClassVar = frozenset({"Begin", "TurnRequested", "CallModel", "Compacted"})

    def __init__(self) -> None:
        self._first: dict[str, tuple[int, int]] = {}
        self._begun: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        self._compacted: dict[str, int] = {}

    def take(self, event: Event) -> None:
        """Take in the first model of an agent, a compaction, or a request."""
        body = event.body
        if (turn := body if type(body) is TurnRequested else wish_in(body)) is not None:
            self._ask(event, turn, turn.model or self._begun.get(event.sender, ""))
        elif isinstance(body, Begin):
            self._begun[event.recipient] = body.model.name
        elif isinstance(body, Compacted):
            self._compacted[event.sender] = event.seq

    def _ask(self, event: Event, turn: TurnRequested, model: str) -> None:
        before = self._asked.get(event.sender, model)
        self._asked[event.sender] = model
        if turn.breaks_cache and before == model and event.cause != self._compacted.get(event.sender):
            seq, count = self._first.get(event.sender, (event.seq, 0))
            self._first[event.sender] = seq, count + 1

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent."""
        for agent, (seq, count) in self._first.items():
            times = f"{count:,} times" if count > 1 else "once"
            says = f"{agent} lost the cached prefix of its prompt {times}"
            yield Finding("lost_cache", seq, agent, says, "request {at}")


_NOTHING: Final = frozenset({b"{}", b"[]", b'""'})


class EmptyAnswers:
    """Ends without a text and without a value, or with an empty report."""

    kinds: ClassVar = frozenset({"DelegationEnded", "AskEnded"})

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in an end."""
        body = event.body
        if not isinstance(body, DelegationEnded | AskEnded) or STATUS[body.kind] != "ok":
            return
        if body.value == NULL:
            is_empty = body.kind != "reported" and body.text.strip() in ("", NO_SUMMARY)
        else:
            is_empty = bytes(body.value) in _NOTHING
        if is_empty:
            agent = body.address if isinstance(body, DelegationEnded) else HOST
            self._found.append(
                Finding("empty_answer", event.seq, agent, f"{agent} ended well, and said nothing")
            )

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found
