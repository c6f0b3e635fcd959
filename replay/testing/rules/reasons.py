"""Reasons: no agent is refused, stopped or ended for a limit that has not been reached."""

from collections import Counter
from collections.abc import Callable, Mapping

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    DelegationEnded,
    ModelReplied,
    ReportJudged,
    Stop,
    TurnRequested,
)
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts, Handled
from callboard.replay.testing.rules.ledger import Ledger, is_taken_on


class Deserved(Invariant):
    """Ends and refusals that name a limit."""

    name = "deserved"
    rule = "No agent ends and no delegation is denied for a limit that is not reached."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._turns: Counter[str] = Counter()
        self._invalid: Counter[str] = Counter()
        self._last: dict[str, ModelReplied] = {}
        self._children: Counter[tuple[str, int]] = Counter()
        self._agents = 1

    def on_Begin(self, event: Event) -> None:
        """Reset the counts for a new life."""
        self._turns[event.recipient] = self._invalid[event.recipient] = 0

    def on_TurnRequested(self, event: Event) -> None:
        """Count a turn."""
        assert isinstance(event.body, TurnRequested)
        self._turns[event.sender] += event.body.attempt == 1

    def on_ModelReplied(self, event: Event) -> None:
        """Record an answer, which may be the last."""
        assert isinstance(event.body, ModelReplied)
        self._last[event.recipient] = event.body

    def on_ReportJudged(self, event: Event) -> None:
        """Count an invalid report."""
        assert isinstance(event.body, ReportJudged)
        self._invalid[event.recipient] += event.body.verdict == "invalid"

    def on_Finished(self, event: Event) -> None:
        """Check the reason of an agent that ends by itself."""
        who, kind, life = event.sender, getattr(event.body, "kind", ""), self.facts.lives.get(event.sender)
        why = _ENDS.get(kind)
        if life is not None and why is not None and not why(self, who, life.begin.limits):
            self.broken(event.seq, f"{who} ends as {kind} after {self._turns[who]} turns")

    def _has_no_turns(self, who: str, limits: Limits) -> bool:
        return self._turns[who] >= (limits.max_iterations or 0)

    def _has_no_reports(self, who: str, limits: Limits) -> bool:
        has_tried = self._invalid[who] >= (limits.max_report_attempts or 1)
        return has_tried or (self._invalid[who] > 0 and self._has_no_turns(who, limits))

    def _has_no_attempts(self, who: str, limits: Limits) -> bool:
        last = self._last.get(who)
        if last is not None and last.status == "lost":
            return False
        if last is None or last.failure is None or not last.failure.is_retryable:
            return True
        return last.attempt >= (limits.max_model_attempts or 1)

    # --- refusals -------------------------------------------------------------------

    def handled(self, handled: Handled) -> None:
        """Count an accepted delegation; check the reason of a denied one."""
        event, outputs = handled
        body, life = event.body, self.facts.lives.get(event.sender)
        if not isinstance(body, Delegate) or life is None:
            return
        if is_taken_on(self.facts, event, outputs):
            self._agents += len(body.profiles)
            self._children[event.sender, body.turn] += len(body.profiles)
            return
        end = next((one.body for one in outputs if isinstance(one.body, DelegationEnded)), None)
        is_running = not life.ended_by or life.ended_by >= event.seq
        if (
            end is not None
            and end.kind == "cancelled"
            and is_running
            and not _is_stopped(outputs, event.sender)
        ):
            self.broken(event.seq, f"a delegation of {event.sender} is cancelled, and it runs")
        if (
            end is not None
            and end.kind == "denied"
            and not self._may_be_denied(event.sender, body, life.begin)
        ):
            self.broken(event.seq, f"a delegation of {event.sender} is denied, and nothing forbids it")

    def _may_be_denied(self, who: str, body: Delegate, begin: Begin) -> bool:
        count, limits = len(body.profiles), begin.limits
        allowed = self.facts.lives[who].profile.agents
        has_strangers = any(name not in allowed or name not in self.facts.profiles for name in body.profiles)
        return (
            not count
            or has_strangers
            or begin.depth >= (limits.max_depth or 0)
            or self._children[who, body.turn] + count > (limits.max_children or 0)
            or self._agents + count > (limits.max_agents or 0)
            or self._lacks_prices(body, begin)
        )

    def _lacks_prices(self, body: Delegate, begin: Begin) -> bool:
        """Return whether a cost limit applies to an agent whose model has no prices."""
        people = [self.facts.profiles[name][0] for name in body.profiles]
        is_costed = body.limits.cost is not None or any(
            scope.cost is not None for scope in self.ledger.scopes.values()
        )
        return any(
            (one.model or begin.model).prices is None and (is_costed or one.limits.cost is not None)
            for one in people
        )


_ENDS: Mapping[str, Callable[[Deserved, str, Limits], bool]] = {
    "iteration_cap": Deserved._has_no_turns,
    "invalid_report": Deserved._has_no_reports,
    "model_error": Deserved._has_no_attempts,
}


def _is_stopped(outputs: object, who: str) -> bool:
    assert isinstance(outputs, tuple)
    return any(isinstance(one.body, Stop) and one.recipient == who for one in outputs)
