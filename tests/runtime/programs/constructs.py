"""Programs that use asyncio in as many ways as people do. Their results show the order of what happened."""

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncGenerator

from callboard.actors.protocol.errors import CallFailed
from callboard.runtime.programs.context import ProgramContext
from tests.runtime.programs.kit import WORKER, Function, fail, work

WHO: contextvars.ContextVar[int] = contextvars.ContextVar("WHO", default=0)


async def sequence(ctx: ProgramContext, prompt: str) -> object:
    return [await ctx.call(work, n=n) for n in range(5)]


async def gathered(ctx: ProgramContext, prompt: str) -> object:
    done: list[int] = []

    async def one(n: int) -> None:
        done.append(await ctx.call(work, n=n))
        done.append(await ctx.call(work, n=n + 10))

    await asyncio.gather(*map(one, range(4)))
    return done


async def identical(ctx: ProgramContext, prompt: str) -> object:
    done: list[int] = []

    async def one(n: int) -> None:
        await ctx.call(work, n=7)
        done.append(n)
        await ctx.call(work, n=n)

    await asyncio.gather(*map(one, range(4)))
    return done


async def failing_gather(ctx: ProgramContext, prompt: str) -> object:
    try:
        await asyncio.gather(ctx.call(work, n=1), ctx.call(fail, n=2), ctx.call(work, n=3))
    except CallFailed as error:
        return [error.text, await ctx.call(work, n=4)]
    return "no failure"


async def kept_exceptions(ctx: ProgramContext, prompt: str) -> object:
    found = await asyncio.gather(ctx.call(fail, n=1), ctx.call(work, n=2), return_exceptions=True)
    return [str(one) for one in found]


async def group(ctx: ProgramContext, prompt: str) -> object:
    done: list[int] = []

    async def one(n: int) -> None:
        done.append(await ctx.call(work, n=n))

    async with asyncio.TaskGroup() as tasks:
        for n in range(4):
            tasks.create_task(one(n))
    return done


async def failing_group(ctx: ProgramContext, prompt: str) -> object:
    seen: list[str] = []

    async def one(n: int) -> None:
        try:
            await ctx.call(work, n=n)
            await ctx.call(work, n=n + 10)
            seen.append(f"done {n}")
        except asyncio.CancelledError:
            seen.append(f"cancelled {n}")
            raise

    try:
        async with asyncio.TaskGroup() as tasks:
            for n in range(3):
                tasks.create_task(one(n))
            tasks.create_task(ctx.call(fail, n=9))
    except* CallFailed as errors:
        seen.append(str(len(errors.exceptions)))
    return seen


async def first_completed(ctx: ProgramContext, prompt: str) -> object:
    tasks = {asyncio.create_task(ctx.call(work, n=n)) for n in range(5)}
    order: list[int] = []
    while tasks:
        done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        order += [task.result() for task in done]
        if len(order) == 2:
            tasks.add(asyncio.create_task(ctx.call(work, n=20)))
    return order


