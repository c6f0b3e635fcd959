import asyncio
import contextlib
import contextvars
import functools
import gc
import subprocess
import sys
import threading
import time
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias

import anyio
import msgspec
import pytest

from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import ToolInterrupted
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.value_types import InputAsked
from callboard.runtime.outputs.tool_output import ToolOutput
from callboard.runtime.sanitize import check_json
from callboard.runtime.tools.context import LateContext, ToolContext
from callboard.runtime.tools.execution import ToolRunner
from callboard.runtime.tools.input_forms import InputNeeded
from callboard.runtime.tools.output import ToolOutcome
from callboard.runtime.tools.tool import Tool, tool
from tests.tables import table
from tests.waiting import until

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def run(main: Callable[[ToolRunner], Awaitable[None]], *, grace_s: float = 5.0, max_threads: int = 4) -> None:
    """Run a test's body with a runner, and see that the loop is left clean."""

    async def whole() -> None:
        runner = ToolRunner(grace_s=grace_s, max_threads=max_threads)
        await main(runner)
        await runner.aclose()

    asyncio.run(whole(), debug=False)


async def call(
    runner: ToolRunner,
    made: Tool,
    arguments: str = "{}",
    ctx: ToolContext | None = None,
    timeout_s: float = 5.0,
    max_chars: int = 1_000,
) -> ToolOutcome:
    late = LateContext(ToolContext if ctx is None else lambda: ctx)
    if ctx is not None:
        late.get()
    answer = runner.run(made, check_json(arguments), late, timeout_s=timeout_s, max_chars=max_chars)
    return answer if isinstance(answer, ToolOutcome) else await answer


def text(outcome: ToolOutcome) -> str:
    return msgspec.json.decode(outcome.output, type=str)


def outcome_of(made: Tool, arguments: str = "{}", **options: Any) -> tuple[str, str]:
    """Return the status and the text of one call."""
    found = whole_outcome_of(made, arguments, **options)
    return found.status, text(found)


def whole_outcome_of(made: Tool, arguments: str = "{}", **options: Any) -> ToolOutcome:
    """Return the outcome of one call."""
    found: list[ToolOutcome] = []

    async def main(runner: ToolRunner) -> None:
        found.append(await call(runner, made, arguments, **options))

    run(main)
    return found[0]


# --- what a tool does, a result follows -------------------------------------------


@tool
async def later(a: int) -> int:
    await asyncio.sleep(0)
    return a + 1


@tool
async def at_once(a: int) -> int:
    return a + 1


@tool
def on_a_thread(a: int) -> int:
    assert threading.current_thread() is not threading.main_thread()
    return a + 1


@pytest.mark.parametrize("made", [later, at_once, on_a_thread])
def test_a_tool_that_returns_is_ok(made: Tool) -> None:
    assert outcome_of(made, '{"a": 1}') == ("ok", "2")


def test_arguments_that_do_not_fit_are_answered_without_waiting() -> None:
    async def main(runner: ToolRunner) -> None:
        late = LateContext(ToolContext)
        outcome = runner.run(at_once, check_json('{"a": "1"}'), late, timeout_s=1, max_chars=1_000)
        assert isinstance(outcome, ToolOutcome)
        assert outcome.status == "error"
        assert "Expected `int`, got `str`" in text(outcome)

    run(main)


def raising(error: BaseException) -> list[Tool]:
    @tool
    async def first() -> None:
        raise error

    @tool
    async def second() -> None:
        await asyncio.sleep(0)
        raise error

    @tool
    def third() -> None:
        raise error

    return [first, second, third]


class Odd(BaseException):
    pass


