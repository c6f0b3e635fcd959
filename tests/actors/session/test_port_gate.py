"""The gate between the log and the ports: which requests start, are refused, or are given up."""

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Forked, Resumed, RevokePermission, SessionOpened
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.file_area import FileArea
from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage, Begin, Finished, Stop, Stopped, TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    CancelCall,
    CancelTimer,
    CapacityGiven,
    CheckSchema,
    ExtendTimer,
    ModelReplied,
    RequestApproval,
    RequestCapacity,
    SchemaChecked,
    SetTimer,
    TimerFired,
    ToolReturned,
    ToolStarted,
    ToolStatus,
)
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.shared_state import StateKey, StateUpdate
from callboard.actors.protocol.usage import ZERO, Need, Usage
from callboard.actors.protocol.uses import Use
from callboard.actors.protocol.value_types import CacheRequest
from callboard.actors.session.file_history import history_of
from callboard.actors.session.file_labels import FileLabels
from callboard.actors.session.port_actions import Abort, Action, Arm, Disarm, GiveBack, Refuse, Start
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.port_table import NEVER_STARTED, PORT_REQUESTS, interrupted, owner_of
from callboard.actors.session.shared_state import folded
from tests.tables import table

BEGIN = Begin(Json(b"{}"), text_json("go"), ModelSpec("m"), Limits())


class Counter(PortGate):
    """A gate that numbers its events."""

    def __init__(self, *, is_strict: bool = False) -> None:
        super().__init__(is_strict)
        self.events: list[Event] = []

    def post(self, sender: str, recipient: str, body: AnyMessage, cause: int = 0) -> tuple[Action, ...]:
        event = Event(len(self.events) + 1, 1_000, sender, recipient, cause, body)
        self.events.append(event)
        return tuple(self.on_events((event,)))

    def grant(self, agent: str) -> tuple[Action, ...]:
        self.post(agent, "supervisor", TurnRequested(1, 1, Need(5), "d"))
        return self.post("supervisor", "model", CallModel(agent, self.last.seq))

    def use(self, agent: str, effect: Effect = "read", call: int = 0) -> tuple[Action, ...]:
        return self.post(agent, "tools", CallTool(1, call, "look", effect, Json(b"{}"), "c1"))

    def stop(self, agent: str) -> tuple[Action, ...]:
        return self.post("supervisor", agent, Stop("cancelled"))

    @property
    def last(self) -> Event:
        return self.events[-1]


def test_a_granted_call_may_start_without_waiting_for_the_disk() -> None:
    gate = Counter()
    assert gate.grant("host") == (Start(gate.last),)
    assert gate.may_answer(gate.last.seq)


@pytest.mark.parametrize("effect", ["read", "idempotent", "write"])
def test_the_effect_of_a_tool_decides_when_it_may_start(effect: Effect) -> None:
    gate = Counter()
    (start,) = gate.use("host", effect)
    announced = Post("host", ToolStarted(1, 0))
    assert start == Start(gate.last, effect != "read", announced if effect == "write" else None)


@pytest.mark.parametrize(
    ("effect", "may_have_run"), [("read", False), ("idempotent", True), ("write", False)]
)
def test_a_call_that_may_have_run_before_is_not_said_never_to_have_started(
    effect: Effect, may_have_run: bool
) -> None:
    """Take `cancelled` for a repeated write: recovery answers one that had started."""
    gate = Counter()
    gate.use("host", effect)
    request = gate.last
    assert gate.without_false_claim(request, gate.cancelled(request)) == gate.cancelled(request), (
        "posted here, by this process"
    )
    assert gate.repeat(request) == gate.start_of(request)
    known = gate.without_false_claim(request, gate.cancelled(request))
    assert known == (interrupted(request, (1, 0)) if may_have_run else gate.cancelled(request))
    done = Post("host", ToolReturned(1, 0, "ok", text_json("x")))
    assert gate.without_false_claim(request, done) == done


