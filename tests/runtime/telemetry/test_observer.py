"""A runtime that is observed: its sessions are seen, and never delayed by those who look."""

import asyncio
import io
import json
import logging
import threading
from unittest.mock import patch

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from callboard import Agent, ModelRequest, OpenTelemetry, Reply, Runtime, ScriptedModel, say
from callboard.errors import MisuseError, SessionDetached, SessionFailed
from callboard.log import MemoryLog
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.telemetry import metrics, records
from callboard.runtime.log.telemetry import spans as names
from callboard.runtime.log.telemetry.metrics import Measured
from callboard.runtime.telemetry import log_writer, observer
from callboard.runtime.telemetry.observer import BYTES_MAX, Pipe, weight_of
from tests.runtime.log.slow_log import SlowLog
from tests.runtime.telemetry.sessions import HOST, SECRET_WORDS, model, run, spans_of_host
from tests.runtime.telemetry.test_log_writer import alone
from tests.waiting import until

QUICK = Agent("quick", model=ScriptedModel(lambda _: say("hi")))


class Ends:
    """A span processor that does as a test says. spans: the names that it got."""

    def __init__(self, do: object = None) -> None:
        self.spans: list[ReadableSpan] = []
        self.flushed = 0
        self._do = do

    def on_end(self, span: ReadableSpan) -> None:
        if callable(self._do):
            self._do()
        self.spans.append(span)

    def force_flush(self, timeout_millis: int = 0) -> bool:
        self.flushed += 1
        return True


