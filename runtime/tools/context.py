"""What a tool may know of the call it serves, and what it may tell meanwhile."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

from callboard.runtime.boundary import clean_text

MAX_PROGRESS_CHARS: Final = 2_000
"""Characters of one progress text; what is longer is cut."""

_LOG = logging.getLogger("callboard.tools")


class ToolContext:
    """A parameter with this annotation is filled in by the runtime and hidden from the model.

    address: the agent that calls. session_id: its session. tool, call_id: which call this is.
    idempotency_key: the same for every run of the same call, after a crash too; give it to services that
        accept one. A fork has other keys.
    timeout_s: seconds the call may take. deadline: when that is over, as `time.monotonic()` counts.

    Everything here may be used from any thread. For a test of your own tool make one yourself:

    >>> ToolContext(address="host.1", idempotency_key="key-1").is_cancelled
    False
    """

    __slots__ = (
        "_is_cancelled",
        "_is_over",
        "_loop",
        "_on_progress",
        "_thread",
        "address",
        "call_id",
        "deadline",
        "idempotency_key",
        "session_id",
        "timeout_s",
        "tool",
    )

    def __init__(
        self,
        *,
        address: str = "host",
        session_id: str = "",
        tool: str = "",
        call_id: str = "",
        idempotency_key: str = "",
        on_progress: Callable[[str], object] | None = None,
    ) -> None:
        self.address = address
        self.session_id = session_id
        self.tool = tool
        self.call_id = call_id
        self.idempotency_key = idempotency_key
        self.timeout_s: float | None = None
        self.deadline: float | None = None
        self._on_progress = on_progress
        self._is_cancelled = False
        self._is_over = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the result any more: stopped, or out of time."""
        return self._is_cancelled

    def raise_if_cancelled(self) -> None:
        """Leave the tool if nobody waits for it. Raises asyncio.CancelledError; let it pass.

        For loops on a thread, where nothing else can interrupt you.
        """
        if self._is_cancelled:
            raise asyncio.CancelledError("the call was cancelled")

    def progress(self, text: str) -> None:
        """Tell whoever watches how far you are. Shown, never logged, never seen by the model."""
        if self._on_progress is None or self._is_over or self._is_cancelled:
            return
        text = clean_text(str(text)[:MAX_PROGRESS_CHARS])
        if self._loop is None or threading.get_ident() == self._thread:
            self._tell(text)
            return
        try:
            self._loop.call_soon_threadsafe(self._tell, text)
        except RuntimeError:  # the loop is closed: nobody watches
            _LOG.debug("progress of %s after its loop was closed", self.tool)

    # --- for the runtime ----------------------------------------------------------

    def begin(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        """The call starts on this loop, from whose thread this is called."""
        self._loop = loop
        self._thread = threading.get_ident()
        self.timeout_s = timeout_s
        self.deadline = loop.time() + timeout_s

    def cancel(self) -> None:
        """Nobody waits for the result any more."""
        self._is_cancelled = True

    def end(self) -> None:
        """The call has its answer: what a left-over thread still tells is dropped."""
        self._is_over = True

    def _tell(self, text: str) -> None:
        if self._on_progress is None or self._is_over:
            return
        try:
            self._on_progress(text)
        except Exception as error:  # a watcher's fault is not the tool's
            _LOG.debug("a progress callback failed", exc_info=error)
