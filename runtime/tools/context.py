"""The context of a tool call: its identity, secrets, progress and cancellation.

Few tools take one, so it is made once it is asked for.
"""

import asyncio
import contextlib
import functools
import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias

from msgspec.structs import replace

from callboard.actors.protocol.bundle_entries import name_entry
from callboard.actors.protocol.errors import MissingExtra, MisuseError
from callboard.actors.protocol.labels import united
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.profiles import ToolsChange, ToolSpec
from callboard.actors.protocol.shared_state import StateUpdate
from callboard.actors.protocol.value_types import InputGiven
from callboard.actors.session.file_labels import FileLabels
from callboard.runtime.files.call_files import NO_FILES, CallFiles
from callboard.runtime.files.files import Files
from callboard.runtime.files.versions import CallVersions
from callboard.runtime.http.settings import DEFAULT_HTTP, Http
from callboard.runtime.memory.access import Memory, MemoryAccess
from callboard.runtime.sanitize import clean_text
from callboard.runtime.secrets.registry import Secrets, secrets_of
from callboard.runtime.tools.access import Access
from callboard.runtime.tools.shared_state import SharedValues, StateAccess, access_of

if TYPE_CHECKING:  # `ToolContext` without a parameter is `ToolContext[Any]`, by PEP 696
    from typing import Any

    from typing_extensions import TypeVar

    from callboard.runtime.http.call_http import CallHttp

    Deps = TypeVar("Deps", default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")

MAX_PROGRESS_CHARS: Final = 2_000  # characters of one progress text; a longer one is cut
_CHECKPOINT: Final = re.compile(r"[^\s#@]{1,80}")
_LOG = logging.getLogger("callboard.tools")
_PROGRESS: Final = threading.Lock()  # one for all calls: few report progress, and it is held for a moment


IsTakenBack: TypeAlias = Callable[[], bool]
"""Returns True once a cancellation is taken back, as a timeout inside of a tool does."""


def _never() -> bool:
    return False


class NamedTool(Protocol):
    """A tool: made by `@tool`, or a `Tool`."""

    name: str

    def spec(self) -> ToolSpec:
        """Return the tool's description for the log and the model."""
        ...


@dataclass(kw_only=True, eq=False, repr=False)
class ToolContext(Generic[Deps]):
    """The context of one call. The runtime fills a parameter of this type; the model does not see it.

    deps: the object of `Runtime(deps=...)` or `ask(deps=...)`; None if neither gave one. It is never logged.

    files: the folder of the session: `Runtime(files=...)`. Its use raises MisuseError where there is none.

    http_settings: of `http`.
    address: of the agent that calls. session_id: of its session. tool, call_id: of the call.
    idempotency_key: the same for each run of a call, also after a crash, and another one in a fork. Give it
        to services that accept one.
    shared, toolbox: the shared state, and the maker of changes of tools, in a context you make yourself.
    memories: the long-term memory that `memory` reaches, None for none. profile: of the agent.
    rights: the permissions of the agent, one layer for each bundle. labels: of the agent at its call.
    tool_labels: that the tool always states. file_labels, versions: of the files of the session.
    access: the uses of rights that the call makes, and the labels that it reads.
    given: the input of a person that an earlier round of the call asked for; None for none.
    tools_change: the change that the call makes, None for none. checkpoints: the names that it gives to its
        place in the log.
    timeout_s: seconds that the call may take. deadline: the end of that time, by `time.monotonic()`.

    All methods may be called from any thread. To test a tool of your own, make a context yourself:

    >>> ToolContext(address="host.1", idempotency_key="key-1").is_cancelled
    False
    """

    address: str = "host"
    session_id: str = ""
    tool: str = ""
    call_id: str = ""
    idempotency_key: str = ""
    deps: Deps = None  # type: ignore[assignment]  # a tool that annotates a type gets such an object
    files: Files = NO_FILES  # type: ignore[assignment]  # any use of it raises the advice
    http_settings: Http = DEFAULT_HTTP
    on_progress: Callable[[str], object] | None = None
    secrets: InitVar[Secrets | Mapping[str, str] | None] = None
    shared: InitVar[StateAccess | Mapping[str, object] | None] = None
    memories: InitVar[Memory | None] = None
    profile: str = ""
    toolbox: Callable[[Sequence[NamedTool | str], str], ToolsChange] | None = None
    given: InputGiven | None = None
    rights: Layers = ()
    labels: tuple[str, ...] = ()
    tool_labels: tuple[str, ...] = ()
    file_labels: InitVar[FileLabels | None] = None
    versions: CallVersions | None = None
    timeout_s: float | None = field(default=None, init=False)
    deadline: float | None = field(default=None, init=False)
    access: Access = field(init=False)
    tools_change: ToolsChange | None = field(default=None, init=False)
    checkpoints: tuple[str, ...] = field(default=(), init=False)
    _is_cancelled: bool = field(default=False, init=False)
    _is_taken_back: IsTakenBack = field(default=_never, init=False)
    _is_over: bool = field(default=False, init=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _news: str | None = field(default=None, init=False)

    def __post_init__(
        self,
        secrets: Secrets | Mapping[str, str] | None,
        shared: StateAccess | Mapping[str, object] | None,
        memories: Memory | None,
        file_labels: FileLabels | None,
    ) -> None:
        self.access = Access(self.rights, self.labels, self.tool_labels)
        if isinstance(self.files, Files):
            self.files = CallFiles(self.files, self.access, file_labels or FileLabels(), self.versions)
        self._secrets = secrets if isinstance(secrets, Secrets) else secrets_of(secrets)
        self._shared = shared if isinstance(shared, StateAccess) else access_of(shared)
        self._memories = memories

    @functools.cached_property
    def memory(self) -> MemoryAccess:
        """Return the long-term memory of `Runtime(memory=...)`; without one, its use raises MisuseError."""
        return MemoryAccess(
            self._memories,
            profile=self.profile,
            session_id=self.session_id,
            key=self.idempotency_key,
            access=self.access,
            redactor=self._secrets.redactor,
            labels=lambda: self.labels_written,
        )

    @property
    def http(self) -> "CallHttp":
        """Return the network, within the hosts of the agent's bundles (docs/http.md).

        `await ctx.http.send("GET", url)` in async tools, `ctx.http.request("GET", url)` in others.
        Raises MissingExtra without the library of `callboard[http]`.
        """
        try:
            from callboard.runtime.http.call_http import CallHttp
        except ImportError:
            raise MissingExtra("ctx.http needs the library `httpx2`: pip install 'callboard[http]'") from None
        left_s = None
        if self.deadline is not None and self._loop is not None:
            left_s = max(0.01, self.deadline - self._loop.time())
        return CallHttp(self.http_settings, self.access, left_s)

    @property
    def state(self) -> SharedValues:
        """Return the shared state of the session as of this call, the same on every run of the call.

        >>> ToolContext(shared={"stage": "start"}).state["stage"]
        'start'
        """
        return self._shared.values

    def update_state(self, key: str, value: object) -> None:
        """Update a key of the shared state. The update counts once the call has returned without an error.

        Later calls see it; `state` of this call does not. Raises InvalidState for an unknown key, a value of
        the wrong type, or too many updates.
        """
        self._shared.update(key, value)

    def checkpoint(self, name: str) -> None:
        """Give a name to the place of the log at which this call returns, to fork the session from there.

        It counts once the call has returned without an error; of equal names the last one counts. name: 1 to
        80 characters without spaces, `#` and `@`. Raises MisuseError.

        >>> ctx = ToolContext()
        >>> ctx.checkpoint("data-loaded")
        >>> ctx.checkpoints
        ('data-loaded',)
        """
        if not _CHECKPOINT.fullmatch(name):
            raise MisuseError(f"{name!r:.100}: a checkpoint has 1 to 80 characters without spaces, # and @")
        if name not in self.checkpoints:
            self.checkpoints = (*self.checkpoints, name)

    def set_tools(self, tools: Sequence[NamedTool | str], *, agent: str = "") -> None:
        """Set the tools that the agent of this call has from its next new request on: all of them.

        tools: tools, or names of the agent's `tools` and `later_tools`. agent: the name of a profile, to set
        the tools of all its agents instead, also of later ones. The change counts once the call has returned
        without an error; the last of several counts. Calls in flight run as they were started.

        Raises UnknownName for an unknown agent or tool, MisuseError for two tools of one name.
        """
        if self.toolbox is None:
            raise MisuseError("this context belongs to no session: pass ToolContext(toolbox=...) in a test")
        self.tools_change = self.toolbox(tools, agent)

    @property
    def is_used(self) -> bool:
        """Return True if the call has read or changed anything by this context, or stated a label."""
        change = self.tools_change
        has_other = self._shared.is_used or self.access.is_used
        return bool(has_other or self.checkpoints or change is not None)

    @property
    def state_used(self) -> tuple[tuple[StateUpdate, ...], tuple[str, ...]]:
        """Return the updates of the shared state that this call makes, and the keys that it has read."""
        updates, read = self._shared.taken()
        if labels := self.labels_written:
            updates = tuple(replace(update, labels=labels) for update in updates)
        return updates, read

    @property
    def labels_written(self) -> tuple[str, ...]:
        """Return the labels of what the call writes: of its agent, its tool and all that it has read."""
        self.access.took(self._shared.labels_read)
        return self.access.labels

    @property
    def labels_stated(self) -> tuple[str, ...]:
        """Return the labels that the tool has stated for this result, and those of the state that it read."""
        return united(self.access.result_labels, self._shared.labels_read)

    def label(self, *labels: str) -> None:
        """State labels of this call's result, beside those of `@tool(labels=...)`. Its agent has them then.

        Raises MisuseError for a label that is not a name.
        """
        for label in labels:
            try:
                self.access.took((name_entry(label),))
            except (ValueError, AttributeError) as error:
                raise MisuseError(f"label={label!r:.80}: {error}") from None

    @property
    def is_cancelled(self) -> bool:
        """Return True once the result is no longer wanted, after a stop or a timeout."""
        return self._is_cancelled and not self._is_taken_back()

    def raise_if_cancelled(self) -> None:
        """Leave the tool if its result is no longer wanted. Raises asyncio.CancelledError; let it pass.

        Call it in loops of sync tools, which nothing else can interrupt.
        """
        if self.is_cancelled:
            raise asyncio.CancelledError("the call was cancelled")

    def secret(self, name: str) -> str:
        """Return the value of a secret of the runtime: `Runtime(secrets=[SecretRef("NAME")])`.

        Give it to its service only. The runtime writes `[secret:NAME]` for it in results, errors and replies
        of models. It cannot do so in text that the tool itself prints or stores. Raises UnknownName for a
        missing or unreadable secret, ToolError for one that the agent's permissions withhold.

        >>> ToolContext(secrets={"TOKEN": "open sesame"}).secret("TOKEN")
        'open sesame'
        """
        self.access.use("secrets", name)
        return self._secrets.value(name)

    def progress(self, text: str) -> None:
        """Show a text about the progress of the call. It is never logged, and the model never sees it.

        Of texts that come faster than the event loop shows them, the newest is shown.
        """
        if self.on_progress is None or self._is_over or self.is_cancelled:
            return
        text = self._secrets.redactor.kept(clean_text(str(text)), MAX_PROGRESS_CHARS)
        if self._loop is None:
            self._tell(text)
            return
        with _PROGRESS:
            is_on_its_way, self._news = self._news is not None, text
        if not is_on_its_way:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._tell_news)

    # --- for the runtime ----------------------------------------------------------

    def begin(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        """Start the call on this loop. Call it on the loop's thread."""
        self._loop = loop
        self.timeout_s = timeout_s
        self.deadline = loop.time() + timeout_s

    def cancel(self, is_taken_back: IsTakenBack = _never) -> None:
        """Mark the result as no longer wanted, until the cancellation is taken back."""
        self._is_taken_back = is_taken_back
        self._is_cancelled = True

    def end(self) -> None:
        """End the call. Later progress, from a thread that still runs, is dropped."""
        if self._news is not None:
            self._tell_news()
        self._is_over = True
        self.access.end()

    def _tell_news(self) -> None:
        with _PROGRESS:
            text, self._news = self._news, None
        if text is not None:
            self._tell(text)

    def _tell(self, text: str) -> None:
        if self.on_progress is None or self._is_over:
            return
        try:
            self.on_progress(text)
        except Exception as error:  # the tool goes on: the fault is the watcher's
            _LOG.debug("a progress callback failed", exc_info=error)


class LateContext:
    """The life of one call, and its context.

    made: the context if there is one by now. is_cancelled: True once the result is no longer wanted.
    make: makes the context, at most once. goes_on: of a function that may run on behind its answer; False
    once the function has ended.
    """

    __slots__ = ("_loop", "_make", "_timeout_s", "goes_on", "is_cancelled", "made")

    def __init__(self, make: Callable[[], ToolContext]) -> None:
        self.made: ToolContext | None = None
        self.is_cancelled = False
        self.goes_on: Callable[[], bool] | None = None
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> ToolContext:
        """Return the context of the call. The first use makes it."""
        if self.made is None:
            ctx = self._make()
            if self._loop is not None:
                ctx.begin(self._loop, self._timeout_s)
            self.made = ctx
            if self.is_cancelled:  # after it is set: the loop may cancel meanwhile, and this be a thread
                ctx.cancel()
        return self.made

    def begin(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        """Start the call on this loop. Call it on the loop's thread."""
        self._loop, self._timeout_s = loop, timeout_s
        if self.made is not None:
            self.made.begin(loop, timeout_s)

    def cancel(self, is_taken_back: IsTakenBack = _never) -> None:
        """Mark the result as no longer wanted, until the cancellation is taken back."""
        self.is_cancelled = True
        if self.made is not None:
            self.made.cancel(is_taken_back)

    def end(self) -> None:
        """End the call."""
        if self.made is not None:
            self.made.end()