@table(
    ("error", "told"),
    [
        (ValueError("bad \0 value"), "ValueError: bad ␀ value"),
        (TimeoutError("theirs"), "TimeoutError: theirs"),
        (SystemExit(3), "SystemExit: 3"),
        (MemoryError(), "MemoryError"),
        (RecursionError("deep"), "RecursionError: deep"),
        (asyncio.CancelledError("from inside"), "CancelledError: from inside"),
        (Odd("odd"), "Odd: odd"),
        (ExceptionGroup("g", [ValueError("one")]), "ExceptionGroup: ValueError: one"),
        (StopAsyncIteration("x"), "StopAsyncIteration: x"),
    ],
)
def test_whatever_a_tool_raises_is_an_error_result(error: BaseException, told: str) -> None:
    for made in raising(error):
        assert outcome_of(made) == ("error", told)


def test_a_traceback_reaches_the_log_and_not_the_model() -> None:
    for made in raising(ValueError("bad")):
        outcome = whole_outcome_of(made)
        assert b"test_execution" not in bytes(outcome.output)
        assert "test_execution.py" in outcome.trace
        assert outcome.trace.endswith("ValueError: bad")


def test_a_real_recursion_is_an_error_result() -> None:
    @tool
    async def deep(n: int) -> int:
        return await deep.function(n + 1)

    status, told = outcome_of(deep, '{"n": 0}')
    assert (status, told.partition(":")[0]) == ("error", "RecursionError")


def test_a_keyboard_interrupt_on_the_main_thread_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        outcome_of(raising(KeyboardInterrupt())[0])


def test_a_keyboard_interrupt_raised_on_a_thread_is_an_error_result() -> None:
    assert outcome_of(raising(KeyboardInterrupt())[2]) == ("error", "KeyboardInterrupt")


def test_a_coroutine_from_a_sync_function_is_refused_with_advice() -> None:
    @tool
    def sync() -> object:
        return at_once(1)

    status, told = outcome_of(sync)
    assert status == "error"
    assert "async def" in told


@pytest.mark.parametrize("is_caught", [True, False])
def test_an_error_that_an_async_tool_awaits_reaches_its_own_except(is_caught: bool) -> None:
    done: list[str] = []

    @tool
    async def awaits() -> str:
        loop = asyncio.get_running_loop()
        failing = loop.create_future()
        loop.call_soon(failing.set_exception, OSError("refused"))
        try:
            return str(await failing)
        except OSError:
            await asyncio.sleep(0)  # it goes on after it
            if is_caught:
                return "caught"
            raise
        finally:
            done.append("cleaned up")

    assert outcome_of(awaits) == (("ok", "caught") if is_caught else ("error", "OSError: refused"))
    assert done == ["cleaned up"]


def test_an_async_function_may_give_any_awaitable() -> None:
    class Marked:
        async def __call__(self) -> None: ...

    made = tool(name="marked")(Marked())

    def give(result: object) -> None:
        made.function = lambda: result  # type: ignore[assignment,return-value]  # a tool that returns any value

    async def main(runner: ToolRunner) -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        future.set_result("from a future")
        give(future)
        assert text(await call(runner, made)) == "from a future"
        give(3)
        assert "nothing to await" in text(await call(runner, made))

    run(main)


def test_a_result_is_cut_to_the_limit() -> None:
    @tool
    def much() -> str:
        return "x" * 5_000

    _, told = outcome_of(much, max_chars=500)
    assert len(told) <= 500
    assert "of 5,000 characters" in told


def test_tools_run_in_the_context_of_their_caller() -> None:
    @tool
    def sync() -> str:
        return VARIABLE.get()

    @tool
    async def coroutine() -> str:
        return VARIABLE.get()

    async def main(runner: ToolRunner) -> None:
        VARIABLE.set("set")
        assert text(await call(runner, sync)) == "set"
        assert text(await call(runner, coroutine)) == "set"

    run(main)


