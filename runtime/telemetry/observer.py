"""The observer of a runtime: durable events become log records, spans and metrics.

It can neither fail nor delay a session: its own failures are counted as dropped telemetry.

A bounded queue with a thread of its own: an exporter that blocks or fails holds up no session.

Rules
  - `put` never waits: an item that finds the queue full is dropped and counted. The queue is full by the
    number of its items or by their size: a span holds its events, with all texts in them.
  - An error of the consumer is counted, and the next item follows.
  - `flush` waits for all items before it, those in the hands of the consumer too, but no longer than asked.
  - The thread is a daemon: a consumer that never returns does not keep the process alive.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Generic, TypeVar

from callboard.actors.protocol.client_messages import Ask, SessionOpened
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, Finished
from callboard.actors.protocol.port_messages import CallTool, ModelReplied, ToolReturned
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.telemetry import metrics
from callboard.runtime.log.telemetry.formats import MetricStore
from callboard.runtime.log.telemetry.metrics import Measured, measured
from callboard.runtime.log.telemetry.span_fold import SpanFold
from callboard.runtime.log.telemetry.spans import Span, library_version
from callboard.runtime.sessions.board import Board
from callboard.runtime.statistics import RuntimeStats
from callboard.runtime.telemetry.log_writer import LogWriter
from callboard.runtime.telemetry.open_telemetry import FLUSH_S, Export, Gauges, OpenTelemetry

T = TypeVar("T")

ITEMS_MAX: Final = 8_192  # about a minute of a hundred agents
BYTES_MAX: Final = 64 << 20  # of all items together


class Pipe(Generic[T]):
    """Hands items to a consumer on a thread.

    weigh: returns the bytes that an item holds.
    on_trouble: called on that thread with a sentence, at the first drop and at the first failure.
    dropped, failed: the numbers of items that found no room, and whose consumer raised.
    """

    def __init__(
        self,
        consume: Callable[[T], object],
        on_trouble: Callable[[str], object],
        weigh: Callable[[T], int] = lambda item: 0,
        items_max: int = ITEMS_MAX,
    ) -> None:
        self._consume = consume
        self._on_trouble = on_trouble
        self._weigh = weigh
        self._most = items_max
        self._items: deque[tuple[T | Callable[[], object], int]] = deque()
        self._held = 0
        self._filled = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self.dropped = 0
        self.failed = 0

    def put(self, item: T) -> None:
        """Add an item, unless the queue is full."""
        weight = self._weigh(item)
        with self._filled:
            if len(self._items) >= self._most or self._held + weight > BYTES_MAX:
                self.dropped += 1
                return
            self._add(item, weight)

    def _add(self, item: "T | Callable[[], object]", weight: int = 0) -> None:
        self._items.append((item, weight))
        self._held += weight
        self._filled.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="callboard telemetry", daemon=True)
            self._thread.start()

    async def flush(self, seconds: float, last: Callable[[], object] = lambda: None) -> bool:
        """Wait until all items so far are consumed and `last` was called on the thread.

        Return False if that took longer than so many seconds; it goes on without a caller then.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not done.done():
                done.set_result(None)

        def end() -> None:
            try:
                last()
            finally:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(settle)

        with self._filled:
            self._add(end)
        return bool((await asyncio.wait([done], timeout=seconds))[0])

    def close(self) -> None:
        """End the thread once it has nothing to do."""
        with self._filled:
            self._is_closed = True
            self._filled.notify()

    def _run(self) -> None:
        told_drop = told_failure = False
        while True:
            with self._filled:
                while not self._items:
                    if self._is_closed:
                        self._thread = None
                        return
                    self._filled.wait()
                item, weight = self._items.popleft()
                self._held -= weight
                dropped = self.dropped
            if dropped and not told_drop:
                told_drop = True
                self._on_trouble("telemetry is dropped, since its exporter is slower than the sessions")
            try:
                item() if callable(item) else self._consume(item)
            except BaseException as error:  # SystemExit too, which would end the thread
                self.failed += 1
                if not told_failure:
                    told_failure = True
                    self._on_trouble(f"telemetry is lost, since its exporter raised {type(error).__name__}")


