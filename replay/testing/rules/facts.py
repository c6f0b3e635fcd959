"""The facts of a session after each event of its log, kept once for all invariants.

The supervisor handles its inbox in the order of the log, and its posts name the handled event as their cause.
So a log tells when each event was handled, also those that were answered with nothing. No decider is asked.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar, get_args

import msgspec

from callboard.actors.protocol.addresses import CLIENT, HOST, SUPERVISOR, child_of, parent_of
from callboard.actors.protocol.client_messages import (
    Ask,
    AskEnded,
    Resumed,
    SessionClosed,
    SessionOpened,
    ToolsChanged,
    resumed_in,
)
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import fill, narrow
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    DeciderFailed,
    Delegate,
    DelegationEnded,
    Finished,
    ReportJudged,
    Stop,
    Stopped,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import (
    CUT_OFF,
    CallModel,
    CheckSchema,
    MakeContext,
    ModelReplied,
    SchemaChecked,
)
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolsChange, ToolSpec
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.wishes import first_turn, turn_of
from callboard.replay.testing.rules.in_force import RightsInForce, ToolsInForce, profile_of
from callboard.replay.testing.rules.lives import Call, Life

T = TypeVar("T")

Handled: TypeAlias = tuple[Event, Sequence[Event]]
"""An event that the supervisor has handled, and the events that it posted for it."""


class Facts(msgspec.Struct, eq=False):
    """The session up to an event of its log: `settle` the event, then `hear` it, then read the facts."""

    opened: SessionOpened | None = None
    profiles: dict[str, tuple[Profile, bytes]] = {}
    lives: dict[str, Life] = {}  # the latest of every agent that ever began
    works_on: dict[str, Call] = {}  # the delegation of every address that was taken
    delegates: dict[Call, Delegate] = {}
    copies: dict[Call, list[str]] = {}
    asks: dict[str, tuple[Event, Ask]] = {}  # those without an outcome, in their order
    stops: dict[str, int] = {}  # the first Stop of each agent's latest life
    replies: dict[str, ModelReplied] = {}  # the latest answer of each agent's model
    twice: set[str] = set()  # agents whose last two answers of one turn were the same unreadable one
    summaries: set[tuple[str, int]] = set()  # the turns that ask for summaries, by agent
    failed: dict[str, int] = {}  # the event on which the decider of an agent failed last
    closed_by: int = 0  # the end of the session
    tools: ToolsInForce = msgspec.field(default_factory=ToolsInForce)
    rights: RightsInForce = msgspec.field(default_factory=RightsInForce)
    host_tools: tuple[ToolSpec, ...] | None = None  # those of the host alone, from its next Begin on
    _later: tuple[Resumed, ...] = ()  # changes of agents that do not hold yet
    _cut_off: Counter[tuple[str, int]] = msgspec.field(default_factory=Counter)  # attempts, by agent and turn
    _unreadable: dict[str, tuple[int, str]] = {}  # turn and digest of the latest answer of each agent's model
    _waiting: dict[int, Call] = {}  # delegations that may begin later: a check runs, or they stand in line
    _looked_at: dict[int, bytes] = {}
    _next_ordinal: dict[str, int] = {}
    _inbox: deque[Event] = msgspec.field(default_factory=deque)
    _current: Event | None = None
    _outputs: list[Event] = []

    @property
    def parallel_calls_max(self) -> int:
        """Return the number of model calls that may be in flight."""
        host = self.lives.get(HOST)
        return (host.bound("max_parallel_calls") if host else 0) or 1

    @property
    def running(self) -> tuple[Event, Ask] | None:
        """Return the ask that the host works on, or the first that waits."""
        return next(iter(self.asks.values()), None)

    def model_below(self, who: str) -> ModelSpec:
        """Return the model that an agent hands down."""
        life = self.lives.get(who)
        if life is None:
            return self.opened.model if self.opened else ModelSpec("")
        own = life.profile.model
        own = life.profile.default_model if own is not None and own.is_program else own
        return self.model_below(parent_of(who)) if own is None else own

    def is_summary(self, event: Event, reply: ModelReplied) -> bool:
        """Return whether an answer is one to a request for a summary, whose calls never run."""
        return (event.recipient, reply.turn) in self.summaries

    def is_implicit(self, call: Call) -> bool:
        """Return whether a delegation is a program's question to a model."""
        delegate = self.delegates.get(call)
        return delegate is not None and delegate.implicit != NULL

    def attempts(self, who: str, attempt: int) -> int:
        """Return the number of an attempt without those of its turn that the end of a process cut off."""
        reply = self.replies.get(who)
        return attempt - (self._cut_off[who, reply.turn] if reply else 0)

    def is_taken_on(self, event: Event, outputs: Sequence[Event]) -> bool:
        """Return whether a delegation or an ask was accepted: an agent begins, or a schema is checked."""
        if any(isinstance(one.body, (Begin, CheckSchema, MakeContext)) for one in outputs):
            return True
        call = self._waiting.get(event.seq)
        ended = [(one.recipient, end.turn, end.call) for one, end in of_kind(outputs, DelegationEnded)]
        return call is not None and call not in ended

    # --- the order in which the supervisor works --------------------------------------

    def settle(self, event: Event) -> Iterable[Handled]:
        """Yield what the supervisor has handled before this event was posted, in its order.

        The facts are those of each decision as it is yielded.
        """
        is_its, current = event.sender == SUPERVISOR, self._current
        if current is None and not is_its:
            return ()
        if current is not None and is_its and event.cause == current.seq:
            return ()
        return self._settle(event, current, is_its)

    def _settle(self, event: Event, current: Event | None, is_its: bool) -> Iterator[Handled]:
        if current is not None:
            yield self._close(current)
        if is_its:  # its first output: everything before its cause was handled before
            yield from self._skip_to(event.cause)
            if self._inbox and self._inbox[0].seq == event.cause:
                self._current = self._taken(self._inbox.popleft())
                self._take_ordinals(self._current, event)

    def rest(self, *, is_cut: bool, is_at_rest: bool) -> Iterator[Handled]:
        """Yield the last decision, unless it may be cut, and at rest the events without an answer."""
        if self._current is not None and not is_cut:
            yield self._close(self._current)
        if is_at_rest:  # elsewhere the outputs for the last events may be lost, or still to come
            yield from self._skip_to(1 << 62)

    def _close(self, current: Event) -> Handled:
        handled = current, self._outputs
        self._current, self._outputs = None, []
        return handled

    def _skip_to(self, seq: int) -> Iterator[Handled]:
        inbox = self._inbox
        while inbox and inbox[0].seq < seq:
            event = self._taken(inbox.popleft())
            if event.seq in self._waiting:
                self._take_ordinals(event, None)
            yield event, ()

    def _taken(self, event: Event) -> Event:
        body = event.body
        if isinstance(body, (Finished, Stopped)):
            self._ended(event.sender, event.seq)
        elif isinstance(body, SchemaChecked):
            self._looked_at.pop(body.check, None)
        elif isinstance(body, Delegate) and (self._is_looked_at(body) or self._is_in_line(event.sender)):
            self._waiting[event.seq] = (event.sender, body.turn, body.call)
        elif isinstance(body, ToolsChanged) and not self.closed_by:
            life = self.lives.get(event.sender)
            if event.sender == CLIENT or (life is not None and not life.ended_by):
                self._set_tools(body.change)
        elif (resumed := resumed_in(body)) is not None:
            self._set_agents(event, resumed)
            self._set_limits(resumed)
        return event

    def _set_limits(self, resumed: Resumed) -> None:
        """Record the limits of the running host: those of a process that goes on, its own and the ask's."""
        host, running = self.lives.get(HOST), self.running
        if resumed.limits is not None and host is not None and running is not None:
            own = narrow(fill(resumed.limits), host.profile.limits)
            host.limits = narrow(own, running[1].limits)

    def _set_agents(self, event: Event, resumed: Resumed) -> None:
        """Record the agents of a process that goes on: of the running ask, or of the next one."""
        if not (resumed.profiles or resumed.model):
            return
        self._later = (*self._later, resumed)
        running = self.running
        if not (resumed.from_next_ask and running is not None and running[0].seq < event.seq):
            self._take_agents()

    def _take_agents(self) -> None:
        """Let the recorded agents hold."""
        for resumed in self._later:
            if self.opened is not None and resumed.model:
                self.opened = msgspec.structs.replace(self.opened, model=resumed.model)
            if self.opened is not None and resumed.profiles:
                self.opened = msgspec.structs.replace(self.opened, host=resumed.host)
                self.profiles, self.host_tools = _by_name(resumed.profiles), None
        self._later = ()

    def _set_tools(self, change: ToolsChange) -> None:
        """Record the tools that later agents begin with."""
        if change.address == HOST:
            self.host_tools = change.tools
        known = self.profiles.get(change.profile)
        if known is not None:
            self.profiles[change.profile] = self.with_tools(known[0], change.tools)
        if self.opened is not None and change.profile == self.opened.host:
            self.host_tools = None

    @staticmethod
    def with_tools(profile: Profile, tools: tuple[ToolSpec, ...]) -> tuple[Profile, bytes]:
        """Return a profile with other tools, and its bytes."""
        changed = msgspec.structs.replace(profile, tools=tools)
        return changed, encode(changed)

    def _ended(self, who: str, by: int) -> None:
        if (life := self.lives.get(who)) is not None:
            life.ended_by = life.ended_by or by  # the first end stands

    def _is_in_line(self, who: str) -> bool:
        """Return whether a delegation that is not answered stands in line: one of a program."""
        life = self.lives.get(who)
        return life is not None and life.profile.is_eager

    def _is_looked_at(self, body: Delegate) -> bool:
        """Return whether a check of the delegation's schema, its own or its first agent's, is under way."""
        known = self.profiles.get(body.profiles[0]) if body.profiles else None
        schema = known[0].schema if known is not None and body.schema == NULL else body.schema
        return not self.closed_by and bytes(schema) in self._looked_at.values()

    def _take_ordinals(self, event: Event, first: Event | None) -> None:
        """Give each profile of a `Delegate` an ordinal, also if it is denied. first: its first answer."""
        body = event.body
        if not isinstance(body, Delegate):
            return
        if first is not None and isinstance(first.body, DelegationEnded) and not first.body.address:
            return  # the empty address says that the sender has ended
        call = (event.sender, body.turn, body.call)
        start = self._next_ordinal.get(event.sender, 1)
        self._next_ordinal[event.sender] = end = start + len(body.profiles)
        self.copies[call] = [child_of(event.sender, ordinal) for ordinal in range(start, end)]
        self.works_on.update(dict.fromkeys(self.copies[call], call))

    def asked_of(self, life: Life) -> tuple[Ask | Delegate | None, Profile | None]:
        """Return what a life was given to do, and the profile whose schema holds if that has none."""
        if life.address == HOST:
            return (self.running[1] if self.running else None), life.profile
        delegate = self.delegates.get(life.call)
        first = self.profiles.get(delegate.profiles[0]) if delegate else None
        return delegate, first[0] if first else None

    # --- what an event tells ------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """Take in the next event of the log."""
        if self._current is not None and event.sender == SUPERVISOR:
            self._outputs.append(event)
        if event.recipient == SUPERVISOR:
            self._inbox.append(event)
        self.tools.hear(event)
        self.rights.hear(event)
        told = _TOLD.get(type(event.body))
        if told is not None:
            told(self, event, event.body)

    def _on_CheckSchema(self, event: Event, body: CheckSchema) -> None:
        if body.task == "accept":
            self._looked_at[body.check] = bytes(body.schema)

    def _on_SessionClosed(self, event: Event, body: SessionClosed) -> None:
        self.closed_by = self.closed_by or event.seq

    def _on_Resumed(self, event: Event, body: Resumed) -> None:
        self.closed_by = 0 if body.reopens else self.closed_by

    def _on_SessionOpened(self, event: Event, body: SessionOpened) -> None:
        if self.opened is None:
            self.opened = body
            self.profiles = _by_name(body.profiles)

    def _on_Ask(self, event: Event, body: Ask) -> None:
        self.asks.setdefault(body.request_id, (event, body))

    def _on_AskEnded(self, event: Event, body: AskEnded) -> None:
        self.asks.pop(body.request_id, None)
        self._take_agents()

    def _on_Delegate(self, event: Event, body: Delegate) -> None:
        self.delegates[event.sender, body.turn, body.call] = body

    def _on_Begin(self, event: Event, body: Begin) -> None:
        who = event.recipient
        if who == HOST and (running := self.running) is not None:
            self.works_on[HOST] = (CLIENT, running[0].seq, 0)
        call = self.works_on.get(who, (CLIENT, 0, 0))
        self.lives[who] = Life(who, event.seq, body, profile_of(bytes(body.profile)), call, body.limits)
        self.stops.pop(who, None)

    def _on_Finished(self, event: Event, body: Finished | Stopped) -> None:
        if (life := self.lives.get(event.sender)) is not None:
            life.is_over = True

    _on_Stopped = _on_Finished

    def _on_Stop(self, event: Event, body: Stop) -> None:
        self.stops.setdefault(event.recipient, event.seq)
        self._ended(event.recipient, event.cause)

    def _on_ReportJudged(self, event: Event, body: ReportJudged) -> None:
        if body.verdict == "accepted":
            self._ended(event.recipient, event.cause)
        elif (life := self.lives.get(event.recipient)) is not None:
            life.invalid += body.verdict == "invalid"

    def _on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        if (life := self.lives.get(event.sender)) is not None:
            life.turns += body.attempt == 1 and not body.purpose
            if body.purpose:
                self.summaries.add((event.sender, body.turn))

    def _on_RunStep(self, event: Event, body: RunStep) -> None:
        self._on_TurnRequested(event, turn_of(body))

    def _on_CallModel(self, event: Event, body: CallModel) -> None:
        if (first := first_turn(body)) is not None:
            self._on_TurnRequested(event, first)

    def _on_ModelReplied(self, event: Event, body: ModelReplied) -> None:
        self.replies[event.recipient] = body
        self._cut_off[event.recipient, body.turn] += body.status in CUT_OFF
        if body.status not in CUT_OFF:
            self._compare(event.recipient, body)

    def _compare(self, who: str, body: ModelReplied) -> None:
        """Compare an unreadable answer with the one before it in its turn."""
        digest = body.failure.digest if body.failure else ""
        is_again = digest != "" and self._unreadable.get(who) == (body.turn, digest)
        self._unreadable[who] = (body.turn, digest)
        (self.twice.add if is_again else self.twice.discard)(who)

    def _on_DeciderFailed(self, event: Event, body: DeciderFailed) -> None:
        self.failed[event.sender] = event.cause


def _by_name(profiles: Iterable[Json]) -> dict[str, tuple[Profile, bytes]]:
    read = ((profile_of(bytes(raw)), bytes(raw)) for raw in profiles)
    return {profile.name: (profile, raw) for profile, raw in read}


_TOLD: Final[Mapping[type, Callable[..., None]]] = {
    kind: getattr(Facts, f"_on_{kind.__name__}")
    for kind in get_args(AnyMessage)
    if hasattr(Facts, f"_on_{kind.__name__}")
}


def of_kind(events: Iterable[Event], kind: type[T]) -> list[tuple[Event, T]]:
    """Return the events of this kind of message, each with its message."""
    return [(one, one.body) for one in events if isinstance(one.body, kind)]