def test_an_answer_is_let_in_once() -> None:
    gate = Counter()
    gate.use("host")
    gate.post("tools", "host", ToolReturned(1, 0, "ok", text_json("x")), cause=1)
    assert not gate.may_answer(1)
    assert gate.open == {}
    gate.post("tools", "host", ToolReturned(1, 0, "ok", text_json("y")), cause=1)
    assert not gate.may_answer(1)


def test_a_second_answer_is_refused_also_before_the_event_of_the_first() -> None:
    gate = Counter()
    gate.use("host")
    first, second = (Post("host", ToolReturned(1, 0, "ok", text_json(said))) for said in "xy")
    assert gate.take_answer(1, first) == first
    assert not gate.may_answer(1)
    assert not gate.may_start(gate.last)
    assert gate.take_answer(1, second) is None
    assert gate.take_answer(7, second) is None, "there is no such request"


def test_a_permission_is_kept_with_the_answer_that_gave_it_until_it_is_revoked() -> None:
    gate = Counter()
    question = RequestApproval(1, 0, "pay", "write", Json(b"{}"), profile="host")
    gate.post("host", "approvals", question)
    gate.post("approvals", "host", ApprovalGiven(1, 0, "approved", is_always=True), cause=1)
    held = gate.permissions.covering(question)
    assert held is not None
    assert (held.seq, gate.open) == (2, {})
    gate.post("client", "supervisor", RevokePermission(2))
    assert gate.permissions.covering(question) is None


def cached(gate: Counter, seq: int) -> int:
    """Return the seq of the result that answers the open call of this seq without its tool, or 0."""
    found = gate.cached_result(gate.events[seq - 1], 1_000)
    return found.seq if found else 0


@pytest.mark.parametrize("between", ["nothing", "an effect", "an open effect"])
def test_a_result_is_given_again_unless_an_effect_came_between(between: str) -> None:
    gate = Counter()
    look = CallTool(1, 0, "look", "read", Json(b"{}"), cache=CacheRequest("k", ttl_ms=9))
    gate.use("other")
    assert gate.cached_result(gate.last, 1_000) is None
    gate = Counter()
    gate.post("host", "tools", look)
    gate.post("tools", "host", ToolReturned(1, 0, "ok", text_json("x")), cause=1)
    if between != "nothing":
        gate.use("host", "write", call=1)
    if between == "an effect":
        gate.post("tools", "host", ToolReturned(1, 1, "ok"), cause=3)
    gate.post("host", "tools", replace(look, call=2))
    assert cached(gate, gate.last.seq) == (2 if between == "nothing" else 0)
    assert gate.cached_result(gate.last, 1_009) is None
    gate.grant("host")
    assert gate.cached_result(gate.last, 1_000) is None


def test_an_effect_that_was_open_at_the_first_call_of_such_a_tool_counts() -> None:
    gate = Counter()
    gate.use("host", "write", call=1)
    look = CallTool(1, 0, "look", "read", Json(b"{}"), cache=CacheRequest("k"))
    gate.post("host", "tools", look)
    gate.post("tools", "host", ToolReturned(1, 0, "ok", text_json("x")), cause=2)
    gate.post("host", "tools", replace(look, call=2))
    assert cached(gate, 4) == 0
    gate.post("tools", "host", ToolReturned(1, 1, "ok"), cause=1)
    assert cached(gate, 4) == 0, "the first look may have been before its effect"


@table("is_fork", [True, False])
@table(
    ("effect", "answer", "is_marked"),
    [
        ("read", ToolReturned(1, 0), True),
        ("read", ToolReturned(1, 0, "error"), True),
        ("read", ToolReturned(1, 0, "cancelled"), False),
        ("read", ToolReturned(1, 0, "interrupted"), False),
        ("read", ToolReturned(1, 0, reused=7), False),
        ("idempotent", ToolReturned(1, 0), False),
        ("write", ToolReturned(1, 0), False),
    ],
)
def test_a_fork_marks_the_results_of_read_tools_that_ran_in_it(
    effect: Effect, answer: ToolReturned, is_marked: bool, is_fork: bool
) -> None:
    gate = Counter()
    if is_fork:
        gate.post("client", "supervisor", Forked("s", 1, "", Resumed(2)))
    gate.post("supervisor", "host", BEGIN)
    gate.use("host", effect)
    taken = gate.take_answer(gate.last.seq, Post("host", answer))
    assert taken == Post("host", replace(answer, after_origin=is_marked and is_fork))


