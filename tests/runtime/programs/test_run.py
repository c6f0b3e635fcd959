"""One run of a program, without a session: steps, answers, times, ends, and programs that misbehave."""

import asyncio
import contextlib
import datetime
import gc
import threading
from collections.abc import Callable, Generator
from random import Random
from typing import Any, NoReturn

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.protocol.errors import (
    AskFailed,
    CallFailed,
    DelegationFailed,
    Interrupted,
    MisuseError,
    NotApproved,
)
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.usage import ZERO
from callboard.runtime.programs import run as run_module
from callboard.runtime.programs.asks import Answer, Reply
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.run import (
    ProgramCrashed,
    ProgramRun,
)
from tests.runtime.programs.kit import T0, WORKER, Function, answer, fail, played, started, work
from tests.tables import table


def asks_of(run: ProgramRun, at: int = T0) -> list[str]:
    return [ask.name for ask in run.step((), at).asks]


def test_a_step_asks_and_the_answer_goes_on() -> None:
    async def twice(ctx: ProgramContext, prompt: str) -> object:
        return await ctx.call(work, n=1) + await ctx.call(work, n=2)

    run = started(twice)
    first = run.step((), T0)
    assert [bytes(ask.input) for ask in first.asks] == [b'{"n":1}']
    second = run.step([answer(first.asks[0], 10)], T0 + 5)
    third = run.step([answer(second.asks[0], 5)], T0 + 6)
    assert third.ending is not None
    assert third.ending.text == "15"
    assert third.ending.value is not None
    assert (second.head.step, second.head.at, second.head.wake, second.head.cancels) == (2, T0 + 5, None, ())
    assert second.head.left_out_ms == 0


def test_equal_asks_differ_by_their_occurrence_and_runs_by_their_number() -> None:
    async def same(ctx: ProgramContext, prompt: str) -> object:
        return await asyncio.gather(ctx.call(work, n=1), ctx.call(work, n=1))

    ids = [ask.id for ask in started(same).step((), T0).asks]
    assert len(set(ids)) == 2
    assert ids[0].removesuffix("_1") == ids[1].removesuffix("_2")
    assert ids == [ask.id for ask in started(same, session="fork").step((), T0).asks]
    assert not set(ids) & {ask.id for ask in started(same, number=2).step((), T0).asks}


def test_a_text_is_the_text_and_a_value_is_its_json() -> None:
    async def text(ctx: ProgramContext, prompt: str) -> object:
        return prompt.upper()

    async def nothing(ctx: ProgramContext, prompt: str) -> object:
        return None

    ending = started(text).step((), T0).ending
    assert ending is not None
    assert (ending.text, ending.value) == ("GO", None)
    ending = started(nothing).step((), T0).ending
    assert ending is not None
    assert (ending.text, bytes(ending.value or b"")) == ("null", b"null")


@pytest.mark.parametrize("within", [asyncio.timeout, None])
def test_an_answer_that_came_in_time_beats_the_timeout_however_late_the_step_is(
    within: Callable[[float], asyncio.Timeout] | None,
) -> None:
    async def patient(ctx: ProgramContext, prompt: str) -> object:
        if within is None:
            return await asyncio.wait_for(ctx.call(work, n=1), 0.3)
        async with within(0.3):
            return await ctx.call(work, n=1)

    run = started(patient)
    first = run.step((), T0)
    assert first.head.wake == T0 + 300
    late = run.step([answer(first.asks[0], 7)], T0 + 3_600_000)
    assert late.ending is not None
    assert late.ending.text == "7"


def test_deadlines_fire_one_after_the_other() -> None:
    async def sleepers(ctx: ProgramContext, prompt: str) -> object:
        order: list[float] = []

        async def one(seconds: float) -> None:
            await ctx.sleep(seconds)
            order.append(seconds)
            if seconds == 0.1:
                await asyncio.sleep(0)
                order.append(-1)

        await asyncio.gather(one(0.3), one(0.1), one(0.2))
        return order

    run = started(sleepers)
    assert run.step((), T0).head.wake == T0 + 100
    ending = run.step((), T0 + 500).ending
    assert ending is not None
    assert ending.text == "[0.1,-1,0.2,0.3]"


