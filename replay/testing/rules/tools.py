"""Caps on tool calls: which calls of a reply run, and how many tools of one agent at a time."""

from collections import Counter

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import CallTool, Delegate, ReportBack, RequestApproval
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts
from callboard.replay.testing.rules.ledger import Ledger


class ToolLimits(Invariant):
    """Requests of one reply, and tools of one agent that have no answer."""

    name = "tool-limits"
    rule = "No reply has requests beyond max_tool_calls, and no agent more tools out than max_parallel_tools."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._tools_out: Counter[str] = Counter()

    def on_CallTool(self, event: Event) -> None:
        """Count a tool as out."""
        self._check_place(event)
        who = event.sender
        self._tools_out[who] += 1
        life = self.facts.lives.get(who)
        limit = life.begin.limits.max_parallel_tools if life else None
        if limit is not None and self._tools_out[who] > limit:
            self.broken(event.seq, f"{who} has {self._tools_out[who]} tools out, {limit} may be")

    def on_ToolReturned(self, event: Event) -> None:
        """Count a tool as answered."""
        self._tools_out[event.recipient] -= 1

    def on_RequestApproval(self, event: Event) -> None:
        """Check the place of a question."""
        self._check_place(event)

    def on_Delegate(self, event: Event) -> None:
        """Check the place of a delegation."""
        self._check_place(event)

    def on_ReportBack(self, event: Event) -> None:
        """Check the place of a report."""
        self._check_place(event)

    def _check_place(self, event: Event) -> None:
        body, life = event.body, self.facts.lives.get(event.sender)
        assert isinstance(body, CallTool | RequestApproval | Delegate | ReportBack)
        limit = life.begin.limits.max_tool_calls if life else None
        if limit is not None and body.call >= limit:
            self.broken(event.seq, f"{event.sender} makes call {body.call + 1} of a reply, {limit} may be")
