"""The log records of events."""

import logging
import re
from pathlib import Path

from callboard.actors.protocol.client_messages import Ask, AskEnded, Forked, Resumed, TellEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import AnyMessage, DelegationEnded, Finished, Stop
from callboard.actors.protocol.port_messages import ApprovalGiven, ModelReplied, ToolReturned
from callboard.actors.protocol.telemetry import Telemetry
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import CallMetadata, ModelFailure
from callboard.runtime.log.telemetry import records
from callboard.runtime.log.telemetry.records import (
    Record,
    frames_of,
    record_of,
)
from tests.actors.harness import raw
from tests.runtime.telemetry.sessions import SECRET_WORDS, events_of_host

TRACE = """Traceback (most recent call last):
  File "tools/orders.py", line 12, in refund
    charge(order)
  File "tools/bank.py", line 3, in charge
    raise ValueError("Jane
ValueError: the patient is called Jane
  File "fake.py", line 1, in said_by_the_message"""


def of(body: AnyMessage, *, has_content: bool = False) -> Record | None:
    return record_of(Event(7, 70, "host.1", "host", 3, body), has_content=has_content)


def seen(body: AnyMessage) -> tuple[str, int, str]:
    found = of(body)
    assert found is not None
    return found.logger, found.level, found.text % found.arguments


def test_each_kind_of_event_that_needs_a_person_has_a_logger_and_a_level() -> None:
    warning, info = logging.WARNING, logging.INFO
    failure = ModelFailure("overloaded_error", SECRET_WORDS, is_retryable=True)
    told = CallMetadata("kid", "host", "error")
    cases: list[tuple[AnyMessage, str, int, str]] = [
        (AskEnded("a", "answered"), records.ASKS, info, "ask ended: answered"),
        (AskEnded("a", "budget"), records.ASKS, warning, "ask ended: budget"),
        (AskEnded("a", "cancelled"), records.ASKS, info, "ask ended: cancelled"),
        (DelegationEnded(1, 0, "denied"), records.DELEGATIONS, warning, "delegation ended: denied"),
        (DelegationEnded(1, 0, "deadline", metadata=told), records.DELEGATIONS, warning, "deadline (kid)"),
        (ModelReplied(1, 2, "error", failure=failure), records.MODELS, warning, "attempt 2, may be tried"),
        (ModelReplied(1, 1, "lost"), records.MODELS, info, "model call lost"),
        (ToolReturned(1, 0, "error", Json(b'"ValueError: x"'), TRACE), records.TOOLS, warning, "ValueError"),
        (ToolReturned(1, 0, "interrupted"), records.TOOLS, warning, "interrupted"),
        (Finished("budget"), records.REFUSALS, warning, "budget"),
        (Stop("budget"), records.REFUSALS, warning, "budget"),
        (ApprovalGiven(1, 0, "denied"), records.REFUSALS, info, "denied by a person"),
        (TellEnded("t", "refused"), records.REFUSALS, info, "refused"),
        (Resumed(2), records.SESSIONS, info, "resumed at event 7"),
        (Resumed(2, reopens=True), records.SESSIONS, info, "reopened"),
        (Forked("other", 4, "", Resumed(2)), records.SESSIONS, info, "forked from other at event 4"),
    ]
    for body, logger, level, words in cases:
        assert seen(body)[:2] == (logger, level), body
        assert words in seen(body)[2], seen(body)[2]
        assert logger in records.LOGGERS


def test_most_events_have_none() -> None:
    quiet: list[AnyMessage] = [
        Ask("a", NULL),
        DelegationEnded(1, 0, "answered"),
        DelegationEnded(1, 0, "lost_race"),
        ModelReplied(1),
        ModelReplied(1, status="cancelled"),
        ModelReplied(1, status="error", failure=ModelFailure("crashed")),  # a program: it has its own logger
        ToolReturned(1, 0),
        ToolReturned(1, 0, "cancelled"),
        Finished("answered"),
        Stop("deadline"),
        ApprovalGiven(1, 0, "approved"),
        TellEnded("t", "heard"),
    ]
    assert [of(body) for body in quiet] == [None] * len(quiet)


