from msgspec.structs import replace

from callboard import Agent, ModelRequest, call, calls, say, tool
from callboard.actors.protocol.client_messages import (
    Cancel,
    Resumed,
    RevokePermission,
    SessionClosed,
    Tell,
    TellEnded,
)
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage, CancelTask, TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    CancelTimer,
    ContextMade,
    MakeContext,
    ModelReplied,
    RequestApproval,
    SetTimer,
    TimerFired,
    ToolReturned,
)
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.descriptions import BAD_OUTCOMES
from callboard.replay.formats import duration
from callboard.replay.grouping import spans
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.scripted_replies import Reply
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.models.scripted import Step
from callboard.testing import Scenario
from tests.golden import golden
from tests.replay.diagnosis.kit import simulate
from tests.replay.logs import survey

EMPTY = Json(b"{}")


def test_each_turn_call_and_delegation_is_one_span_with_its_outcome() -> None:
    recording = Recording.open(MemoryReader(survey()), "one")
    found = [(span.kind, span.agent, span.name, span.outcome) for span in recording.spans()]
    assert found[0][:2] == ("ask", "client")
    assert found[0][3] == "answered"
    assert found.count(("turn", "host", "", "ok")) == 2
    assert ("delegation", "host", "counter", "answered") in found
    assert ("delegation", "host", "nobody", "denied") in found
    assert ("tool", "host.1", "count_files", "ok") in found


def test_the_attempts_of_a_turn_are_one_span() -> None:
    (turn,) = (span for span in spans(golden("flaky")) if span.kind == "turn")
    assert (turn.attempts, turn.outcome) == (2, "ok")
    assert turn.first.kind == "TurnRequested"
    assert turn.last.kind == "ModelReplied"
    assert isinstance(turn.body, ModelReplied)


def test_a_span_holds_no_result_of_a_tool() -> None:
    """The results of a log of 1 GB do not fit the memory."""
    found = [span for span in spans(golden("everything")) if span.kind == "tool" and span.outcome]
    assert {type(span.body) for span in found} == {CallTool}
    assert {span.last.kind for span in found} == {"ToolReturned"}
    assert not any(isinstance(one, Event) for span in found for one in vars(span).values())


def test_a_report_has_its_judgement() -> None:
    outcomes = [span.outcome for span in spans(golden("everything")) if span.kind == "report"]
    assert {"accepted", "invalid"} <= set(outcomes)


def test_a_span_that_has_not_ended_has_no_outcome() -> None:
    events = golden("everything")
    cut = next(place for place, event in enumerate(events) if event.kind == "CallTool")
    last = spans(events[: cut + 1])[-1]
    assert (last.kind, last.outcome, last.duration_ms) == ("tool", "", 0)


def test_the_spans_come_in_the_order_of_their_beginnings() -> None:
    seqs = [span.first.seq for span in spans(golden("everything"))]
    assert seqs == sorted(seqs)


def _log(*posts: tuple[str, str, AnyMessage]) -> list[Event]:
    return [Event(seq, 1_000 * seq, *post[:2], seq - 1, post[2]) for seq, post in enumerate(posts, 1)]


def test_a_message_to_an_agent_says_when_it_was_read_and_what_had_begun() -> None:
    mail = CallTool(1, 0, "send_mail", "write", EMPTY)
    (_, tell, _) = spans(
        _log(
            ("host.1", "tools", mail),
            ("client", "supervisor", Tell("r", "host.1", "Wait!")),
            ("tools", "host.1", ToolReturned(1, 0, "ok", EMPTY)),
            ("supervisor", "client", TellEnded("r", "heard", 2)),
            ("host.1", "tools", CallTool(2, 0, "look", "read", EMPTY)),
        )
    )
    assert (tell.kind, tell.agent, tell.outcome) == ("tell", "host.1", "heard")
    assert tell.note == "read in turn 2, after send_mail had started"
    assert (tell.first.seq, tell.last.seq) == (2, 4)


def test_what_comes_from_outside_has_a_span() -> None:
    found = spans(
        _log(
            ("client", "supervisor", Cancel("by hand")),
            ("host", "supervisor", CancelTask(1, 0)),
            ("client", "supervisor", RevokePermission(3)),
            ("client", "supervisor", Resumed(2, limits=Limits(tokens=5))),
            ("supervisor", "context", MakeContext("host", 1, "kid", 2)),
            ("context", "supervisor", ContextMade("host", 1, "kid", "failed")),
            ("supervisor", "clock", SetTimer(1, 9)),
            ("clock", "supervisor", TimerFired(1)),
            ("supervisor", "clock", SetTimer(2, 9)),
            ("supervisor", "clock", CancelTimer(2)),
        )
    )
    assert [(one.kind, one.agent, one.name, one.outcome) for one in found] == [
        ("cancel", "client", "ask", "done"),
        ("cancel", "host", "task", "done"),
        ("change", "client", "permission", "done"),
        ("change", "client", "limits", "done"),
        ("context", "host", "kid", "failed"),
        ("timer", "supervisor", "", "done"),
    ]
    assert found[3].note == "resumed 1.0s after the event before; calls that were under way include that time"
    assert found[-1].note == "set by event 7, 1.0 s before"


