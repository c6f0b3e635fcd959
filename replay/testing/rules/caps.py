"""Caps: how deep, how many, how often; and nothing is refused or ended for a cap that is not reached.

The limits that an agent's `Begin` states bind it.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import field

from callboard.actors.protocol.addresses import depth_of, parent_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.failures import kind_of
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    Stop,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import (
    CUT_OFF,
    CallModel,
    CallTool,
    ModelReplied,
    RequestApproval,
    ToolReturned,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import NOTHING
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.in_force import models_permitted, permitted, profile_of
from callboard.replay.testing.rules.latches import is_own_end
from callboard.replay.testing.rules.lives import Life


class Depth(Invariant):
    """The depth of agents."""

    name = "depth"
    rule = "No agent is deeper than its parent's max_depth, and an agent at that depth is offered no agents."

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Check the depth of an agent."""
        who, life = event.recipient, self.facts.lives[event.recipient]
        parent = self.facts.lives.get(parent_of(who))  # the host has none
        if begin.depth != depth_of(who):
            self.broken(event.seq, f"{who} is told that it is {begin.depth} deep")
        if begin.roster and begin.depth >= life.most("max_depth"):
            self.broken(event.seq, f"{who} is at the depth limit and is offered agents")
        is_bound = parent is not None and not self.facts.is_implicit(life.call)
        if parent is not None and is_bound and begin.depth > parent.bound("max_depth"):
            self.broken(event.seq, f"{who} is deeper than {parent.bound('max_depth')}")


