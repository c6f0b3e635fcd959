"""The playback of a fork in a live session: it does the next thing whenever no actor has a message.

`callboard.actors.session.playback` says what that is. This shell adds the board, the virtual clock, and the
wait of the event loop for the next timer or input.

A port of a fork: recorded answers come first, and the real port acts where none fits.

The clock of a fork: it stands, is moved forward by recorded answers, and runs while real work goes on.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from callboard.actors.protocol.addresses import CLOCK, SUPERVISOR, TOOLS
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import TimerFired
from callboard.actors.session.fork_starts import held_start, start_of_missed
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
from callboard.actors.session.port_actions import Start
from callboard.actors.session.recorded_answers import Reusable, answer_to
from callboard.runtime.clock import monotonic_ms
from callboard.runtime.files.copying import FolderCopy
from callboard.runtime.scheduling.run_queue import run_queue_of
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.port_protocol import Port, TimerPort


class VirtualClock:
    """A clock that begins at a given time. It never goes back.

    start_ms: in milliseconds since 1970 UTC.
    """

    def __init__(self, start_ms: int) -> None:
        self._ms = start_ms
        self._since: float | None = None

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970 UTC."""
        return self._ms if self._since is None else self._ms + int(monotonic_ms() - self._since)

    def move_to(self, at_ms: int) -> None:
        """Move forward to a time, unless it is past."""
        now = self.now_ms()
        self._ms = max(now, at_ms)
        if self._since is not None:
            self._since = monotonic_ms()

    def run(self, is_running: bool) -> None:
        """Let the clock run in real time, or stand."""
        if is_running == (self._since is not None):
            return
        self._ms = self.now_ms()
        self._since = monotonic_ms() if is_running else None


class Questions(Protocol):
    """The questions about tools with an effect that a person decides on."""

    def ask(
        self,
        request: Event,
        same: Reusable | None,
        choose: Callable[[Reusable], Post | None],
        run: Callable[[], None],
    ) -> None:
        """Ask about a call. same: a recorded result that may be given instead. run: lets the tool run.

        choose: takes the result for this call and returns its answer; None if another call has it by now.
        """

    def withdraw(self, request: Event) -> bool:
        """Withdraw a question. Return False if no question is about this call."""


