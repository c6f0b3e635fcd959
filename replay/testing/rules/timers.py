"""Timers: deadlines, graces, back-offs, and the sleep of programs."""

from collections.abc import Sequence
from typing import Final

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    Finished,
    ReportJudged,
    Stop,
    TurnRequested,
    Wake,
    Woken,
)
from callboard.actors.protocol.port_messages import (
    CallModel,
    CancelTimer,
    SetTimer,
    TimerFired,
)
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind

_GRACE: Final = "grace"


class Timers(Invariant):
    """Deadlines, graces and back-offs.

    What a timer is for, the log does not say outright. But a back-off is set for a `TurnRequested` that asks
    for one, a deadline before the `Begin` it belongs to or with an `Ask`, and every other timer is a grace.
    """

    name = "timers"
    rule = "A timer that fires ends its agent, ask or back-off; an agent that has ended has no timer left."
    _for: dict[int, tuple[str, str]] = {}  # timer -> its purpose and its agent
    _fired: set[int] = set()
    _due: dict[int, int] = {}

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Record a back-off."""
        if body.after_ms:
            self._due[event.seq] = event.at + body.after_ms

    def on_CallModel(self, event: Event, call: CallModel) -> None:
        """Check a call that may have had to wait."""
        due = self._due.pop(call.request, 0)
        if event.at < due:
            self.broken(event.seq, f"{call.agent} calls {due - event.at} ms before its back-off is over")

    def on_TimerFired(self, event: Event, body: TimerFired) -> None:
        """Record a timer that has fired and can no longer be cancelled."""
        self._fired.add(body.timer)

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Check that a timer which fired is obeyed, and that an agent which ended has no timer left."""
        if outputs:
            self.confirm()
        purpose = ""
        if isinstance(body, TimerFired):
            purpose, who = self._for.pop(body.timer, ("", ""))
            self._check_fired(event.seq, purpose, who, outputs)
        ended = {event.sender} if isinstance(body, Finished) else set()
        for index, output in enumerate(outputs):
            self._update(event, outputs, index, purpose)
            if _ends(output):
                ended.add(output.recipient)
        for timer, (purpose, who) in self._for.items() if ended else ():
            if who in ended and timer not in self._fired:
                self.in_doubt = event.seq, f"{who} has ended, and its {purpose} timer is still set"
        if outputs:
            self.confirm()

    def _check_fired(self, seq: int, purpose: str, who: str, outputs: Sequence[Event]) -> None:
        if purpose == _GRACE and not of_kind(outputs, AskEnded) and self.facts.asks:
            self.in_doubt = seq, "the grace is over, and the outcome is not told"
        elif purpose == "wake" and self._runs(who, seq) and not of_kind(outputs, Woken):
            self.in_doubt = seq, f"the deadline of {who} has come, and it is not woken"
        elif purpose == "deadline" and self._runs(who, seq):
            self.in_doubt = seq, f"the time of {who} is over, and it still runs"

    def _update(self, event: Event, outputs: Sequence[Event], index: int, purpose: str) -> None:
        """Update the timers by one output. purpose: of the timer that has fired; empty for other events."""
        match outputs[index].body:
            case AskEnded(in_doubt=in_doubt) if in_doubt and purpose != _GRACE:
                self.broken(outputs[index].seq, "an outcome leaves agents in doubt before the grace is over")
            case SetTimer() as body:
                self._for[body.timer] = purpose_of(event, body, outputs[index + 1 :], index == 0)
            case CancelTimer(timer=timer):
                self._for.pop(timer, None)
            case Begin(limits=limits):
                who = outputs[index].recipient
                if limits.deadline_s is not None and ("deadline", who) not in self._for.values():
                    self.broken(outputs[index].seq, f"{who} begins with a deadline that has no timer")
            case _:
                pass

    def _runs(self, who: str, seq: int) -> bool:
        life = self.facts.lives.get(who)
        return life is not None and not life.ended_by and not life.is_over and life.seq < seq


def _ends(event: Event) -> bool:
    body = event.body
    return isinstance(body, Stop) or (isinstance(body, ReportJudged) and body.verdict == "accepted")


def purpose_of(event: Event, timer: SetTimer, later: Sequence[Event], is_first: bool) -> tuple[str, str]:
    """Return the purpose of a timer, from the event on which it was set and the posts after it."""
    if is_first and isinstance(event.body, TurnRequested) and event.body.after_ms == timer.after_ms:
        return "turn", event.sender
    if isinstance(event.body, Wake):
        return "wake", event.sender
    if is_first and isinstance(event.body, Ask):
        return "deadline", HOST
    begun = of_kind(later, Begin)
    return ("deadline", begun[0][0].recipient) if begun else (_GRACE, "")
