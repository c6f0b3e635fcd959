"""The playback of a fork: what happens to a request, and what comes next, in the order of the recording."""

from collections.abc import Sequence
from typing import Any

import pytest

from callboard.actors.protocol.bundles import Allowed, Bundle
from callboard.actors.protocol.client_messages import Ask, SessionOpened, Tell
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.layers import SESSION, Layer
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage, Begin, Stop, TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    CheckSchema,
    ModelReplied,
    RequestApproval,
    SchemaChecked,
    SetTimer,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.shared_state import StateKey
from callboard.actors.protocol.usage import Need
from callboard.actors.protocol.uses import Use
from callboard.actors.protocol.value_types import Effects
from callboard.actors.session.copied_files import NO_COPY, CopyChoice
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
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recorded_answers import RecordedAnswers
from tests.tables import table

Posts = tuple[str, str, int, AnyMessage]
OPENED: Posts = ("client", "supervisor", 0, SessionOpened(2, "host", (), ModelSpec("m")))


def client(body: AnyMessage) -> Posts:
    return "client", "supervisor", 0, body


def tool(turn: int, effect: str = "read") -> Posts:
    body = CallTool(turn, 0, "look", effect, Json(b"{}"))  # type: ignore[arg-type]  # an effect
    return "host", "tools", 0, body


def returned(cause: int, turn: int, **more: object) -> Posts:
    return "tools", "host", cause, ToolReturned(turn, 0, **more)  # type: ignore[arg-type]  # its fields


STARTED: Posts = ("tools", "host", 2, ToolStarted(1, 0))
HELD: Posts = ("tools", "host", 2, ToolStarted(1, 0, reused=9))


def events(*posts: Posts, first: int = 1, every_ms: int = 10) -> list[Event]:
    return [Event(seq, every_ms * seq, *post) for seq, post in enumerate(posts, first)]


class Forked:
    """A fork at event 1 of a session: its playback and its gate. posts: of the fork itself."""

    def __init__(
        self,
        recorded: Sequence[Posts],
        posts: Sequence[Posts],
        effects: Effects = "recorded",
        copy: CopyChoice = NO_COPY,
    ) -> None:
        self.playback = Playback(RecordedAnswers(events(OPENED, *recorded), 1), effects, copy)
        self.gate = PortGate()
        self.events = events(OPENED, *posts)
        self.gate.on_events(self.events)
        self.playback.note(self.events)

    def admit(self, seq: int) -> object:
        return self.playback.admit(self.events[seq - 1], self.gate)

    def hold(self, *seqs: int) -> None:
        for seq in seqs:
            admitted = self.admit(seq)
            assert isinstance(admitted, Reuse)
            self.playback.hold(self.events[seq - 1], admitted.found)

    def take(self, now: int = 0, *, is_working: bool = False, is_asked: bool = True) -> tuple[Thing, ...]:
        is_due = self.playback.is_due(now, self.gate, is_working=is_working, is_asked=is_asked)
        things = self.playback.take(now, self.gate, is_working=is_working, is_asked=is_asked)
        assert is_due is bool(things)
        return things


# --- a request before its port acts -----------------------------------------------------


def test_a_recorded_answer_is_reused_once_and_a_read_without_one_works() -> None:
    fork = Forked([tool(1), returned(2, 1)], [tool(1), tool(2)])
    assert fork.playback.has_answer(fork.events[1], fork.gate)
    assert not fork.playback.has_answer(fork.events[2], fork.gate)
    assert isinstance(fork.admit(2), Reuse)
    assert fork.admit(2) == Work(fork.events[1]), "a request is looked up once"
    assert fork.admit(3) == Work(fork.events[2])


def test_a_request_with_its_answer_has_no_recorded_one_and_one_that_started_has() -> None:
    recorded = [tool(1), returned(2, 1), tool(2), returned(4, 2)]
    started: Posts = ("tools", "host", 4, ToolStarted(2, 0))
    fork = Forked(recorded, [tool(1), returned(2, 1), tool(2), started])
    assert [fork.playback.has_answer(fork.events[at], fork.gate) for at in (1, 3)] == [False, True]
    assert fork.admit(2) == Work(fork.events[1])
    assert isinstance(fork.admit(4), Reuse)


