"""Caps: how deep, how many, how often. What an agent's `Begin` says is what binds it."""

from collections import Counter

from callboard.actors.protocol.addresses import HOST, depth_of, parent_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    ModelReplied,
    ReportJudged,
    TurnRequested,
)
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts, Handled
from callboard.replay.testing.rules.ledger import Ledger, is_taken_on


class Depth(Invariant):
    """How deep agents nest."""

    name = "depth"
    rule = "No agent is deeper than its parent's max_depth, and an agent at that depth is offered no agents."

    def on_Begin(self, event: Event) -> None:
        """Check the depth of an agent."""
        begin, who = event.body, event.recipient
        assert isinstance(begin, Begin)
        if begin.depth != depth_of(who):
            self.broken(event.seq, f"{who} is told that it is {begin.depth} deep")
        if begin.depth >= (begin.limits.max_depth or 0) and begin.roster:
            self.broken(event.seq, f"{who} is at the depth limit and is offered agents")
        parent = self.facts.lives.get(parent_of(who))
        if parent is not None and who != HOST and begin.depth > (parent.begin.limits.max_depth or 0):
            self.broken(event.seq, f"{who} is deeper than {parent.begin.limits.max_depth}")


class Turns(Invariant):
    """How many turns, attempts and reports an agent has."""

    name = "turns"
    rule = "An agent has no more turns, model attempts and invalid reports than its limits say."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._turns: Counter[str] = Counter()
        self._invalid: Counter[str] = Counter()
        self._is_lost: dict[str, bool] = {}

    def on_Begin(self, event: Event) -> None:
        """Reset the counts for a new life."""
        self._turns[event.recipient] = self._invalid[event.recipient] = 0

    def on_ModelReplied(self, event: Event) -> None:
        """Record whether the answer was lost: it may be asked for again any number of times."""
        assert isinstance(event.body, ModelReplied)
        self._is_lost[event.recipient] = event.body.status == "lost"

    def on_ReportJudged(self, event: Event) -> None:
        """Count an invalid report."""
        assert isinstance(event.body, ReportJudged)
        self._invalid[event.recipient] += event.body.verdict == "invalid"

    def on_TurnRequested(self, event: Event) -> None:
        """Count a turn and check its attempt."""
        who, body = event.sender, event.body
        assert isinstance(body, TurnRequested)
        life = self.facts.lives.get(who)
        if life is None:
            self.broken(event.seq, f"{who} asks for a turn, and has never begun")
            return
        limits = life.begin.limits
        if body.attempt == 1:
            self._turns[who] += 1
            if self._turns[who] > (limits.max_iterations or 0):
                self.broken(event.seq, f"{who} asks for turn {self._turns[who]} of {limits.max_iterations}")
            if self._invalid[who] >= (limits.max_report_attempts or 1):
                self.broken(event.seq, f"{who} goes on after {self._invalid[who]} invalid reports")
        elif body.attempt > (limits.max_model_attempts or 1) and not self._is_lost.get(who):
            self.broken(event.seq, f"{who} asks for attempt {body.attempt} of {limits.max_model_attempts}")


class Children(Invariant):
    """How many an agent delegates to in a turn, and a session has."""

    name = "children"
    rule = "No turn has more children, and no session more agents, than the delegating agent's limits say."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._agents = 1
        self._children: Counter[tuple[str, int]] = Counter()

    def handled(self, handled: Handled) -> None:
        """Count the agents of a delegation that began, each racer as one."""
        event, body = handled.event, handled.event.body
        if not isinstance(body, Delegate) or not is_taken_on(self.facts, event, handled.outputs):
            return
        life = self.facts.lives.get(event.sender)
        if life is None:
            return
        limits, count = life.begin.limits, len(body.profiles)
        self._agents += count
        self._children[event.sender, body.turn] += count
        children = self._children[event.sender, body.turn]
        if children > (limits.max_children or 0):
            self.broken(event.seq, f"{event.sender} has {children} children in turn {body.turn}")
        if self._agents > (limits.max_agents or 0):
            self.broken(event.seq, f"the session has {self._agents} agents")


class ParallelCalls(Invariant):
    """How many model calls are in flight."""

    name = "parallel-calls"
    rule = "No more model calls are in flight than max_parallel_calls says."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._in_flight = 0

    def on_CallModel(self, event: Event) -> None:
        """Count a call that starts, and check the number in flight."""
        self._in_flight += 1
        host = self.facts.lives.get(HOST)
        limit = (host.begin.limits.max_parallel_calls if host else None) or 1
        if self._in_flight > limit:
            self.broken(event.seq, f"{self._in_flight} model calls are in flight, {limit} may be")

    def on_ModelReplied(self, event: Event) -> None:
        """Count a call that ends."""
        self._in_flight -= 1