class LivePlayback(TimerPort):
    """The playback of one fork, between its board and its ports.

    copy: of the files, in which the fork works; None for none. ports: the real ports, by address.
    post_input: posts an input of the client. is_asked: returns True until an outcome is given. questions:
    about tools with an effect.
    """

    def __init__(
        self,
        board: Board,
        plan: Playback,
        clock: VirtualClock,
        post_input: Callable[[Event], None],
        is_asked: Callable[[], bool],
        questions: Questions,
    ) -> None:
        self.plan = plan
        self.copy: FolderCopy | None = None
        self._board = board
        self._clock = clock
        self._post_input = post_input
        self._is_asked = is_asked
        self._questions = questions
        self._ports: dict[str, Port] = dict(board.ports)
        self._reused: dict[int, Reusable] = {}
        self._working: set[int] = set()
        self._run_queue = run_queue_of(asyncio.get_running_loop())
        self._is_scheduled = False
        self._alarm: asyncio.TimerHandle | None = None
        board.time = clock.now_ms
        board.clock = self
        board.on_posted = self.note
        board.on_published = self.schedule
        board.admits = self.admits
        board.keeps = plan.holds

    def note(self, events: Sequence[Event]) -> None:
        """Note the keys of posted requests."""
        self.plan.note(events)

    # --- requests -----------------------------------------------------------------

    def admits(self, start: Start) -> Start | None:
        """Look a request up before its start is announced. Return its start; None if none is due now."""
        request = start.request
        if request.recipient not in self._ports or request.seq in self._reused:
            return start
        found = self.plan.admit(request, self._board.gate)
        if isinstance(found, Reuse) and not found.found.was_started:
            self.plan.hold(request, found.found)
            self.schedule()
            return None
        if isinstance(found, Reuse):
            self._reused[request.seq] = found.found
            return held_start(start, found.found)
        return start if self._may_work(request, found) else None

    def _may_work(self, request: Event, found: Refused | Asked | Work) -> bool:
        """Refuse a request, or let a person decide. Return True if its port may act now."""
        if isinstance(found, Refused):
            self._board.answer(request, found.answer)
        elif isinstance(found, Asked):
            self._working.add(request.seq)
            self._questions.ask(
                request, found.same, partial(self._choose, request), partial(self._run, request)
            )
        return isinstance(found, Work)

    def _choose(self, request: Event, same: Reusable) -> Post | None:
        """Take a result that a person chose for a call. Return its answer; None if another call has it."""
        files, history = self.plan.files, self._board.gate.history
        if why := files.misfit(same.body, same.bases, history):
            raise MisuseError(f"event {same.seq} cannot be reused for this call: {why}")
        if not self.plan.is_left(same):
            return None
        answer = files.with_contents(answer_to(request, same, request.sender), history)
        if self.copy is not None and (why := self.copy.put_result(answer.body)):
            raise MisuseError(f"event {same.seq} cannot be reused for this call: {why}")
        self.plan.choose(same)  # last: a result that was not given can be chosen again
        return answer

    def _run(self, request: Event) -> None:
        """Run a tool with an effect after a person's yes."""
        self.plan.is_after_effect = True
        self._start_missed(request)

    def start(self, request: Event) -> None:
        """Hold the recorded answer to a request until its turn, or let its port act."""
        found = self._reused.pop(request.seq, None)
        if found is not None:
            self.plan.hold(request, found)
            self.schedule()
            if not found.is_step:
                return
        self.work(request)

    def work(self, request: Event) -> None:
        """Let the real port act on a request."""
        self._working.add(request.seq)
        self._ports[request.recipient].start(request)

    def abort(self, request: Event) -> bool:
        """Give up a request: a recorded answer comes in its turn. Return False if it never started."""
        if self.plan.holds(request):
            self.schedule()
            return True
        is_asked = request.recipient == TOOLS and self._questions.withdraw(request)
        return is_asked or self._ports[request.recipient].abort(request)

    def hold_open(self, requests: Sequence[Event]) -> None:
        """Hold the recorded answers to logged requests that no port starts again."""
        for request in requests:
            found = self.plan.find(request, self._board.gate)
            if found is not None:
                self.plan.hold(request, found)

    # --- timers -------------------------------------------------------------------

    def arm(self, timer: int, request: int, at: int, after_ms: int) -> None:
        """Fire a timer `after_ms` after `at`, by the virtual clock."""
        self.plan.arm(timer, request, at + after_ms)
        self.schedule()

    def disarm(self, timer: int) -> None:
        """Forget a timer."""
        self.plan.disarm(timer)

    def close(self) -> None:
        """Do nothing more: this process is done with the fork."""
        self.plan.stop()
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
        if board.error is not None or self._stands_still():
            return
        self._working = {seq for seq in self._working if board.gate.may_answer(seq)}
        self._clock.run(bool(self._working))
        things = self.plan.take(
            self._clock.now_ms(), board.gate, is_working=bool(self._working), is_asked=self._is_asked()
        )
        for thing in things:
            self._do(thing)
        if things:
            self.schedule()
        else:
            self._wait()

    def _stands_still(self) -> bool:
        return self._board.is_still or self._board.is_gated

    def _miss(self, request: Event) -> None:
        """Let a request whose recorded answer does not fit go to its port, if it may."""
        if self._may_work(request, self.plan.unfound(request, self._board.gate)):
            self._start_missed(request)

    def _start_missed(self, request: Event) -> None:
        self._board.start_admitted(start_of_missed(request, self._board.gate))

    def _do(self, thing: Thing) -> None:
        match thing:
            case Missed(request):
                self._miss(request)
            case Give(request, answer, at):
                self._clock.move_to(at)
                if self.copy is not None and (why := self.copy.put_result(answer.body)):
                    self.plan.files.refuse(request, why)
                    self._miss(request)
                else:
                    self._board.answer(request, answer)
            case Fire(timer, request, at):
                self._clock.move_to(at)
                self._board.submit(CLOCK, request, (Post(SUPERVISOR, TimerFired(timer)),))
            case Repost(given):
                self._clock.move_to(given.at)
                self._post_input(given)

    def _wait(self) -> None:
        """Let the clock run to the next timer or input, unless a port or a program ends the wait."""
        self._clock.run(True)
        self._set_alarm(self.plan.next_due(is_asked=self._is_asked()))

    def _set_alarm(self, at: int | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if at is not None:
            left = max(1, at - self._clock.now_ms()) / 1_000
            self._alarm = asyncio.get_running_loop().call_later(left, self.schedule)


class ReusingPort:
    """A port behind the playback of a fork."""

    def __init__(self, port: Port, playback: LivePlayback) -> None:
        self._port = port
        self._playback = playback

    def start(self, request: Event) -> None:
        """Hold the recorded answer to a request until its turn, or act on the request."""
        self._playback.start(request)

    def abort(self, request: Event) -> bool:
        """Give up a request. Return False if it never started."""
        return self._playback.abort(request)

    def detach(self) -> None:
        """Detach the real port. Requests that wait for their recorded answers stay open."""
        self._port.detach()

    @property
    def running(self) -> "set[asyncio.Task[object]]":
        """Return the tasks of the real port."""
        return self._port.running

    async def aclose(self) -> None:
        """Close the real port."""
        await self._port.aclose()
