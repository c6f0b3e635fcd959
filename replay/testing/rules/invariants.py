"""The rules of delegation and of budgets, each in one sentence, checked on any log: simulated or recorded.

    for breach in check_log(recording.events):
        print(breach)

Rules that need more than the log alone are in `requests` and `sessions.monitors`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, get_args

from callboard.actors.protocol.addresses import CLIENT
from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage, TurnRequested
from callboard.actors.protocol.wishes import wish_in
from callboard.replay.testing.rules import (
    admission,
    approvals,
    background,
    beginnings,
    books,
    budgets,
    caps,
    changes,
    compactions,
    ends,
    file_versions,
    isolation,
    latches,
    model_choice,
    permissions,
    programs,
    repeated_requests,
    reports,
    stops,
    task_waits,
    timers,
    tool_results,
)
from callboard.replay.testing.rules.base import Breach, Invariant
from callboard.replay.testing.rules.facts import Facts, of_kind
from callboard.replay.testing.rules.ledger import Ledger

INVARIANTS: Final[tuple[type[Invariant], ...]] = (
    ends.Order,
    ends.OneAnswer,
    ends.OneEnd,
    ends.OneJudgement,
    ends.OneLife,
    ends.NothingAfterEnd,
    stops.NothingAfterStop,
    stops.OnlyDrains,
    stops.TransitiveStop,
    reports.FirstValidWins,
    caps.Depth,
    caps.Turns,
    caps.Children,
    caps.ParallelCalls,
    caps.ToolLimits,
    tool_results.LinesOfTools,
    budgets.Budgets,
    budgets.NothingRefusedThatFits,
    budgets.RoomToDelegate,
    budgets.Charges,
    budgets.NothingReserved,
    isolation.Narrowing,
    permissions.Permissions,
    permissions.Labelled,
    approvals.Approvals,
    approvals.ApprovedArguments,
    approvals.InputRounds,
    approvals.PermittedCalls,
    approvals.ExpiredQuestions,
    isolation.Isolation,
    reports.Checked,
    timers.Timers,
    caps.Deserved,
    admission.Closing,
    admission.FirstCome,
    budgets.Spending,
    stops.OneStop,
    ends.AnswerInTime,
    ends.Closed,
    ends.Cancelled,
    ends.CancelledAgents,
    stops.Started,
    model_choice.Places,
    books.Reserved,
    books.SettledAbove,
    tool_results.StateUpdates,
    tool_results.CachedAnswers,
    tool_results.TelemetryOfCalls,
    beginnings.Contexts,
    changes.ChangedAgents,
    beginnings.Contracts,
    beginnings.Folded,
    changes.ToolsPassedOn,
    programs.FreeSteps,
    programs.LiveCopies,
    programs.Questions,
    programs.ToolLine,
    programs.GivenUp,
    programs.StepAnswers,
    programs.AfterReturn,
    programs.Deadlines,
    latches.InTime,
    budgets.Rooms,
    budgets.ReserveHolds,
    books.SameBooks,
    background.OneTellEnd,
    background.TasksRead,
    background.TasksEnd,
    task_waits.Waits,
    model_choice.Fallbacks,
    model_choice.Needs,
    repeated_requests.EmptyAnswers,
    latches.Latched,
    latches.QuestionLimit,
    repeated_requests.RepairLevels,
    compactions.Compactions,
    file_versions.FileVersions,
)
"""All that a log alone can show."""


def invariant(name: str) -> type[Invariant]:
    """Return the invariant of this name. Raises UnknownName."""
    for one in INVARIANTS:
        if one.name == name:
            return one
    raise UnknownName(f"there is no invariant {name!r}; there are: {', '.join(i.name for i in INVARIANTS)}")


@lru_cache(maxsize=64)
def _hooks(
    kinds: tuple[type[Invariant], ...], prefix: str
) -> Mapping[type, Sequence[tuple[int, Callable[..., None]]]]:
    """Return the functions that read each kind of message, each with the place of its invariant."""
    return {
        message: [
            (index, getattr(one, name))
            for index, one in enumerate(kinds)
            for name in (f"{prefix}_any", f"{prefix}_{message.__name__}")
            if hasattr(one, name)
        ]
        for message in get_args(AnyMessage)
    }


class LogChecker:
    """Checks a log as it comes, event by event. breaches: those found so far."""

    def __init__(self, kinds: Sequence[type[Invariant]] = INVARIANTS) -> None:
        self._facts = Facts()
        self._ledger = Ledger(self._facts)
        self._all = [one(self._facts, self._ledger) for one in kinds]
        # Functions of the classes: all logs share one table, and no log binds methods of its own.
        self._on_post = _hooks(tuple(kinds), "on")
        self._on_handled = _hooks(tuple(kinds), "handled")
        self._on_wish = [
            (index, one.on_TurnRequested)
            for index, one in enumerate(kinds)
            if hasattr(one, "on_TurnRequested")
        ]
        self._orders = [one for one in self._all if isinstance(one, ends.Order)]
        self._last = 0
        self._has_gap = False
        self._is_told = False
        self._is_in_doubt = False

    @property
    def breaches(self) -> list[Breach]:
        """Return the breaches so far, in the order of the log."""
        found = [breach for one in self._all for breach in one.breaches]
        return sorted(found, key=lambda breach: breach.seq)

    @property
    def is_clean(self) -> bool:
        """Return whether there are no breaches so far."""
        return not any(one.breaches for one in self._all)

    def hear(self, event: Event) -> None:
        """Check the next event."""
        self._has_gap |= event.seq != self._last + 1
        self._last = event.seq
        body = event.body
        if self._has_gap:  # the other rules cannot judge a log that lacks an event
            for order in self._orders:
                order.on_any(event, body)
            return
        for handled in self._facts.settle(event):
            self._handled(*handled)
        self._facts.hear(event)
        if not isinstance(body, TurnRequested) and (wish := wish_in(body)) is not None:
            for index, hook in self._on_wish:
                hook(self._all[index], event, wish)
        for index, hook in self._on_post[type(body)]:
            hook(self._all[index], event, body)
        self._is_told = event.recipient == CLIENT

    def _handled(self, event: Event, outputs: Sequence[Event]) -> None:
        self._ledger.handled(event, outputs)
        for index, hook in self._on_handled[type(event.body)]:
            hook(self._all[index], event, event.body, outputs)
        if isinstance(event.body, Ask):
            return
        for output, ended in of_kind(outputs, AskEnded):
            self._is_in_doubt = bool(ended.in_doubt)
            if not ended.in_doubt:
                self._quiet(output.seq)

    def _quiet(self, seq: int) -> None:
        for one in self._all:
            one.quiet(seq)

    def rest(self, is_at_rest: bool = False) -> None:
        """End the log. is_at_rest: no further event will come, so nothing may be left open.
        A session that was closed with agents in doubt is the exception: their last messages are ignored.
        """
        if self._has_gap:
            return
        for handled in self._facts.rest(is_cut=not is_at_rest and not self._is_told, is_at_rest=is_at_rest):
            self._handled(*handled)
        if is_at_rest and self._last and not (self._facts.closed_by and self._is_in_doubt):
            self._quiet(self._last)


def check_log(
    events: Iterable[Event], *, is_at_rest: bool = False, kinds: Sequence[type[Invariant]] = INVARIANTS
) -> list[Breach]:
    """Return the breaches of these events, which are all of a session's from the first.
    is_at_rest: no further event will come (a simulation that is over), so anything open is a breach.
    kinds: the invariants to check.
    """
    checker = LogChecker(kinds)
    for event in events:
        checker.hear(event)
    checker.rest(is_at_rest)
    return checker.breaches


__all__ = ["INVARIANTS", "Breach", "Invariant", "LogChecker", "check_log", "invariant"]
