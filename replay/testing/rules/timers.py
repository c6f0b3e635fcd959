"""Time: who runs out of it ends at once, a grace is not longer than it is, a back-off not shorter.

What a timer is for, the log does not say outright. But a back-off is set for a `TurnRequested` that asks
for one, a deadline before the `Begin` it belongs to or with an `Ask`, and every other timer is a grace.
"""

from collections.abc import Sequence
from typing import Final

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    Ask,
    AskEnded,
    Begin,
    CallModel,
    CancelTimer,
    Finished,
    ReportJudged,
    SetTimer,
    Stop,
    TimerFired,
    TurnRequested,
)
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts, Handled
from callboard.replay.testing.rules.ledger import Ledger

_GRACE: Final = "grace"


class Timers(Invariant):
    """Deadlines, graces and back-offs."""

    name = "timers"
    rule = "A timer that fires ends its agent, ask or back-off; an agent that has ended has no timer left."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._for: dict[int, tuple[str, str]] = {}
        self._fired: set[int] = set()
        self._doubtful: tuple[int, str] | None = None
        self._due: dict[int, int] = {}

    def on_TurnRequested(self, event: Event) -> None:
        """Record a back-off."""
        body = event.body
        assert isinstance(body, TurnRequested)
        if body.after_ms:
            self._due[event.seq] = event.at + body.after_ms

    def on_CallModel(self, event: Event) -> None:
        """Check a call that may have had to wait."""
        call = event.body
        assert isinstance(call, CallModel)
        due = self._due.pop(call.request, 0)
        if event.at < due:
            self.broken(event.seq, f"{call.agent} calls {due - event.at} ms before its back-off is over")

    def on_TimerFired(self, event: Event) -> None:
        """Record a timer that has fired and can no longer be cancelled."""
        assert isinstance(event.body, TimerFired)
        self._fired.add(event.body.timer)

    def handled(self, handled: Handled) -> None:
        """Check that a timer which fired is obeyed, and that an agent which ended has no timer left."""
        event, outputs = handled
        if outputs:
            self._confirm()
        purpose = ""
        if isinstance(event.body, TimerFired):
            purpose, who = self._for.pop(event.body.timer, ("", ""))
            if purpose == _GRACE and not _tells_the_end(outputs) and self.facts.asks:
                self._doubtful = event.seq, "the grace is over, and the outcome is not told"
            elif purpose == "deadline" and self._runs(who, event.seq):
                self._doubtful = event.seq, f"the time of {who} is over, and it still runs"
        for index, output in enumerate(outputs):
            if isinstance(output.body, AskEnded) and output.body.in_doubt and purpose != _GRACE:
                self.broken(output.seq, "an outcome leaves agents in doubt before the grace is over")
            if isinstance(output.body, SetTimer):
                self._for[output.body.timer] = _purpose(event, output.body, outputs[index + 1 :], index == 0)
            elif isinstance(output.body, CancelTimer):
                self._for.pop(output.body.timer, None)
            elif isinstance(output.body, Begin):
                self._check_begin(output, output.body)
        ended = {one.recipient for one in outputs if _ends(one)}
        if isinstance(event.body, Finished):
            ended.add(event.sender)
        for timer, (purpose, who) in self._for.items() if ended else ():
            if who in ended and timer not in self._fired:
                self._doubtful = event.seq, f"{who} has ended, and its {purpose} timer is still set"
        if outputs:
            self._confirm()

    def _check_begin(self, event: Event, begin: Begin) -> None:
        if begin.limits.deadline_s is not None and ("deadline", event.recipient) not in self._for.values():
            self.broken(event.seq, f"{event.recipient} begins with a deadline that has no timer")

    def quiet(self, seq: int) -> None:
        """Report a doubtful breach: every event was handled."""
        self._confirm()

    def _confirm(self) -> None:
        """Report a doubtful breach, now that a later decision shows that its event was handled."""
        if self._doubtful is not None:
            self.broken(*self._doubtful)
            self._doubtful = None

    def _runs(self, who: str, seq: int) -> bool:
        life = self.facts.lives.get(who)
        return life is not None and not life.ended_by and not life.is_over and life.seq < seq


def _ends(event: Event) -> bool:
    body = event.body
    return isinstance(body, Stop) or (isinstance(body, ReportJudged) and body.verdict == "accepted")


def _tells_the_end(outputs: Sequence[Event]) -> bool:
    return any(isinstance(one.body, AskEnded) for one in outputs)


def _purpose(event: Event, timer: SetTimer, later: Sequence[Event], is_first: bool) -> tuple[str, str]:
    """Return the purpose of a timer, from the event on which it was set and the posts after it."""
    if is_first and isinstance(event.body, TurnRequested) and event.body.after_ms == timer.after_ms:
        return "turn", event.sender
    if is_first and isinstance(event.body, Ask):
        return "deadline", HOST
    begun = next((one.recipient for one in later if isinstance(one.body, Begin)), "")
    return ("deadline", begun) if begun else (_GRACE, "")