def test_that_a_tool_has_started_is_no_answer() -> None:
    gate = Counter()
    gate.use("host", "write")
    assert gate.post("tools", "host", ToolStarted(1, 0), cause=1) == ()
    assert gate.may_answer(1)


def test_once_a_stop_is_posted_nothing_starts_for_that_agent() -> None:
    gate = Counter()
    gate.stop("host.1")
    assert gate.grant("host.1") == (
        Refuse(gate.last, Post("host.1", ModelReplied(1, 1, "cancelled", usage=ZERO))),
    )
    assert gate.use("host.1", "write") == (
        Refuse(gate.last, Post("host.1", ToolReturned(1, 0, "cancelled", NEVER_STARTED))),
    )
    assert gate.grant("host.10") == (Start(gate.last),), "nobody else is stopped"


def test_a_refused_request_is_answered_and_then_closed() -> None:
    gate = Counter()
    gate.stop("host.1")
    (refused,) = gate.grant("host.1")
    assert isinstance(refused, Refuse)
    seq = refused.request.seq
    assert gate.may_answer(seq)
    gate.post(refused.request.recipient, refused.answer.recipient, refused.answer.body, cause=seq)
    assert not gate.may_answer(seq)


def test_a_stop_aborts_the_open_requests_of_its_agent_in_the_order_of_the_log() -> None:
    gate = Counter()
    gate.use("host.1", "write")
    first = gate.last
    gate.grant("host")
    gate.use("host.1", "read", 1)
    answered = gate.last.seq
    gate.use("host.1", "read", 2)
    last = gate.last
    gate.post("tools", "host.1", ToolReturned(1, 1, "ok", text_json("x")), cause=answered)
    assert gate.stop("host.1") == (Abort(first), Abort(last))
    assert gate.stop("host.2") == ()


def test_begin_is_a_new_life() -> None:
    gate = Counter()
    gate.stop("host")
    gate.post("supervisor", "host", BEGIN)
    assert gate.grant("host") == (Start(gate.last),)


def test_a_drained_agent_is_forgotten() -> None:
    gate = Counter()
    gate.stop("host.1")
    gate.post("host.1", "supervisor", Stopped())
    assert gate._stopped == set()


def test_nothing_starts_for_an_agent_that_drained_without_a_stop_until_it_begins_again() -> None:
    gate = Counter()
    gate.post("host", "supervisor", TurnRequested(1, 1, Need(5), "d"))
    wish = gate.last.seq
    gate.post("host", "supervisor", Stopped())  # its decider has failed twice
    refused = gate.post("supervisor", "model", CallModel("host", wish))
    assert refused == (Refuse(gate.last, gate.cancelled(gate.last)),)
    gate.post("supervisor", "host", BEGIN)
    assert gate.grant("host") == (Start(gate.last),)


def test_schema_checks_belong_to_the_supervisor_and_outlive_every_stop() -> None:
    gate = Counter()
    check = CheckSchema(1, "report", Json(b"{}"), Json(b"1"))
    assert gate.post("supervisor", "schema", check) == (Start(gate.last),)
    assert gate.stop("host") == ()
    assert gate.may_answer(1)
    gate.post("schema", "supervisor", SchemaChecked(1, "ok"), cause=1)
    assert not gate.may_answer(1)


def test_a_timer_is_due_so_long_after_it_was_posted() -> None:
    gate = Counter()
    assert gate.post("supervisor", "clock", SetTimer(7, 500)) == (Arm(7, 1_000, 500, 1),)
    assert gate.post("supervisor", "clock", CancelTimer(7)) == (Disarm(7),)
    assert gate.post("clock", "supervisor", TimerFired(8)) == (Disarm(8),)