class Turns(Invariant):
    """The numbers of turns, attempts and reports of an agent."""

    name = "turns"
    rule = (
        "An agent has no more turns, model attempts and invalid reports than its limits say, and does not "
        "ask a model again that has given the same unreadable answer twice."
    )

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Check the number of a turn, or that of its attempt."""
        who, life = event.sender, self.facts.lives.get(event.sender)
        if life is None:
            self.broken(event.seq, f"{who} asks for a turn, and has never begun")
            return
        attempts = life.most("max_model_attempts", 1)
        if body.attempt == 1:
            self._first_attempt(event, life)
        elif self.facts.attempts(who, body.attempt) > attempts:
            self.broken(event.seq, f"{who} asks for attempt {body.attempt} of {attempts}")
        elif who in self.facts.twice and not life.begin.model.fallback:
            self.broken(event.seq, f"{who} asks again after the same unreadable answer twice")

    def _first_attempt(self, event: Event, life: Life) -> None:
        if life.turns > life.turns_max:
            self.broken(event.seq, f"{event.sender} asks for turn {life.turns} of {life.turns_max}")
        if life.invalid >= life.reports_max:
            self.broken(event.seq, f"{event.sender} goes on after {life.invalid} invalid reports")


class Children(Invariant):
    """The numbers of sub-agents of a turn and of agents of a session."""

    name = "children"
    rule = "No turn has more children, and no session more agents, than the delegating agent's limits say."

    def handled_Delegate(self, event: Event, body: Delegate, outputs: Sequence[Event]) -> None:
        """Check the agents of a delegation that began, each racer as one."""
        life = self.facts.lives.get(event.sender)
        if life is None or not self.facts.is_taken_on(event, outputs):
            return
        children = self.ledger.children[event.sender, body.turn]
        if children > life.bound("max_children") and not life.profile.is_eager:
            self.broken(event.seq, f"{event.sender} has {children} children in turn {body.turn}")
        if self.ledger.agents > life.bound("max_agents"):
            self.broken(event.seq, f"the session has {self.ledger.agents} agents")


class ParallelCalls(Invariant):
    """The number of model calls in flight."""

    name = "parallel-calls"
    rule = "No more model calls are in flight than max_parallel_calls says."
    _in_flight: int = 0
    _free: set[int] = set()  # the requests of steps
    _steps: set[int] = set()  # their grants

    def on_CallModel(self, event: Event, body: CallModel) -> None:
        """Count a call that starts, and check the number in flight."""
        wish = body.request if body.opening is None else event.seq
        if wish in self._free:
            self._free.discard(wish)
            self._steps.add(event.seq)
            return
        self._in_flight += 1
        limit = self.facts.parallel_calls_max
        if self._in_flight > limit:
            self.broken(event.seq, f"{self._in_flight} model calls are in flight, {limit} may be")

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Record a program's step, which takes no slot."""
        if body.need == NOTHING:
            self._free.add(event.seq)

    def on_RunStep(self, event: Event, body: RunStep) -> None:
        """Record a program's step that needs no grant."""
        self._steps.add(event.seq)

    def on_ModelReplied(self, event: Event, body: ModelReplied) -> None:
        """Count a call that ends."""
        if event.cause in self._steps:
            self._steps.discard(event.cause)
        else:
            self._in_flight -= 1

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Check the number of calls together with that of requests that wait for a place."""
        held, limit = self.ledger.in_flight, self.facts.parallel_calls_max
        if self.ledger.places and self.ledger.claims and held > limit:
            self.broken(event.seq, f"{held} model calls are in flight or wait for a place, {limit} may be")


class ToolLimits(Invariant):
    """Requests of one reply, and tools of one agent that have no answer."""

    name = "tool-limits"
    rule = "No reply has requests beyond max_tool_calls, and no agent more tools out than max_parallel_tools."
    _tools_out: Counter[str] = field(default_factory=Counter)

    def on_Delegate(self, event: Event, body: CallTool | RequestApproval | Delegate | ReportBack) -> None:
        """Check the place of a request in its reply."""
        life = self.facts.lives.get(event.sender)
        limit = life.begin.limits.max_tool_calls if life and not life.profile.is_eager else None
        if limit is not None and body.call >= limit:
            self.broken(event.seq, f"{event.sender} makes call {body.call + 1} of a reply, {limit} may be")

    on_RequestApproval = on_ReportBack = on_Delegate

    def on_CallTool(self, event: Event, body: CallTool) -> None:
        """Check the place of a call, and count its tool as out."""
        self.on_Delegate(event, body)
        who, life = event.sender, self.facts.lives.get(event.sender)
        self._tools_out[who] += 1
        limit = life.begin.limits.max_parallel_tools if life else None
        if limit is not None and self._tools_out[who] > limit:
            self.broken(event.seq, f"{who} has {self._tools_out[who]} tools out, {limit} may be")

    def on_ToolReturned(self, event: Event, body: ToolReturned) -> None:
        """Count a tool as answered."""
        self._tools_out[event.recipient] -= 1


class Deserved(Invariant):
    """Ends and refusals that name a limit."""

    name = "deserved"
    rule = "No agent ends, and no delegation is denied, because of a limit that is not reached."

    def on_Finished(self, event: Event, body: Finished) -> None:
        """Check the reason of an agent that ends by itself."""
        who, life = event.sender, self.facts.lives.get(event.sender)
        if life is not None and not self._has_reason(life, body.kind):
            self.broken(event.seq, f"{who} ends as {body.kind} after {life.turns} turns")

    def _has_reason(self, life: Life, kind: str) -> bool:
        """Return whether an agent has reached the limit that an end of this kind names."""
        has_no_turns = life.turns >= life.turns_max
        if is_own_end(self, life):
            return True
        if kind == "iteration_cap":  # `question-limit` has the rule of those that put questions
            return has_no_turns or life.profile.is_eager
        if kind == "model_error":
            return self._is_final(life)
        least = 1 if has_no_turns else life.reports_max
        return kind != "invalid_report" or life.invalid >= least

    def _is_final(self, life: Life) -> bool:
        """Return whether a model call is not tried again after the latest answer of the agent's model."""
        reply = self.facts.replies.get(life.address)
        if reply is None or reply.status in CUT_OFF:
            return reply is None
        made, failure = self.facts.attempts(life.address, reply.attempt), reply.failure
        if made >= life.most("max_model_attempts", 1) or failure is None:
            return True
        if life.address in self.facts.twice:
            return True
        # `fallbacks` has the rule of failures after which another model is asked.
        return not failure.is_retryable or kind_of(failure.code) in life.begin.model.fallback_on

    def handled_Delegate(self, event: Event, body: Delegate, outputs: Sequence[Event]) -> None:
        """Check the reason of a delegation that ends at once."""
        who, life, ends = event.sender, self.facts.lives.get(event.sender), of_kind(outputs, DelegationEnded)
        if life is None or not ends or self.facts.is_taken_on(event, outputs):
            return
        kind = ends[0][1].kind
        is_running = not life.ended_by or life.ended_by >= event.seq
        is_stopped = any(stop.recipient == who for stop, _ in of_kind(outputs, Stop))
        if kind == "cancelled" and is_running and not is_stopped:
            self.broken(event.seq, f"a delegation of {who} is cancelled, and it runs")
        elif kind == "denied" and not self._may_be_denied(life, body):
            self.broken(event.seq, f"a delegation of {who} is denied, and nothing forbids it")

    def _may_be_denied(self, life: Life, body: Delegate) -> bool:
        count, is_implicit = len(body.profiles), body.implicit != NULL
        children = 0 if life.profile.is_eager else self.ledger.children[life.address, body.turn]
        if children + count > life.bound("max_children") or self._lacks_prices(body, life):
            return True
        if self._is_forbidden(body, life):
            return True
        if is_implicit:
            return False
        if self._is_unfit(body):
            return True
        allowed = self.facts.profiles.keys() & set(life.profile.agents)
        return (
            not count
            or not allowed.issuperset(body.profiles)
            or life.begin.depth >= life.bound("max_depth")
            or self.ledger.agents + count > life.bound("max_agents")
        )

    def _is_unfit(self, body: Delegate) -> bool:
        """Return whether an agent gets an input of the wrong form, or races with one of another contract."""
        known = [self.facts.profiles[name][0] for name in body.profiles if name in self.facts.profiles]
        has_contract = {one.has_contract for one in known}
        return has_contract != {body.input != NULL} or (True in has_contract and len(set(body.profiles)) > 1)

    def _is_forbidden(self, body: Delegate, life: Life) -> bool:
        """Return whether permissions withhold one of the agents, or the model that it would begin with."""
        rights, above = self.facts.rights, self.facts.model_below(life.address)
        if body.implicit != NULL:
            one = profile_of(bytes(body.implicit))
            return not models_permitted(rights.of_child(life.address, one), one.own_model(above))
        known = [self.facts.profiles[name][0] for name in body.profiles if name in self.facts.profiles]
        return any(
            not permitted(rights.of(life.address), "agents", one.name)
            or not models_permitted(rights.of_child(life.address, one), one.own_model(above))
            for one in known
        )

    def _lacks_prices(self, body: Delegate, life: Life) -> bool:
        """Return whether a cost limit applies to an agent whose model has no prices."""
        costs = [body.limits.cost_usd, *(scope.micro_usd for scope in self.ledger.scopes.values())]
        is_costed = any(cost is not None for cost in costs)
        known = self.facts.profiles
        people = [known[name][0] for name in body.profiles if name in known]
        if body.implicit != NULL:
            people = [profile_of(bytes(body.implicit))]
        above = self.facts.model_below(life.address)
        models = [(one.own_model(above), one) for one in people]
        return any(model.unpriced and (is_costed or one.limits.cost_usd is not None) for model, one in models)
