"""The spans that the ends of operations make."""

from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.port_messages import CallModel, CallTool, ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import ZERO, Need, Usage
from callboard.actors.protocol.value_types import ModelFailure, Settled
from callboard.runtime.log.telemetry.open_spans import Agent, Call, Chat, Root

TEXT = Json(b'"x"')
ROOT = Root(Event(2, 20, "client", "supervisor", 0, Ask("a", TEXT)), "host", ("t",))
MODEL = ModelSpec("m")
BEGIN = Event(3, 30, "supervisor", "host", 2, Begin(TEXT, TEXT, MODEL, Limits()))
AGENT = Agent(ROOT, BEGIN, Profile("host"), MODEL, 3, 2, is_implicit=False)
GRANT = Event(5, 50, "supervisor", "model", 4, CallModel("host", 4))


def chat(reply: ModelReplied | None) -> Chat:
    answer = None if reply is None else Event(6, 60, "model", "host", 5, reply)
    return Chat(GRANT, TurnRequested(1, need=Need(1_000)), 7, MODEL, (), answer)


def test_a_chat_ends_with_its_answer_and_has_the_charge_of_its_settlement() -> None:
    span = AGENT.settled(chat(ModelReplied(1)), Settled(Usage(output_tokens=9)), 99)
    assert (span.end_ms, span.status, span.error, span.wait_ms) == (60, "ok", "", 7)
    assert span.charge == Usage(output_tokens=9, calls=1)
    assert (span.trace, span.parent, span.seq, span.tags) == (2, 3, 5, ("t",))


def test_a_call_whose_use_is_unknown_is_charged_in_full_and_one_that_was_reused_nothing() -> None:
    lost = AGENT.settled(chat(ModelReplied(1, status="lost")), Settled(), 99)
    assert (lost.status, lost.error, lost.charge.charged_tokens) == ("failed", "lost", 1_000)
    reused = AGENT.settled(chat(ModelReplied(1, reused=4)), Settled(Usage(output_tokens=9)), 99)
    assert (reused.status, reused.charge) == ("ok", ZERO)


def test_a_failure_is_named_by_its_code_and_never_by_its_words() -> None:
    failed = ModelReplied(1, status="error", failure=ModelFailure("overloaded_error", "secret words"))
    span = AGENT.settled(chat(failed), Settled(), 99)
    assert (span.status, span.error) == ("failed", "overloaded_error")


def test_a_call_that_was_stopped_is_no_failure_and_one_without_an_answer_is_unfinished() -> None:
    stopped = AGENT.settled(chat(ModelReplied(1, status="cancelled")), Settled(), 99)
    assert (stopped.status, stopped.error) == ("cancelled", "")
    left = AGENT.settled(chat(None), None, 99)
    assert (left.status, left.end_ms, left.charge) == ("unfinished", 99, ZERO)


def test_a_tool_ends_as_its_answer_says_or_as_the_ask_that_ends_it() -> None:
    call = Call(Event(7, 70, "host", "tools", 6, CallTool(1, 0, "look", "read", TEXT)), AGENT)

    def ended(answer: ToolReturned) -> tuple[str, str]:
        span = call.ended(Event(8, 80, "tools", "host", 7, answer), 80, "ok", "")
        return span.status, span.error

    assert ended(ToolReturned(1, 0)) == ("ok", "")
    assert ended(ToolReturned(1, 0, "error")) == ("failed", "tool_error")
    assert ended(ToolReturned(1, 0, "interrupted")) == ("failed", "interrupted")
    assert ended(ToolReturned(1, 0, "cancelled")) == ("cancelled", "")
    span = call.ended(None, 90, "failed", "deadline")
    assert (span.status, span.error, span.end_ms) == ("failed", "deadline", 90)


def test_an_agent_and_an_ask_without_an_end_are_unfinished() -> None:
    assert AGENT.ended(None, 90, "unfinished", "").status == "unfinished"
    assert ROOT.span(None, 90).status == "unfinished"
    assert AGENT.ended(None, 90, "failed", "budget").error == "budget"
    assert AGENT.ended(None, 90, "cancelled", "lost_race").error == ""