def test_a_deadline_is_due_at_its_millisecond_and_not_before() -> None:
    async def sleeper(ctx: ProgramContext, prompt: str) -> object:
        await ctx.sleep(0.1 + 0.2)
        await ctx.sleep_until(ctx.now() + datetime.timedelta(hours=1))
        return ctx.now().isoformat()

    run = started(sleeper)
    assert run.step((), T0).head.wake == T0 + 300
    assert run.step((), T0 + 299).head.wake == T0 + 300
    assert run.step((), T0 + 300).head.wake == T0 + 3_600_300
    assert run.step((), T0 + 3_600_300).ending is not None


def test_a_given_up_ask_is_named_and_its_answer_is_not_delivered() -> None:
    async def impatient(ctx: ProgramContext, prompt: str) -> object:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ctx.call(work, n=1), 0.1)
        return await ctx.call(work, n=1)

    run = started(impatient)
    (first,) = run.step((), T0).asks
    second = run.step((), T0 + 100)
    assert second.head.cancels == (first.id,)
    assert [ask.id for ask in second.asks] == [first.id.removesuffix("1") + "2"]
    assert run.step([answer(first, 1)], T0 + 101).ending is None
    ending = run.step([answer(second.asks[0], 2)], T0 + 102).ending
    assert ending is not None
    assert ending.text == "2"


def test_an_ask_that_is_given_up_in_its_own_step_is_not_posted() -> None:
    async def hasty(ctx: ProgramContext, prompt: str) -> object:
        task = asyncio.create_task(ctx.call(work, n=1))
        await asyncio.sleep(0)
        task.cancel()
        return await ctx.call(work, n=2)

    step = started(hasty).step((), T0)
    assert [bytes(ask.input) for ask in step.asks] == [b'{"n":2}']
    assert step.head.cancels == ()


def test_statuses_are_typed_errors() -> None:
    async def careful(ctx: ProgramContext, prompt: str) -> object:
        found = []
        for n in range(4):
            try:
                await ctx.call(work, n=n)
            except (CallFailed, Interrupted, NotApproved) as error:
                found.append(f"{type(error).__name__} {error.text}")
        return found

    run = started(careful)
    step = run.step((), T0)
    for status in ("error", "interrupted", "denied", "cancelled"):
        step = run.step([answer(step.asks[0], status, status)], T0)
    assert step.ending is not None
    assert step.ending.text == (
        '["CallFailed error","Interrupted interrupted","NotApproved denied","CallFailed cancelled"]'
    )


def test_marks_are_true_in_new_steps_and_as_recorded_in_old_ones() -> None:
    async def changed(ctx: ProgramContext, prompt: str) -> object:
        before = ctx.since("fee")
        await ctx.call(work, n=1)
        return [before, ctx.since("fee"), ctx.since("tax")]

    async def result(marks: dict[str, bool] | None) -> str:
        run = started(changed)
        step = run.step((), T0, marks)
        assert step.head.marks == ({"fee": True} if marks is None or marks else {"fee": False})
        ending = run.step([answer(step.asks[0])], T0).ending
        assert ending is not None
        return ending.text

    assert asyncio.run(result(None)) == "[true,true,true]"
    assert asyncio.run(result({"fee": True})) == "[true,true,true]"
    assert asyncio.run(result({})) == "[false,false,true]"


# --- ends -------------------------------------------------------------------------