async def losers_cancelled(ctx: ProgramContext, prompt: str) -> object:
    tasks = [asyncio.create_task(ctx.call(work, n=n)) for n in range(3)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.wait(tasks)
    return [[task.result() for task in done], [task.cancelled() for task in tasks]]


async def wait_with_timeout(ctx: ProgramContext, prompt: str) -> object:
    tasks = {asyncio.create_task(ctx.call(work, n=n)) for n in range(3)}
    done, pending = await asyncio.wait(tasks, timeout=0.3)
    rest = [await task for task in pending]
    return [sorted(task.result() for task in done), rest]


async def timeout(ctx: ProgramContext, prompt: str) -> object:
    found: list[object] = []
    for n in range(4):
        try:
            async with asyncio.timeout(0.2):
                found.append(await ctx.call(work, n=n))
        except TimeoutError:
            found.append("late")
    return found


async def waited_for(ctx: ProgramContext, prompt: str) -> object:
    found: list[object] = []
    for n in range(4):
        try:
            found.append(await asyncio.wait_for(ctx.call(work, n=n), 0.2))
        except TimeoutError:
            found.append("late")
    return found


async def nested_timeouts(ctx: ProgramContext, prompt: str) -> object:
    try:
        async with asyncio.timeout(1.0):
            try:
                async with asyncio.timeout(0.1):
                    await ctx.call(work, n=1)
            except TimeoutError:
                await ctx.call(work, n=2)
            await ctx.sleep(2)
    except TimeoutError:
        return ctx.now().isoformat()
    return "no timeout"


async def queue(ctx: ProgramContext, prompt: str) -> object:
    jobs: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
    done: list[str] = []

    async def worker(name: str) -> None:
        while True:
            n = await jobs.get()
            done.append(f"{name}{await ctx.call(work, n=n)}")
            jobs.task_done()

    workers = [asyncio.create_task(worker(name)) for name in "abc"]
    for n in range(8):
        await jobs.put(n)
    await jobs.join()
    for one in workers:
        one.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return done


async def as_completed(ctx: ProgramContext, prompt: str) -> object:
    tasks = [asyncio.create_task(ctx.call(work, n=n)) for n in range(5)]
    return [await one for one in asyncio.as_completed(tasks)]


async def as_completed_bare(ctx: ProgramContext, prompt: str) -> object:
    return [await one for one in asyncio.as_completed([ctx.call(work, n=n) for n in range(5)])]


async def semaphore(ctx: ProgramContext, prompt: str) -> object:
    limit, order = asyncio.Semaphore(2), []

    async def one(n: int) -> None:
        async with limit:
            order.append(await ctx.call(work, n=n))

    await asyncio.gather(*map(one, range(6)))
    return order


async def locks_and_events(ctx: ProgramContext, prompt: str) -> object:
    lock, ready, order = asyncio.Lock(), asyncio.Event(), []

    async def waiting(n: int) -> None:
        await ready.wait()
        async with lock:
            order.append(await ctx.call(work, n=n))

    async def opening() -> None:
        await ctx.call(work, n=100)
        ready.set()

    await asyncio.gather(waiting(1), opening(), waiting(2))
    return order


async def conditions(ctx: ProgramContext, prompt: str) -> object:
    changed, count, seen = asyncio.Condition(), 0, []

    async def wait_until(n: int) -> None:
        async with changed:
            await changed.wait_for(lambda: count >= n)
            seen.append(n)

    waiters = [asyncio.create_task(wait_until(n)) for n in (3, 1, 2)]
    for n in range(3):
        await ctx.call(work, n=n)
        async with changed:
            count += 1
            changed.notify_all()
    await asyncio.gather(*waiters)
    return seen


async def shielded(ctx: ProgramContext, prompt: str) -> object:
    inner = asyncio.ensure_future(ctx.call(work, n=1))
    try:
        await asyncio.wait_for(asyncio.shield(inner), 0.1)
    except TimeoutError:
        return ["late", await inner]
    return ["in time", inner.result()]


async def sleeping_branches(ctx: ProgramContext, prompt: str) -> object:
    order: list[int] = []

    async def one(n: int) -> None:
        await ctx.sleep(0.1 * (n % 3))
        order.append(n)
        await ctx.call(work, n=n)

    await asyncio.gather(*map(one, range(5)))
    return order


async def random_and_time(ctx: ProgramContext, prompt: str) -> object:
    rolled = [ctx.random().randrange(100) for _ in range(3)]
    await ctx.call(work, n=rolled[0])
    loop = asyncio.get_running_loop()
    return [rolled, ctx.random().random(), ctx.now().isoformat(), loop.time(), ctx.since("fee")]


async def delegations(ctx: ProgramContext, prompt: str) -> object:
    parts = await asyncio.gather(*(ctx.delegate(WORKER, f"part {n}") for n in range(3)))
    return await ctx.delegate(WORKER, " and ".join(parts))


async def left_over(ctx: ProgramContext, prompt: str) -> object:
    async def background() -> None:
        try:
            await ctx.call(work, n=50)
            await ctx.sleep(100)
        finally:
            await ctx.call(work, n=51)  # never asked

    asyncio.get_running_loop().create_task(background())
    return await ctx.call(work, n=1)


async def generators(ctx: ProgramContext, prompt: str) -> object:
    closed: list[str] = []

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            for n in range(9):
                yield await ctx.call(work, n=n)
        finally:
            closed.append("closed")

    async with contextlib.aclosing(numbers()) as found:
        async for n in found:
            if n == 2:
                break
    async for _ in numbers():
        break
    return [closed, await ctx.call(work, n=30)]


async def context_variables(ctx: ProgramContext, prompt: str) -> object:
    async def one(n: int) -> int:
        WHO.set(n)
        await ctx.call(work, n=n)
        return WHO.get()

    return [await asyncio.gather(one(1), one(2)), WHO.get()]


async def sets_of_tasks(ctx: ProgramContext, prompt: str) -> object:
    tasks = {asyncio.create_task(ctx.call(work, n=n)) for n in range(20)}
    futures = {asyncio.get_running_loop().create_future() for _ in range(9)}
    for n, future in enumerate(futures):
        future.set_result(n)
    order = [await task for task in tasks]
    return [order, [future.result() for future in futures], sorted(task.get_name() for task in tasks)]


async def cancelled_and_again(ctx: ProgramContext, prompt: str) -> object:
    first = asyncio.create_task(ctx.call(work, n=1))
    await asyncio.sleep(0)
    await ctx.call(work, n=2)
    if not first.done():
        first.cancel()
    return [await ctx.call(work, n=1), first.cancelled() or first.done()]


CONSTRUCTS: list[Function] = [
    sequence, gathered, identical, failing_gather, kept_exceptions, group, failing_group, first_completed,
    losers_cancelled, wait_with_timeout, timeout, waited_for, nested_timeouts, queue, as_completed,
    as_completed_bare, semaphore, locks_and_events, conditions, shielded, sleeping_branches, random_and_time,
    delegations, left_over, generators, context_variables, sets_of_tasks, cancelled_and_again,
]  # fmt: skip
BY_NAME = {one.__name__: one for one in CONSTRUCTS}
