"""The spans that the ends of operations make."""

from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, DelegationEnded, TurnRequested
from callboard.actors.protocol.port_messages import CallModel, CallTool, ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolSpec
from callboard.actors.protocol.usage import ZERO, Need, Usage
from callboard.actors.protocol.value_types import ModelFailure, Settled
from callboard.runtime.log.telemetry.open_spans import Agent, Call, Chat, Root, racers
from callboard.runtime.log.telemetry.spans import Link, Span, SpanStatus

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


LINKS = (Link("resume", 2, 4),)
LINKED = replace(ROOT, links=LINKS)
PROFILE = Profile(
    "worker",
    description="works",
    tools=(ToolSpec("look", description="looks", input_schema=TEXT, effect="read"),),
)
WORKER = Agent(LINKED, BEGIN, PROFILE, MODEL, 3, 2, is_implicit=False)


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [("answered", "ok", ""), ("budget", "failed", "budget"), ("cancelled", "cancelled", "")],
)
def test_every_field_of_an_ask_and_of_a_delegation_that_never_began(
    kind: OutcomeKind, status: SpanStatus, error: str
) -> None:
    end = Event(9, 95, "supervisor", "client", 8, AskEnded("a", kind))
    same: dict[str, Any] = {"trace": 2, "tags": ("t",), "status": status, "error": error, "ending": kind}
    assert LINKED.span(end, 95) == Span(
        operation="invoke_workflow",
        parent=0,
        begun=LINKED.begun,
        ended=end,
        end_ms=95,
        name="host",
        agent="host",
        profile="host",
        links=LINKS,
        **same,
    )
    request = Event(6, 60, "host", "supervisor", 5, Ask("x", TEXT))
    ended = Event(8, 80, "supervisor", "host", 7, DelegationEnded(1, 0, kind, "host.4"))
    assert WORKER.refused(request, ended, "kid") == Span(
        operation="invoke_agent",
        parent=3,
        begun=request,
        ended=ended,
        end_ms=80,
        name="kid",
        agent="host.4",
        profile="kid",
        **same,
    )
    assert WORKER.ended(ended, 80, status, kind) == Span(
        operation="invoke_agent",
        parent=2,
        begun=BEGIN,
        ended=ended,
        end_ms=80,
        name="worker",
        agent="host",
        profile="worker",
        about="works",
        model=MODEL,
        **same,
    )


def test_every_field_of_an_open_ask_a_chat_and_a_tool_call() -> None:
    open_ask = LINKED.span(None, 90)
    assert (open_ask.ending, open_ask.error, open_ask.ended, open_ask.end_ms) == ("", "", None, 90)
    asked = replace(chat(ModelReplied(1)), links=LINKS)
    assert WORKER.settled(asked, Settled(Usage(3)), 99) == Span(
        operation="chat",
        trace=2,
        parent=3,
        begun=GRANT,
        ended=asked.reply,
        end_ms=60,
        name="m",
        agent="host",
        profile="worker",
        asked=asked.asked,
        model=MODEL,
        charge=Usage(3, calls=1),
        wait_ms=7,
        links=LINKS,
        tags=("t",),
    )
    for name, about in (("look", "looks"), ("other", "")):
        begun = Event(7, 70, "host.2", "tools", 6, CallTool(1, 0, name, "read", TEXT))
        end = Event(8, 80, "tools", "host.2", 7, ToolReturned(1, 0, "error"))
        assert Call(begun, WORKER).ended(end, 81, "ok", "") == Span(
            operation="execute_tool",
            trace=2,
            parent=3,
            begun=begun,
            ended=end,
            end_ms=81,
            name=name,
            agent="host.2",
            profile="worker",
            about=about,
            status="failed",
            error="tool_error",
            tags=("t",),
        )
    forms = Call(Event(7, 70, "host", "tools", 6, CallTool(1, 0, "look", "read", TEXT)), WORKER)
    for status, told in (("input_required", ("ok", "")), ("needs_effect", ("failed", "needs_effect"))):
        end = Event(8, 80, "tools", "host", 7, ToolReturned(1, 0, status))  # type: ignore[arg-type]  # a Literal
        span = forms.ended(end, 80, "unfinished", "x")
        assert (span.status, span.error) == told
    assert (WORKER.stop, WORKER.cut_off, WORKER.wanted, WORKER.chat) == ("", 0, None, None)


def test_the_agents_of_a_delegation_have_addresses_in_a_row() -> None:
    assert racers("host.2.7", 3) == ["host.2.7", "host.2.8", "host.2.9"]
    assert racers("", 3) == []