class Observer:
    """Observes the sessions of one runtime.

    telemetry: the export, None for none. is_counting: True keeps sums for `metrics`. has_content: of log
    records.
    """

    def __init__(
        self, telemetry: OpenTelemetry | None, *, is_counting: bool = False, has_content: bool = False
    ) -> None:
        if telemetry is not None and not isinstance(telemetry, OpenTelemetry):
            raise MisuseError(f"Runtime(telemetry=...) takes an OpenTelemetry, not {telemetry!r:.100}")
        self.logs = LogWriter(has_content=has_content)
        self._telemetry = telemetry
        self._store = MetricStore() if is_counting else None
        self._export: Export | None = None
        self._pipe: Pipe[tuple[str, Span] | Measured] | None = None
        self._recalled: dict[str, Sequence[Event]] = {}
        self.lost = 0

    def start(self, gauges: Gauges) -> None:
        """Begin to export. gauges: the values of the runtime's gauges."""
        if self._telemetry is not None:
            self._export = self._telemetry.export(library_version(), partial(self._now, gauges))
            self._pipe = Pipe(self._export, partial(self.logs.once, "%s"), weight_of)

    async def aclose(self) -> None:
        """Export the rest, for two seconds at most."""
        pipe, export, self._pipe, self._export = self._pipe, self._export, None, None
        if pipe is not None and export is not None:
            if not await pipe.flush(FLUSH_S, export.flush):
                self.logs.once("telemetry is left behind, since its exporter takes longer than %s s", FLUSH_S)
            pipe.close()

    # --- sessions -----------------------------------------------------------------

    def recall(self, session: str, events: Sequence[Event]) -> None:
        """Note the events that a session has already, before `watch`: open operations may end now."""
        self._recalled[session] = events

    def watch(self, board: Board) -> None:
        """Observe a session from now on, if there is anything to observe it for."""
        recorded = self._recalled.pop(board.session_id, ())
        has_spans = self._store is not None or self._pipe is not None
        if not has_spans and not self.logs.is_on():
            return
        watch = _Watch(self, board.session_id, recorded, has_spans=has_spans)
        board.observers.append(watch.on_event)
        then = board.on_failure

        def on_failure(error: BaseException) -> None:
            self.logs.on_failure(board.session_id, watch.tags, board.seq, error.__cause__ or error)
            then(error)

        board.on_failure = on_failure

    def on_commit(self, seconds: float, batch: Sequence[Append]) -> None:
        """Note a commit of these events."""
        if self._store is not None:
            self._store.add(Measured(metrics.COMMIT_TIME, (), seconds))
        if self._pipe is not None:
            self._pipe.put(Measured(metrics.COMMIT_TIME, (), seconds))
        self.logs.on_commit(seconds, batch)

    def on_spans(self, session: str, spans: Sequence[Span]) -> None:
        """Count and export spans that have ended."""
        for span in spans:
            if self._store is not None:
                for one in measured(span):
                    self._store.add(one)
            if self._pipe is not None:
                self._pipe.put((session, span))

    # --- metrics ------------------------------------------------------------------

    def text(self, stats: RuntimeStats) -> str:
        """Return all metrics as Prometheus reads them. Raises MisuseError if they are not counted."""
        if self._store is None:
            raise MisuseError("nothing is counted in this runtime: pass Runtime(metrics=True)")
        gauges = (*gauges_of(stats), *self._drops())
        return self._store.text(metrics.INSTRUMENTS, gauges)

    def _now(self, gauges: Gauges) -> Sequence[Measured]:
        """Return all gauges, for a thread of the SDK; only the drops of a runtime that is closed."""
        try:
            return (*gauges(), *self._drops())
        except Exception:  # it changes while it is read, or is closed
            return tuple(self._drops())

    def _drops(self) -> Iterator[Measured]:
        pipe = self._pipe
        yield Measured(metrics.DROPPED, ("logs",), self.logs.lost)
        yield Measured(metrics.DROPPED, ("spans",), self.lost + (pipe.dropped + pipe.failed if pipe else 0))


class _Watch:
    """Observes one session in one process."""

    def __init__(
        self, observer: Observer, session: str, recorded: Sequence[Event], *, has_spans: bool
    ) -> None:
        self._observer = observer
        self._session = session
        self._fold = SpanFold() if has_spans else None
        self.tags: tuple[str, ...] = ()
        for event in recorded:
            self._note(event)

    def _note(self, event: Event) -> tuple[Span, ...]:
        if isinstance(event.body, SessionOpened):
            self.tags = event.body.tags
        return self._fold.add(event) if self._fold is not None else ()

    def on_event(self, event: Event) -> None:
        """Take a durable event."""
        observer = self._observer
        try:
            done = self._note(event)
            if done:
                observer.on_spans(self._session, done)
            observer.logs.on_event(self._session, self.tags, event)
        except Exception:  # a fault of this module must not end a session
            observer.lost += 1


def weight_of(item: "tuple[str, Span] | Measured") -> int:
    """Return the bytes of the texts that a span or a measurement keeps in memory."""
    if isinstance(item, Measured):
        return 0
    _, span = item
    return sum(map(_size, (span.begun.body, span.ended.body if span.ended is not None else None)))


def _size(body: object) -> int:
    match body:
        case Ask(prompt=text) | Begin(prompt=text) | CallTool(arguments=text):
            return len(bytes(text))
        case ModelReplied(content=text) | ToolReturned(output=text) | Finished(value=text):
            return len(bytes(text))
        case _:
            return 0


def gauges_of(stats: RuntimeStats) -> Iterator[Measured]:
    """Yield the gauges of a runtime."""
    for state, number in stats.sessions.items():
        yield Measured(metrics.SESSIONS, (state,), number)
    calls = (("model", stats.model_calls), ("tools", stats.tool_calls), ("approvals", stats.approvals))
    for port, number in calls:
        yield Measured(metrics.OPEN_CALLS, (port,), number)
    yield Measured(metrics.UNDURABLE, (), stats.undurable_events)
    yield Measured(metrics.LOG_SIZE, (), stats.log_bytes)
    if (worker := stats.worker) is not None:
        yield Measured(metrics.WORKER_SESSIONS, (), worker.sessions)
        yield Measured(metrics.WORKER_SLOTS, (), worker.slots)
        yield Measured(metrics.WORKER_LEASE, (), worker.lease_left_ms / 1_000)
        yield Measured(metrics.LOST_LEASES, (), worker.lost_leases)
