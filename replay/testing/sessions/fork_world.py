"""A fork as a world: the recorded answers come by the rules of a live fork, everything else by the schedule.

    person allows tool host/2.0     a person lets a tool with an effect run, in a fork that asks
    person refuses tool host/2.0    or does not
    person reuses tool host/2.0     or takes the recorded result of the same call in another turn
    recorded                        the next recorded answer, timer or input, while ports work

    world = ForkWorld(Fork(scenario, origin.log, base=20, changes={("host.1", 1, 0): Json(b'"other"')}))
    world.run()

Rules
  - Where no port works, the next recorded thing is done as soon as no actor has a message.
  - The clock of the world is the virtual one of the fork. It jumps to the time of each recorded thing.
  - After a crash the fork goes on with what its log says, as a live one does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_values
from functools import cached_property
from typing import Final, NamedTuple

from callboard.actors.protocol.addresses import CLOCK, SUPERVISOR
from callboard.actors.protocol.client_messages import AskEnded, Forked, Resumed
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    RequestApproval,
    TimerFired,
    ToolReturned,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.value_types import Effects
from callboard.actors.session.copied_files import CopyChoice
from callboard.actors.session.fork_plan import ForkPlan, Place, plan, planned_again
from callboard.actors.session.fork_starts import begun_in, held_start, start_of_missed
from callboard.actors.session.playback import (
    Asked,
    Fire,
    Give,
    Missed,
    Playback,
    Refused,
    Repost,
    Reuse,
    Thing,
    Work,
)
from callboard.actors.session.port_actions import Arm, Start
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recorded_answers import Reusable, answer_to
from callboard.actors.session.recovery import Recovered, recover
from callboard.replay.testing.sessions.memory import Memory
from callboard.replay.testing.sessions.scenario import RESUMED, Scenario
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Move

RECORDED: Final = "recorded"
_ALLOWS: Final = "person allows "
_REFUSES: Final = "person refuses "
_REUSES: Final = "person reuses "
REFUSAL: Final = text_json("Not run: a person refused this call")


@dataclass(frozen=True)
class Fork:
    """A fork to simulate. scenario: of the origin, which makes the answers that are not recorded.

    origin: the events of the session that is forked. base, changes, effects: as of `Runtime.fork`.
    has_copy, skips_lost: as in `Forked`.
    """

    scenario: Scenario
    origin: Sequence[Event]
    base: int | None = None
    changes: Mapping[Place, Json] = field(default_factory=dict)
    effects: Effects = "recorded"
    has_copy: bool = False
    skips_lost: bool = False

    @property
    def copy(self) -> CopyChoice:
        """Return the choice for its files."""
        return CopyChoice(self.has_copy, self.skips_lost)

    @property
    def planned(self) -> ForkPlan:
        """Make the plan of the fork. Each world needs its own, since a given answer is removed."""
        return plan("origin", self.origin, self.base, self.changes)

    @cached_property
    def own(self) -> Scenario:
        """Return the scenario of the fork, in which the client repeats its recorded inputs."""
        return with_values(self.scenario, asks=(), tells=(), changes=(), closes=False, reopens=False)


class _Question(NamedTuple):
    """A question about a tool with an effect. same: a result that may be taken."""

    request: Event
    same: Reusable | None


class ForkWorld(SessionWorld):
    """A fork in progress.

    live: the requests on which ports have worked. began: the length of the log at each of them. base: the
    last shared event. is_in_order: each move so far was the oldest one, as in the recording.
    """

    def __init__(self, fork: Fork, memory: Memory | None = None) -> None:
        self.playback = Playback(fork.planned.recorded, fork.effects, fork.copy)
        self.fork = fork
        self.live: list[Event] = []
        self.began: list[int] = []
        self.base = fork.planned.base
        self.is_in_order = True
        self._asked: dict[str, _Question] = {}
        super().__init__(fork.own, memory)
        self._begin(fork.planned)

    def _begin(self, planned: ForkPlan) -> None:
        shared = list(self.fork.origin[: planned.base])
        first = Forked(
            "origin",
            planned.base,
            "",
            Resumed(RESUMED.rules),
            self.fork.effects,
            planned.changes,
            planned.until,
            has_copy=self.fork.has_copy,
            skips_lost=self.fork.skips_lost,
        )
        self.playback = Playback(planned.recorded, self.fork.effects, self.fork.copy)
        self.playback.note(shared)
        answered = frozenset(planned.recorded.open_at_base)
        self.posters = [0] * len(shared)
        recovered = recover(shared, first, shared[-1].at, None, answered, has_run=False)
        self._go_on_from(shared, recovered, answered)
        # The event that makes a fork is in its log before anything else happens in it.
        self.durable = next(event.seq for event in self.log if isinstance(event.body, Forked))
        self.is_continued = True

    def resume(self, log: Sequence[Event], *, reopens: bool = False) -> None:
        """Start a new process that continues the fork."""
        # A lost tail takes its requests with it, and others get their seqs. A call whose start is lost has
        # not run: it waits for the disk.
        kept = [
            (one, at)
            for one, at in zip(self.live, self.began, strict=True)
            if one in log and (not self._is_announced(one) or one.seq in begun_in(log))
        ]
        self.live, self.began = [one for one, _ in kept], [at for _, at in kept]
        begin = next(event for event in log if isinstance(event.body, Forked))
        assert isinstance(begin.body, Forked)
        recorded = planned_again(self.fork.origin, begin.body)
        copy = CopyChoice(begin.body.has_copy, begin.body.skips_lost)
        self.playback = playback = Playback(recorded, begin.body.effects, copy)
        playback.note(log)
        playback.note_own(log[begin.seq :])
        gate = PortGate()
        gate.on_events(log)
        answered = frozenset(seq for seq, one in gate.open.items() if playback.has_answer(one.event, gate))
        self._go_on_from(list(log), recover(log, RESUMED, log[-1].at, None, answered), answered)

    def _is_announced(self, request: Event) -> bool:
        """Return True for a call of which the log says when its tool runs."""
        body = request.body
        announced = ("write", "idempotent") if self.fork.effects == "ask" else ("write",)
        return isinstance(body, CallTool) and body.effect in announced

    def _go_on_from(self, log: list[Event], recovered: Recovered, answered: frozenset[int]) -> None:
        self.now = recovered.posted[0].at
        self._asked.clear()
        self.playback.note(recovered.posted)
        self.restore(log, recovered)
        started = {start.request.seq for start in recovered.starts}
        for seq in sorted(answered - started):
            request = self.gate.request(seq)
            found = None if request is None else self.playback.find(request, self.gate)
            if request is not None and found is not None:
                self.playback.hold(request, found)
        ask = self.supervisor.ask
        self.catch_up("" if ask is None else ask.request_id)

    # --- requests -----------------------------------------------------------------

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Post, and note the keys of requests before the gate sees them."""
        self.posters += [self.step] * len(posts)
        events = self.core.post(self.now, ((sender, cause, posts),))
        self.log += events
        self.playback.note(events)
        self.core.perform(self.core.gate.on_events(events), self)

    def start(self, start: Start) -> None:
        """Look a request up before its start is announced."""
        request = start.request
        found = self.playback.admit(request, self.gate)
        if isinstance(found, Reuse):
            if start.waits and found.found.was_started:
                held = held_start(start, found.found)
                self.durable = max(self.durable, self.core.announce(held, self))  # before a port holds it
            self.playback.hold(request, found.found)
            if not found.found.is_step:
                return
        elif not self._may_work(request, found):
            return
        self._work(start if not isinstance(found, Reuse) else Start(request))

    def _may_work(self, request: Event, found: Refused | Asked | Work) -> bool:
        if isinstance(found, Refused):
            self.answer(request, found.answer)
        elif isinstance(found, Asked):
            body = request.body
            assert isinstance(body, CallTool)
            place = f"tool {request.sender}/{body.turn}.{body.call}"
            self._asked[place] = _Question(request, found.same)
            self.durable = max(self.durable, request.seq)  # a person sees it
            for strand in (_ALLOWS, _REFUSES, _REUSES)[: 2 if found.same is None else 3]:
                self.offer(f"{strand}{place}", f"ports {request.sender}", "client", f"{strand}{place}")
        return isinstance(found, Work)

    def _work(self, start: Start) -> None:
        if isinstance(start.request.body, CallTool | CallModel | RunStep | RequestApproval):
            self.live.append(start.request)
            self.began.append(len(self.log))
        super().start(start)

    def abort(self, request: Event) -> None:
        """Give up a request: a recorded answer comes in its turn, a question is withdrawn."""
        if self.playback.holds(request):
            return
        for place in [place for place, one in self._asked.items() if one.request.seq == request.seq]:
            self._withdraw_question(place)
            self.answer(request, self.gate.cancelled(request))
            return
        super().abort(request)

    def _withdraw_question(self, place: str) -> "_Question":
        for strand in (_ALLOWS, _REFUSES, _REUSES):
            self.offers.pop(f"{strand}{place}", None)
        return self._asked.pop(place)

    # --- moves --------------------------------------------------------------------

    def make(self, move: Move) -> None:
        """Let one of the moves happen."""
        self.is_in_order &= move.strand == next(iter(self.offers), "")
        super().make(move)

    def _go_on(self, strand: str) -> None:
        if strand == RECORDED:
            self.offers.pop(RECORDED, None)
            self._play()
        elif strand.startswith(_ALLOWS):
            asked = self._withdraw_question(strand.removeprefix(_ALLOWS))
            self.playback.is_after_effect = True
            self._work(start_of_missed(asked.request, self.gate))
        elif strand.startswith(_REFUSES):
            self._refuse(self._withdraw_question(strand.removeprefix(_REFUSES)).request)
        elif strand.startswith(_REUSES):
            self._reuse(strand.removeprefix(_REUSES))
        else:
            super()._go_on(strand)

    def _refuse(self, request: Event) -> None:
        call = request.body
        assert isinstance(call, CallTool)
        refused = ToolReturned(call.turn, call.call, "error", REFUSAL)
        self.answer(request, Post(request.sender, refused))

    def _reuse(self, place: str) -> None:
        same = self._asked[place].same
        assert same is not None  # else it was not on offer
        files, now = self.playback.files, self.gate.history
        is_fit = not files.misfit(same.body, same.bases, now)
        if not is_fit or not self.playback.choose(same):  # another call has it by now: the question stays
            self.offers.pop(f"{_REUSES}{place}")
            return
        request = self._withdraw_question(place).request
        self.answer(request, files.with_contents(answer_to(request, same, request.sender), now))

    def look_ahead(self) -> None:
        """Do the next recorded thing, or offer it while ports work. Advance the clock without a move."""
        self.offers.pop(RECORDED, None)
        while self.failure is None and self.down is None and not self.is_detaching:
            if any(self.inboxes.values()):
                return
            if self._is_due():
                if self.offers:
                    self.offer(RECORDED, "playback", "client", "the next recorded answer")
                    return
                self._play()
            elif self.offers or not self._jump():
                self.may_give_up()
                return

    def _is_due(self) -> bool:
        return self.playback.is_due(
            self.now, self.gate, is_working=self._is_working(), is_asked=bool(self.running)
        )

    def _is_working(self) -> bool:
        """Return True while something that is not recorded is awaited."""
        return bool(self.requests or self._asked)

    def _jump(self) -> bool:
        """Advance the clock to the next timer or input. Return False if there is no other."""
        due = self.playback.next_due(is_asked=bool(self.running))
        if due is not None:
            self.now = max(self.now, due)
        elif self.later:
            self.jump()
        else:
            return False
        return True

    def _play(self) -> None:
        is_working, is_asked = self._is_working(), bool(self.running)
        for thing in self.playback.take(self.now, self.gate, is_working=is_working, is_asked=is_asked):
            self._do(thing)

    def _do(self, thing: Thing) -> None:
        if not isinstance(thing, Missed):
            self.now = max(self.now, thing.at)
        match thing:
            case Missed(request):
                if self._may_work(request, self.playback.unfound(request, self.gate)):
                    self._work(start_of_missed(request, self.gate))
            case Give(request, answer, _):
                self.answer(request, answer)
            case Fire(timer, request, _):
                self.post(CLOCK, request, (Post(SUPERVISOR, TimerFired(timer)),))
            case Repost(given):
                self.say(given.body)

    # --- timers -------------------------------------------------------------------

    def arm(self, arm: Arm) -> None:
        """Set a timer."""
        self.playback.arm(arm.timer, arm.request, arm.at + arm.after_ms)

    def disarm(self, timer: int) -> None:
        """Forget a timer."""
        self.playback.disarm(timer)

    # --- looking ------------------------------------------------------------------

    @property
    def own_events(self) -> list[Event]:
        """Return the events of the fork that it does not share."""
        return self.log[self.base :]

    def asks_ended(self) -> list[AnyMessage]:
        """Return the outcomes of all asks, without the seqs that differ in a fork."""
        return [
            with_by(event.body)
            for event in self.log
            if isinstance(event.body, AskEnded) and event.recipient == "client"
        ]


def with_by(ended: AskEnded) -> AskEnded:
    """Return an outcome without the seq of the event that ended the ask."""
    return AskEnded(
        ended.request_id,
        ended.kind,
        ended.value,
        ended.text,
        ended.detail,
        ended.usage,
        ended.unsettled,
        0,
        ended.in_doubt,
    )


class ForkWorlds:
    """Makes the worlds of a campaign about one fork."""

    def __init__(self, fork: Fork) -> None:
        self.fork = fork
        self._memory = Memory()

    def __call__(self) -> ForkWorld:
        """Make a world at its start."""
        world = ForkWorld(self.fork, self._memory)
        world.look_ahead()
        return world