def test_the_context_knows_its_time_and_tells_progress() -> None:
    told: list[str] = []

    @tool(timeout_s=2)
    def sync(ctx: ToolContext) -> str:
        ctx.progress("half")
        assert ctx.deadline is not None
        return f"{ctx.timeout_s:g} {ctx.deadline > time.monotonic()} {ctx.address}"

    async def main(runner: ToolRunner) -> None:
        ctx = ToolContext(address="host.1", on_progress=told.append)
        assert text(await call(runner, sync, ctx=ctx)) == "2 True host.1"
        ctx.progress("after the end")

    run(main)
    assert told == ["half"]


@pytest.mark.parametrize("is_async", [False, True])
def test_the_context_of_a_call_ends_with_it_however_it_ends(is_async: bool) -> None:
    told: list[str] = []

    def act(ctx: ToolContext) -> str:
        ctx.progress("at work")
        raise ValueError("no")

    async def acts(ctx: ToolContext) -> str:
        return act(ctx)

    made = tool(name="act")(acts) if is_async else tool(name="act")(act)

    async def main(runner: ToolRunner) -> None:
        ctx = ToolContext(on_progress=told.append)
        assert (await call(runner, made, ctx=ctx)).status == "error"
        ctx.progress("after the end")

    run(main)
    assert told == ["at work"]


def test_libraries_find_the_task_they_need_in_the_first_step() -> None:
    @tool
    async def uses_timeout() -> str:
        async with asyncio.timeout(1), asyncio.TaskGroup() as group:
            first = group.create_task(asyncio.sleep(0, "inner"))
        return first.result()

    assert outcome_of(uses_timeout) == ("ok", "inner")


def test_no_task_is_added_to_the_one_that_awaits() -> None:
    @tool
    async def count() -> int:
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert outcome_of(count) == ("ok", "1")


# --- timeouts ---------------------------------------------------------------------


def test_an_async_tool_that_takes_too_long_is_an_error() -> None:
    cleaned: list[bool] = []

    @tool(effect="read")
    async def slow(ctx: ToolContext) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            cleaned.append(ctx.is_cancelled)

    assert outcome_of(slow, timeout_s=0.01) == ("error", "slow timed out after 0.01 s")
    assert cleaned == [True]


def test_a_timeout_of_a_tool_that_writes_says_that_its_effect_is_not_known() -> None:
    @tool(timeout_s=0.01)
    async def slow() -> None:
        await asyncio.sleep(60)

    status, told = outcome_of(slow)
    assert (status, told) == ("error", "slow timed out after 0.01 s; whether it had its effect is not known")


def test_the_shorter_of_both_timeouts_holds() -> None:
    @tool(timeout_s=60)
    async def slow() -> None:
        await asyncio.sleep(60)

    assert "after 0.01 s" in outcome_of(slow, timeout_s=0.01)[1]


def test_a_tool_that_fails_while_it_is_timed_out_is_timed_out() -> None:
    @tool(effect="read")
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("in the clean-up")

    assert outcome_of(slow, timeout_s=0.01) == ("error", "slow timed out after 0.01 s")


def test_a_tool_that_answers_its_timeout_with_a_result_has_one() -> None:
    @tool
    async def partial() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "what I have"
        return "all"

    assert outcome_of(partial, timeout_s=0.01) == ("ok", "what I have")


async def _stubborn() -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


@tool(effect="read")
async def stubborn() -> None:
    await _stubborn()


@tool(effect="read")
async def undying() -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except BaseException:
            continue


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # by `undying`
@pytest.mark.parametrize("made", [stubborn, undying])
def test_an_async_tool_that_swallows_its_timeout_is_closed_after_the_grace(made: Tool) -> None:
    async def main(runner: ToolRunner) -> None:
        outcome = await call(runner, made, timeout_s=0.01)
        assert (outcome.status, "timed out" in text(outcome)) == ("error", True)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)

    run(main, grace_s=0.01)