def test_left_over_tasks_are_cancelled_and_what_they_ask_is_not_asked() -> None:
    ended: list[str] = []

    async def careless(ctx: ProgramContext, prompt: str) -> object:
        async def background() -> None:
            try:
                await ctx.call(work, n=1)
            finally:
                ended.append("finally")
                await ctx.call(work, n=2)

        asyncio.get_running_loop().create_task(background())
        return await ctx.call(work, n=3)

    run = started(careless)
    first = run.step((), T0)
    last = run.step([answer(next(ask for ask in first.asks if bytes(ask.input) == b'{"n":3}'), 1)], T0)
    assert last.ending is not None
    assert last.asks == ()
    assert len(last.head.cancels) == 1
    assert ended == ["finally"]


def test_asks_of_the_last_step_are_not_posted() -> None:
    async def parting(ctx: ProgramContext, prompt: str) -> object:
        asyncio.get_running_loop().create_task(ctx.call(work, n=1))
        await asyncio.sleep(0)
        return "bye"

    step = started(parting).step((), T0)
    assert (step.asks, step.head.cancels) == ((), ())


async def asks_on(ctx: ProgramContext, prompt: str) -> object:
    told = []
    for ask in (ctx.ask_model("q"), ctx.delegate(WORKER, "more"), ctx.call(work, n=1)):
        try:
            await ask
        except AskFailed as error:
            told.append((type(error).__name__, getattr(error, "kind", "")))
    return told


def test_after_the_news_of_an_end_each_ask_raises_and_is_no_part_of_the_step() -> None:
    run = started(asks_on)
    first = run.step((), T0)
    step = run.step([replace(answer(first.asks[0], "no", "budget"), ends="budget")], T0 + 1)
    assert step.asks == ()
    assert step.ending is not None
    assert step.ending.text == (
        '[["DelegationFailed","budget"],["DelegationFailed","budget"],["CallFailed",""]]'
    )


async def retries(ctx: ProgramContext, prompt: str) -> object:
    ticks = []

    async def ticker() -> None:
        while True:
            await ctx.sleep(1)
            ticks.append(ctx.now())

    beside = asyncio.ensure_future(ticker())
    for attempt in range(6):
        try:
            async with asyncio.timeout(3_600):
                return await ctx.ask_model("q")
        except DelegationFailed:
            await ctx.sleep(2**attempt)
    beside.cancel()
    return f"{len(ticks)} ticks at {len(set(ticks))} time"


async def sleeps_forever(ctx: ProgramContext, prompt: str) -> object:
    with contextlib.suppress(DelegationFailed):
        await ctx.ask_model("q")
    while True:
        await ctx.sleep_until(ctx.now() + datetime.timedelta(days=1))


@pytest.mark.parametrize(("function", "text"), [(retries, "63 ticks at 1 time"), (sleeps_forever, None)])
def test_after_the_news_of_an_end_no_wait_keeps_the_code_from_its_return(
    function: Function, text: str | None
) -> None:
    run = started(function)
    first = run.step((), T0)
    step = run.step([replace(answer(first.asks[0], "no", "budget"), ends="budget")], T0 + 500)
    assert (step.asks, step.head.at) == ((), T0 + 500)
    assert (step.ending and step.ending.text) == text


def test_a_loop_of_asks_after_the_news_of_an_end_comes_to_rest() -> None:
    tries = []

    async def insists(ctx: ProgramContext, prompt: str) -> object:
        while True:
            tries.append(1)
            with contextlib.suppress(DelegationFailed):
                return await ctx.ask_model("q")

    run = started(insists)
    first = run.step((), T0)
    step = run.step([replace(answer(first.asks[0], "no", "budget"), ends="budget")], T0 + 1)
    assert (step.asks, step.ending, len(tries)) == ((), None, 1 + 100 + 1)


def test_an_error_has_the_line_of_the_user() -> None:
    async def broken(ctx: ProgramContext, prompt: str) -> object:
        await ctx.call(work, n=1)
        return dict[str, str]()["missing"]

    run = started(broken)
    (ask,) = run.step((), T0).asks
    with pytest.raises(ProgramCrashed, match=r"KeyError: 'missing' \(test_run.py:\d+ in broken\)"):
        run.step([answer(ask)], T0)