@table(("value", "is_reused"), [(b"1", True), (b"2", False)])
def test_a_result_is_reused_where_the_fork_has_the_state_that_its_tool_read(
    value: bytes, is_reused: bool
) -> None:
    opened, other = (
        client(SessionOpened(2, "host", (), ModelSpec("m"), state=(StateKey("n", "replace", Json(one)),)))
        for one in (b"1", value)
    )
    recorded = events(opened, tool(1), returned(2, 1, state_read=("n",)))
    playback, gate, own = Playback(RecordedAnswers(recorded, 1)), PortGate(), events(other, tool(1))
    gate.on_events(own)
    playback.note(own)
    assert playback.has_answer(own[1], gate) is is_reused
    assert isinstance(playback.admit(own[1], gate), Reuse) is is_reused


def test_the_files_of_a_result_decide_in_its_turn_whether_a_copy_gets_it() -> None:
    first, second = FileVersion("a", "1", 1), FileVersion("a", "2", 1)
    content = Json(b'{"digest":"1","base":""}')
    recorded = [tool(1, "write"), returned(2, 1, files=(first,), contents=(content,))]
    for copy, own, is_given in (
        (NO_COPY, [], True),
        (CopyChoice(True, False), [], True),
        (CopyChoice(True, False), [tool(9, "write"), returned(3, 9, files=(second,))], False),
    ):
        fork = Forked(recorded, [tool(1, "write"), *own], copy=copy)
        fork.hold(2)
        (thing,) = fork.take()
        assert isinstance(thing, Give) is is_given
        if isinstance(thing, Give):
            assert thing.answer.body == ToolReturned(1, 0, reused=3, files=(first,), contents=(content,))
        else:
            assert thing == Missed(fork.events[1])
            assert isinstance(fork.playback.unfound(fork.events[1], fork.gate), Refused)
    earlier = [tool(8, "write"), returned(2, 8, files=(first,), contents=(content,))]
    fork = Forked([*earlier, tool(1, "write"), returned(4, 1, files=(first,))], [tool(1, "write")])
    fork.hold(2)
    (thing,) = fork.take()
    assert isinstance(thing, Give)
    assert thing.answer.body == ToolReturned(1, 0, reused=5, files=(first,), contents=(content,))


@pytest.mark.parametrize("effect", ["write", "idempotent"])
def test_an_effect_without_a_recorded_result_runs_as_the_fork_was_asked_to(effect: str) -> None:
    recorded = [tool(7, effect), returned(2, 7)]
    fork = Forked(recorded, [tool(1, effect)])
    refused = fork.admit(2)
    assert isinstance(refused, Refused)
    words = text_json("Not run: look has an effect, and this fork has no recorded result for the call.")
    assert (refused.answer.recipient, refused.answer.body) == (
        "host",
        ToolReturned(1, 0, "needs_effect", words, same=3),
    )
    asked = Forked(recorded, [tool(1, effect)], "ask").admit(2)
    assert isinstance(asked, Asked)
    assert asked.same is not None
    assert asked.same.seq == 3
    chooser = Forked(recorded, [tool(1, effect)], "ask").playback
    assert [(chooser.is_left(asked.same), chooser.choose(asked.same)) for _ in range(2)] == [
        (True, True),
        (False, False),
    ]
    assert Forked([], [tool(1, effect)], "ask").admit(2) == Asked(None)
    live = Forked(recorded, [tool(1, effect)], "live")
    assert live.admit(2) == Work(live.events[1])


def test_once_an_effect_has_run_no_read_is_reused_and_writes_still_are() -> None:
    recorded = [tool(2), returned(2, 2), tool(3, "write"), returned(4, 3)]
    fork = Forked(recorded, [tool(1, "write"), tool(2), tool(3, "write")], "live")
    fork.admit(2)
    assert not fork.playback.has_answer(fork.events[2], fork.gate)
    assert fork.playback.has_answer(fork.events[3], fork.gate)
    assert fork.admit(3) == Work(fork.events[2])
    assert isinstance(fork.admit(4), Reuse)
    check: Posts = ("supervisor", "schema", 0, CheckSchema(3, "accept", NULL, NULL, 5))
    question: Posts = ("host", "approvals", 0, RequestApproval(5, 0, "look", "read", Json(b"{}")))
    answers: list[Posts] = [
        ("schema", "supervisor", 2, SchemaChecked(3, "ok")),
        ("approvals", "host", 3, ApprovalGiven(5, 0, "denied")),
    ]
    others = Forked([check, question, *answers], [check, question, tool(1, "write")], "live")
    others.admit(4)
    assert all(isinstance(others.admit(seq), Reuse) for seq in (2, 3)), "they read nothing"


