"""The playback of a live fork, between a board and ports that the test holds: the acts, and their times.

Nothing here waits for real time: the clock of the fork is a number, and its alarms are fired by hand.
"""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import pytest

from callboard.actors.protocol.addresses import CLOCK, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CallTool, TimerFired, ToolReturned, ToolStarted
from callboard.actors.protocol.value_types import Effects
from callboard.actors.session.playback import Playback
from callboard.actors.session.port_actions import Start
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recorded_answers import RecordedAnswers, Reusable
from callboard.runtime.forks import playback
from callboard.runtime.forks import playback as module
from callboard.runtime.forks.playback import LivePlayback, ReusingPort, VirtualClock
from callboard.runtime.sessions.board import Board
from tests.actors.session.hand_written import Log
from tests.tables import table


class Idle:
    """A run queue whose moment without messages the test chooses."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def when_idle(self, then: Callable[[], None]) -> None:
        self.waiting.append(then)

    def run(self) -> None:
        """Let no actor have a message, again and again, until nothing more is scheduled."""
        while self.waiting:
            self.waiting.pop(0)()


class Clock(VirtualClock):
    """A clock of a fork that moves by hand while it runs."""

    def __init__(self) -> None:
        super().__init__(0)
        self.ms, self.is_running = 0, False

    def now_ms(self) -> int:
        return self.ms

    def move_to(self, at_ms: int) -> None:
        self.ms = max(self.ms, at_ms)

    def run(self, is_running: bool) -> None:
        self.is_running = is_running


class Alarms:
    """The event loop, of which the playback uses one method."""

    def __init__(self) -> None:
        self.set: list[tuple[float, Callable[[], None]]] = []
        self.cancelled = 0

    def call_later(self, after_s: float, then: Callable[[], None]) -> "Alarms":
        self.set.append((after_s, then))
        return self

    def cancel(self) -> None:
        self.cancelled += 1
        self.set.pop()


class Ports:
    """The real port of every address."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.aborted: list[int] = []
        self.has_started = True

    def start(self, request: Event) -> None:
        self.started.append(request.seq)

    def abort(self, request: Event) -> bool:
        self.aborted.append(request.seq)
        return self.has_started


Choose: TypeAlias = Callable[[Reusable], Post | None]


class Asking:
    """The questions that are shown to a person."""

    def __init__(self) -> None:
        self.asked: dict[
            int, tuple[Reusable | None, Callable[[Reusable], Post | None], Callable[[], None]]
        ] = {}
        self.withdrawn: list[int] = []

    def ask(
        self,
        request: Event,
        same: Reusable | None,
        choose: Choose,
        run: Callable[[], None],
    ) -> None:
        self.asked[request.seq] = same, choose, run

    def withdraw(self, request: Event) -> bool:
        self.withdrawn.append(request.seq)
        return self.asked.pop(request.seq, None) is not None


class FakeBoard:
    """The board of the fork: it keeps its posts. said: in words, in order."""

    def __init__(self, gate: PortGate, ports: Ports, live: "list[LivePlayback]") -> None:
        self.gate, self.ports = gate, dict.fromkeys((TOOLS, "model"), ports)
        self.error: BaseException | None = None
        self.is_still = self.is_gated = False
        self.said: list[str] = []
        self.admitted: list[int] = []
        self.announced: list[AnyMessage | None] = []
        self.flushes: Callable[[], None] = lambda: None

    def answer(self, request: Event, post: Post) -> None:
        body = post.body
        assert isinstance(body, ToolReturned)
        self.said.append(f"{request.seq}: {body.status} {body.reused}")
        self.gate.on_events([Event(0, 0, request.recipient, post.recipient, request.seq, body)])

    def submit(self, sender: str, cause: int, posts: tuple[Post, ...]) -> None:
        body = posts[0].body
        assert isinstance(body, TimerFired)
        assert (sender, posts[0].recipient) == (CLOCK, SUPERVISOR)
        self.said.append(f"timer {body.timer} of {cause}")

    def start_admitted(self, start: Start) -> None:
        self.flushes()
        self.admitted.append(start.request.seq)
        self.announced.append(start.announcement and start.announcement.body)