def test_other_messages_mean_nothing_to_ports() -> None:
    gate = Counter()
    assert gate.post("host", "supervisor", Finished("answered")) == ()


def test_an_answer_without_a_request_is_nothing() -> None:
    gate = Counter()
    assert gate.post("model", "host", ModelReplied(1, 1, "ok"), cause=99) == ()
    assert not gate.may_answer(99)


def test_a_request_is_made_for_an_agent_or_for_the_supervisor() -> None:
    gate = Counter()
    gate.grant("host.1")
    gate.use("host.2")
    gate.post("supervisor", "schema", CheckSchema(1, "accept", Json(b"{}")))
    requests = [event for event in gate.events if event.recipient != "supervisor"]
    assert [owner_of(event) for event in requests] == ["host.1", "host.2", "supervisor"]


def test_a_cancelled_call_used_nothing() -> None:
    gate = Counter()
    gate.grant("host")
    answer = gate.cancelled(gate.last).body
    assert isinstance(answer, ModelReplied)
    assert answer.usage == ZERO


def test_nothing_is_kept_of_a_request_that_is_over() -> None:
    gate = Counter()
    for number in range(50):
        agent = f"host.{number}"
        gate.use(agent)
        gate.post("tools", agent, ToolReturned(1, 0, "ok", text_json("x")), cause=len(gate.events))
        gate.grant(agent)
        gate.post("model", agent, ModelReplied(1, 1, "ok"), cause=len(gate.events))
    assert (gate.open, gate._of, gate._stopped) == ({}, {}, set())
    assert gate._wanted == {}


@pytest.mark.parametrize("effect", ["idempotent", "write"])
def test_a_call_that_was_interrupted_and_is_made_again_is_never_said_not_to_have_started(
    effect: Effect,
) -> None:
    """Keep `interrupted`: the first attempt may have had its effect, even if the second is cancelled."""
    gate = Counter()
    gate.use("host", effect)
    cut = interrupted(gate.last, (1, 0))
    gate.post("tools", "host", cut.body, cause=gate.last.seq)
    gate.use("host", effect)
    again = gate.last
    assert gate.without_false_claim(again, gate.cancelled(again)) == interrupted(again, (1, 0))
    gate.post("tools", "host", interrupted(again, (1, 0)).body, cause=again.seq)
    gate.stop("host")
    (refused,) = gate.use("host", effect)
    assert isinstance(refused, Refuse)
    assert refused.answer == interrupted(gate.last, (1, 0))
    (other,) = gate.use("host", effect, call=1)
    assert isinstance(other, Refuse)
    assert other.answer == gate.cancelled(gate.last)


# --- places among the calls of all sessions -----------------------------------------


def placed(gate: Counter, status: str = "given") -> tuple[Action, ...]:
    """Request a place for the host, and answer."""
    gate.post("supervisor", "capacity", RequestCapacity("host", 1, 1, "m", Need(5)))
    return answered(gate, gate.last.seq, status)


def answered(gate: Counter, request: int, status: str = "given") -> tuple[Action, ...]:
    body = CapacityGiven("host", 1, 1, status)  # type: ignore[arg-type]  # a status
    return gate.post("capacity", "supervisor", body, request)


def test_a_place_is_given_back_when_the_call_has_its_answer() -> None:
    gate = Counter()
    assert placed(gate) == ()
    assert gate.places == {"host"}
    gate.grant("host")
    replied = ModelReplied(1, 1, usage=Usage(3))
    assert gate.post("model", "host", replied, gate.last.seq) == (GiveBack("host", Usage(3)),)
    assert gate.places == set()
    assert gate.post("model", "host", replied, 0) == ()


def test_a_place_of_an_agent_that_is_stopped_before_its_call_is_given_back_at_the_stop() -> None:
    gate = Counter()
    placed(gate)
    assert gate.stop("host") == (GiveBack("host", ZERO),)
    assert gate.places == set()


