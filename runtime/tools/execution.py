"""The run of one tool call to its one outcome.

    bad arguments            an error with the correction, at once
    returns                  ok
    raises                   an error with class and message; the traceback goes into the log
    raises ToolInterrupted   `interrupted`; an error for a read tool
    raises InputNeeded       `input_required`
    takes too long           an error; a later result of its thread is dropped
    is cancelled             read tools `cancelled`; others `interrupted`, since their effect is unknown
    is cancelled, not begun  `cancelled`

An async tool runs inside the task that awaits `run`. Cancelled or timed out, it may clean up for `grace_s`;
then it is closed. What it returned is encoded on a thread if it is large.
A sync tool runs on a daemon thread with a copy of the context variables. No thread can be ended from outside:
its cancel flag is set, and after the grace the thread is given up.
"""

import asyncio
import contextlib
import contextvars
import inspect
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Final, NamedTuple

from msgspec.structs import replace

from callboard.actors.protocol.errors import InvalidPrompt, ToolError, ToolInterrupted
from callboard.actors.protocol.immutable import Json
from callboard.runtime.large_values import is_large
from callboard.runtime.outputs.outcomes import unified_outcome
from callboard.runtime.outputs.tool_output import ToolOutput
from callboard.runtime.sanitize import to_json
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.secrets.registry import NO_SECRETS
from callboard.runtime.tools.context import IsTakenBack, LateContext
from callboard.runtime.tools.input_forms import InputNeeded
from callboard.runtime.tools.output import ToolOutcome, cut, describe, failed, returned, trace_of
from callboard.runtime.tools.signature import Bound
from callboard.runtime.tools.threads import MAX_THREADS, Job, Threads
from callboard.runtime.tools.tool import Tool

GRACE_S: Final = 5.0  # seconds that a cancelled tool has to end: half of an outcome's `cancel_grace_s`
_UNKNOWN: Final = "; whether it had its effect is not known"


class ToolRunner:
    """Runs tool calls on the event loop and on threads of its own. One is enough for a process.

    max_threads: sync tools that run at a time. Others wait, and their time limits run. grace_s: seconds that
    a cancelled tool has to end.
    """

    def __init__(self, *, max_threads: int = MAX_THREADS, grace_s: float = GRACE_S) -> None:
        self._threads = Threads(max_threads)
        self._grace_s = grace_s

    def run(
        self,
        tool: Tool,
        arguments: Json,
        ctx: LateContext,
        *,
        timeout_s: float,
        max_chars: int,
        redactor: Redactor = NO_SECRETS.redactor,
        may_cut: bool = True,
    ) -> ToolOutcome | Coroutine[object, object, ToolOutcome]:
        """Call the tool. Arguments that do not fit have an outcome at once; await the others in a task.

        ctx: made before the call only for a tool that takes it.
        timeout_s: seconds, unless the tool's own limit is lower. max_chars: characters of the output.
        may_cut: a longer output is cut, else it is an error.
        The awaited call never raises an error of the tool, and gives a cancelled task an outcome. Only a
        task that is cancelled before its first step raises CancelledError: nothing has started then.
        KeyboardInterrupt on the main thread passes through.
        """
        try:
            call = tool.bind(arguments, ctx.get() if tool.takes_context else None)
        except InvalidPrompt as error:
            return failed(str(error), max_chars)
        if tool.timeout_s is not None and tool.timeout_s < timeout_s:
            timeout_s = tool.timeout_s
        ctx.begin(asyncio.get_running_loop(), timeout_s)
        one = _Call(tool, call, ctx, timeout_s, max_chars, self._grace_s, redactor, may_cut)
        return one.on_loop() if tool.is_async else one.on_thread(self._threads)

    async def aclose(self) -> None:
        """End idle threads. Busy ones end with their tools, or with the process."""
        self._threads.close()


