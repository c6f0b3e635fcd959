"""The measurements of spans."""

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import Usage
from callboard.runtime.log.telemetry import metrics
from callboard.runtime.log.telemetry.metrics import INSTRUMENTS, Instrument, Labels, measured
from callboard.runtime.log.telemetry.spans import Operation, Span
from tests.runtime.telemetry.sessions import USED, spans_of_host
from tests.tables import table


def sums() -> Counter[tuple[Instrument, Labels]]:
    found: Counter[tuple[Instrument, Labels]] = Counter()
    for span in spans_of_host():
        for one in measured(span):
            assert one.instrument in INSTRUMENTS
            assert len(one.labels) == len(one.instrument.labels)
            if one.instrument.kind == "counter":
                found[one.instrument, one.labels] += one.amount  # type: ignore[assignment]  # a Counter of floats
    return found


def test_the_counters_of_a_session_are_what_happened_in_it() -> None:
    found = sums()
    assert found[metrics.ASKS, ("host", "answered")] == 1
    assert found[metrics.DELEGATIONS, ("kid", "answered")] == 1
    assert found[metrics.DELEGATIONS, ("nobody", "denied")] == 1
    assert sum(n for (one, _), n in found.items() if one is metrics.DELEGATIONS) == 5
    assert found[metrics.TOOL_CALLS, ("add", "ok")] == 1
    assert found[metrics.TOOL_CALLS, ("boom", "error")] == 1
    calls = found[metrics.ATTEMPTS, ("scripted", "")]
    assert calls == 8
    assert found[metrics.TOKENS_USED, ("scripted", "cache_read")] == calls * USED.cache_read_tokens
    assert found[metrics.TOKENS_USED, ("scripted", "output")] == calls * USED.output_tokens
    assert found[metrics.COST, ("scripted",)] == pytest.approx(calls * 0.00018)


def test_the_tokens_of_a_call_are_told_as_the_conventions_say() -> None:
    told = [one for span in spans_of_host() for one in measured(span) if one.instrument is metrics.TOKEN_USE]
    kinds = Counter(one.labels[-1] for one in told)
    assert kinds["input"] == kinds["output"] == 8
    cached = USED.cache_read_tokens + USED.cache_write_tokens
    assert {one.amount for one in told if one.labels[-1] == "input"} == {USED.input_tokens + cached}


def made(operation: Operation, **more: Any) -> Span:
    """Build a span of 2.5 seconds, each of whose figures is another one."""
    begun, ended = (Event(seq, 0, "a", "b", 0, ToolReturned(1, 1, "error")) for seq in (4, 9))
    fields = {"name": "n", "agent": "host.1", "wait_ms": 1_500, "error": "busy", **more}
    return Span(operation=operation, trace=2, parent=3, begun=begun, ended=ended, end_ms=2_500, **fields)


TOLD = ("chat", "gcp.gemini", "m-1")
USAGE: list[tuple[Instrument, Labels, float]] = [
    (metrics.TOKEN_USE, (*TOLD, "input"), 21),
    (metrics.TOKEN_USE, (*TOLD, "output"), 5),
    (metrics.TOKENS_USED, ("n", "input"), 3),
    (metrics.TOKENS_USED, ("n", "output"), 5),
    (metrics.TOKENS_USED, ("n", "cache_read"), 7),
    (metrics.TOKENS_USED, ("n", "cache_write"), 11),
    (metrics.TOKENS_USED, ("n", "reserved"), 13),
    (metrics.COST, ("n",), 17.0),
]
CALL: list[tuple[Instrument, Labels, float]] = [
    (metrics.ATTEMPTS, ("n", "busy"), 1),
    (metrics.QUEUE_TIME, ("n",), 1.5),
    (metrics.MODEL_TIME, (*TOLD, "busy"), 2.5),
]
ASKED_MODEL = ModelSpec("m", origin=Origin("a", "google", model="m-1"))


@table(
    ("span", "expected"),
    [
        (
            made("invoke_workflow", ending="answered"),
            [(metrics.ASKS, ("n", "answered"), 1), (metrics.ASK_TIME, ("n",), 2.5)],
        ),
        (made("invoke_agent", ending="denied"), [(metrics.DELEGATIONS, ("n", "denied"), 1)]),
        (made("invoke_agent", status="failed"), [(metrics.DELEGATIONS, ("n", "failed"), 1)]),
        (made("invoke_agent", agent="host"), []),
        (made("execute_tool"), [(metrics.TOOL_CALLS, ("n", "error"), 1), (metrics.TOOL_TIME, ("n",), 2.5)]),
        (made("chat", model=ASKED_MODEL, charge=Usage(3)), CALL),
        (made("chat", model=ASKED_MODEL, charge=Usage(3, 5, 7, 11, 13, 17_000_000, 1)), [*CALL, *USAGE]),
        (
            made("chat", model=ModelSpec("m", origin=Origin("a"))),
            [*CALL[:2], (metrics.MODEL_TIME, ("chat", "a", "n", "busy"), 2.5)],
        ),
    ],
)
def test_a_span_has_these_measurements_and_no_other(span: Span, expected: list[object]) -> None:
    assert [tuple(one) for one in measured(span)] == expected


