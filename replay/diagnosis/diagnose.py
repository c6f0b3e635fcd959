"""Diagnose a session: run every check over its events, in one pass.

Facts: asks that failed, failures below an ask that ended well, refusals by limits and by agents themselves,
loops, tasks that were tried again, calls in doubt, repeated errors, approvals with changed arguments, other
models, words that were not heard, late reports, requests that a program gave up, lost cache prefixes, calls
repeated after their results were cleared, answers above their need, calls charged without figures, cut and
empty answers.
Guesses, which a finding marks: words that came too late, reads before another's write, files that a sibling
overwrote, ids and numbers with a slip, ids of a sibling, texts of results that were obeyed, denied work that
was done another way, empty values after an error, bad news without a word of it, questions without an answer,
effects that were repeated, also after a timeout, first pages taken for all, reports that contradict each
other, differ from their siblings' or were not used, tools that always say the same.

Of a session that was made of a transcript, findings are left out that need what it lacks: the system prompt
and the tools, which count for the need of a call, the effects of tools, and the moment at which words came.

`causes` tells each cause once.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeAlias, get_args

from callboard.actors.protocol.client_messages import RECORDED, Forked, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.replay.diagnosis.calls import InDoubt, Loops, RepeatedErrors, SameAnswers, SentAgain
from callboard.replay.diagnosis.cleared import ClearedAgain
from callboard.replay.diagnosis.conflicts import Conflicts
from callboard.replay.diagnosis.copies import CopiedIds, CopiedNumbers
from callboard.replay.diagnosis.ends import (
    CutAnswers,
    EmptyAnswers,
    FailedAsks,
    FailedDelegations,
    LateReports,
    LostCache,
    Refused,
    RefusedReplies,
)
from callboard.replay.diagnosis.finding import (
    CallCheck,
    Check,
    Finding,
    FindingKind,
    Taker,
    ToolCalls,
    each_once,
)
from callboard.replay.diagnosis.followed import FollowedTexts
from callboard.replay.diagnosis.given_up import GivenUp
from callboard.replay.diagnosis.models import AboveNeed, AskedBack, ChargedCalls, OtherModels, Retries
from callboard.replay.diagnosis.pages import FirstPages
from callboard.replay.diagnosis.refusals import ChangedApprovals, LateWords, MadeCalls, OtherWays, refusals
from callboard.replay.diagnosis.reports import Outliers, UnusedReports
from callboard.replay.diagnosis.resources import Overwrites, StaleReads
from callboard.replay.diagnosis.strangers import SiblingIds
from callboard.replay.diagnosis.untold import Defaulted, RepeatedEffects, UntoldErrors
from callboard.replay.reading import START, Source
from callboard.replay.refused_calls import RefusedCall, Suspects

CHECKS: Final[tuple[Callable[[], Check], ...]] = (
    FailedAsks,
    FailedDelegations,
    Refused,
    Loops,
    Retries,
    InDoubt,
    RepeatedErrors,
    ChangedApprovals,
    OtherModels,
    LateReports,
    GivenUp,
    RefusedReplies,
    LostCache,
    ClearedAgain,
    AboveNeed,
    ChargedCalls,
    CutAnswers,
    EmptyAnswers,
    OtherWays,
    CopiedIds,
    CopiedNumbers,
    Overwrites,
    LateWords,
    StaleReads,
    Defaulted,
    UntoldErrors,
    AskedBack,
    SentAgain,
    RepeatedEffects,
    SiblingIds,
    FollowedTexts,
    Outliers,
    Conflicts,
    FirstPages,
    UnusedReports,
    SameAnswers,
)
_NOT_IN_TRANSCRIPTS: Final[frozenset[FindingKind]] = frozenset(
    {"above_need", "late_message", "repeated_effect"}
)
_NOT_IN_RECORDINGS: Final[frozenset[FindingKind]] = frozenset(
    {"late_message"}
)  # words come with the results that they were said beside
_Take: TypeAlias = Callable[[Event], object]
_ORDER: Final = {kind: place for place, kind in enumerate(get_args(FindingKind))}


class _Origin:
    """The traffic that a session was made of. without: the kinds of findings that it does not tell."""

    kinds: ClassVar = frozenset({"SessionOpened", "Forked"})

    def __init__(self) -> None:
        self.without: frozenset[FindingKind] = frozenset()

    def take(self, event: Event) -> None:
        """Take in the beginning of a session."""
        if isinstance(event.body, SessionOpened | Forked) and event.body.imported:
            is_recorded = event.body.imported == RECORDED
            self.without = _NOT_IN_RECORDINGS if is_recorded else _NOT_IN_TRANSCRIPTS


class Diagnosis:
    """The checks of one session. Feed it every row in order; ask for the findings at any time.

    suspects: the agents that may have refused a call by themselves.
    """

    def __init__(self) -> None:
        self._checks = [make() for make in CHECKS]
        self.suspects = Suspects()
        self._origin = _Origin()
        of_calls = [check for check in self._checks if isinstance(check, CallCheck)]
        self._made = MadeCalls(next(check for check in of_calls if isinstance(check, Loops)))
        self._other_ways = next(check for check in of_calls if isinstance(check, OtherWays))
        self._takers: list[Taker] = [
            ToolCalls(of_calls),
            *self._checks,
            self._made,
            self.suspects,
            self._origin,
        ]
        self._takes: dict[str, list[_Take]] = {}

    def takes(self, kind: str) -> list[_Take]:
        """Return the functions that look at messages of a kind."""
        if (takes := self._takes.get(kind)) is None:
            takes = self._takes[kind] = [taker.take for taker in self._takers if kind in taker.kinds]
        return takes

    def take(self, event: Event) -> None:
        """Add the next event."""
        for take in self.takes(event.kind):
            take(event)

    def findings(self, refused: Sequence[RefusedCall]) -> list[Finding]:
        """Return the findings up to here, the most telling kind first. refused: by agents themselves."""
        found = [finding for check in self._checks for finding in check.findings()]
        found = [one for one in found if one.kind not in self._origin.without]
        ways = self._other_ways.after(refused)
        found += [finding for _, finding in ways]
        found += refusals([one for one in refused if (one.agent, one.tool) not in dict(ways)], self._made)
        return each_once(sorted(found, key=lambda one: (_ORDER[one.kind], one.seq)))


_OPENING: Final = b'"opening":'


def diagnose(source: Source, refused_by: Callable[[Suspects], Sequence[RefusedCall]]) -> list[Finding]:
    """Return the findings of a session, its digests checked. refused_by: the calls that suspects refused."""
    found = Diagnosis()
    takes: dict[bytes, list[_Take]] = {}
    grants = found.takes("CallModel")
    for page in source.sealed_pages():
        rows, takes_of = [], []
        for row in page:
            body = row.body
            kind = body[START : body.index(b'"', START)]  # `kind_of` in place: it is asked of every event
            try:
                of_kind = takes[kind]
            except KeyError:
                of_kind = takes[kind] = found.takes(kind.decode())
            # A `CallModel` without an opening is not decoded, as most are: a `TurnRequested` says it all.
            if of_kind and (of_kind is not grants or _OPENING in body):
                rows.append(row)
                takes_of.append(of_kind)
        for event, each in zip(source.events(rows), takes_of, strict=True):
            for take in each:
                take(event)
    return found.findings(refused_by(found.suspects))