class _Call(NamedTuple):
    """One call on its way to its outcome."""

    tool: Tool
    call: Bound
    ctx: LateContext
    timeout_s: float
    max_chars: int
    grace_s: float
    redactor: Redactor
    may_cut: bool

    # --- async tools --------------------------------------------------------------

    async def on_loop(self) -> ToolOutcome:
        """Run an async tool to its outcome."""
        try:
            value = self.call()
            coroutine = value if isinstance(value, types.CoroutineType) else _awaited(value)
            try:
                waiting = coroutine.send(None)
            except StopIteration as end:  # it never waited: no timer was needed
                value = end.value
            else:
                value = await self._finished(coroutine, waiting)
            return await self._made_off_loop(value) if is_large(value) else self.made(value)
        except BaseException as error:
            return self._after(error)
        finally:
            self.ctx.end()

    async def _made_off_loop(self, value: object) -> ToolOutcome:
        """Make the outcome of a large value on a thread. A call that is cancelled meanwhile has it, too."""
        making = asyncio.ensure_future(asyncio.to_thread(self.made, value))
        for timeout_s in (None, self.grace_s):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([making], timeout=timeout_s)
            if making.done():
                return making.result()
        return self.stopped()

    async def _finished(self, coroutine: Coroutine[object, None, object], waiting: object) -> object:
        limit = asyncio.timeout(self.timeout_s)
        try:
            async with limit:
                return await driven(coroutine, waiting, self.ctx.cancel, self.grace_s)
        except ToolInterrupted:  # it says more than the timeout
            raise
        except Exception as error:
            if limit.expired():
                raise self._timed_out() from error
            raise

    def _after(self, error: BaseException) -> ToolOutcome:
        if isinstance(error, GeneratorExit):  # the task itself is thrown away
            raise error
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            return self.stopped()
        return self.raised(error)

    # --- sync tools ---------------------------------------------------------------

    async def on_thread(self, threads: Threads) -> ToolOutcome:
        """Run a sync tool to its outcome."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[ToolOutcome] = loop.create_future()
        context = contextvars.copy_context()

        def run() -> None:
            outcome = context.run(self.attempt)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_answer, answered, outcome)

        job = Job(run)
        threads.submit(job)
        try:
            await asyncio.wait([answered], timeout=self.timeout_s)
            return answered.result() if answered.done() else self._given_up(threads, job)
        except asyncio.CancelledError:
            return await self._stopped_thread(threads, job, answered)
        finally:
            self.ctx.end()

    def attempt(self) -> ToolOutcome:
        """Call the function on this thread and return its outcome."""
        try:
            return self.made(self.call())
        except asyncio.CancelledError as error:
            return self.stopped() if self.ctx.is_cancelled else self.raised(error)
        except BaseException as error:
            return self.raised(error)

    def _given_up(self, threads: Threads, job: Job) -> ToolOutcome:
        self.ctx.cancel()
        if threads.give_up(job):
            self.ctx.goes_on = lambda: not job.is_done
            return self.raised(self._timed_out())
        why = f"no thread was free for {self.timeout_s:g} s; try again later"
        return failed(f"{self.tool.name} was not started: {why}", self.max_chars)

    async def _stopped_thread(
        self, threads: Threads, job: Job, answered: "asyncio.Future[ToolOutcome]"
    ) -> ToolOutcome:
        """Return the outcome of a cancelled call: its own if it ends within the grace."""
        self.ctx.cancel()
        if not job.is_started and not threads.give_up(job):
            text = f"{self.tool.name} was cancelled before it started"
            return ToolOutcome("cancelled", failed(text).output)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([answered], timeout=self.grace_s)
        if answered.done():
            return answered.result()
        threads.give_up(job)
        self.ctx.goes_on = lambda: not job.is_done
        return self.stopped()

    # --- outcomes -----------------------------------------------------------------

    def made(self, value: object) -> ToolOutcome:
        """Return the outcome of a tool that returned this value."""
        if type(value) is ToolOutput:
            return self.unified(value)
        return returned(value, self.max_chars, self.redactor, may_cut=self.may_cut)

    def unified(self, output: ToolOutput) -> ToolOutcome:
        """Return the outcome of a tool that returned this output."""
        given = (self.max_chars, self.tool.output, self.redactor)
        return unified_outcome(output, self.ctx.get(), *given, may_cut=self.may_cut)

    def stopped(self) -> ToolOutcome:
        """Return the outcome of a tool that was cancelled after its start."""
        if self.tool.effect == "read":
            return ToolOutcome("cancelled", failed(f"{self.tool.name} was cancelled").output)
        text = f"{self.tool.name} was cancelled while it ran{_UNKNOWN}"
        return ToolOutcome("interrupted", failed(text).output)

    def _timed_out(self) -> ToolError:
        doubt = "" if self.tool.effect == "read" else _UNKNOWN
        return ToolError(f"{self.tool.name} timed out after {self.timeout_s:g} s{doubt}")

    def raised(self, error: BaseException) -> ToolOutcome:
        """Return the error result of a tool that raised this."""
        is_main = threading.current_thread() is threading.main_thread()
        if isinstance(error, KeyboardInterrupt) and is_main:
            raise error
        if isinstance(error, InputNeeded):
            said = to_json(cut(str(error), self.max_chars, self.redactor))
            return ToolOutcome("input_required", said, asked=error.asked)
        result = failed(describe(error, self.redactor), self.max_chars)
        if isinstance(error, ToolInterrupted) and self.tool.effect != "read":
            return ToolOutcome("interrupted", result.output)
        return replace(result, trace=trace_of(error, self.redactor))


def _answer(answered: "asyncio.Future[ToolOutcome]", outcome: ToolOutcome) -> None:
    if not answered.done():
        answered.set_result(outcome)


async def _awaited(value: object) -> object:
    """Await the result of a decorated async function, which may be any awaitable."""
    if not inspect.isawaitable(value):
        raise TypeError("the function is marked as async, but gave nothing to await")
    return await value


@types.coroutine
def driven(
    coroutine: Coroutine[object, None, object],
    waiting: object,
    on_cancel: Callable[[IsTakenBack], object],
    grace_s: float,
) -> Generator[object, None, object]:
    """Drive a coroutine that has begun, as `await` does, but close it some time after a cancellation.

    The first cancellation reaches the coroutine and starts its grace. The second one, from the grace's timer
    or from outside, closes it: a tool that swallows cancellations cannot hold its agent forever.

    A cancellation by a scope, a timeout or a task group of the tool itself counts for nothing: it takes the
    cancellation back, perhaps after a clean-up that waits.

    on_cancel: called at the first cancellation, and at the first one after each that was taken back.
    """
    patience: _Patience | None = None
    try:
        while True:
            try:
                yield waiting
            except asyncio.CancelledError as error:
                if _is_of_scope(error):
                    waiting = coroutine.throw(error)
                    continue
                if patience is not None:
                    patience.settle()
                    raise
                patience = _Patience(grace_s)
                on_cancel(patience.is_needless)
                waiting = coroutine.throw(error)
            except Exception as error:  # of a future that the coroutine awaits, which may catch it
                waiting = coroutine.throw(error)
            else:
                waiting = coroutine.send(None)
            if patience is not None and patience.is_needless():
                patience.stop()
                patience = None
    except StopIteration as end:
        return end.value
    finally:
        if patience is not None:
            patience.stop()
        with contextlib.suppress(Exception, SystemExit, asyncio.CancelledError):
            coroutine.close()


def _is_of_scope(error: asyncio.CancelledError) -> bool:
    """Return True for a cancellation by a cancel scope of anyio, which httpx and others have inside.

    A scope cancels its own task in every pass of the loop until it is left, and takes all of that back.
    """
    return str(error).startswith("Cancelled via cancel scope ")


class _Patience:
    """A timer that cancels the current task again after the grace, and takes that cancellation back."""

    def __init__(self, grace_s: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._is_over = False
        self._was_needless: bool | None = None
        self._timer = asyncio.get_running_loop().call_later(grace_s, self._end)

    def _end(self) -> None:
        self._is_over = True
        self._task.cancel()

    def is_needless(self) -> bool:
        """Return True once the cancellation is taken back, as `asyncio.timeout` inside of a tool does."""
        # Later on others take it back: those that have made it, once the tool has ended.
        return not self._task.cancelling() if self._was_needless is None else self._was_needless

    def settle(self) -> None:
        """Take the second cancellation back if this timer made it, so that no caller sees it."""
        self._was_needless = False
        if self._is_over:
            self._task.uncancel()

    def stop(self) -> None:
        """Stop the timer: the coroutine has ended in time, or goes on."""
        self._was_needless = self.is_needless()
        self._timer.cancel()