def test_a_thread_that_takes_too_long_is_told_and_its_result_dropped() -> None:
    go, ended = threading.Event(), threading.Event()
    contexts: list[ToolContext] = []

    @tool(effect="read")
    def slow(ctx: ToolContext) -> str:
        contexts.append(ctx)
        go.wait(5)
        ended.set()
        return "late"

    async def main(runner: ToolRunner) -> None:
        outcome = await call(runner, slow, timeout_s=0.02)
        assert (outcome.status, text(outcome)) == ("error", "slow timed out after 0.02 s")
        assert contexts[0].is_cancelled
        go.set()
        assert await asyncio.to_thread(ended.wait, 5)
        await asyncio.sleep(0.001)

    run(main)


def test_a_sync_tool_for_which_no_thread_was_free_says_that_it_did_not_start() -> None:
    go = threading.Event()

    @tool
    def hold() -> None:
        go.wait(5)

    async def main(runner: ToolRunner) -> None:
        first = asyncio.create_task(call(runner, hold))
        await asyncio.sleep(0)
        outcome = await call(runner, hold, timeout_s=0.01)
        assert (outcome.status, "was not started" in text(outcome)) == ("error", True)
        go.set()
        assert (await first).status == "ok"

    run(main, max_threads=1)


def test_threads_that_hang_do_not_starve_later_calls() -> None:
    go = threading.Event()

    @tool
    def hang() -> None:
        go.wait(5)

    async def main(runner: ToolRunner) -> None:
        for _ in range(3):
            assert (await call(runner, hang, timeout_s=0.01)).status == "error"
        assert await call(runner, on_a_thread, '{"a": 1}') == ToolOutcome("ok", check_json('"2"'))
        go.set()

    run(main, max_threads=1)


# --- cancellation -----------------------------------------------------------------


def cancelled(made: Tool, *, begun: "Callable[[], bool]", grace_s: float = 5.0) -> tuple[str, str]:
    """Cancel the task of a call that has begun, and return the outcome."""
    found: list[ToolOutcome] = []

    async def main(runner: ToolRunner) -> None:
        task = asyncio.create_task(call(runner, made))
        await until(begun)
        task.cancel()
        found.append(await task)

    run(main, grace_s=grace_s)
    return found[0].status, text(found[0])


def waiting(effect: Any) -> tuple[Tool, Callable[[], bool]]:
    begun = threading.Event()

    @tool(effect=effect, name="wait")
    async def wait() -> None:
        begun.set()
        await asyncio.sleep(60)

    return wait, begun.is_set


@pytest.mark.parametrize(
    ("effect", "status"), [("read", "cancelled"), ("idempotent", "interrupted"), ("write", "interrupted")]
)
def test_a_cancelled_async_tool_is_cancelled_or_interrupted_by_its_effect(effect: str, status: str) -> None:
    made, begun = waiting(effect)
    found, told = cancelled(made, begun=begun)
    assert found == status
    assert ("not known" in told) == (status == "interrupted")


def test_a_task_that_is_cancelled_before_its_first_step_raises_for_nothing_has_started() -> None:
    made, begun = waiting("write")

    async def main(runner: ToolRunner) -> None:
        task = asyncio.create_task(call(runner, made))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)
    assert not begun()


def test_a_tool_that_finishes_in_spite_of_a_cancel_is_ok() -> None:
    begun = threading.Event()

    @tool
    async def finish() -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "done all the same"

    assert cancelled(finish, begun=begun.is_set) == ("ok", "done all the same")


def test_a_stubborn_tool_is_closed_after_the_grace() -> None:
    begun = threading.Event()

    @tool
    async def stubborn() -> None:
        begun.set()
        await _stubborn()

    assert cancelled(stubborn, begun=begun.is_set, grace_s=0.01)[0] == "interrupted"


def test_a_second_cancel_ends_the_grace() -> None:
    begun = threading.Event()

    @tool
    async def stubborn() -> None:
        begun.set()
        await _stubborn()

    async def main(runner: ToolRunner) -> None:
        task = asyncio.create_task(call(runner, stubborn))
        await until(begun.is_set)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        assert (await task).status == "interrupted"

    run(main, grace_s=60)