def test_a_place_outlives_the_stop_of_an_agent_whose_call_is_in_flight() -> None:
    gate = Counter()
    placed(gate)
    gate.grant("host")
    call = gate.last
    assert gate.stop("host") == (Abort(call),)
    cut = ModelReplied(1, 1, "cancelled")
    assert gate.post("model", "host", cut, call.seq) == (GiveBack("host", None),)


def test_a_request_of_an_agent_that_is_stopped_is_given_up_and_a_late_place_is_none() -> None:
    gate = Counter()
    gate.post("supervisor", "capacity", RequestCapacity("host", 1, 1, "m", Need(5)))
    request = gate.last
    assert gate.stop("host") == (Abort(request),)
    assert gate.cancelled(request) == Post("supervisor", CapacityGiven("host", 1, 1, "cancelled"))
    gate.post("host", "supervisor", Stopped())
    assert answered(gate, request.seq) == ()
    assert gate.places == set()


def test_a_request_of_an_agent_that_has_drained_is_unwanted_also_in_the_agents_next_life() -> None:
    """Drain an agent before the answer to its request. The supervisor waits for that answer."""
    gate = Counter()
    gate.post("supervisor", "capacity", RequestCapacity("host", 1, 1, "m", Need(5)))
    request = gate.last
    gate.stop("host")
    for sender, recipient, body in (("host", "supervisor", Stopped()), ("supervisor", "host", BEGIN)):
        gate.post(sender, recipient, body)
        assert not gate.is_wanted(request.seq)
        assert not gate.may_start(request)
    assert gate.may_answer(request.seq)


def test_a_cancelled_request_gives_no_place() -> None:
    gate = Counter()
    placed(gate, "cancelled")
    assert gate.places == set()


def test_a_call_that_is_given_up_is_aborted_once_and_does_not_start() -> None:
    gate = Counter()
    (start,) = gate.use("host", "write")
    gate.use("host", call=1)
    assert isinstance(start, Start)
    assert gate.may_start(start.request)
    assert gate.post("host", "tools", CancelCall(1, 0)) == (Abort(start.request),)
    assert not gate.may_start(start.request)
    assert not gate.is_wanted(start.request.seq)
    assert gate.is_wanted(2)
    assert gate.post("host", "tools", CancelCall(1, 0)) == ()
    assert gate.may_answer(start.request.seq)


def test_a_cancel_that_crosses_the_answer_or_names_no_call_does_nothing() -> None:
    gate = Counter()
    gate.use("host")
    gate.use("host.1")
    gate.post("tools", "host", ToolReturned(1, 0), cause=1)
    assert gate.post("host", "tools", CancelCall(1, 0)) == ()
    assert gate.post("host.1", "tools", CancelCall(2, 0)) == ()
    assert gate.is_wanted(2)


@pytest.mark.parametrize(("until", "left"), [(5_000, 4_000), (1_000, 0), (7, 0)])
def test_a_timer_for_a_moment_has_the_rest_of_the_time(until: int, left: int) -> None:
    gate = Counter()
    assert gate.post("supervisor", "clock", SetTimer(1, until=until)) == (Arm(1, 1_000, left, 1),)


def test_the_times_that_resumes_leave_out_add_up() -> None:
    gate = Counter()
    for body in (Resumed(2, left_out_ms=5), Resumed(2), Forked("s", 1, "", Resumed(2, left_out_ms=7))):
        gate.post("client", "supervisor", body)
    assert gate.left_out_ms == 12


def test_a_person_is_asked_once_the_log_has_the_question_and_it_is_no_request_for_a_turn() -> None:
    gate = Counter()
    asked = RequestApproval(1, 0, "look", "write", Json(b"{}"))
    assert gate.post("host", "approvals", asked) == (Start(gate.last, True),)
    with pytest.raises(KeyError):
        gate.wish_of(gate.last)