def test_a_tool_error_has_its_type_and_frames_and_its_words_only_if_they_are_asked_for() -> None:
    body = ToolReturned(1, 0, "error", Json(b'"ValueError: the patient is called Jane"'), TRACE)
    found, whole = of(body), of(body, has_content=True)
    assert found is not None
    assert whole is not None
    assert found.error == "ValueError"
    assert found.frames == ("tools/orders.py:12 in refund", "tools/bank.py:3 in charge")
    assert "Jane" not in repr(found)
    assert whole.detail == "ValueError: the patient is called Jane"


def test_no_words_of_a_message_are_taken_for_a_type_or_a_frame() -> None:
    assert frames_of(TRACE) == ("tools/orders.py:12 in refund", "tools/bank.py:3 in charge")
    chained = (
        f'{TRACE}\n\nDuring handling:\n\nTraceback (most recent call last):\n  File "x.py", line 1, in y'
    )
    assert frames_of(chained) == frames_of(TRACE)
    assert frames_of("...cut off by its length\nValueError: x") == ()
    assert frames_of("") == ()
    assert frames_of("Traceback (most recent call last):\n  File") == ()
    strange = of(ToolReturned(1, 0, "error", Json(b'"Jane Doe is ill"'), TRACE))
    assert strange is not None
    assert strange.error == "error"


def test_a_tool_that_states_a_code_is_known_by_it_and_a_trace_that_was_cut_by_its_output() -> None:
    coded = of(
        ToolReturned(1, 0, "error", Json(b'"Jane"'), telemetry=Telemetry(is_ok=False, code="no_stock"))
    )
    bare = of(ToolReturned(1, 0, "error", Json(b'[{"type":"text","text":"Jane"}]')))
    cut = of(ToolReturned(1, 0, "error", Json(b'"KeyError: Jane"'), trace="... in refund\nKeyError: Jane"))
    assert [one and one.error for one in (coded, bare, cut)] == ["no_stock", "error", "KeyError"]
    assert "Jane" not in repr((coded, bare, cut))


def test_no_record_of_a_whole_session_has_its_content() -> None:
    found = [record for event in events_of_host() if (record := record_of(event)) is not None]
    assert [one.logger for one in found] == [records.DELEGATIONS, records.TOOLS, records.ASKS]
    assert not re.search(f"{SECRET_WORDS}|Begin|three|nobody", repr(found))


def test_a_code_of_a_service_is_short_whatever_it_sends() -> None:
    failure = ModelFailure("x" * 100_000, "", is_retryable=False)
    found = of(ModelReplied(1, status="error", failure=failure))
    assert found is not None
    assert len(repr(found)) < 1_000
    assert "final" in found.arguments


LONG = "y" * 3_000
CUT = "y" * 2_000