def test_a_sync_tool_that_looks_at_its_flag_ends_early() -> None:
    begun = threading.Event()

    @tool(effect="read")
    def polite(ctx: ToolContext) -> None:
        begun.set()
        while True:
            ctx.raise_if_cancelled()
            time.sleep(0.001)

    assert cancelled(polite, begun=begun.is_set) == ("cancelled", "polite was cancelled")


def test_a_sync_tool_that_ends_within_the_grace_keeps_its_result() -> None:
    begun = threading.Event()

    @tool
    def brief(ctx: ToolContext) -> str:
        begun.set()
        while not ctx.is_cancelled:
            time.sleep(0.001)
        return "done"

    assert cancelled(brief, begun=begun.is_set) == ("ok", "done")


def test_a_sync_tool_that_does_not_end_is_interrupted_after_the_grace() -> None:
    begun, go = threading.Event(), threading.Event()

    @tool
    def deaf() -> None:
        begun.set()
        go.wait(5)

    assert cancelled(deaf, begun=begun.is_set, grace_s=0.01)[0] == "interrupted"
    go.set()


def test_a_sync_tool_that_still_waits_for_a_thread_is_cancelled_without_having_started() -> None:
    go, ran = threading.Event(), threading.Event()

    @tool
    def hold() -> None:
        go.wait(5)

    @tool
    def write() -> None:
        ran.set()

    async def main(runner: ToolRunner) -> None:
        first = asyncio.create_task(call(runner, hold))
        second = asyncio.create_task(call(runner, write))
        await asyncio.sleep(0.01)
        second.cancel()
        outcome = await second
        assert (outcome.status, text(outcome)) == ("cancelled", "write was cancelled before it started")
        go.set()
        await first

    run(main, max_threads=1)
    assert not ran.is_set()


def test_a_call_that_is_thrown_away_closes_its_tool() -> None:
    closed: list[str] = []

    @types.coroutine
    def forever() -> Any:
        yield None

    @tool
    async def wait() -> None:
        try:
            await forever()
        finally:
            closed.append("closed")

    async def main(runner: ToolRunner) -> None:
        answer = runner.run(wait, check_json("{}"), LateContext(ToolContext), timeout_s=1, max_chars=10)
        assert isinstance(answer, Coroutine)

        async def step() -> None:
            answer.send(None)  # begins, and is never carried on
            answer.close()

        await step()

    run(main)
    gc.collect()
    assert closed == ["closed"]


def test_a_session_that_ends_while_a_thread_works_is_not_hurt_by_its_result() -> None:
    begun, go = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        begun.set()
        go.wait(5)
        return "late"

    assert cancelled(slow, begun=begun.is_set, grace_s=0.001)[0] == "interrupted"
    go.set()  # its loop is closed by now


