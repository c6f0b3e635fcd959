"""A bounded queue with a thread of its own: an exporter that blocks or fails holds up no session.

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
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

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