def test_only_a_turn_that_its_agent_has_just_requested_is_granted() -> None:
    gate = Counter()
    with pytest.raises(Diverged, match="event 1 grants a turn that its agent did not request"):
        gate.post("supervisor", "model", CallModel("host", 1))
    gate = Counter()
    gate.post("host", "supervisor", TurnRequested(1, 1, Need(5), "d"))
    gate.post("host", "supervisor", TurnRequested(1, 2, Need(5), "d"))
    with pytest.raises(Diverged, match="event 3"):
        gate.post("supervisor", "model", CallModel("host", 1))
    gate = Counter()
    gate.grant("host")
    with pytest.raises(Diverged):  # once
        gate.post("supervisor", "model", CallModel("host", 1))


def test_a_timer_is_moved_until_it_has_fired_or_is_disarmed() -> None:
    gate = Counter()
    armed = Arm(1, 1_000, 500, 1)
    assert gate.post("supervisor", "clock", SetTimer(1, 500)) == (armed,)
    assert gate.timers == {1: armed}
    moved = armed._replace(after_ms=800)
    assert gate.post("supervisor", "clock", ExtendTimer(1, 300)) == (moved,)
    assert gate.post("supervisor", "clock", ExtendTimer(2, 300)) == ()
    assert gate.timers == {1: moved}
    gate.post("clock", "supervisor", TimerFired(1))
    assert gate.timers == {}
    gate.post("clock", "supervisor", TimerFired(1))


# --- what the log says of a session -----------------------------------------------------

AREA = FileArea("files", labels=("start",), history=True)
OPENED = SessionOpened(
    2, "host", (), ModelSpec("m"), state=(StateKey("a", "replace", Json(b"1")),), files=AREA
)
SAVED = ToolReturned(
    1,
    0,
    state_update=(StateUpdate("a", Json(b"2")),),
    uses=(Use("write", "notes", "d1", ("secret",)),),
    files=(FileVersion("notes", "d1", 1),),
)


def test_the_gate_has_the_state_and_the_files_as_of_the_log_and_a_call_those_of_its_request() -> None:
    gate, labels = Counter(), FileLabels()
    gate.post("client", "supervisor", OPENED)
    gate.use("host", "write")
    early = gate.last
    gate.use("host.1", "write")
    gate.post("tools", "host", SAVED, cause=early.seq)
    gate.post("tools", "host", SAVED, cause=99)  # without a request: no call is known that wrote a file
    gate.use("host", "write", 1)
    late = gate.last
    gate.post("tools", "host.1", ToolReturned(1, 0, "interrupted"), cause=3)
    more = Resumed(2, state=(StateKey("b", "append", Json(b"[]")),), files=replace(AREA, labels=("mail",)))
    gate.post("client", "supervisor", more)
    assert gate.shared == folded(gate.events)
    assert gate.state_for(late).json_of("a") == Json(b"2")
    with pytest.raises(KeyError):
        gate.state_for(early)
    kept = history_of(gate.events)
    assert (gate.history.versions, gate.history.gaps) == (kept.versions, kept.gaps)
    assert gate.history.is_kept
    labels.declare(gate.events[0])
    labels.take(early.body, SAVED)
    labels.take(gate.events[2].body, ToolReturned(1, 0, "interrupted"))
    labels.declare(gate.last)
    for path, digest in (("notes", "d1"), ("notes", "d2"), ("other", "")):
        assert gate.files.labels_of(path, digest) == labels.labels_of(path, digest)


@table("effect", ["read", "idempotent", "write"])
@table("status", ["ok", "error", "interrupted", "input_required", "cancelled"])
def test_only_a_call_that_may_have_acted_and_goes_on_is_never_said_not_to_have_started(
    effect: Effect, status: ToolStatus
) -> None:
    gate = Counter()
    gate.use("host", effect)
    gate.post("tools", "host", ToolReturned(1, 0, status), cause=1)
    gate.use("host", effect)
    again = gate.last
    may = status == "interrupted" or (status == "input_required" and effect != "read")
    taken = gate.take_answer(again.seq, gate.cancelled(again))
    assert taken == (interrupted(again, (1, 0)) if may else gate.cancelled(again))


