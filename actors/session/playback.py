"""The playback of a fork: which recorded answer, timer or input of the client is next. No I/O, no clock.

A fork asks its ports as any session does. Before a port acts on a request, `admit` says what happens:

    Reuse     a recorded answer fits; it is given when its turn comes
    Work      no recorded answer fits, and the port acts
    Refused   no recorded answer fits, and a tool with an effect does not run
    Asked     no recorded answer fits, and a person decides whether the tool runs

Whenever no actor has a message, `take` returns the next thing to do:

    Give      answer a request with its recorded answer
    Missed    the recorded answer does not fit after all; `unfound` says what happens
    Fire      fire a timer
    Repost    post an input of the client again

Rules
  - The lowest recorded seq is next, of all kinds. So decisions see the same inputs, in the same order.
  - The time moves to the recorded time of each answer and input. While a port works it runs, and an input or
    a timer is due when its time has come. Else it stands, and nothing waits.
  - A timer without a recorded firing fires when the time has passed its due time.
  - An input that came while no ask ran, as each `Ask` did, waits for the end of the ask before.
  - An answer behind the recorded reply of a program's step waits until that step has replied here.
  - A question that a permission answered is answered by the permission of the fork for the same calls, and a
    revocation ends that one. Where the fork has none, the port works.
  - A recorded `cancelled` is given only to a request that is cancelled here as well. Else the port works.
  - The result of a tool that used what its agent may not use in the fork is no recorded answer.
  - Once a tool with an effect has run, no result of a `read` tool is reused: it might read something else.
  - A call that an earlier process of the fork let run is given no recorded answer, and no person is asked.
"""

import heapq
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, ToolReturned, ToolStarted
from callboard.actors.protocol.uses import refusal_among
from callboard.actors.protocol.value_types import Effects
from callboard.actors.session.copied_files import NO_COPY, CopiedFiles, CopyChoice
from callboard.actors.session.fork_starts import begun_in, has_effect
from callboard.actors.session.not_run import not_run
from callboard.actors.session.permissions import permitted
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.port_table import recipient_of_answer
from callboard.actors.session.recorded_answers import RecordedAnswers, Reusable, answer_to, is_same_input
from callboard.actors.session.request_keys import Key, RequestKeys
from callboard.actors.session.shared_state import NO_STATE, SharedState


class Reuse(NamedTuple):
    """A recorded answer for a request. It is given in its turn; of a program's step only its place counts."""

    found: Reusable


class Refused(NamedTuple):
    """The answer to a request on which its port does not act."""

    answer: Post


class Asked(NamedTuple):
    """A call about which a person decides. same: the unused result of the same call in another turn."""

    same: Reusable | None


class Work(NamedTuple):
    """A request on which the port acts."""

    request: Event


Admission: TypeAlias = Reuse | Refused | Asked | Work


class Give(NamedTuple):
    """A recorded answer whose turn has come. at: its recorded time."""

    request: Event
    answer: Post
    at: int


class Missed(NamedTuple):
    """A request whose recorded answer is a cancellation, which did not come here."""

    request: Event


class Fire(NamedTuple):
    """A timer that fires. request: the seq of its `SetTimer`."""

    timer: int
    request: int
    at: int


class Repost(NamedTuple):
    """An input of the client that is posted again."""

    given: Event

    @property
    def at(self) -> int:
        """Return the time at which it was posted."""
        return self.given.at


Thing: TypeAlias = Give | Missed | Fire | Repost


class _Held(NamedTuple):
    seq: int
    asked: int  # the seq of the request: one recorded answer may wait for several
    request: Event
    found: Reusable


class _Timer(NamedTuple):
    request: int
    due: int
    recorded: Event | None


