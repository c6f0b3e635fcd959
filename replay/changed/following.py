"""A recorded session, decided again by changed agents on the recorded answers. No I/O, and no live call.

The order of the log is kept: each decision is made where its first output stands, and each answer and input
comes where it stands. An answer fits, and is fed on, where

    any answer       its request is made again: the decision that posts it is as recorded
    model's reply    it is to the same turn and attempt, though the request may read otherwise; and the agent
                     is a program now if it was one, and repeats the step
    tool's result    its tool takes the same arguments, also by a description that has changed
    verdict          its schema is the same; one that has changed is checked now
    firing           its timer is set for the same time; one set for another time fires then

Rules
  - Of each actor the first decision that differs is noted. From there on its recorded messages stand for it,
    so that the others get their recorded messages, and each difference counts once.
  - A timer that fires at another time is a difference only if the supervisor decides something by it.
  - The figures of recorded replies stay as they were; needs are those of today's requests.
  - Memory holds the session once.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from callboard.actors.agent.state import AgentState, request_if_kept
from callboard.actors.protocol.addresses import CLIENT, CLOCK, SUPERVISOR, is_decider
from callboard.actors.protocol.client_messages import AskEnded, SessionOpened
from callboard.actors.protocol.events import Event, Post, is_closed_after
from callboard.actors.protocol.messages import AnyMessage, Begin, TurnRequested
from callboard.actors.protocol.port_messages import (
    CallTool,
    CheckSchema,
    ModelReplied,
    SchemaChecked,
    SetTimer,
    TimerFired,
    ToolReturned,
)
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.wishes import wish_in
from callboard.actors.session.core import SessionCore, recorded_failure
from callboard.replay.changed.compared import (
    DueTimers,
    Unequal,
    difference,
    due_at,
    paired,
    profile_name,
    raised,
    timer_time,
    visible,
)
from callboard.replay.changed.result import AgentsNow, DecisionDifference, DifferenceKind, tools_of


class Following:
    """Decides a session again with changed agents.

    decisions: the first that differs of each actor, by its address. requests: of each agent the recorded
    event of the first request that differs, and that request as it is now. log: the events of today.
    """

    def __init__(self, now: AgentsNow) -> None:
        self.decisions: dict[str, DecisionDifference] = {}
        self.requests: dict[str, tuple[Event, ModelRequest]] = {}
        self.log: list[Event] = []
        self.agents: set[str] = set()
        self._now = now
        self._inboxes: dict[str, deque[Event]] = {}
        self._core = SessionCore(self._open)
        self._made: dict[int, Event] = {}
        self._seqs: dict[int, int] = {}
        self._recorded: dict[int, Event] = {}
        self._models: dict[str, ModelSpec] = {}
        self._models_now: dict[str, ModelSpec] = {}
        self._profiles: dict[str, str] = {}
        self._tools: dict[tuple[str, str], object] = {}
        self._timers = DueTimers()
        self._is_closed = self._is_in_doubt = False

    def _open(self, address: str) -> Callable[[Event], None]:
        self._inboxes[address] = deque()
        return self._inboxes[address].append

    # --- the log, in order ----------------------------------------------------------

    def run(self, events: Iterable[Event]) -> None:
        """Decide the session again. events: all of it, in order."""
        for group in _decisions(events):
            for event in group:
                self._note(event)
            self._take_group(group)
        self._finish()

    def _take_group(self, group: Sequence[Event]) -> None:
        """Make the decision of these outputs, or post an input."""
        first = group[0]
        self._fire_due(first.at)
        if is_decider(first.sender):
            self._decided(first.sender, group)
        else:
            self._given(first)

    def _note(self, event: Event) -> None:
        """Keep the parts of a recorded event that later questions need."""
        body = event.body
        self._is_closed = is_closed_after(body, was_closed=self._is_closed)
        if isinstance(body, AskEnded) and body.in_doubt:
            self._is_in_doubt = True
        if isinstance(body, CallTool | CheckSchema | SetTimer):
            self._recorded[event.seq] = event
        self._note_agents(event)

    def _note_agents(self, event: Event) -> None:
        """Keep the profile of an agent, and the tools of all agents."""
        body = event.body
        if isinstance(body, Begin):
            self.agents.add(event.recipient)
            self._models[event.recipient] = body.model
            self._profiles[event.recipient] = profile_name(body)
        elif isinstance(body, SessionOpened):
            self._tools = tools_of(body.profiles)

    # --- inputs ---------------------------------------------------------------------

    def _given(self, event: Event) -> None:
        """Post an input of the client, or the answer of a port where it fits."""
        if event.sender == CLIENT:
            self._keep(event, self._post(event, event.cause, self._now.put_into(event.body)))
            return
        asked = self._made.get(event.cause)
        if asked is None:
            return  # to a request of a timer's decision that is not made today
        if isinstance(event.body, TimerFired):
            self._fired(event, asked)
            return
        why = self._misfit(event, asked)
        if why is not None:
            self._differs(event.recipient, event.seq, event.seq, *why)
        self._keep(event, self._post(event, asked.seq, self._fitted(event, asked)))

    def _fitted(self, event: Event, asked: Event) -> AnyMessage:
        """Return a recorded answer with the numbers of the request of today."""
        body = event.body
        if isinstance(body, SchemaChecked) and isinstance(asked.body, CheckSchema):
            before = self._recorded[event.cause].body
            assert isinstance(before, CheckSchema)
            if before.schema != asked.body.schema and self._now.check is not None:
                return replace(self._now.check(asked.body), check=asked.body.check)
            return replace(body, check=asked.body.check)
        return body

    def _misfit(self, event: Event, asked: Event) -> tuple[DifferenceKind, str, str] | None:
        """Return why an answer does not fit the request of today: a kind, and both sides in words."""
        if event.recipient in self.decisions:
            return None
        if isinstance(event.body, ModelReplied):
            return self._reply_misfit(event)
        if isinstance(event.body, ToolReturned) and isinstance(asked.body, CallTool):
            return self._tool_misfit(event.recipient, asked.body)
        return None

    def _reply_misfit(self, event: Event) -> tuple[DifferenceKind, str, str] | None:
        agent, state = event.recipient, self._core.states.get(event.recipient)
        if event.seq in self._now.steps:
            return "program", *self._now.steps[event.seq]
        if isinstance(state, AgentState) and state.prefix is not None:
            was, is_now = self._models[agent].is_program, state.model.is_program
            if was != is_now:
                return "misfit", _who(is_program=was), _who(is_program=is_now)
        return None

    def _tool_misfit(self, agent: str, call: CallTool) -> tuple[DifferenceKind, str, str] | None:
        place = (self._profiles[agent], call.tool)
        if self._tools.get(place) == self._now.tools.get(place):
            return None
        why = self._now.accepts(*place, call.arguments)
        arguments = bytes(call.arguments).decode()
        return ("misfit", f"{call.tool} took {arguments}", f"{call.tool} refuses it: {why}") if why else None

    # --- timers ---------------------------------------------------------------------

    def _fired(self, event: Event, asked: Event) -> None:
        assert isinstance(asked.body, SetTimer)
        if not self._timers.holds(asked.body.timer):
            self._keep(event, self._post(event, asked.seq, TimerFired(asked.body.timer)))

    def _fire_due(self, at: int) -> None:
        """Fire the timers that have another time today than recorded and are due before `at`."""
        while SUPERVISOR not in self.decisions and (setting := self._timers.take_due(at)) is not None:
            assert isinstance(setting.body, SetTimer)
            when = Event(0, due_at(setting), CLOCK, SUPERVISOR, setting.seq, setting.body)
            # Into the inbox only: the supervisor decides on it after what it has not handled by then.
            fired = self._post(when, setting.seq, TimerFired(setting.body.timer))
            self._seqs[fired.seq] = self._seqs.get(setting.seq, 0)

    # --- decisions ------------------------------------------------------------------

    def _decided(self, actor: str, group: Sequence[Event]) -> None:
        """Make the decision that posted a group of outputs in the recording."""
        if actor in self.decisions:
            self._stand_for(group)
            return
        event = self._made.get(group[0].cause)
        if event is None:
            self._not_fired(actor, group)
        else:
            self._decide_upto(actor, event, group)

    def _not_fired(self, actor: str, group: Sequence[Event]) -> None:
        """Note a recorded decision on a timer that does not fire today, since it is set for another time."""
        if seen := visible(group):
            first = difference(seen[:1], ())
            assert first is not None
            self._differs(
                actor, first.seq, group[0].cause, "timer", first.recorded, "its timer does not fire"
            )
        self._stand_for(group)

    def _decide_upto(self, actor: str, event: Event, group: Sequence[Event]) -> None:
        """Make the decisions of an actor up to one of its events. group: the outputs recorded for it."""
        inbox = self._inboxes.get(actor, deque())
        while inbox and inbox[0].seq < event.seq and actor not in self.decisions:
            self._decide(actor, inbox.popleft(), ())
        if actor in self.decisions:
            self._stand_for(group)
        elif inbox and inbox[0] is event:
            self._decide(actor, inbox.popleft(), group)
        elif found := difference(group, ()):
            self._unequal(actor, event, found)
            self._stand_for(group)

    def _finish(self) -> None:
        """Make the decisions that have no outputs in the log. An open log may end before the last outputs."""
        if not self._is_closed or self._is_in_doubt:
            return
        for actor, inbox in [*self._inboxes.items()]:
            while inbox and actor not in self.decisions:
                self._decide(actor, inbox.popleft(), ())

    def _decide(self, actor: str, event: Event, group: Sequence[Event]) -> None:
        """Make one decision, and compare it with the recorded outputs."""
        try:
            posts = self._core.decide(event, recorded_failure(group))
        except Exception as error:  # a decider may raise anything on what it was never given
            self._unequal(actor, event, raised(group, error))
            self._stand_for(group)
            return
        found = difference(group, posts)
        if found is None:
            self._take(event, group, posts)
        else:
            self._unequal(actor, event, found)
            self._stand_for(group)

    def _take(self, event: Event, group: Sequence[Event], posts: Sequence[Post]) -> None:
        """Post the outputs of a decision that equals the recorded one."""
        made = self._post_all(group[0].at if group else event.at, event, posts)
        same = {}
        for mine, theirs in paired(group, made):
            self._keep(mine, theirs)
            same[theirs.seq] = mine
            self._compare_request(mine, theirs)
        for one in made:
            self._note_timer(one, same.get(one.seq))

    def _note_timer(self, made: Event, recorded: Event | None) -> None:
        self._timers.note(made)
        if not isinstance(made.body, SetTimer):
            return
        if recorded is None or timer_time(recorded) != timer_time(made):
            self._timers.set(made)

    def _compare_request(self, recorded: Event, made: Event) -> None:
        agent, before, body = recorded.sender, wish_in(recorded.body), wish_in(made.body)
        if agent in self.requests or before is None:
            return
        state = self._core.states[agent]
        assert body is not None
        assert isinstance(state, AgentState)
        if _asked(self._models[agent], before) != _asked(self._models_now[agent], body):
            request = request_if_kept(state, self._core.states.__getitem__)
            self.requests |= {agent: (recorded, request)} if request is not None else {}

    # --- posting --------------------------------------------------------------------

    def _stand_for(self, group: Sequence[Event]) -> None:
        """Post recorded outputs in place of those of an actor whose decision differs."""
        for event in group:
            body = event.body
            if isinstance(body, Begin) and (profile := self._now.by_name.get(profile_name(body))):
                body = replace(body, profile=profile)
            made = self._post(event, event.cause, body)
            self._keep(event, made)
            self._timers.note(made)

    def _post(self, event: Event, cause: int, body: AnyMessage) -> Event:
        """Post a message in the place of a recorded event."""
        (made,) = self._core.post(event.at, ((event.sender, cause, (Post(event.recipient, body),)),))
        self._log_all((made,))
        return made

    def _post_all(self, at: int, event: Event, posts: Sequence[Post]) -> Sequence[Event]:
        made = self._core.post(at, ((event.recipient, event.seq, posts),))
        self._log_all(made)
        return made

    def _log_all(self, made: Sequence[Event]) -> None:
        self.log += made
        for event in made:
            if isinstance(event.body, Begin):
                self._models_now[event.recipient] = event.body.model

    def _keep(self, recorded: Event, made: Event) -> None:
        """Note which event of today stands for a recorded one."""
        if recorded.recipient != CLIENT:
            self._made[recorded.seq] = made
            self._seqs[made.seq] = recorded.seq

    def profile_of(self, actor: str) -> str:
        """Return the profile that an agent began with as recorded; '' for another actor."""
        return self._profiles.get(actor, "")

    def _unequal(self, actor: str, event: Event, found: Unequal) -> None:
        decision = self._seqs.get(event.seq, 0)
        seq = found.seq or decision
        self._differs(actor, seq, decision, found.kind, found.recorded, found.now, found.path)

    def _differs(
        self,
        actor: str,
        seq: int,
        decision: int,
        kind: DifferenceKind,
        recorded: str,
        now: str,
        path: str = "",
    ) -> None:
        """Note the first decision of an actor that differs."""
        profile = self.profile_of(actor)
        found = DecisionDifference(actor, seq, decision, kind, path, recorded, now, profile)
        self.decisions.setdefault(actor, found)
        self._inboxes.pop(actor, None)


def _decisions(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield the outputs of each decision together, and any other event alone."""
    for (sender, _), group in groupby(events, key=lambda event: (event.sender, event.cause)):
        if is_decider(sender):
            yield list(group)
        else:
            yield from ([event] for event in group)


def _asked(model: ModelSpec, wish: TurnRequested) -> tuple[object, ...]:
    """Return the digest of a request, and the parts of it that the digest does not cover."""
    spec = model.spec_named(wish.model)
    return wish.digest, wish.model, spec.name, spec.max_tokens, bytes(spec.params)


def _who(*, is_program: bool) -> str:
    return "a program answers" if is_program else "a model answers"