class World:
    """A fork with all that is around it."""

    def __init__(self, origin: Log, effects: Effects = "recorded") -> None:
        self.gate, self.ports, self.clock, self.questions = PortGate(), Ports(), Clock(), Asking()
        self.board = FakeBoard(self.gate, self.ports, [])
        self.plan = Playback(RecordedAnswers(origin.events, 0), effects)
        self.is_asked = False
        self.inputs: list[int] = []
        self.next = 100
        self.live = LivePlayback(
            cast("Board", self.board),
            self.plan,
            self.clock,
            lambda event: self.inputs.append(event.seq),
            lambda: self.is_asked,
            self.questions,
        )
        idle = self.live._run_queue
        assert isinstance(idle, Idle)
        self.idle = idle

    def requests(self, *call: Any, **more: Any) -> Event:
        """Post a call of a tool in the fork."""
        made = Log().calls(*call, **more)
        event = Event(self.next, 0, made.sender, made.recipient, 0, made.body)
        self.next += 1
        self.live.note([event])
        self.gate.on_events([event])
        return event

    def asks_for(self, request: Event) -> bool:
        """Let the board start a request. Return True if the port may act now."""
        may_act = self.live.admits(Start(request)) is not None
        if may_act:
            self.live.start(request)
        return may_act


@pytest.fixture(autouse=True)
def alarms(monkeypatch: pytest.MonkeyPatch) -> Alarms:
    made = Alarms()
    monkeypatch.setattr(module, "run_queue_of", lambda loop: Idle())
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: made)
    return made


def looking(turns: int = 1, effect: Effect = "read") -> Log:
    """Record calls, one in each turn, each with its result two seconds after the one before."""
    origin = Log()
    for turn in range(1, turns + 1):
        origin.returns(origin.calls("look", turn, effect=effect))
    return origin


# --- requests ---------------------------------------------------------------------------------------


def test_a_recorded_answer_waits_until_no_actor_has_a_message() -> None:
    world = World(looking())
    request = world.requests("look", 1, effect="read")
    assert world.asks_for(request)
    assert world.ports.started == []
    assert world.board.said == []
    assert world.plan.holds(request)
    world.idle.run()
    assert world.board.said == ["100: ok 2"]
    assert world.clock.ms == 2_000


def test_a_write_that_never_started_is_not_announced() -> None:
    world = World(looking(effect="write"))
    request = world.requests("look", 1, effect="write")
    assert not world.live.admits(Start(request, waits=True))
    assert world.plan.holds(request)
    world.idle.run()
    assert world.board.said == ["100: ok 2"]


def test_a_request_without_a_recorded_answer_goes_to_its_port_once() -> None:
    world = World(Log())
    assert world.asks_for(world.requests("look", 1, effect="read"))
    world.idle.run()
    assert world.ports.started == [100]


def test_a_request_to_a_port_without_playback_is_admitted() -> None:
    world = World(Log())
    request = world.requests("look", 1)
    other = Event(request.seq, 0, "host", "elsewhere", 0, request.body)
    assert world.live.admits(Start(other))


def test_an_effect_is_refused_where_effects_are_recorded() -> None:
    world = World(Log())
    assert not world.asks_for(world.requests("send", 1))
    assert world.board.said == ["100: needs_effect 0"]
    assert world.ports.started == []


@table("effect", ["write", "idempotent"])
def test_an_effect_runs_in_a_fork_that_asks_after_a_yes_which_ends_the_reuse_of_reads(
    effect: Effect,
) -> None:
    world, after = World(looking(), "ask"), list[bool]()
    assert not world.asks_for(world.requests("send", 1, effect=effect))
    assert world.board.admitted == []
    assert not world.plan.is_after_effect
    world.board.flushes = lambda: after.append(world.plan.is_after_effect)
    _, choose, run = world.questions.asked[100]
    assert choose.func == world.live._choose  # type: ignore[attr-defined]  # a partial of a bound method
    run()
    assert (world.board.admitted, world.board.announced) == ([100], [ToolStarted(1, 0)])
    assert after == [True], "also for reads that are published with it"


def test_a_result_that_does_not_fit_the_copy_of_the_files_is_refused_with_the_reason() -> None:
    world = World(looking(effect="write"))
    copy: Any = SimpleNamespace(put_result=lambda body: "its file was changed")
    world.live.copy = copy
    answers: list[ToolReturned] = []
    world.board.answer = lambda request, post: answers.append(post.body)  # type: ignore[method-assign,arg-type]  # a stand-in
    request = world.requests("look", 1, effect="write")
    world.live.admits(Start(request, waits=True))
    world.idle.run()
    (answer,) = answers
    assert answer.status == "needs_effect"
    assert b"its file was changed" in bytes(answer.output)