class Playback:
    """The recorded answers, timers and inputs of one fork.

    held: the recorded answers that wait for their turn. inputs: those of the client that are left, the next
    one last. is_after_effect: a tool with an effect has run. files: of the fork.
    """

    def __init__(
        self, recorded: RecordedAnswers, effects: Effects = "recorded", copy: CopyChoice = NO_COPY
    ) -> None:
        self.recorded = recorded
        self.files = CopiedFiles(recorded.files, recorded.base, copy)
        self.effects = effects
        self.is_after_effect = False
        self.held: list[_Held] = []
        self.inputs = recorded.inputs[::-1]
        self._begun: Container[int] = ()
        self._keys: dict[int, Key] = {}
        self._reader = RequestKeys()
        self._rights: dict[str, Layers] = {}
        self._timers: dict[int, _Timer] = {}

    # --- events -------------------------------------------------------------------

    def note(self, events: Sequence[Event]) -> None:
        """Note the keys of posted requests, until they have their answers."""
        for event in events:
            if isinstance(event.body, Begin):
                self._rights[event.recipient] = event.body.permissions
            key = self._reader.take(event)
            if key is not None:
                self._keys[event.seq] = key
            elif not isinstance(event.body, ToolStarted):
                self._keys.pop(event.cause, None)

    def note_own(self, events: Sequence[Event]) -> None:
        """Note the events that an earlier process of the fork posted: inputs and recorded answers."""
        begun = begun_in(events)
        for event in events:
            if self.inputs and is_same_input(event, self.inputs[-1]):
                self.inputs.pop()
            reused = getattr(event.body, "reused", None)
            is_used = event.cause in begun or not isinstance(event.body, ToolStarted)
            if reused and is_used:  # else the answer still waits for its turn
                self.recorded.use_up(reused)
        self._begun = begun
        has_answer = (seq for seq, key in self._keys.items() if self.recorded.answers.get(key))
        self.is_after_effect |= has_effect(events, self.effects, frozenset(has_answer))

    # --- requests -----------------------------------------------------------------

    def admit(self, request: Event, gate: PortGate) -> Admission:
        """Return what happens to a request on which its port may act now."""
        free = self.recorded.free_budget(request, self._keys.get(request.seq, ()))
        found = None if free else self.find(request, gate)
        return Refused(free) if free else Reuse(found) if found else self.unfound(request, gate)

    def unfound(self, request: Event, gate: PortGate) -> "Refused | Asked | Work":
        """Return what happens to a request without a recorded answer that fits."""
        if not gate.is_wanted(request.seq):  # given up while its recorded answer waited
            return Refused(gate.cancelled(request))
        body = request.body
        if not isinstance(body, CallTool) or body.effect == "read" or request.seq in self._begun:
            return Work(request)
        return self._of_effect(request, self.recorded.same_call(request, self._reader))

    def _of_effect(self, request: Event, same: Reusable | None) -> "Refused | Asked | Work":
        match self.effects:
            case "recorded":
                return Refused(not_run(request, same, self.files.why_refused(request)))
            case "ask":
                return Asked(same)
            case "live":
                self.is_after_effect = True
                return Work(request)

    def find(self, request: Event, gate: PortGate) -> Reusable | None:
        """Return the recorded answer to a request, once; None for a request without one."""
        key = self._keys.pop(request.seq, ())
        if not key or request.seq in self._begun or (self.is_after_effect and _is_read(request)):
            return None
        found = self.recorded.find(key, _shared(request, gate))
        return found if found is not None and self._is_whole(request, found) else None

    def has_answer(self, request: Event, gate: PortGate) -> bool:
        """Return True if a recorded answer fits a request, which is not looked up by this."""
        key = self._keys.get(request.seq, ())
        if not key or key[0] == "step" or request.seq in self._begun:
            return False
        if self.is_after_effect and _is_read(request):
            return False
        found = self.recorded.known(key, _shared(request, gate))
        return found is not None and self._is_whole(request, found)

    def _is_whole(self, request: Event, found: Reusable) -> bool:
        """Return False for an answer of a person after which a call goes on that has no recorded result.

        Also for a result of a tool that used more than its agent may use in this fork.
        """
        given = found.body
        if isinstance(given, ToolReturned):
            assert isinstance(request.body, CallTool)
            return not refusal_among(self._rights.get(request.sender, ()), given.uses, request.body.labels)
        if not isinstance(given, ApprovalGiven) or not given.goes_on:
            return True
        return self.recorded.has_result(request, given, self._reader)

    def hold(self, request: Event, found: Reusable) -> None:
        """Keep a recorded answer until its turn."""
        heapq.heappush(self.held, _Held(found.seq, request.seq, request, found))

    def is_left(self, same: Reusable) -> bool:
        """Return True if no call has the result that a person may choose."""
        return self.recorded.is_left(same.seq)

    def choose(self, same: Reusable) -> bool:
        """Use up a result that a person chose for another call. Return False if a call has it already."""
        return self.recorded.choose(same.seq)

    def holds(self, request: Event) -> bool:
        """Return True while a recorded answer to this request waits."""
        return any(one.request.seq == request.seq and not one.found.is_step for one in self.held)

    def asks_left(self) -> int:
        """Return the number of asks that are still to be posted again."""
        return sum(isinstance(event.body, Ask) for event in self.inputs)

    # --- timers -------------------------------------------------------------------

    def arm(self, timer: int, request: int, due: int) -> None:
        """Set a timer."""
        fired = (one for one in self.recorded.fired.get(timer, ()) if one.at >= due)
        self._timers[timer] = _Timer(request, due, next(fired, None))

    def disarm(self, timer: int) -> None:
        """Forget a timer."""
        self._timers.pop(timer, None)

    def stop(self) -> None:
        """Do nothing more in this process."""
        self._timers.clear()
        self.inputs.clear()

    # --- the next thing -----------------------------------------------------------

    def take(self, now: int, gate: PortGate, *, is_working: bool, is_asked: bool) -> tuple[Thing, ...]:
        """Take the next things off, which are done together; none if there is nothing to do yet.

        is_working: a port works, so that the time runs. is_asked: an ask runs.
        """
        if passed := self._take_passed(now):
            return (passed,)
        first = self._first(now, gate, is_working=is_working, is_asked=is_asked)
        if first is None:
            return ()
        _, at, kind, number = first
        if passed := self._take_passed(at):
            return (passed,)
        if kind == "timer":
            return (Fire(number, self._timers.pop(number).request, at),)
        if kind == "input":
            return (Repost(self.recorded.input_for(self.inputs.pop(), gate.permissions)),)
        return self._take_answers(gate)

    def is_due(self, now: int, gate: PortGate, *, is_working: bool, is_asked: bool) -> bool:
        """Return True if `take` has something to do."""
        first = self._first(now, gate, is_working=is_working, is_asked=is_asked)
        return first is not None or self._has_passed(now)

    def _first(
        self, now: int, gate: PortGate, *, is_working: bool, is_asked: bool
    ) -> tuple[int, int, str, int] | None:
        """Return the next recorded thing: its seq, time, kind and number; None if it is not due."""
        self._drop_stale(gate)
        first = min((*self._answers(), *self._firings(), *self._given(is_asked)), default=None)
        # An answer that waits behind it moves the time past its own.
        is_later = first is not None and is_working and not self.held and first[1] > now
        return None if is_later else first

    def next_due(self, *, is_asked: bool) -> int | None:
        """Return the time of the next timer or input; None without one."""
        times = [one.recorded.at if one.recorded else one.due for one in self._timers.values()]
        times += [at for _, at, _, _ in self._given(is_asked)]
        return min(times, default=None)

    def _answers(self) -> Iterator[tuple[int, int, str, int]]:
        # A step that has not replied here keeps its place, so that all later answers wait for it.
        for one in self.held[:1]:
            if not one.found.is_step:
                yield one.seq, one.found.at, "answer", 0

    def _firings(self) -> Iterator[tuple[int, int, str, int]]:
        for timer, one in self._timers.items():
            if one.recorded is not None and not self._waits_for_answer(one.recorded.seq):
                yield one.recorded.seq, one.recorded.at, "timer", timer

    def _given(self, is_asked: bool) -> Iterator[tuple[int, int, str, int]]:
        for given in self.inputs[-1:]:
            if not (is_asked and given.seq in self.recorded.idle) and not self._waits_for_answer(given.seq):
                yield given.seq, given.at, "input", 0

    def _waits_for_answer(self, seq: int) -> bool:
        return bool(self.held) and self.held[0].seq < seq

    def _drop_stale(self, gate: PortGate) -> None:
        """Drop the held answers at the front whose requests have their answers."""
        while self.held and not gate.may_answer(self.held[0].request.seq):
            heapq.heappop(self.held)

    def _take_answers(self, gate: PortGate) -> tuple[Thing, ...]:
        """Take the first answer, and those that came in together with it."""
        # Deciders then take turns as they did when the session was recorded.
        held = heapq.heappop(self.held)
        things, last = [self._thing(held, gate)], held.seq
        while self.held and self.held[0].seq == last + 1 and not self.held[0].found.is_step:
            last += 1
            # A permission may come with the answer before it.
            if self._has_passed(self.held[0].found.at) or self.held[0].found.is_permitted:
                break
            held = heapq.heappop(self.held)
            if gate.may_answer(held.request.seq):
                things.append(self._thing(held, gate))
        return tuple(things)

    def _thing(self, held: _Held, gate: PortGate) -> Thing:
        thing = _thing(held, gate)
        if not isinstance(thing, Give):
            return thing
        # Not when it is looked up: an answer that waits before it may write the same files.
        answer = self.files.fitted(held.request, thing.answer, held.found.bases, gate.history)
        return Missed(held.request) if answer is None else thing._replace(answer=answer)

    def _has_passed(self, at: int) -> bool:
        return any(one.recorded is None and one.due <= at for one in self._timers.values())

    def _take_passed(self, at: int) -> Fire | None:
        """Take the first timer that has no recorded firing and is due by then."""
        due = [
            (one.due, timer) for timer, one in self._timers.items() if one.recorded is None and one.due <= at
        ]
        if not due:
            return None
        when, timer = min(due)
        return Fire(timer, self._timers.pop(timer).request, when)


def _is_read(request: Event) -> bool:
    return isinstance(request.body, CallTool) and request.body.effect == "read"


def _shared(request: Event, gate: PortGate) -> SharedState:
    """Return the shared state as of a request, of which only tools are given something."""
    return gate.state_for(request) if isinstance(request.body, CallTool) else NO_STATE


def _thing(held: _Held, gate: PortGate) -> Thing:
    request, found = held.request, held.found
    if found.is_cancelled and gate.is_wanted(request.seq):
        return Missed(request)
    answer = answer_to(request, found, recipient_of_answer(request))
    if found.is_permitted:
        permission = permitted(request, gate.permissions)
        if permission is None and gate.is_wanted(request.seq):
            return Missed(request)
        answer = permission or gate.cancelled(request)
    return Give(request, answer, found.at)