@pytest.mark.slow
def test_a_tool_that_never_returns_does_not_hold_the_interpreter() -> None:
    code = (
        "import asyncio, time\n"
        "from callboard.runtime.sanitize import check_json\n"
        "from callboard.runtime.tools.context import ToolContext\n"
        "from callboard.runtime.tools.execution import ToolRunner\n"
        "from callboard.runtime.tools.context import LateContext\n"
        "from callboard.runtime.tools.tool import tool\n"
        "@tool(description='')\n"
        "def hang() -> None:\n"
        "    time.sleep(600)\n"
        "async def main():\n"
        "    runner = ToolRunner()\n"
        "    late = LateContext(ToolContext)\n"
        "    answer = runner.run(hang, check_json('{}'), late, timeout_s=0.05, max_chars=99)\n"
        "    print((await answer).status)\n"
        "    await runner.aclose()\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], timeout=20, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "error\n", "")


def test_partials_of_async_functions_run_on_the_loop() -> None:
    async def scale(a: int, by: int) -> int:
        return a * by

    assert outcome_of(tool(name="double")(functools.partial(scale, by=2)), '{"a": 4}') == ("ok", "8")


@pytest.mark.parametrize(
    ("effect", "status"), [("write", "interrupted"), ("idempotent", "interrupted"), ("read", "error")]
)
def test_a_tool_may_say_that_its_effect_is_not_known(effect: Effect, status: str) -> None:
    @tool(effect=effect)
    async def send() -> str:
        """Send."""
        raise ToolInterrupted("the line went dead")

    @tool(effect=effect)
    def send_on_a_thread() -> str:
        """Send."""
        raise ToolInterrupted("the line went dead")

    assert outcome_of(send) == outcome_of(send_on_a_thread) == (status, "the line went dead")


def test_a_tool_that_is_timed_out_may_say_more_than_that() -> None:
    @tool
    async def send() -> str:
        """Send."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ToolInterrupted("half of it was sent") from None
        return "sent"

    assert outcome_of(send, timeout_s=0.01) == ("interrupted", "half of it was sent")


@tool(effect="read")
async def scoped(ctx: ToolContext) -> str:
    """Leave a scope of anyio several times, as HTTP clients do."""
    for _ in range(3):
        with anyio.CancelScope() as scope:
            asyncio.get_running_loop().call_soon(scope.cancel)
            await anyio.sleep(30)
    return f"cancelled: {ctx.is_cancelled}"


def test_a_tool_may_leave_scopes_of_its_own() -> None:
    assert outcome_of(scoped) == ("ok", "cancelled: False")


@contextlib.asynccontextmanager
async def waiting_at_its_end() -> AsyncIterator[None]:
    """Clean up for a moment, as the pool of a client does."""
    try:
        yield
    finally:
        await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def left_by_a_task() -> AsyncIterator[None]:
    """Leave a block because a task beside it fails, while another one cleans up."""

    async def fails() -> None:
        await asyncio.sleep(0.001)
        raise TimeoutError

    async def cleans_up() -> None:
        async with waiting_at_its_end():
            await asyncio.sleep(30)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            group.create_task(cleans_up())
            yield
    except* TimeoutError:
        raise TimeoutError from None


Block: TypeAlias = Callable[[], "contextlib.AbstractAsyncContextManager[object]"]
OWN_ENDS: tuple[tuple[Block, Block], ...] = (
    (partial(asyncio.timeout, 0.001), contextlib.nullcontext),
    (partial(asyncio.timeout, 0.001), waiting_at_its_end),
    (left_by_a_task, contextlib.nullcontext),
)


@pytest.mark.parametrize(("outer", "inner"), OWN_ENDS)
def test_a_tool_may_go_on_after_a_timeout_of_its_own(outer: Block, inner: Block) -> None:
    @tool(effect="read")
    async def patient(ctx: ToolContext) -> str:
        """Go on after a timeout of its own."""
        for _ in range(2):
            with contextlib.suppress(TimeoutError):
                async with outer(), inner():
                    await asyncio.sleep(30)
        ctx.progress("goes on")
        await asyncio.sleep(0.05)
        return f"went on, cancelled: {ctx.is_cancelled}"

    shown: list[str] = []
    ctx = ToolContext(on_progress=shown.append)

    async def main(runner: ToolRunner) -> None:
        outcome = await call(runner, patient, ctx=ctx)
        assert (outcome.status, text(outcome)) == ("ok", "went on, cancelled: False")

    run(main, grace_s=0.02)
    assert shown == ["goes on"]


class Told:
    """A value whose text is made where its result is encoded."""

    def __init__(self) -> None:
        self.seen: list[threading.Thread] = []
        self.may_end = threading.Event()

    def __str__(self) -> str:
        self.seen.append(threading.current_thread())
        self.may_end.wait(60)
        return "told"


@pytest.mark.parametrize("count", [1, 3_000])
def test_a_large_result_of_an_async_tool_is_encoded_off_the_loop(count: int) -> None:
    value = Told()
    value.may_end.set()

    @tool
    async def many() -> list[object]:
        """Return many values."""
        return [value, *range(count)]

    assert '["told",0' in text(whole_outcome_of(many))
    assert [thread is threading.main_thread() for thread in value.seen] == [count == 1]


def test_a_call_that_is_cancelled_while_its_result_is_encoded_has_it() -> None:
    value = Told()

    @tool(effect="write")
    async def many() -> list[object]:
        """Return many values."""
        return [value, *range(3_000)]

    async def main(runner: ToolRunner) -> None:
        task = asyncio.create_task(call(runner, many))
        await until(lambda: value.seen)
        task.cancel()
        await asyncio.sleep(0)
        value.may_end.set()
        assert (await task).status == "ok"

    run(main)


def test_a_result_that_is_never_encoded_leaves_a_cancelled_call_to_its_grace() -> None:
    value = Told()

    @tool(effect="write")
    async def many() -> list[object]:
        """Return many values."""
        return [value, *range(3_000)]

    async def main(runner: ToolRunner) -> None:
        task = asyncio.create_task(call(runner, many))
        await until(lambda: value.seen)
        task.cancel()
        assert (await task).status == "interrupted"
        value.may_end.set()

    run(main, grace_s=0.01)


def test_a_thread_whose_time_is_over_goes_on_until_its_function_ends() -> None:
    go = threading.Event()

    @tool(effect="write", timeout_s=0.01)
    def waits() -> None:
        """Act."""
        go.wait()

    async def main(runner: ToolRunner) -> None:
        late = LateContext(ToolContext)
        work = runner.run(waits, check_json("{}"), late, timeout_s=5, max_chars=100)
        assert not isinstance(work, ToolOutcome)
        assert "0.01 s" in text(await work)
        assert late.goes_on is not None
        assert late.goes_on()
        go.set()
        await until(lambda: late.goes_on is not None and not late.goes_on())

    run(main)


# --- outputs and questions --------------------------------------------------------


@pytest.mark.parametrize("max_chars", [1_000, 20])
def test_a_call_that_needs_input_states_its_forms_and_its_cut_words(max_chars: int) -> None:
    asked = InputAsked(Json(b'{"a":{"message":"Say."}}'), kept="note")

    @tool(effect="read")
    async def asks() -> None:
        """Act."""
        raise InputNeeded("it asks for a word of a person", asked)

    found = whole_outcome_of(asks, max_chars=max_chars)
    assert (found.status, found.asked, found.trace) == ("input_required", asked, "")
    words = "it asks for a word of a person"
    assert text(found) == words if max_chars == 1_000 else text(found) != words


def test_an_output_object_is_rendered_by_the_rules_of_its_tool() -> None:
    @tool(effect="read", output="concise")
    async def lists(ctx: ToolContext) -> ToolOutput:
        """Act."""
        return ToolOutput([1])

    ctx = ToolContext(tool="lists", call_id="c")
    found = whole_outcome_of(lists, ctx=ctx)
    assert (found.status, text(found)) == ("ok", "[lists] 1 item: 1")
    assert found.telemetry is not None


def test_a_thread_that_is_left_behind_goes_on_until_its_function_ends() -> None:
    began, go = threading.Event(), threading.Event()

    @tool(effect="write")
    def waits() -> None:
        """Act."""
        began.set()
        go.wait()

    async def main(runner: ToolRunner) -> None:
        late = LateContext(ToolContext)
        work = runner.run(waits, check_json("{}"), late, timeout_s=5, max_chars=100)
        assert not isinstance(work, ToolOutcome)
        task = asyncio.ensure_future(work)
        await until(began.is_set)
        assert late.goes_on is None
        task.cancel()
        assert (await task).status == "interrupted"
        assert late.goes_on is not None
        assert late.goes_on()
        go.set()
        await until(lambda: late.goes_on is not None and not late.goes_on())

    run(main, grace_s=0.001)