def test_a_result_that_does_not_fit_a_call_is_left_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(looking(effect="write"), "ask")
    request = world.requests("look", 1, effect="write")
    (same,) = (one for known in world.plan.recorded.answers.values() for one in known)
    monkeypatch.setattr(world.plan.files, "misfit", lambda *of: "a file has changed")
    with pytest.raises(MisuseError, match="a file has changed"):
        world.live._choose(request, same)
    assert world.plan.choose(same)


def test_the_clock_runs_while_a_person_is_asked() -> None:
    origin = Log()
    given = origin.add("client", SUPERVISOR, Ask("r", text_json("go")))
    world = World(origin, "ask")
    world.asks_for(world.requests("send", 1))
    world.live.schedule()
    world.idle.run()
    assert world.inputs == []  # its time has not come, since the person takes time
    assert world.clock.is_running
    world.clock.ms = given.at
    world.live.schedule()
    world.idle.run()
    assert world.inputs == [given.seq]


def test_the_clock_stands_while_a_recorded_answer_is_next_and_runs_while_a_port_works() -> None:
    world = World(looking(2))
    world.asks_for(world.requests("look", 1, effect="read"))
    running: list[bool] = []
    take = world.plan.take

    def watched(*args: Any, **more: Any) -> Any:
        running.append(more["is_working"])
        assert world.clock.is_running == more["is_working"]
        return take(*args, **more)

    world.plan.take = watched  # type: ignore[method-assign]  # the test's own
    world.idle.run()
    work = world.requests("find", 2, effect="read")
    world.asks_for(work)
    world.live.schedule()
    world.idle.run()
    assert running[0] is False
    assert running[-1] is True
    world.board.answer(work, Post("host", ToolReturned(2, 0)))
    world.live.schedule()
    world.idle.run()
    assert running[-1] is False


def test_a_cancelled_recording_lets_the_port_work() -> None:
    origin = Log()
    origin.returns(origin.calls("look", 1, effect="read"), status="cancelled")
    world = World(origin)
    world.asks_for(world.requests("look", 1, effect="read"))
    world.idle.run()
    assert (world.board.admitted, world.board.announced) == ([100], [None])
    assert world.board.said == []


@pytest.mark.parametrize("effect", ["write", "idempotent"])
def test_a_cancelled_recording_of_an_effect_asks_in_a_fork_that_asks(effect: Effect) -> None:
    origin = Log()
    origin.returns(origin.calls("send", 1, effect=effect), status="cancelled")
    world = World(origin, "ask")
    world.asks_for(world.requests("send", 1, effect=effect))
    world.idle.run()
    assert [*world.questions.asked] == [100]
    assert world.board.admitted == []
    world.questions.asked[100][2]()
    assert (world.board.admitted, world.board.announced) == ([100], [ToolStarted(1, 0)])


def test_the_start_of_a_write_that_waits_for_its_recorded_result_names_the_result() -> None:
    origin = Log()
    called = origin.calls("look", 1, effect="write")
    origin.add(TOOLS, called.sender, ToolStarted(1, 0), called.seq)
    result = origin.returns(called)
    world = World(origin)
    request = world.requests("look", 1, effect="write")
    start = world.live.admits(world.gate.start_of(request))
    assert start == Start(request, True, Post("host", ToolStarted(1, 0, result.seq)))
    world.live.start(request)
    world.idle.run()
    assert world.board.said == [f"100: ok {result.seq}"]


def test_abort_leaves_a_held_answer_withdraws_a_question_or_aborts_the_port() -> None:
    world = World(looking(), "ask")
    held = world.requests("look", 1, effect="read")
    asked, runs = world.requests("send", 2), world.requests("look", 3, effect="read")
    for request in (held, asked, runs):
        world.asks_for(request)
    assert [world.live.abort(one) for one in (held, asked, runs)] == [True, True, True]
    assert world.questions.withdrawn == [asked.seq, runs.seq]
    assert world.ports.aborted == [runs.seq]
    world.ports.has_started = False
    assert not world.live.abort(runs)


def test_an_answer_held_open_is_given_in_its_turn() -> None:
    world = World(looking())
    logged, without = world.requests("look", 1, effect="read"), world.requests("look", 9, effect="read")
    world.live.hold_open([logged, without])
    world.live.schedule()
    world.idle.run()
    assert world.board.said == ["100: ok 2"]


# --- timers and inputs ------------------------------------------------------------------------------