def test_a_request_that_is_refused_is_never_wanted_and_an_unknown_one_is_no_ones() -> None:
    for body in (Stop("cancelled"), Stopped()):
        gate = Counter()
        gate.post("host", "supervisor", TurnRequested(1, 1, Need(5), "d"))
        wish = gate.last
        sender, recipient = ("supervisor", "host") if isinstance(body, Stop) else ("host", "supervisor")
        gate.post(sender, recipient, body)
        gate.post("supervisor", "model", CallModel("host", wish.seq))
        refused = gate.last
        assert not gate.is_wanted(refused.seq)
        assert gate.wish_of(refused) == wish.body
        gate.post("model", "host", ModelReplied(1, 1, "cancelled"), cause=refused.seq)
        assert gate.is_wanted(refused.seq)
        assert not gate.may_start(refused)


def test_what_the_supervisor_asks_for_itself_is_never_cancelled_and_stays_open_for_the_next_process() -> None:
    gate = Counter()
    gate.post("supervisor", "schema", CheckSchema(1, "report", Json(b"{}"), Json(b"1")))
    check = gate.last
    with pytest.raises(TypeError, match="a CheckSchema is never cancelled"):
        gate.cancelled(check)
    assert gate.detached(check) is None
    assert gate.start_of(check) == gate.repeat(check) == Start(check)
    assert gate.cached_result(check, 1_000) is None
    gate.grant("host")
    left = gate.detached(gate.last)
    assert left == _model_detached(gate.last)
    assert left is not None
    assert left.recipient == "host"


def _model_detached(request: Event) -> Post:
    build = PORT_REQUESTS[CallModel].detached
    assert build is not None
    return build(request, (1, 1))


def test_with_strict_spending_only_model_calls_wait_for_the_disk() -> None:
    gate = Counter(is_strict=True)
    assert gate.grant("host") == (Start(gate.last, True),)
    assert PortGate().on_events(gate.events) == [Start(gate.last)]
    gate.use("host", "read")
    assert not gate.start_of(gate.last).waits
    gate.post("supervisor", "schema", CheckSchema(1, "report", Json(b"{}"), Json(b"1")))
    assert gate.start_of(gate.last) == Start(gate.last)


def test_answers_without_their_request_and_of_other_kinds_give_nothing_back() -> None:
    gate = Counter()
    assert answered(gate, 77) == ()
    placed(gate)
    gate.use("host")
    gate.grant("other")
    grant = gate.last
    assert gate.post("tools", "host", ToolReturned(1, 0), cause=3) == ()
    assert gate.post("model", "other", ModelReplied(1, 1), cause=grant.seq) == ()
    assert gate.places == {"host"}
    gate.post("approvals", "host", ApprovalGiven(1, 0, "approved", is_always=True), cause=99)
    gate.use("host")
    gate.post("approvals", "host", ApprovalGiven(1, 0, "approved", is_always=True), cause=gate.last.seq)
    assert gate.permissions.covering(RequestApproval(1, 0, "look", "read", Json(b"{}"))) is None
    look = CallTool(1, 0, "look", "read", Json(b"{}"), cache=CacheRequest("k"))
    gate.post("host", "tools", look)
    gate.post("tools", "host", ToolReturned(1, 0), cause=99)
    assert gate.cached_result(gate.events[-2], 1_000) is None


def test_a_call_of_a_tool_is_given_up_beside_a_model_call_and_no_model_call_is() -> None:
    gate = Counter()
    gate.grant("host")
    gate.use("host", "write")
    tool = gate.last
    assert gate.post("host", "tools", CancelCall(1, 0)) == (Abort(tool),)


def test_a_fork_marks_no_answer_of_a_model_and_no_approval() -> None:
    gate = Counter()
    gate.post("client", "supervisor", Forked("s", 1, "", Resumed(2)))
    gate.grant("host")
    reply = Post("host", ModelReplied(1, 1, "ok"))
    assert gate.take_answer(gate.last.seq, reply) == reply
    gate.post("host", "approvals", RequestApproval(1, 0, "look", "read", Json(b"{}")))
    given = Post("host", ApprovalGiven(1, 0, "approved"))
    assert gate.take_answer(gate.last.seq, given) == given