def test_an_approval_goes_on_only_where_the_call_has_a_recorded_result() -> None:
    question: Posts = ("host", "approvals", 0, RequestApproval(1, 0, "look", "write", Json(b"{}")))
    approved: Posts = ("approvals", "host", 2, ApprovalGiven(1, 0, "approved"))
    refused: Posts = ("approvals", "host", 2, ApprovalGiven(1, 0, "denied"))
    result = [tool(1, "write"), returned(4, 1)]
    whole, cut = Forked([question, approved, *result], [question]), Forked([question, approved], [question])
    assert [fork.playback.has_answer(fork.events[1], fork.gate) for fork in (whole, cut)] == [True, False]
    assert isinstance(whole.admit(2), Reuse)
    assert isinstance(cut.admit(2), Work)
    assert isinstance(Forked([question, refused], [question]).admit(2), Reuse)


@pytest.mark.parametrize(("write", "is_reused"), [((".",), True), (("b",), False), ((), False)])
def test_a_result_is_reused_only_if_the_fork_may_use_all_that_it_used(
    write: tuple[str, ...], is_reused: bool
) -> None:
    layers = (Layer(SESSION, Bundle(do=Allowed(write=write)).own),)
    begin: Posts = (
        "supervisor", "host", 0, Begin(NULL, NULL, ModelSpec("m"), Limits(), permissions=layers),
    )  # fmt: skip
    used = returned(3, 1, uses=(Use("write", "a"),))
    fork = Forked([begin, tool(1), used], [begin, tool(1)])
    assert isinstance(fork.admit(3), Reuse) is is_reused


@pytest.mark.parametrize("profile", ["cook", "waiter"])
def test_an_answer_by_permission_is_given_where_the_fork_has_the_permission(profile: str) -> None:
    def question(turn: int, who: str) -> Posts:
        return "host", "approvals", 0, RequestApproval(turn, 0, "look", "write", Json(b"{}"), profile=who)

    def approved(cause: int, turn: int, **more: Any) -> Posts:
        return "approvals", "host", cause, ApprovalGiven(turn, 0, "approved", **more)

    first = [question(1, profile), approved(2, 1, is_always=True), tool(1, "write"), returned(4, 1)]
    second = [approved(6, 2, permission=3), tool(2, "write"), returned(8, 2)]
    recorded = [*first, question(2, "cook"), *second]
    fork = Forked(recorded, [*first, question(2, "cook")])
    fork.hold(6)
    (thing,) = fork.take(1_000)
    if profile == "cook":
        assert isinstance(thing, Give)
        assert thing.answer.body == ApprovalGiven(2, 0, "approved", permission=3)
    else:
        assert thing == Missed(fork.events[5])
        stopped = Forked(recorded, [*first, question(2, "cook")])
        stopped.hold(6)
        stopped.gate.on_events([Event(7, 0, "supervisor", "host", 0, Stop("cancelled"))])
        (thing,) = stopped.take(1_000)
        assert isinstance(thing, Give)
        assert thing.answer.body == ApprovalGiven(2, 0, "cancelled"), "no permission is needed to stop"


def test_an_answer_by_permission_comes_alone_and_the_answers_before_it_together() -> None:
    question: Posts = ("host", "approvals", 0, RequestApproval(3, 0, "look", "write", Json(b"{}")))
    permitted: Posts = ("approvals", "host", 4, ApprovalGiven(3, 0, "denied", permission=9))
    calls = [tool(1), tool(2), question]
    fork = Forked([*calls, returned(2, 1), returned(3, 2), permitted], calls)
    fork.hold(2, 3, 4)
    assert [[type(one) for one in fork.take()] for _ in range(3)] == [[Give, Give], [Missed], []]


