"""Functions of the user, on threads and on the loop."""

import asyncio
from typing import Any, cast

import pytest

from callboard.runtime.tools.own_functions import (
    OwnFunctions,
    _on_loop,
)


def test_what_is_called_as_an_async_function_may_return_a_value_or_an_awaitable() -> None:
    async def both() -> list[object]:
        future = asyncio.get_running_loop().create_future()
        future.set_result("later")
        return [await _on_loop(lambda view: view, cast("Any", one)) for one in ("now", future)]

    assert asyncio.run(both()) == ["now", "later"]


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
