"""What a tool may know of the call it serves, and what it may tell meanwhile."""

import asyncio
import functools
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from callboard.runtime.sanitize import clean_text
from callboard.runtime.secrets.refs import SecretRef
from callboard.runtime.secrets.registry import NO_SECRETS, Secrets

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
        "_lock",
        "_loop",
        "_news",
        "_on_progress",
        "_secrets",
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
        secrets: Secrets | Mapping[str, str] | None = None,
    ) -> None:
        self.address = address
        self.session_id = session_id
        self.tool = tool
        self.call_id = call_id
        self.idempotency_key = idempotency_key
        self.timeout_s: float | None = None
        self.deadline: float | None = None
        self._on_progress = on_progress
        self._secrets = secrets if isinstance(secrets, Secrets) else _secrets_of(secrets or {})
        self._is_cancelled = False
        self._is_over = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._news: str | None = None

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

    def secret(self, name: str) -> str:
        """The value of a secret of the runtime: `Runtime(secrets=[SecretRef("NAME")])`.

        It is for the service that wants it. Wherever the runtime meets it after this, in what you return or
        raise and in what a model says, it is written as `[secret:NAME]`; what you print or store yourself
        is your own business. Raises UnknownName if there is no such secret, or if it cannot be read.

        >>> ToolContext(secrets={"TOKEN": "open sesame"}).secret("TOKEN")
        'open sesame'
        """
        return self._secrets.value(name)

    def progress(self, text: str) -> None:
        """Tell whoever watches how far you are. Shown, never logged, never seen by the model.

        Of what you say faster than the event loop can show it, only the newest is shown.
        """
        if self._on_progress is None or self._is_over or self._is_cancelled:
            return
        text = self._secrets.redactor.kept(clean_text(str(text)), MAX_PROGRESS_CHARS)
        if self._loop is None:
            self._tell(text)
            return
        with self._lock:
            is_on_its_way, self._news = self._news is not None, text
        if is_on_its_way:
            return
        try:
            self._loop.call_soon_threadsafe(self._tell_news)
        except RuntimeError:  # the loop is closed: nobody watches
            _LOG.debug("progress of %s after its loop was closed", self.tool)

    # --- for the runtime ----------------------------------------------------------

    def begin(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        """The call starts on this loop, from whose thread this is called."""
        self._loop = loop
        self.timeout_s = timeout_s
        self.deadline = loop.time() + timeout_s

    def cancel(self) -> None:
        """Nobody waits for the result any more."""
        self._is_cancelled = True

    def end(self) -> None:
        """The call has its answer: what a left-over thread still tells is dropped."""
        self._tell_news()
        self._is_over = True

    def _tell_news(self) -> None:
        with self._lock:
            text, self._news = self._news, None
        if text is not None:
            self._tell(text)

    def _tell(self, text: str) -> None:
        if self._on_progress is None or self._is_over:
            return
        try:
            self._on_progress(text)
        except Exception as error:  # a watcher's fault is not the tool's
            _LOG.debug("a progress callback failed", exc_info=error)


def _secrets_of(values: Mapping[str, str]) -> Secrets:
    """The secrets of a test, given by value."""
    if not values:
        return NO_SECRETS
    refs = [SecretRef(name, get=functools.partial(str, value)) for name, value in values.items()]
    return Secrets(refs, finds_keys=False)