def test_an_error_of_a_group_is_that_of_its_task() -> None:
    async def broken(ctx: ProgramContext, prompt: str) -> object:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.call(fail, n=1))
        return None

    run = started(broken)
    (ask,) = run.step((), T0).asks
    with pytest.raises(ProgramCrashed, match="CallFailed: tool 'fail' failed: no"):
        run.step([answer(ask, "no", "error")], T0)


def test_an_error_of_the_code_beside_an_end_that_it_chose_is_no_end() -> None:
    async def both(ctx: ProgramContext, prompt: str) -> object:
        raise ExceptionGroup("both", [ctx.fail("chosen"), ValueError("a mistake")])

    assert "a mistake" in crash(both)


def test_a_group_without_an_error_is_a_crash() -> None:
    with pytest.raises(ProgramCrashed):
        run_module._ending_by(ValueError("a mistake"))


def test_a_result_that_is_no_json_is_named_by_its_type() -> None:
    async def sets(ctx: ProgramContext, prompt: str) -> object:
        return {1, 2}

    with pytest.raises(ProgramCrashed, match="returned a value of type set, which is not JSON"):
        started(sets).step((), T0)


def test_a_result_that_is_too_large_or_too_deep_is_refused_with_the_reason() -> None:
    async def large(ctx: ProgramContext, prompt: str) -> object:
        return ["x" * 9_000_000]

    async def deep(ctx: ProgramContext, prompt: str) -> object:
        found: object = 1
        for _ in range(63):
            found = [found]
        return found

    with pytest.raises(ProgramCrashed, match=r"returned a list of 18,000,072 bytes .* at most 15,728,640"):
        started(large).step((), T0)
    with pytest.raises(ProgramCrashed, match=r"of type list, which is not JSON: it at .* nested too deeply"):
        started(deep).step((), T0)


def crash(function: Function) -> str:
    with pytest.raises(ProgramCrashed) as caught:
        played(started(function), Random(1))
    return str(caught.value)


def test_a_program_that_waits_for_nothing_crashes_and_says_where() -> None:
    async def forlorn(ctx: ProgramContext, prompt: str) -> object:
        return await asyncio.get_running_loop().create_future()

    assert "waits for nothing that can come (Task-1 at test_run.py:" in crash(forlorn)


def test_a_program_that_awaits_something_foreign_crashes() -> None:
    class Foreign:
        def __await__(self) -> Generator[str, None, int]:
            yield "a value that no loop of asyncio knows"
            return 1

    async def strange(ctx: ProgramContext, prompt: str) -> object:
        return await Foreign()

    assert "RuntimeError: Task got bad yield" in crash(strange)


async def other_thread(ctx: ProgramContext, prompt: str) -> object:
    return await asyncio.to_thread(threading.get_ident)


async def a_socket(ctx: ProgramContext, prompt: str) -> object:
    return await asyncio.open_connection("localhost", 1)


async def a_subprocess(ctx: ProgramContext, prompt: str) -> object:
    return await asyncio.create_subprocess_exec("true")


async def own_loop(ctx: ProgramContext, prompt: str) -> object:
    return asyncio.get_running_loop().run_forever()


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (other_thread, "run_in_executor: a program has no threads"),
        (a_socket, "create_connection: a program has no network or files"),
        (a_subprocess, "subprocess_exec: a program has no subprocesses"),
        (own_loop, "run_forever: a program has no way to run or end its loop"),
    ],
)
def test_threads_sockets_and_subprocesses_are_refused_by_name(function: Function, named: str) -> None:
    text = crash(function)
    assert named in text
    assert "write a @tool" in text
    assert f"in {function.__name__})" in text