def test_the_buckets_are_those_of_the_conventions() -> None:
    assert (metrics.CALL_SECONDS[:2], metrics.CALL_SECONDS[-1]) == ((0.01, 0.02), 81.92)
    assert (metrics.TOKENS[:2], metrics.TOKENS[-1], len(metrics.TOKENS)) == ((1.0, 4.0), 67_108_864.0, 14)
    assert len(metrics.CALL_SECONDS) == 14
    assert len(metrics.SECONDS) == 15


def test_an_operation_without_an_end_is_not_counted() -> None:
    assert list(measured(replace(spans_of_host()[-1], ended=None))) == []


def test_names_for_prometheus_follow_the_rules_of_opentelemetry() -> None:
    assert metrics.ASKS.prometheus == "callboard_asks_total"
    assert metrics.ASK_TIME.prometheus == "callboard_ask_duration_seconds"
    assert metrics.LOG_SIZE.prometheus == "callboard_log_size_bytes"
    assert metrics.COST.prometheus == "callboard_cost_USD_total"
    assert metrics.OPEN_CALLS.prometheus == "callboard_open_calls"
    seconds = Instrument("wait.seconds", "histogram", "s", "", bounds=(1.0,))
    assert seconds.prometheus == "wait_seconds"
    assert len({one.prometheus for one in INSTRUMENTS}) == len(INSTRUMENTS)


def test_only_histograms_have_bounds_and_they_rise() -> None:
    for one in INSTRUMENTS:
        assert bool(one.bounds) == (one.kind == "histogram")
        assert list(one.bounds) == sorted(set(one.bounds))


def test_the_instruments_are_those_that_dashboards_know() -> None:
    call = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
    seconds, call_seconds, tokens = (0.005, 1_800.0, 15), (0.01, 81.92, 14), (1.0, 67_108_864.0, 14)
    assert [one for one in vars(metrics).values() if isinstance(one, Instrument)] == [*INSTRUMENTS]
    found = {one.prometheus: (one.unit, one.labels, ends(one.bounds)) for one in INSTRUMENTS}
    assert found == {
        "callboard_asks_total": ("{ask}", ("agent", "ending"), ()),
        "callboard_ask_duration_seconds": ("s", ("agent",), seconds),
        "callboard_delegations_total": ("{delegation}", ("agent", "ending"), ()),
        "callboard_model_attempts_total": ("{call}", ("model", "error"), ()),
        "gen_ai_client_operation_duration_seconds": ("s", (*call, "error.type"), call_seconds),
        "gen_ai_client_token_usage": ("{token}", (*call, "gen_ai.token.type"), tokens),
        "callboard_tokens_total": ("{token}", ("model", "type"), ()),
        "callboard_cost_USD_total": ("USD", ("model",), ()),
        "callboard_queue_duration_seconds": ("s", ("model",), seconds),
        "callboard_tool_calls_total": ("{call}", ("tool", "status"), ()),
        "callboard_tool_duration_seconds": ("s", ("tool",), seconds),
        "callboard_commit_duration_seconds": ("s", (), seconds),
        "callboard_sessions": ("{session}", ("state",), ()),
        "callboard_open_calls": ("{call}", ("port",), ()),
        "callboard_undurable_events": ("{event}", (), ()),
        "callboard_log_size_bytes": ("By", (), ()),
        "callboard_worker_sessions": ("{session}", (), ()),
        "callboard_worker_slots": ("{session}", (), ()),
        "callboard_worker_lease_left_seconds": ("s", (), ()),
        "callboard_worker_lost_leases_total": ("{lease}", (), ()),
        "callboard_telemetry_dropped_total": ("{item}", ("signal",), ()),
    }
    assert [one.name for one in INSTRUMENTS if one.kind == "gauge"] == [
        "callboard.sessions",
        "callboard.open.calls",
        "callboard.undurable.events",
        "callboard.log.size",
        "callboard.worker.sessions",
        "callboard.worker.slots",
        "callboard.worker.lease.left",
    ]
    assert all(one.about[0].isupper() for one in INSTRUMENTS)


def ends(bounds: tuple[float, ...]) -> tuple[object, ...]:
    return (bounds[0], pytest.approx(bounds[-1]), len(bounds)) if bounds else ()
