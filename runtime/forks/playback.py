"""The playback of a fork: it gives recorded answers, one at a time, in the order in which they were recorded.

Whenever no actor has a message, the log waits for no disk and something is due, one thing is done:

    answer    a request gets its recorded answer
    fire      a timer fires
    input     an input of the client is posted again

Rules
  - The lowest recorded seq is next, of all three kinds. So decisions see the same inputs, in the same order.
  - The virtual clock moves to the recorded time of each answer and input. While a port works it runs in real
    time, and an input or a timer is due when its time has come. Else the clock stands, and nothing waits.
  - A timer without a recorded firing fires when the clock has passed its time. Once nothing recorded is left,
    the clock runs.
  - An input that came while no ask ran, as each `Ask` did, waits for the end of the ask before.
  - An answer behind the recorded reply of a program's step waits until that step has replied here.
  - A recorded `cancelled` is given only to a request that is cancelled here as well. Else the port works.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from callboard.actors.protocol.addresses import CLOCK, PORTS, SUPERVISOR
from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import CallTool, TimerFired, ToolStarted
from callboard.actors.session.port_table import recipient_of_answer
from callboard.actors.session.recorded_answers import (
    Key,
    RecordedAnswers,
    RequestKeys,
    Reusable,
    answer_to,
)
from callboard.actors.session.shared_state import NO_STATE
from callboard.runtime.forks.virtual_clock import VirtualClock
from callboard.runtime.scheduling.run_queue import run_queue_of
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.port_protocol import TimerPort


class Held(NamedTuple):
    """A recorded answer that waits for its turn, by its recorded seq. request: the one that it answers.

    begin: lets the port work on the request after all.
    """

    seq: int
    request: Event
    found: Reusable
    begin: Callable[[], None]


class Timer(NamedTuple):
    """A timer that is set. recorded: the event of its recorded firing, or None."""

    request: int
    due: int
    recorded: Event | None


class _Next(NamedTuple):
    """A thing that may be done next. seq, at: of its recorded event. do: returns False if it has to wait."""

    seq: int
    at: int
    do: Callable[[], bool]


class Playback(TimerPort):
    """The recorded answers, the timers and the inputs of one fork.

    post_input: posts an input of the client. runs_ask: returns True until an outcome is given.
    """

    def __init__(
        self,
        board: Board,
        recorded: RecordedAnswers,
        clock: VirtualClock,
        post_input: Callable[[Event], None],
        runs_ask: Callable[[], bool],
    ) -> None:
        self._board = board
        self._recorded = recorded
        self._clock = clock
        self._post_input = post_input
        self._runs_ask = runs_ask
        self._inputs = [*reversed(recorded.inputs)]
        self._keys: dict[int, Key] = {}
        self._reader = RequestKeys()
        self._held: list[Held] = []
        self._working: set[int] = set()
        self._timers: dict[int, Timer] = {}
        self._run_queue = run_queue_of(asyncio.get_running_loop())
        self._is_scheduled = False
        self._alarm: asyncio.TimerHandle | None = None
        board.time = clock.now_ms
        board.clock = self
        board.on_posted = self.note
        board.on_published = self.schedule

    # --- requests -----------------------------------------------------------------

    def note(self, events: Sequence[Event]) -> None:
        """Note the keys of posted requests, until they have their answers."""
        for event in events:
            key = self._reader.take(event)
            if key is not None:
                self._keys[event.seq] = key
            elif event.sender in PORTS and not isinstance(event.body, ToolStarted):
                self._keys.pop(event.cause, None)

    def find(self, request: Event) -> Reusable | None:
        """Return the recorded answer to a request, or None."""
        is_tool = isinstance(request.body, CallTool)
        shared = self._board.gate.state_for(request) if is_tool else NO_STATE
        key = self._keys.pop(request.seq, None)
        return None if key is None else self._recorded.find(key, shared)

    def hold(self, request: Event, found: Reusable, begin: Callable[[], None]) -> None:
        """Keep a recorded answer until its turn."""
        heapq.heappush(self._held, Held(found.seq, request, found, begin))
        self.schedule()

    def asks_left(self) -> int:
        """Return the number of asks that are still to be posted again."""
        return sum(isinstance(event.body, Ask) for event in self._inputs)

    def work(self, request: Event) -> None:
        """Note that a port works on a request."""
        self._working.add(request.seq)

    def has(self, request: Event) -> bool:
        """Return True while a recorded answer to this request waits."""
        return any(one.request.seq == request.seq and not one.found.is_step for one in self._held)

    # --- timers -------------------------------------------------------------------

    def arm(self, timer: int, request: int, at: int, after_ms: int) -> None:
        """Fire a timer `after_ms` after `at`, by the virtual clock."""
        due = at + after_ms
        fired = (one for one in self._recorded.fired.get(timer, ()) if one.at >= due)
        self._timers[timer] = Timer(request, due, next(fired, None))
        self.schedule()

    def disarm(self, timer: int) -> None:
        """Forget a timer."""
        self._timers.pop(timer, None)

    def close(self) -> None:
        """Forget all timers and answers: this process is done with the fork."""
        self._timers.clear()
        self._held.clear()
        self._inputs.clear()
        self._set_alarm(None)

    # --- the next thing -----------------------------------------------------------

    def schedule(self) -> None:
        """Do the next thing as soon as no actor has a message."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._run_queue.when_idle(self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        board = self._board
        if board.error is not None or board.is_still or board.is_gated:
            return
        self._working = {seq for seq in self._working if board.gate.may_answer(seq)}
        self._clock.run(bool(self._working))
        if self._fire_passed(self._clock.now_ms()) or self._do_next():
            return
        self._wait()

    def _do_next(self) -> bool:
        """Do the thing with the lowest recorded seq, if it is due. Return False if nothing is."""
        first = min((*self._answers(), *self._firings(), *self._given()), key=itemgetter(0), default=None)
        return first is not None and not self._comes_later(first.at) and first.do()

    def _comes_later(self, at: int) -> bool:
        """Return True if the clock has still to run to a time, while a port works."""
        # An answer that waits behind it moves the clock past its time.
        return bool(self._working) and not self._held and at > self._clock.now_ms()

    def _answers(self) -> Iterator[_Next]:
        if self._held:
            yield _Next(self._held[0].seq, self._held[0].found.at, self._answer_all)

    def _firings(self) -> Iterator[_Next]:
        for timer, one in self._timers.items():
            if one.recorded is not None:
                fire = partial(self._fire_in_turn, timer, one.recorded.at)
                yield _Next(one.recorded.seq, one.recorded.at, fire)

    def _given(self) -> Iterator[_Next]:
        if self._inputs and self._may_post(self._inputs[-1]):
            given = self._inputs[-1]
            yield _Next(given.seq, given.at, self._post_next)

    def _answer_all(self) -> bool:
        """Give the first answer, and those that came in together with it."""
        # Deciders then take turns as they did when the session was recorded.
        last, is_given = self._held[0].seq, self._answer()
        while is_given and self._held and self._held[0].seq == last + 1 and self._answer():
            last += 1
        return is_given

    def _answer(self) -> bool:
        """Give the first answer, or let the port work. Return False if it has to wait."""
        request, found = self._held[0].request, self._held[0].found
        may_answer = self._board.gate.may_answer(request.seq)
        if found.is_step:
            if not may_answer:
                heapq.heappop(self._held)
                self.schedule()
            return not may_answer
        if self._fire_passed(found.at):
            return True
        held = heapq.heappop(self._held)
        if may_answer:
            self._give(held)
        self.schedule()
        return True

    def _give(self, held: Held) -> None:
        request, found, gate = held.request, held.found, self._board.gate
        if _is_cancelled(found) and gate.is_wanted(request.seq):
            held.begin()
        else:
            self._clock.move_to(found.at)
            self._board.answer(request, answer_to(request, found, recipient_of_answer(request)))

    def _post_next(self) -> bool:
        given = self._inputs[-1]
        if not self._fire_passed(given.at):
            self._inputs.pop()
            self._clock.move_to(given.at)
            self._post_input(given)
        return True

    def _fire_in_turn(self, timer: int, at: int) -> bool:
        if not self._fire_passed(at):
            self._fire(timer, at)
        return True

    def _may_post(self, given: Event) -> bool:
        return given.seq not in self._recorded.idle or not self._runs_ask()

    def _fire_passed(self, at: int) -> bool:
        """Fire the first timer that has no recorded firing and is due by then. Return False without one."""
        due = [
            (one.due, timer) for timer, one in self._timers.items() if one.recorded is None and one.due <= at
        ]
        if not due:
            return False
        when, timer = min(due)
        self._fire(timer, when)
        return True

    def _fire(self, timer: int, at: int) -> None:
        self._clock.move_to(at)
        request = self._timers.pop(timer).request
        self._board.submit(CLOCK, request, (Post(SUPERVISOR, TimerFired(timer)),))

    def _wait(self) -> None:
        """Let the clock run to what is due next, unless a port or a program ends the wait."""
        self._clock.run(True)
        times = [one.recorded.at if one.recorded else one.due for one in self._timers.values()]
        if self._inputs and self._may_post(self._inputs[-1]):
            times.append(self._inputs[-1].at)
        self._set_alarm(min(times, default=None))

    def _set_alarm(self, at: int | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if at is not None:
            left = max(1, at - self._clock.now_ms()) / 1_000
            self._alarm = asyncio.get_running_loop().call_later(left, self.schedule)


def _is_cancelled(found: Reusable) -> bool:
    return getattr(found.body, "status", getattr(found.body, "verdict", "")) == "cancelled"