def test_a_turn_notes_the_failures_before_its_reply_and_another_model() -> None:
    (turn,) = (span for span in spans(golden("flaky")) if span.kind == "turn")
    assert turn.note == "attempt 1: overloaded_error"
    assert not [span for span in spans(golden("flaky")) if span.kind == "timer"]
    wish = TurnRequested(1)
    (turn,) = spans(
        _log(("host", "supervisor", wish), ("model", "host", ModelReplied(1, content=EMPTY, model="small")))
    )
    assert turn.note == "answered by small"


def test_an_approval_notes_the_arguments_that_a_person_changed() -> None:
    asked = RequestApproval(1, 0, "pay", "write", Json(b'{"eur":4545}'))
    given = ApprovalGiven(1, 0, "approved", "too much", arguments=Json(b'{"eur":454}'))
    (approval,) = spans(_log(("host", "approvals", asked), ("approvals", "host", given)))
    assert approval.note == 'changed to {"eur":454}; too much'


def test_a_span_that_ended_badly_says_why() -> None:
    found = spans(golden("everything"))
    told = {span.kind: span.failure for span in found if span.failure}
    assert {"tool", "delegation", "report"} <= set(told)
    assert all(span.outcome in BAD_OUTCOMES for span in found if span.failure)
    recording = Recording.open(MemoryReader(survey()), "one")
    (denied,) = (span for span in recording.spans() if span.outcome == "denied")
    assert denied.reason == "there is no agent 'nobody' to delegate to; there are: counter"


def test_a_clock_that_was_set_back_gives_no_duration() -> None:
    events = [replace(event, at=1_000_000 - event.seq) for event in golden("flaky")]
    found = [span for span in spans(events) if span.last.seq > span.first.seq]
    assert found
    assert {duration(span.duration_ms) for span in found} == {"?"}


def test_attempts_that_failed_in_the_same_way_are_one_note() -> None:
    busy = Reply(failure=ModelFailure("overloaded", is_retryable=True))
    slow = Reply(failure=ModelFailure("timeout", is_retryable=True))
    recording = simulate({"host": [busy, busy, busy, slow, Reply("Done.")]})
    (turn,) = (span for span in recording.spans() if span.kind == "turn")
    assert turn.note == "attempts 1 to 3: overloaded; attempt 4: timeout"
    assert not turn.is_bad


def test_a_turn_whose_model_failed_is_bad_whatever_the_code() -> None:
    found = simulate({"host": [Reply(failure=ModelFailure("not_found_error"))]}).spans()
    assert {(span.kind, span.outcome): span.is_bad for span in found} == {
        ("ask", "model_error"): True,
        ("turn", "not_found_error"): True,
    }


# --- sessions that have ended ---------------------------------------------------------------


@tool(approval="before")
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
RACING = Agent("host", agents=[Agent("a", tools=[pay]), Agent("b")], background=True)


def racing(request: ModelRequest) -> Step:
    """Let two agents race, and one of them work in the background, too."""
    match request.profile, request.turn:
        case "host", 1:
            return call("task", agents=["a", "b"], prompt="Race.", output_schema=SCHEMA)
        case "host", 2:
            return call("task", agent="b", prompt="Go on.", background=True)
        case "a", 1:
            return calls(call("pay", cents=1), call("pay", cents=2))
        case "a" | "b", 2:
            return call("report_back", n=1)
        case _:
            return say("done")


def test_nothing_is_open_in_a_session_that_has_ended() -> None:
    stopped = 0
    for faults in (None, "all"):
        racers = Scenario(RACING, racing, "go", faults=faults, closes=True, approve=lambda *asked: True)
        for seed in range(20):
            events = racers.simulate(seed=seed).events
            if any(isinstance(event.body, SessionClosed) for event in events):
                found = spans(events)
                assert [span for span in found if not span.outcome] == []
                stopped += sum(span.outcome == "stopped" for span in found)
    assert stopped > 10
    assert not spans(golden("everything"))[0].is_bad


def test_a_turn_that_the_budget_refuses_has_the_ending_of_its_agent() -> None:
    host = Agent("host", limits=Limits(tokens=10))
    events = Scenario(host, lambda request: say("done"), "go").simulate().events
    assert [span.outcome for span in spans(events) if span.kind == "turn"] == ["budget"]