def test_a_step_does_not_come_with_the_answers_before_it() -> None:
    replied: Posts = ("model", "host", 4, ModelReplied(1, 1, "ok", Json(b"[]")))
    fork = Forked([*step(1), tool(2), tool(3), returned(5, 2), returned(6, 3), replied], [])
    own = events(OPENED, *step(1), tool(2), tool(3))
    fork.events = own
    fork.gate.on_events(own[1:])
    fork.playback.note(own[1:])
    assert not fork.playback.has_answer(own[3], fork.gate), "the program runs"
    fork.hold(4, 5, 6)
    assert [[one.request.seq for one in fork.take() if isinstance(one, Give)] for _ in range(2)] == [
        [5, 6],
        [],
    ]
    assert len(fork.playback.held) == 1


# --- what comes next --------------------------------------------------------------------


def test_answers_come_in_the_order_of_the_recording_and_those_that_came_together_together() -> None:
    calls = [tool(1), tool(2), tool(3)]
    beside: Posts = client(Tell("t", "x", "Hm."))
    fork = Forked([*calls, returned(3, 2), returned(2, 1), beside, returned(4, 3)], calls)
    fork.playback.inputs.clear()
    fork.hold(4, 2, 3)
    assert all(fork.playback.holds(fork.events[seq - 1]) for seq in (2, 3, 4))
    first = fork.take()
    assert [(one.request.seq, one.at) for one in first if isinstance(one, Give)] == [(3, 50), (2, 60)]
    assert not fork.playback.holds(fork.events[1])
    assert [one.request.seq for one in fork.take() if isinstance(one, Give)] == [4]
    assert fork.take() == ()


def test_answers_come_together_as_long_as_they_stand_one_behind_the_other() -> None:
    calls = [tool(turn) for turn in (1, 2, 3, 4)]
    beside: Posts = client(Tell("t", "x", "Hm."))
    answers = [returned(2, 1), returned(3, 2), returned(4, 3), beside, returned(5, 4)]
    fork = Forked([*calls, *answers], calls)
    fork.playback.inputs.clear()
    fork.hold(2, 3, 4, 5)
    assert [[one.request.seq for one in fork.take() if isinstance(one, Give)] for _ in range(3)] == [
        [2, 3, 4],
        [5],
        [],
    ]


def test_a_timer_that_passes_parts_answers_that_came_together() -> None:
    calls = [tool(1), tool(2), tool(3)]
    fork = Forked([*calls, returned(2, 1), returned(3, 2), returned(4, 3)], calls)
    fork.hold(2, 3, 4)
    fork.playback.arm(1, 9, 65)
    first, then, last = (fork.take() for _ in range(3))
    given = [[one.answer.body for one in things if isinstance(one, Give)] for things in (first, last)]
    assert given == [[ToolReturned(turn, 0, reused=turn + 4) for turn in turns] for turns in ((1, 2), (3,))]
    assert then == (Fire(1, 9, 65),)
    assert fork.take(is_working=True) == ()


def test_while_a_port_works_an_input_waits_for_its_time_and_an_answer_does_not() -> None:
    fork = Forked([client(Ask("r", NULL)), tool(1), returned(3, 1)], [tool(1)])
    assert fork.playback.asks_left() == 1
    assert fork.take(19, is_working=True, is_asked=False) == ()
    assert fork.playback.next_due(is_asked=False) == 20
    fork.hold(2)
    (given,) = fork.take(0, is_working=True, is_asked=False)
    assert isinstance(given, Repost)
    assert (given.at, given.given.seq, fork.playback.asks_left()) == (20, 2, 0)
    (answer,) = fork.take(0, is_working=True)
    assert isinstance(answer, Give)
    late = Forked([client(Ask("r", NULL))], [])
    assert len(late.take(20, is_working=True, is_asked=False)) == 1
    assert len(Forked([client(Ask("r", NULL))], []).take(0, is_asked=False)) == 1, "nothing works"


def test_an_input_that_came_while_no_ask_ran_waits_for_the_end_of_the_ask() -> None:
    fork = Forked([client(Ask("r", NULL)), client(Tell("t", "host", "Hm."))], [])
    assert fork.take(is_asked=True) == ()
    assert fork.playback.next_due(is_asked=True) is None
    assert [type(one) for one in fork.take(is_asked=False)] == [Repost]
    assert [type(one) for one in fork.take(is_asked=True)] == [Repost], "it came beside the ask"