def test_a_step_that_never_rests_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.runtime.programs.run.CALLBACKS_MAX", 1_000)

    async def spinning(ctx: ProgramContext, prompt: str) -> NoReturn:
        while True:  # noqa: ASYNC110  # the subject of this test
            await asyncio.sleep(0)

    text = crash(spinning)
    assert "the step never ends" in text
    assert "in spinning" in text


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_an_exit_passes_through_and_the_run_is_over(error: BaseException) -> None:
    async def leaving(ctx: ProgramContext, prompt: str) -> object:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.sleep(5))
            raise error

    run = started(leaving)
    with pytest.raises(type(error)):
        run.step((), T0)
    assert run.is_over
    run.stop()


def test_a_program_that_cancels_itself_crashes() -> None:
    async def own_end(ctx: ProgramContext, prompt: str) -> object:
        raise asyncio.CancelledError

    assert "the program cancelled itself" in crash(own_end)


def test_nothing_but_an_answer_moves_a_program() -> None:
    events: list[asyncio.Event] = []

    async def waiting(ctx: ProgramContext, prompt: str) -> object:
        event = asyncio.Event()
        events.append(event)
        await asyncio.gather(event.wait(), ctx.call(work, n=1))
        return "moved"

    started(waiting).step((), T0)
    with pytest.raises(MisuseError, match="runs only while it handles an answer"):
        events[0].set()


def test_tools_and_agents_of_others_are_refused() -> None:
    async def greedy(ctx: ProgramContext, prompt: str) -> object:
        return await ctx.call("other")

    assert "has no tool 'other': list it in @program(tools=[...])" in crash(greedy)


# --- stopping ----------------------------------------------------------------------


def test_a_stop_cancels_runs_finally_and_posts_nothing() -> None:
    seen: list[str] = []

    async def cleaning(ctx: ProgramContext, prompt: str) -> object:
        try:
            await asyncio.gather(ctx.call(work, n=1), ctx.delegate(WORKER, "part"))
        finally:
            seen.append("finally")
            await ctx.call(work, n=2)
            seen.append("never")
        return None

    run = started(cleaning)
    run.step((), T0)
    assert not run.is_over
    run.stop()
    assert seen == ["finally"]
    assert run.is_over


def test_a_program_that_swallows_every_error_is_abandoned_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    swallowed: list[str] = []

    async def stubborn(ctx: ProgramContext, prompt: str) -> NoReturn:
        while True:
            try:
                await ctx.call(work, n=1)
            except BaseException as error:
                swallowed.append(type(error).__name__)
                if isinstance(error, GeneratorExit):
                    raise

    run = started(stubborn)
    run.step((), T0)
    run.stop()
    assert swallowed == ["CancelledError"] * run_module.CANCELS + ["GeneratorExit"]
    assert "ignore that they were cancelled, and are abandoned: Task-1 at test_run.py:" in caplog.text


@pytest.mark.parametrize("keeps_itself", [False, True])
def test_no_code_of_an_abandoned_program_runs_when_garbage_is_collected(keeps_itself: bool) -> None:
    seen: list[str] = []

    async def stubborn(ctx: ProgramContext, prompt: str) -> NoReturn:
        me = asyncio.current_task() if keeps_itself else None  # a cycle that only a collection ends
        while True:
            try:
                await ctx.call(work, n=1)
            except asyncio.CancelledError:
                seen.append("cancelled")
            finally:
                seen.append("finally" if me is None or not me.done() else "")

    run = started(stubborn)
    run.step((), T0)
    run.stop()
    left = [*seen]
    assert left[-1] == "finally"
    gc.collect()
    assert seen == left


def test_a_program_that_raises_while_it_is_closed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def rude(ctx: ProgramContext, prompt: str) -> NoReturn:
        while True:
            try:
                await ctx.call(work, n=1)
            except asyncio.CancelledError:
                continue
            except GeneratorExit:
                raise LookupError("not now") from None

    run = started(rude)
    run.step((), T0)
    run.stop()
    assert "not now" in caplog.text