def test_a_timer_is_due_by_the_clock_of_the_fork(alarms: Alarms) -> None:
    world = World(Log())
    world.live.arm(3, 7, 1_000, 500)
    world.idle.run()
    assert world.board.said == []
    ((after_s, fire),) = alarms.set
    assert after_s == 1.5
    world.clock.ms = 1_499
    fire()
    world.idle.run()
    assert world.board.said == []
    ((again_s, fire),) = alarms.set
    assert again_s == 0.001
    world.clock.ms = 1_500
    fire()
    world.idle.run()
    assert world.board.said == ["timer 3 of 7"]
    assert alarms.set == []


def test_a_timer_that_is_due_before_the_next_recorded_answer_fires_at_its_own_time() -> None:
    world, times = World(looking()), list[int]()
    submit = world.board.submit

    def timed(sender: str, cause: int, posts: tuple[Post, ...]) -> None:
        times.append(world.clock.ms)
        submit(sender, cause, posts)

    world.board.submit = timed  # type: ignore[method-assign]  # the test's own
    world.asks_for(world.requests("look", 1, effect="read"))
    world.live.arm(3, 7, 100, 400)
    world.idle.run()
    assert world.board.said == ["timer 3 of 7", "100: ok 2"]
    assert times == [500]
    assert world.clock.ms > 500


def test_a_timer_that_is_forgotten_does_not_fire(alarms: Alarms) -> None:
    world = World(Log())
    world.live.arm(3, 7, 0, 500)
    world.idle.run()
    world.live.disarm(3)
    world.clock.ms = 500
    alarms.set[0][1]()
    world.idle.run()
    assert world.board.said == []


def test_an_input_of_the_client_is_posted_again_when_no_ask_runs(alarms: Alarms) -> None:
    origin = Log()
    given = origin.add("client", SUPERVISOR, Ask("r", text_json("go")))
    world = World(origin)
    world.is_asked = True
    world.live.schedule()
    world.idle.run()
    assert (world.inputs, alarms.set) == ([], [])
    world.is_asked = False
    world.live.schedule()
    world.idle.run()
    assert world.inputs == [given.seq]
    assert world.clock.ms == given.at


def test_to_schedule_twice_is_to_schedule_once() -> None:
    world = World(Log())
    world.live.schedule()
    world.live.schedule()
    assert len(world.idle.waiting) == 1
    world.idle.run()
    world.live.schedule()
    assert len(world.idle.waiting) == 1


# --- the end of the session at exactly that moment -----------------------------------------------------


@pytest.mark.parametrize("how", ["still", "gated", "failed"])
def test_a_recorded_answer_is_not_given_once_the_session_stands_still(how: str) -> None:
    """The end comes between the look-up of an answer and the moment at which no actor has a message."""
    world = World(looking())
    world.asks_for(world.requests("look", 1, effect="read"))
    assert world.idle.waiting
    world.board.is_still, world.board.is_gated = how == "still", how == "gated"
    world.board.error = ValueError("full") if how == "failed" else None
    world.idle.run()
    assert world.board.said == []
    if how == "gated":  # the disk has caught up, and the fork goes on
        world.board.is_gated = False
        world.live.schedule()
        world.idle.run()
        assert world.board.said == ["100: ok 2"]


def test_a_closed_playback_has_no_alarm_timer_or_input(alarms: Alarms) -> None:
    origin = Log()
    origin.add("client", SUPERVISOR, Ask("r", text_json("go")))
    world = World(origin)
    world.is_asked = True
    world.live.arm(1, 7, 0, 500)
    world.idle.run()
    ((_, late),) = alarms.set
    world.live.close()
    assert (alarms.set, alarms.cancelled) == ([], 1)
    world.clock.ms, world.is_asked = 9_000, False
    late()  # the alarm was on its way
    world.idle.run()
    assert (world.board.said, world.inputs, alarms.set) == ([], [], [])


def test_an_answer_that_a_port_gave_meanwhile_is_not_given_again() -> None:
    world = World(looking())
    request = world.requests("look", 1, effect="read")
    world.asks_for(request)
    world.board.answer(request, Post("host", ToolReturned(1, 0, "cancelled")))
    world.idle.run()
    assert world.board.said == ["100: cancelled 0"]