def exported(log: MemoryLog, session: str) -> set[str]:
    """Return the ids of all spans of a recording, as an export has them."""
    out = io.BytesIO()
    Recording.open(MemoryReader(log), session).export("otlp", out)
    spans = json.loads(out.getvalue())["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return {f"{one['traceId']} {one['spanId']} {one['parentSpanId']}" for one in spans}


def seen(spans: list[ReadableSpan]) -> list[str]:
    found = []
    for one in spans:
        assert one.context is not None
        parent = f"{one.parent.span_id:016x}" if one.parent else ""
        found.append(f"{one.context.trace_id:032x} {one.context.span_id:016x} {parent}")
    return found


def test_a_live_runtime_and_an_export_give_the_same_spans() -> None:
    log, ends = MemoryLog(), Ends()

    async def body(runtime: Runtime) -> None:
        await runtime.run(HOST, "Begin.", session_id="one")
        await runtime.run(QUICK, "Begin.", session_id="two")

    run(body, log, telemetry=OpenTelemetry(ends))
    assert len(ends.spans) == len(set(seen(ends.spans)))
    assert set(seen(ends.spans)) == exported(log, "one") | exported(log, "two")
    assert ends.flushed == 1


def test_a_session_that_goes_on_elsewhere_ends_its_open_spans_there_and_no_span_is_sent_twice() -> None:
    log, first, second = MemoryLog(), Ends(), Ends()

    async def never(request: ModelRequest) -> Reply:
        await asyncio.sleep(60)
        return say("too late")

    async def main() -> None:
        stuck = ScriptedModel(never, name="m")
        quick = ScriptedModel([say("x")], name="m")
        async with Runtime(log, telemetry=OpenTelemetry(first)) as runtime:
            session = await runtime.open(Agent("host", model=stuck), session_id="one")
            asked = asyncio.create_task(session.ask("Begin."))
            await until(lambda: any(session._open_requests()))
            await session.detach(0)
            with pytest.raises(SessionDetached):
                await asked
        async with Runtime(log, telemetry=OpenTelemetry(second)) as runtime:
            session = await runtime.resume("one", Agent("host", model=quick))
            assert (await session.outcome).text == "x"

    asyncio.run(main())
    together = seen(first.spans) + seen(second.spans)
    assert len(together) == len(set(together))
    assert set(together) == exported(log, "one")
    (link,) = [link for one in second.spans for link in one.links]
    assert (link.attributes or {})[names.LINK] == "resume"
    assert len({one.context.trace_id for one in second.spans if one.context}) == 1


def test_a_fork_sends_its_own_spans_only() -> None:
    log, ends = MemoryLog(), Ends()

    async def body(runtime: Runtime) -> None:
        await runtime.run(QUICK, "Begin.", session_id="one")
        ends.spans.clear()
        session = await runtime.fork("one", QUICK, at=3, fork_id="two")
        await session.outcome
        await session.close()

    run(body, log, telemetry=OpenTelemetry(ends))
    assert set(seen(ends.spans)[-3:]) == exported(log, "two")
    assert not exported(log, "two") & exported(log, "one")


def test_an_exporter_that_blocks_holds_up_neither_a_session_nor_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = threading.Event()

    async def body(runtime: Runtime) -> None:
        assert (await runtime.run(HOST, "Begin.")).text == "done"

    with patch.object(observer, "FLUSH_S", 0.05):
        run(body, telemetry=OpenTelemetry(Ends(lambda: gate.wait(60))))
    gate.set()
    assert [one.getMessage() for one in caplog.records if one.name == records.TELEMETRY] == [
        "telemetry is left behind, since its exporter takes longer than 0.05 s"
    ]


def test_an_exporter_that_is_slow_gets_every_span_after_its_sessions_have_ended() -> None:
    log, gate = MemoryLog(), threading.Event()
    ends = Ends(lambda: gate.wait(60))

    async def body(runtime: Runtime) -> None:
        for name in ("one", "two"):
            assert (await runtime.run(QUICK, "Begin.", session_id=name)).is_ok
        assert ends.spans == []
        gate.set()

    run(body, log, telemetry=OpenTelemetry(ends))
    assert set(seen(ends.spans)) == exported(log, "one") | exported(log, "two")


def test_an_exporter_that_raises_is_counted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise OSError("https://token@collector")

    found: list[str] = []

    async def body(runtime: Runtime) -> None:
        assert (await runtime.run(HOST, "Begin.")).text == "done"
        pipe = runtime._observer._pipe
        assert pipe is not None
        await until(lambda: pipe.failed > 10)
        found.append(runtime.metrics())

    run(body, telemetry=OpenTelemetry(Ends(fail)), metrics=True)
    said = [one.getMessage() for one in caplog.records if one.name == records.TELEMETRY]
    assert said == ["telemetry is lost, since its exporter raised OSError"]
    families = {one.name: one for one in text_string_to_metric_families(found[0])}
    lost = {one.labels["signal"]: one.value for one in families["callboard_telemetry_dropped"].samples}
    assert lost["spans"] > 10


def test_a_log_handler_that_raises_ends_no_session() -> None:
    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise OSError("the disk is full")

    async def body(runtime: Runtime) -> None:
        assert (await runtime.run(HOST, "Begin.")).text == "done"
        assert runtime._observer.logs.lost == 3

    with alone() as logger:
        logger.addHandler(Broken())
        logger.setLevel(logging.INFO)
        try:
            run(body)
        finally:
            logger.setLevel(logging.NOTSET)


def test_without_a_handler_and_without_options_a_session_has_no_observer() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(QUICK)
        assert session._board.observers == []
        await session.close()

    with alone():
        run(body)


def test_a_fault_in_here_ends_no_session() -> None:
    async def body(runtime: Runtime) -> None:
        with patch.object(runtime._observer, "on_spans", side_effect=RuntimeError):
            assert (await runtime.run(QUICK, "Begin.")).text == "hi"
        assert runtime._observer.lost > 0

    run(body, metrics=True)


def test_metrics_count_over_all_sessions_and_say_what_runs_now() -> None:
    async def body(runtime: Runtime) -> None:
        await runtime.run(QUICK, "Begin.")
        session = await runtime.open(QUICK)
        await session.ask("Begin.")
        families = {one.name: one for one in text_string_to_metric_families(runtime.metrics())}
        asks = families["callboard_asks"].samples
        assert [(one.labels, one.value) for one in asks] == [({"agent": "quick", "ending": "answered"}, 2)]
        states = {one.labels["state"]: one.value for one in families["callboard_sessions"].samples}
        assert states["idle"] == 1
        commits = families["callboard_commit_duration_seconds"].samples
        assert next(one.value for one in commits if one.name.endswith("_count")) > 0
        await session.close()

    run(body, metrics=True)


def test_metrics_that_are_not_counted_and_a_wrong_export_are_refused_in_words() -> None:
    async def body(runtime: Runtime) -> None:
        with pytest.raises(MisuseError, match="metrics=True"):
            runtime.metrics()

    run(body)
    with pytest.raises(MisuseError, match="takes an OpenTelemetry"):
        Runtime(telemetry=InMemorySpanExporter())  # type: ignore[arg-type]  # the mistake of the test


def test_records_follow_a_session_and_have_no_content(caplog: pytest.LogCaptureFixture) -> None:
    async def body(runtime: Runtime) -> None:
        await runtime.run(HOST, "Begin.", session_id="one", tags=["user:1"])

    with caplog.at_level(logging.INFO, logger="callboard"):
        run(body)
    found = [one for one in caplog.records if one.name in records.LOGGERS]
    assert [one.name for one in found] == [records.DELEGATIONS, records.TOOLS, records.ASKS]
    assert {vars(one)["tag"] for one in found} == {"user:1"}
    assert SECRET_WORDS not in repr([vars(one) for one in found])
    caplog.clear()
    run(body, log_content=True)
    assert SECRET_WORDS in caplog.text


def test_a_session_whose_store_fails_has_a_record(caplog: pytest.LogCaptureFixture) -> None:
    log = SlowLog()

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(QUICK, session_id="one")
        log.error = OSError("the disk is full")
        with pytest.raises(SessionFailed):
            await session.ask("Begin.")
        await session.close()

    async def main() -> None:
        async with Runtime(log, model=model()) as runtime:
            await body(runtime)

    asyncio.run(main())
    (found,) = [one for one in caplog.records if one.name == records.SESSIONS]
    assert (found.levelname, vars(found)["session"], vars(found)["error"]) == ("ERROR", "one", "OSError")


def test_a_session_that_is_taken_over_has_a_record(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog()

    async def main() -> None:
        async with Runtime(log, model=model()) as first, Runtime(log, model=model()) as second:
            session = await first.open(QUICK, session_id="one")
            await session.ask("Begin.")
            other = await second.resume("one", QUICK, steal=True)
            with pytest.raises(SessionFailed):
                await session.ask("Again.")
            await other.close()
            await session.close()

    asyncio.run(main())
    (found,) = [one for one in caplog.records if one.name == records.STORE]
    assert (found.levelname, vars(found)["session"], vars(found)["error"]) == ("WARNING", "one", "Fenced")


def test_a_slow_commit_has_a_record(caplog: pytest.LogCaptureFixture) -> None:
    async def body(runtime: Runtime) -> None:
        await runtime.run(QUICK, "Begin.")

    with patch.object(log_writer, "SLOW_COMMIT_S", 0.0):
        run(body)
    slow = [one for one in caplog.records if one.name == records.STORE]
    assert slow
    assert all(one.getMessage().startswith("slow commit: ") for one in slow)


def test_a_session_sleeps_beside_its_observer_and_its_next_ask_is_seen_once() -> None:
    log, ends = MemoryLog(), Ends()

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(QUICK, session_id="one", tags=["user:1"])
        await session.ask("Begin.")
        await until(lambda: session._is_asleep)
        await session.ask("Again.")
        await session.close()

    run(body, log, telemetry=OpenTelemetry(ends), idle_s=0.01)
    assert len(ends.spans) == 6
    assert set(seen(ends.spans)) == exported(log, "one")
    assert {(one.attributes or {})[names.TAGS] for one in ends.spans} == {("user:1",)}


def test_the_weight_of_a_span_is_that_of_its_texts() -> None:
    weights = {one.operation: weight_of(("one", one)) for one in spans_of_host()}
    assert weights["invoke_workflow"] == len('"Begin."')
    assert weights["chat"] > 20
    assert weights["execute_tool"] > 10
    assert weight_of(Measured(metrics.COMMIT_TIME, (), 1)) == 0


def test_the_memory_of_a_finished_ask_is_let_go() -> None:
    processor = SimpleSpanProcessor(InMemorySpanExporter())

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        await session.ask("Begin.")
        (watch,) = [one.__self__ for one in session._board.observers]  # type: ignore[attr-defined]  # a method
        fold = watch._fold
        held = (fold._agents, fold._calls, fold._delegations, fold._begun, fold._background, fold._heard)
        assert [len(one) for one in held] == [0] * len(held)
        await session.close()

    run(body, telemetry=OpenTelemetry(processor))


def test_items_are_consumed_in_order_on_another_thread() -> None:
    seen: list[int] = []
    threads: set[int] = set()

    def consume(item: int) -> None:
        seen.append(item)
        threads.add(threading.get_ident())

    pipe = Pipe(consume, print)
    for number in range(100):
        pipe.put(number)
    assert asyncio.run(pipe.flush(10))
    assert seen == list(range(100))
    assert threads.isdisjoint({threading.get_ident()})
    pipe.close()


def test_a_consumer_that_blocks_delays_no_caller_and_dropped_items_are_counted_and_reported_once() -> None:
    gate, troubles, seen = threading.Event(), list[str](), list[int]()

    def consume(item: int) -> None:
        gate.wait(30)
        seen.append(item)

    pipe = Pipe(consume, troubles.append, items_max=10)
    for number in range(1_000):
        pipe.put(number)
    assert pipe.dropped >= 989
    assert not asyncio.run(pipe.flush(0.01))
    gate.set()
    assert asyncio.run(pipe.flush(10))
    assert len(seen) + pipe.dropped == 1_000
    assert len(troubles) == 1
    assert "dropped" in troubles[0]
    pipe.close()


def test_the_queue_is_full_by_the_size_of_its_items_too() -> None:
    gate, seen = threading.Event(), list[int]()

    def consume(item: int) -> None:
        gate.wait(30)
        seen.append(item)

    pipe = Pipe(consume, print, weigh=lambda item: BYTES_MAX // 3)
    for number in range(10):
        pipe.put(number)
    assert 6 <= pipe.dropped <= 7
    gate.set()
    assert asyncio.run(pipe.flush(10))
    pipe.put(99)  # there is room again
    assert asyncio.run(pipe.flush(10))
    assert seen[-1] == 99
    pipe.close()


def test_a_consumer_that_raises_is_counted_and_said_once_and_the_next_item_follows() -> None:
    troubles, seen = list[str](), list[int]()

    def consume(item: int) -> None:
        if item % 2:
            raise (ValueError if item % 4 == 1 else SystemExit)("https://token@collector")
        seen.append(item)

    pipe = Pipe(consume, troubles.append)
    for number in range(10):
        pipe.put(number)
    assert asyncio.run(pipe.flush(10))
    assert (seen, pipe.failed) == ([0, 2, 4, 6, 8], 5)
    assert troubles == ["telemetry is lost, since its exporter raised ValueError"]
    pipe.close()


def test_a_flush_waits_for_an_item_in_the_hands_of_the_consumer_and_calls_the_last_function() -> None:
    gate, begun, order = threading.Event(), threading.Event(), list[str]()

    def consume(item: str) -> None:
        begun.set()
        gate.wait(30)
        order.append(item)

    async def main() -> None:
        pipe = Pipe(consume, print)
        pipe.put("item")
        await asyncio.to_thread(begun.wait, 10)
        flushed = asyncio.create_task(pipe.flush(10, lambda: order.append("last")))
        await asyncio.sleep(0)
        assert not flushed.done()
        gate.set()
        assert await flushed
        pipe.close()

    asyncio.run(main())
    assert order == ["item", "last"]


def test_a_last_function_that_raises_ends_the_flush() -> None:
    def fail() -> None:
        raise OSError

    troubles: list[str] = []
    pipe: Pipe[int] = Pipe(print, troubles.append)
    assert asyncio.run(pipe.flush(10, fail))
    pipe.close()


def test_a_closed_pipe_ends_its_thread_once_it_is_empty() -> None:
    pipe: Pipe[int] = Pipe(lambda item: None, print)
    pipe.put(1)
    thread = pipe._thread
    assert thread is not None
    assert thread.daemon
    pipe.close()
    thread.join(10)
    assert not thread.is_alive()