def test_a_program_that_sleeps_through_its_stop_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    async def spinning(ctx: ProgramContext, prompt: str) -> NoReturn:
        while True:
            try:
                await ctx.call(work, n=1)
            except asyncio.CancelledError:
                while True:  # noqa: ASYNC110  # the subject of this test
                    await asyncio.sleep(0)

    run = started(spinning)
    run.step((), T0)
    run.stop()
    assert "the step never ends" in caplog.text


def test_a_stop_leaves_the_loop_of_the_process_as_it_was() -> None:
    async def quick(ctx: ProgramContext, prompt: str) -> object:
        return await ctx.call(work, n=1)

    async def outside() -> None:
        before, task = asyncio.get_running_loop(), asyncio.current_task()
        run = started(quick)
        run.step((), T0)
        assert (asyncio.get_running_loop(), asyncio.current_task()) == (before, task)
        run.stop()
        assert (asyncio.get_running_loop(), asyncio.current_task()) == (before, task)
        await asyncio.sleep(0)

    asyncio.run(outside())


def test_the_state_is_read_once_a_step_and_a_key_that_is_not_there_is_noted() -> None:
    reads: list[str] = []

    def state_of(key: str) -> Json:
        reads.append(key)
        if key == "none":
            raise KeyError("there is no such key")
        return Json(str(len(reads)).encode())

    async def reading(ctx: ProgramContext, prompt: str) -> object:
        seen = [ctx.state["n"], ctx.state["n"]]
        for _ in range(2):
            with contextlib.suppress(KeyError):
                ctx.state["none"]
        await ctx.call(work, n=1)
        return [*seen, ctx.state["n"]]

    run = started(reading)
    first = run.step((), T0, state_of=state_of)
    assert reads == ["n", "none", "none"]
    assert (first.head.state, first.head.undeclared) == ({"n": Json(b"1")}, {"none": "there is no such key"})
    last = run.step([answer(first.asks[0])], T0, state_of=state_of)
    assert last.ending is not None
    assert last.ending.text == "[1,1,4]"
    assert (last.head.state, last.head.undeclared) == ({"n": Json(b"4")}, {})
    assert "no session is here, so nothing shares the state key 'n'" in crash(reading)


def test_random_numbers_are_those_of_the_run() -> None:
    async def drawing(ctx: ProgramContext, prompt: str) -> object:
        return [ctx.random().random(), ctx.random().random()]

    def drawn(number: int) -> str:
        ending = started(drawing, number).step((), T0).ending
        assert ending is not None
        return ending.text

    assert drawn(1) == drawn(1) != drawn(2)
    first, second = msgspec.json.decode(drawn(1))
    assert first != second


def test_a_wait_for_no_time_lets_the_other_tasks_go_first() -> None:
    seen: list[str] = []

    async def other() -> None:
        seen.append("other")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        seen.append("later")

    async def waiting(ctx: ProgramContext, prompt: str) -> object:
        task = asyncio.ensure_future(other())
        await ctx.sleep_until(ctx.now())
        seen.append("main")
        await task
        return "done"

    assert started(waiting).step((), T0).ending is not None
    assert seen == ["other", "main", "later"]