def test_a_board_has_the_clock_the_notes_and_the_look_up_of_its_fork() -> None:
    world = World(looking())
    board: Any = world.board
    assert board.time() == 0
    world.clock.ms = 7
    assert board.time() == 7
    assert (board.clock, board.on_posted, board.on_published) == (
        world.live,
        world.live.note,
        world.live.schedule,
    )
    assert (board.admits, board.keeps) == (world.live.admits, world.plan.holds)
    assert isinstance(world.requests("look", 1).body, CallTool)


def test_the_clock_runs_while_nothing_is_due_and_stands_at_what_is_done(alarms: Alarms) -> None:
    world = World(Log())
    world.live.arm(3, 7, 1_000, 500)
    world.live.arm(4, 7, 0, 0)
    world.idle.run()
    assert world.board.said == ["timer 4 of 7"]
    assert world.clock.is_running
    world.clock.ms = 9_000
    world.live._set_alarm(1_500)  # its time is over
    assert [after_s for after_s, _ in alarms.set] == [0.001]


def test_an_abort_has_the_held_answer_given_in_its_turn() -> None:
    world = World(looking())
    request = world.requests("look", 1, effect="read")
    world.live.hold_open([request])
    assert world.idle.waiting == []
    assert world.live.abort(request) is True
    world.idle.run()
    assert world.board.said == ["100: ok 2"]


class Real:
    """The monotonic clock of the process."""

    def __init__(self) -> None:
        self.ms = 5_000.0


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Real:
    made = Real()
    monkeypatch.setattr(playback, "monotonic_ms", lambda: made.ms)
    return made


def test_it_stands_until_it_runs(real: Real) -> None:
    clock = VirtualClock(100)
    real.ms += 50
    assert clock.now_ms() == 100
    clock.run(True)
    assert clock.now_ms() == 100
    real.ms += 7
    assert clock.now_ms() == 107


def test_it_keeps_its_time_when_it_stops_and_goes_on_from_there(real: Real) -> None:
    clock = VirtualClock(100)
    clock.run(True)
    real.ms += 7
    clock.run(False)
    real.ms += 1_000
    assert clock.now_ms() == 107
    clock.run(True)
    real.ms += 3
    assert clock.now_ms() == 110


def test_to_let_it_run_again_changes_nothing(real: Real) -> None:
    clock = VirtualClock(100)
    clock.run(True)
    real.ms += 7
    clock.run(True)
    real.ms += 7
    assert clock.now_ms() == 114
    clock.run(False)
    clock.run(False)
    assert clock.now_ms() == 114


def test_it_moves_forward_and_never_back(real: Real) -> None:
    clock = VirtualClock(100)
    clock.move_to(90)
    assert clock.now_ms() == 100
    clock.move_to(300)
    assert clock.now_ms() == 300
    clock.move_to(300)
    assert clock.now_ms() == 300


@pytest.mark.parametrize(("to", "found"), [(105, 110), (150, 150)])
def test_a_move_while_it_runs_counts_the_time_that_has_passed_once(real: Real, to: int, found: int) -> None:
    clock = VirtualClock(100)
    clock.run(True)
    real.ms += 10
    clock.move_to(to)
    assert clock.now_ms() == found
    real.ms += 10
    assert clock.now_ms() == found + 10


REQUEST = Event(7, 0, "host", "tools", 0, CallTool(1, 0, "look", "read", NULL))


class Told:
    """A port, or a playback, that notes its orders."""

    def __init__(self, name: str, heard: list[str], *, has_started: bool = True) -> None:
        self._name, self._heard, self._has_started = name, heard, has_started
        self.running: set[asyncio.Task[Any]] = set()

    def start(self, request: Event) -> None:
        self._heard.append(f"{self._name} starts {request.seq}")

    def abort(self, request: Event) -> bool:
        self._heard.append(f"{self._name} aborts {request.seq}")
        return self._has_started

    def detach(self) -> None:
        self._heard.append(f"{self._name} detaches")

    async def aclose(self) -> None:
        self._heard.append(f"{self._name} closes")


@pytest.mark.parametrize("has_started", [True, False])
def test_requests_go_to_the_playback_and_the_end_to_the_port(has_started: bool) -> None:
    heard: list[str] = []
    port = Told("port", heard)
    playback = Told("playback", heard, has_started=has_started)
    reusing = ReusingPort(port, cast("LivePlayback", playback))
    reusing.start(REQUEST)
    assert reusing.abort(REQUEST) is has_started
    reusing.detach()
    asyncio.run(reusing.aclose())
    assert reusing.running is port.running
    assert heard == ["playback starts 7", "playback aborts 7", "port detaches", "port closes"]
