"""Functions of the user, on threads and on the loop."""

import asyncio
import threading
from typing import Any, cast

import pytest

from callboard.runtime.tools.own_functions import (
    OwnFunctions,
    _on_loop,
)
from tests.waiting import until


def test_what_is_called_as_an_async_function_may_return_a_value_or_an_awaitable() -> None:
    async def both() -> list[object]:
        future = asyncio.get_running_loop().create_future()
        future.set_result("later")
        return [await _on_loop(lambda view: view, cast("Any", one)) for one in ("now", future)]

    assert asyncio.run(both()) == ["now", "later"]


def test_an_async_function_runs_on_the_loop_whether_it_waits_or_not() -> None:
    async def at_once(view: str) -> str:
        return view.upper()

    async def later(view: str) -> str:
        await asyncio.sleep(0)
        return view.upper()

    async def fails(view: str) -> str:
        await asyncio.sleep(0)
        raise LookupError(view)

    async def run() -> list[object]:
        own = OwnFunctions("own")
        with pytest.raises(LookupError):
            await own.value(fails, "x")
        return [await own.value(one, "in") for one in (at_once, later)]

    assert asyncio.run(run()) == ["IN", "IN"]


def test_a_caller_that_is_cancelled_does_not_wait_for_a_function_on_a_thread() -> None:
    go = threading.Event()

    async def run() -> None:
        own = OwnFunctions("alone")
        task = asyncio.create_task(own.value(lambda view: go.wait(), None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [await own.value(str.upper, "in")] == ["IN"], "another thread runs it"
        go.set()
        own.close()
        await until(lambda: not any(one.name.startswith("alone") for one in threading.enumerate()))

    asyncio.run(run())


def test_a_plain_function_returns_or_raises_from_its_thread() -> None:
    def leaves(view: str) -> str:
        raise SystemExit(view)

    async def run() -> str:
        own = OwnFunctions("own")
        with pytest.raises(RuntimeError, match="SystemExit\\('out'\\)"):
            await own.value(leaves, "out")
        with pytest.raises(ValueError, match="invalid literal"):
            await own.value(int, "x")
        value = await own.value(str.upper, "in")
        own.close()
        return cast("str", value)

    assert asyncio.run(run()) == "IN"
