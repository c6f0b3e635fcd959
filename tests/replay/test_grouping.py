from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallTool, ModelReplied
from callboard.replay.grouping import spans
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from tests.golden import golden
from tests.replay.logs import survey


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