def test_a_recorded_cancellation_is_given_only_where_the_request_is_cancelled_too() -> None:
    recorded = [tool(1), returned(2, 1, status="cancelled")]
    fork = Forked(recorded, [tool(1)])
    fork.hold(2)
    assert fork.take() == (Missed(fork.events[1]),)
    stopped = Forked(recorded, [tool(1)])
    stopped.hold(2)
    stopped.gate.on_events([Event(3, 0, "supervisor", "host", 0, Stop("cancelled"))])
    assert [type(one) for one in stopped.take()] == [Give]


def test_a_call_that_was_given_up_while_it_waited_does_not_run_if_its_result_does_not_fit() -> None:
    first, second = FileVersion("a", "1", 1), FileVersion("a", "2", 1)
    recorded = [tool(1, "write"), returned(2, 1, files=(first,))]
    own = [tool(1, "write"), tool(9, "write"), returned(3, 9, files=(second,))]
    fork = Forked(recorded, own, "live", CopyChoice(True, False))
    fork.hold(2)
    fork.gate.on_events([Event(5, 0, "supervisor", "host", 0, Stop("cancelled"))])
    assert fork.take() == (Missed(fork.events[1]),)
    refused = fork.playback.unfound(fork.events[1], fork.gate)
    assert refused == Refused(fork.gate.cancelled(fork.events[1]))
    assert not fork.playback.is_after_effect


def test_an_answer_is_dropped_if_its_request_has_one_already() -> None:
    fork = Forked([tool(1), tool(2), returned(2, 1), returned(3, 2)], [tool(1), tool(2)])
    fork.hold(2, 3)
    fork.gate.on_events([Event(4, 0, *returned(2, 1))])
    assert [one.request.seq for one in fork.take() if isinstance(one, Give)] == [3]


def step(turn: int) -> list[Posts]:
    begin = Begin(Json(b"{}"), NULL, ModelSpec("m", kind="program"), Limits(), NULL, 0, ())
    wish = TurnRequested(turn, 1, Need(), "d", ())
    return [("x", "host", 0, begin), ("host", "supervisor", 0, wish), ("x", "model", 0, CallModel("host", 3))]


def test_later_answers_inputs_and_timers_wait_for_a_step_that_has_not_replied() -> None:
    replied: Posts = ("model", "host", 4, ModelReplied(1, 1, "ok", Json(b"[]")))
    fired: Posts = ("clock", "supervisor", 0, TimerFired(1))
    later = [client(Tell("t", "host", "Hm.")), fired, returned(5, 2)]
    fork = Forked([*step(1), tool(2), replied, *later], [*step(1), tool(2)])
    fork.playback.arm(1, 2, 0)
    fork.hold(4, 5)
    assert not fork.playback.holds(fork.events[3]), "the program runs: only the place of its step is kept"
    assert fork.take(is_asked=False) == ()
    fork.gate.on_events([Event(6, 0, *replied)])
    assert [type(fork.take(is_asked=False)[0]) for _ in range(3)] == [Repost, Fire, Give]


def test_an_input_and_a_firing_before_a_step_that_has_not_replied_come_in_their_place() -> None:
    replied: Posts = ("model", "host", 4, ModelReplied(1, 1, "ok", Json(b"[]")))
    fired: Posts = ("clock", "supervisor", 0, TimerFired(1))
    fork = Forked([*step(1), client(Tell("t", "host", "Hm.")), fired, replied], [*step(1)])
    fork.playback.arm(1, 2, 0)
    fork.hold(4)
    assert [type(fork.take(is_asked=False)[0]) for _ in range(2)] == [Repost, Fire]


# --- timers -----------------------------------------------------------------------------


def test_a_timer_fires_in_its_recorded_place_and_never_before_it_is_due() -> None:
    timers: list[Posts] = [
        ("supervisor", "clock", 0, SetTimer(1, 5)),
        ("clock", "supervisor", 0, TimerFired(1)),
    ]
    fork = Forked([*timers, tool(1), returned(4, 1)], [tool(1)])
    fork.hold(2)
    fork.playback.arm(1, 9, 30)
    assert fork.playback.next_due(is_asked=True) == 30
    assert fork.take() == (Fire(1, 9, 30),)
    late = Forked([*timers, tool(1), returned(4, 1)], [tool(1)])
    late.hold(2)
    first = Forked([tool(1), returned(2, 1), *timers], [tool(1)])
    first.hold(2)
    first.playback.arm(1, 9, 50)
    assert [type(first.take(99)[0]) for _ in range(2)] == [Give, Fire], "it is not late"
    late.playback.arm(1, 9, 31)
    assert late.playback.next_due(is_asked=True) == 31
    assert late.take(30) == (Fire(1, 9, 31),), "the answer of 50 ms would pass it"
    assert [type(one) for one in late.take()] == [Give]