def test_every_field_of_a_record_and_its_content_of_at_most_2000_characters() -> None:
    warning, info = logging.WARNING, logging.INFO
    spent = Usage(10, 5, micro_usd=2_500_000, calls=3)
    told = CallMetadata("kid", "host", "error")
    failure = ModelFailure("c" * 300, LONG)
    repeated = ModelFailure("busy", "", is_retryable=True)
    again = "model call %s: turn %d, attempt %d; the resume asks again"
    failed = "model call failed: %s in turn %d, attempt %d, %s"
    ask = "ask ended: %s; model calls %d, tokens %d, USD %.4f"
    above, sender = "host", "host.1"
    code = ("c" * 199) + "\N{HORIZONTAL ELLIPSIS}"
    cases: list[tuple[AnyMessage, Record | None]] = [
        (
            AskEnded("a", "budget", detail=LONG, usage=spent),
            Record(records.ASKS, warning, ask, ("budget", 3, 15, 2.5), "host", CUT, "budget"),
        ),
        (
            AskEnded("a", "answered", usage=spent),
            Record(records.ASKS, info, ask, ("answered", 3, 15, 2.5), "host"),
        ),
        (
            DelegationEnded(1, 0, "denied", detail=LONG, metadata=told),
            Record(
                records.DELEGATIONS,
                warning,
                "delegation ended: %s%s",
                ("denied", " (kid)"),
                above,
                CUT,
                "denied",
            ),
        ),
        (
            DelegationEnded(1, 0, "denied", "host.7"),
            Record(
                records.DELEGATIONS, warning, "delegation ended: %s%s", ("denied", ""), "host.7", "", "denied"
            ),
        ),
        (ModelReplied(1, 2, "lost"), Record(records.MODELS, info, again, ("lost", 1, 2), above, "", "lost")),
        (
            ModelReplied(1, 2, "error", failure=failure),
            Record(records.MODELS, warning, failed, (code, 1, 2, "final"), above, CUT, code),
        ),
        (
            ModelReplied(1, 2, "error", failure=repeated),
            Record(records.MODELS, warning, failed, ("busy", 1, 2, "may be tried again"), above, "", "busy"),
        ),
        (ModelReplied(1, 2, "ok", failure=failure), None),
        (ModelReplied(1, 2, "error"), None),
        (
            Finished("budget", detail=LONG),
            Record(records.REFUSALS, warning, "refused by a budget: %s", (sender,), sender, CUT, "budget"),
        ),
        (
            Stop("budget"),
            Record(records.REFUSALS, warning, "refused by a budget: %s", (above,), above, "", "budget"),
        ),
        (
            ApprovalGiven(1, 2, "denied", note=LONG),
            Record(
                records.REFUSALS,
                info,
                "call denied by a person: turn %d, call %d",
                (1, 2),
                above,
                CUT,
                "denied",
            ),
        ),
        (
            TellEnded("t", "refused", detail=LONG),
            Record(records.REFUSALS, info, "message to a running agent refused", (), sender, CUT, "refused"),
        ),
        (Resumed(2), Record(records.SESSIONS, info, "session %s at event %d", ("resumed", 7), sender)),
        (
            Forked("other", 4, "", Resumed(2)),
            Record(records.SESSIONS, info, "session forked from %s at event %d", ("other", 4), sender),
        ),
    ]
    for body, expected in cases:
        assert of(body, has_content=True) == expected, body
        assert of(body) == (None if expected is None else expected._replace(detail="")), body


def test_a_tool_has_the_name_of_its_failure_its_last_frames_and_a_part_of_its_words() -> None:
    deep = "".join(f'  File "x.py", line {at}, in f\n' for at in range(1, 26))
    raised = ToolReturned(
        1, 2, "error", raw(f"a.b.Broken: {LONG}"), f"Traceback (most recent call last):\n{deep}"
    )
    frames = tuple(f"x.py:{at} in f" for at in range(6, 26))
    text = "tool failed: %s in turn %d, call %d%s"
    said = ("a.b.Broken", 1, 2, " at x.py:25 in f")
    words = f"a.b.Broken: {LONG}"[:2_000]
    found = Record(records.TOOLS, logging.WARNING, text, said, "host", words, "a.b.Broken", frames)
    assert of(raised, has_content=True) == found
    cut = ToolReturned(1, 2, "interrupted", raw("never read"), telemetry=Telemetry(is_ok=False))
    said = ("interrupted", 1, 2, "")
    found = Record(records.TOOLS, logging.WARNING, text, said, "host", "", "interrupted")
    assert of(cut, has_content=True) == found
    assert frames_of("Traceback of another kind\n" + deep) == ()


def test_every_logger_of_the_code_is_listed() -> None:
    root = Path(records.__file__).resolve().parents[2]
    found = {
        name
        for path in root.rglob("*.py")
        for name in re.findall(r'getLogger\("(callboard\..*?)"', path.read_text())
    }
    assert found - {*records.LOGGERS} <= {*records.OWN_LOGGERS}
    assert {*records.OWN_LOGGERS} <= found | {"callboard.models", "callboard.tools"}
    own = {value for name, value in vars(records).items() if name.isupper() and isinstance(value, str)}
    assert own == {*records.LOGGERS}