@pytest.mark.parametrize("leaves", [False, True])
def test_a_program_that_spins_or_exits_while_it_is_closed_is_logged(
    leaves: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def rude(ctx: ProgramContext, prompt: str) -> NoReturn:
        while True:
            try:
                await ctx.call(work, n=1)
            except asyncio.CancelledError:
                continue
            finally:
                if leaves:
                    raise SystemExit(3)

    run = started(rude)
    run.step((), T0)
    run.stop()
    assert run.is_over
    assert ("a program does not end: " in caplog.text) is leaves
    del run
    gc.collect()  # its task reports here, and not at the end of the process, that its exit was not awaited


def test_an_open_ask_that_no_task_waits_for_is_given_up_at_the_end() -> None:
    kept: list[Any] = []

    async def by_hand(ctx: ProgramContext, prompt: str) -> object:
        for n in (1, 2):
            kept.append(ctx.call(work, n=n))
            kept[-1].send(None)
            if n == 1:
                await ctx.sleep(1)
        return "done"

    run = started(by_hand)
    (first,) = run.step((), T0).asks
    last = run.step((), T0 + 1_000)
    assert last.ending is not None
    assert (last.asks, last.head.cancels) == ((), (first.id,))
    for coroutine in kept:
        coroutine.close()


def test_the_first_of_several_ends_that_a_program_chooses_is_its_end() -> None:
    async def both(ctx: ProgramContext, prompt: str) -> object:
        ends = [ctx.fail("first", kind="budget"), ctx.fail("second", kind="deadline")]
        raise ExceptionGroup("both", [ExceptionGroup("inner", ends[:1]), ends[1]])

    ending = started(both).step((), T0).ending
    assert ending is not None
    assert (ending.text, ending.failure) == ("first", "budget")


def test_a_reason_that_a_program_gives_has_10_000_characters_at_most() -> None:
    async def long(ctx: ProgramContext, prompt: str) -> object:
        raise ctx.fail("x" * 10_001)

    ending = started(long).step((), T0).ending
    assert ending is not None
    assert ending.text == "x" * 10_000


def test_the_errors_of_a_group_are_told_up_to_the_third() -> None:
    async def many(ctx: ProgramContext, prompt: str) -> object:
        raise ExceptionGroup("many", [ValueError(f"no {n}") for n in range(5)])

    async def three(ctx: ProgramContext, prompt: str) -> object:
        raise ExceptionGroup("many", [ValueError(f"no {n}") for n in range(3)])

    text = crash(many)
    assert "no 2" in text
    assert "no 3" not in text
    assert text.endswith("; and 2 more")
    assert "no 2" in crash(three)
    assert "more" not in crash(three)


def test_an_exit_while_an_abandoned_program_is_closed_is_logged_and_goes_no_further(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def rude(ctx: ProgramContext, prompt: str) -> NoReturn:
        while True:
            try:
                await ctx.call(work, n=1)
            except asyncio.CancelledError:
                continue
            except GeneratorExit:
                raise SystemExit(3) from None

    run = started(rude)
    run.step((), T0)
    run.stop()
    assert "a program does not end: SystemExit: 3" in caplog.text
    assert run.is_over


def test_a_run_that_waits_for_nothing_is_over_and_its_code_closed() -> None:
    ended: list[str] = []

    async def waits(ctx: ProgramContext, prompt: str) -> object:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.append("closed")

    run = started(waits)
    with pytest.raises(ProgramCrashed, match="waits for nothing that can come"):
        run.step((), T0)
    assert run.is_over
    assert ended == ["closed"]


def test_no_timer_fires_while_a_run_is_abandoned() -> None:
    fired: list[str] = []

    async def waits(ctx: ProgramContext, prompt: str) -> object:
        asyncio.get_running_loop().call_later(1, fired.append, "late")
        return await ctx.call(work, n=1)

    run = started(waits)
    run.step((), T0)
    run.at = T0 + 5_000
    run._abandon()
    assert (fired, run.is_over) == ([], True)


def test_a_run_counts_what_is_left_out_from_its_first_step() -> None:
    async def sleeps(ctx: ProgramContext, prompt: str) -> object:
        await asyncio.sleep(1)
        return "slept"

    run = started(sleeps)
    assert run.step((), T0, left_out_ms=700).head.wake == T0 + 1_000
    assert run.step((), T0 + 600, left_out_ms=1_000).head.wake == T0 + 1_300
    ending = run.step((), T0 + 1_300, left_out_ms=1_000).ending
    assert ending is not None
    assert ending.text == "slept"


def test_a_run_whose_step_never_rests_is_over_at_its_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.runtime.programs.run.CALLBACKS_MAX", 20)
    rounds: list[int] = []

    async def spinning(ctx: ProgramContext, prompt: str) -> NoReturn:
        while True:  # the subject of this test
            rounds.append(1)
            await asyncio.sleep(0)

    run = started(spinning)
    with pytest.raises(ProgramCrashed, match="the step never ends"):
        run.step((), T0)
    assert run.is_over
    assert len(rounds) < 100
    assert run._task is None


def test_a_request_refers_to_the_reply_that_the_run_has_and_to_no_ask_that_was_given_up() -> None:
    said = [{"role": "user", "content": "one"}]
    blocks = [{"type": "text", "text": "well"}]

    async def asks(ctx: ProgramContext, prompt: str) -> object:
        lost = asyncio.ensure_future(ctx.ask_model(messages=[{"role": "user", "content": "lost"}]))
        await asyncio.sleep(0)
        lost.cancel()
        found = await ctx.ask_model(messages=said, system="s", max_tokens=7, settings={"top_k": 1})
        return await ctx.ask_model(
            messages=[*said, found.message, {"role": "user", "content": "lost"}], system="t"
        )

    run = started(asks)
    (first,) = run.step((), T0).asks
    assert msgspec.json.decode(first.input) == {
        "messages": said,
        "system": "s",
        "max_tokens": 7,
        "settings": {"top_k": 1},
    }
    whole = replace(
        answer(first, "well"), value=Json(msgspec.json.encode(blocks)), reply=Reply("end_turn", ZERO)
    )
    (second,) = run.step([whole], T0).asks
    assert msgspec.json.decode(second.input) == {
        "messages": [[first.id, 0, 2], {"role": "user", "content": "lost"}],
        "system": "t",
    }


@pytest.mark.parametrize("swallows", [2, 3])
def test_a_program_may_swallow_two_cancellations(swallows: int, caplog: pytest.LogCaptureFixture) -> None:
    async def stubborn(ctx: ProgramContext, prompt: str) -> NoReturn:
        for _ in range(swallows):
            with contextlib.suppress(asyncio.CancelledError):
                await ctx.call(work, n=1)
        await ctx.call(work, n=1)
        raise AssertionError

    run = started(stubborn)
    run.step((), T0)
    run.stop()
    assert ("are abandoned" in caplog.text) == (swallows == 3)


# --- the end of a run ---------------------------------------------------------------


@table("ends", ["", "budget"])
def test_an_ask_of_a_run_that_is_stopped_is_not_posted_and_has_no_answer(ends: str) -> None:
    late: list[tuple[str, bool]] = []

    async def main(run: ProgramRun) -> None:
        try:
            await run.ask("look", NULL)[1]
            await asyncio.Event().wait()
        finally:
            name, answer = run.ask("bye", NULL)
            late.append((name, answer.done()))

    run = ProgramRun(main, "1.s.host")
    (ask,) = run.step((), 0).asks
    if ends:
        run.step([Answer(ask.id, ends=ends)], 1)
    run.stop()
    assert late == [("", False)]


def test_the_code_of_a_run_that_never_ends_asks_nothing_while_it_is_closed() -> None:
    late: list[str] = []

    async def main(run: ProgramRun) -> None:
        try:
            while True:  # noqa: ASYNC110  # it never ends
                await asyncio.sleep(0)
        finally:
            late.append(run.ask("bye", NULL)[0])

    run = ProgramRun(main, "1.s.host")
    with pytest.raises(ProgramCrashed, match="never ends"):
        run.step((), 0)
    assert late == [""]


def test_a_stop_cancels_the_program_before_the_tasks_that_it_made() -> None:
    ended: list[str] = []

    async def noted(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def main(run: ProgramRun) -> None:
        kept = asyncio.ensure_future(noted("task"))
        run.ask("look", NULL)
        await noted("program")
        await kept

    run = ProgramRun(main, "1.s.host")
    run.step((), 0)
    run.stop()
    assert ended == ["program", "task"]