def test_of_timers_without_a_recorded_firing_the_first_that_is_due_fires() -> None:
    fork = Forked([], [])
    for timer, due in ((1, 40), (2, 30), (3, 50)):
        fork.playback.arm(timer, timer, due)
    fork.playback.disarm(2)
    assert fork.take(39) == ()
    assert fork.take(40) == (Fire(1, 1, 40),)
    fork.playback.stop()
    assert fork.take(99) == ()


def test_of_timers_that_have_passed_the_earliest_fires_first_and_none_after_a_stop() -> None:
    fork = Forked([client(Ask("r", NULL))], [])
    for timer, due in ((1, 40), (2, 30), (3, 50)):
        fork.playback.arm(timer, timer, due)
    assert fork.playback.next_due(is_asked=True) == 30
    assert fork.playback.next_due(is_asked=False) == 20
    assert fork.take(99) == (Fire(2, 2, 30),)
    assert fork.take(99) == (Fire(1, 1, 40),)
    fork.playback.stop()
    assert fork.playback.next_due(is_asked=False) is None
    assert fork.take(99, is_asked=False) == ()


# --- a later process --------------------------------------------------------------------


def test_a_later_process_knows_the_inputs_and_answers_that_were_given() -> None:
    asks = [client(Ask("r1", NULL)), client(Ask("r2", NULL))]
    recorded = [*asks, tool(1), returned(4, 1), tool(1), returned(6, 1)]
    fork = Forked(recorded, [])
    fork.playback.note_own(events(client(Tell("t", "host", "Hm.")), first=2))
    assert fork.playback.asks_left() == 2, "it is the fork's own"
    fork.playback.note_own(events(asks[0], returned(2, 1, reused=5), first=2))
    assert [one.body for one in fork.playback.inputs] == [asks[1][3]]
    (left,) = fork.playback.recorded.answers.values()
    assert [one.seq for one in left] == [7]
    fork.playback.note_own(events(asks[1], asks[0], first=4))
    assert fork.playback.inputs == []


@table(
    ("effects", "effect", "answers", "has_run"),
    [
        ("ask", "write", [returned(2, 1, status="error")], False),  # a person said no
        ("ask", "idempotent", [returned(2, 1, status="error")], True),  # or has it run?
        ("recorded", "write", [returned(2, 1, status="cancelled")], False),
        ("recorded", "write", [returned(2, 1, status="needs_effect")], False),
        ("recorded", "write", [returned(2, 1, reused=9)], False),
        ("recorded", "write", [], False),
        ("recorded", "write", [HELD], False),
        ("recorded", "write", [HELD, STARTED], True),
        ("recorded", "write", [HELD, STARTED, returned(2, 1)], True),
        ("recorded", "idempotent", [STARTED], True),
        ("recorded", "write", [STARTED], True),
        ("recorded", "write", [STARTED, returned(2, 1)], True),
        ("recorded", "write", [STARTED, returned(2, 1, status="cancelled")], False),
        ("recorded", "write", [STARTED, returned(2, 1, reused=9)], False),
        ("recorded", "read", [returned(2, 1)], False),
        ("recorded", "idempotent", [], False),
        ("live", "idempotent", [], True),
        ("live", "write", [], False),
    ],
)
def test_a_later_process_knows_whether_an_effect_may_have_run(
    effects: Effects, effect: str, answers: list[Posts], has_run: bool
) -> None:
    fork = Forked([], [], effects)
    own = events(tool(1, effect), *answers, first=2)
    fork.playback.note(own[:1])
    fork.playback.note_own(own)
    assert fork.playback.is_after_effect is has_run


def test_an_open_call_with_a_recorded_result_has_no_effect_in_a_later_process() -> None:
    call = tool(1, "idempotent")
    fork = Forked([call, returned(2, 1)], [], "live")
    own = events(call, first=2)
    fork.playback.note(own)
    fork.playback.note_own(own)
    assert not fork.playback.is_after_effect
