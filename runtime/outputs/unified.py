"""The wrapper that gives any function a unified output: measured, and with errors as data."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, cast, overload

from msgspec.structs import replace

from callboard.actors.protocol.errors import ToolInterrupted
from callboard.runtime.clock import monotonic_us, thread_cpu_us
from callboard.runtime.failure_text import text_of
from callboard.runtime.outputs.tool_output import OutputError, ToolOutput
from callboard.runtime.sanitize import clean_text
from callboard.runtime.tools.input_forms import InputNeeded
from callboard.runtime.tools.signature import undecorated

P = ParamSpec("P")

CODE_CHARS_MAX: Final = 100
MESSAGE_CHARS_MAX: Final = 2_000  # as of an exception that a plain tool raises

_PASSED_ON: Final = (ToolInterrupted, InputNeeded)
"""Exceptions that are not errors of the tool: they say how its call goes on."""


@overload
def unified(  # type: ignore[overload-overlap]  # an async function is one of these first
    function: Callable[P, Awaitable[object]], /
) -> Callable[P, Awaitable[ToolOutput]]: ...


@overload
def unified(function: Callable[P, object], /) -> Callable[P, ToolOutput]: ...


def unified(function: Callable[P, object], /) -> Callable[P, object]:
    """Wrap a function, sync or async, so that each call of it returns a `ToolOutput`.

    A plain value becomes its result, and an exception its error, with the name of its class as code, or the
    exception's own `code`. The telemetry has the time of the call, and for a sync function the processor time
    of its thread. A second wrapping changes nothing.

    >>> unified(lambda: 1 / 0)().error.code
    'ZeroDivisionError'
    """
    if hasattr(function, "_is_unified"):
        return function
    wrapper = _of_async(function) if _is_async(function) else _of_sync(function)
    wrapper._is_unified = True  # type: ignore[attr-defined]  # a function takes any attribute
    return wrapper


def _is_async(function: Callable[..., object]) -> bool:
    plain = undecorated(function)
    return inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(type(plain).__call__)


def _of_async(function: Callable[P, object]) -> Callable[P, object]:
    # Partials and callable objects have no name to take over.
    @functools.wraps(function, updated=())
    async def call(*args: P.args, **kwargs: P.kwargs) -> ToolOutput:
        start = monotonic_us()
        try:
            value = await cast("Awaitable[object]", function(*args, **kwargs))
        except _PASSED_ON:
            raise
        except Exception as error:
            value = failure(error)
        return _measured(value, monotonic_us() - start)

    return call


def _of_sync(function: Callable[P, object]) -> Callable[P, object]:
    @functools.wraps(function, updated=())
    def call(*args: P.args, **kwargs: P.kwargs) -> ToolOutput:
        start, cpu = monotonic_us(), thread_cpu_us()
        try:
            value = function(*args, **kwargs)
        except _PASSED_ON:
            raise
        except Exception as error:
            value = failure(error)
        return _measured(value, monotonic_us() - start, thread_cpu_us() - cpu)

    return call


def failure(error: Exception) -> ToolOutput:
    """Return the output of a function that raised this. Never raises."""
    own = getattr(error, "code", None)
    code = own if isinstance(own, str) and own else type(error).__name__
    message = clean_text(text_of(error))[:MESSAGE_CHARS_MAX]
    return ToolOutput(error=OutputError(clean_text(code)[:CODE_CHARS_MAX], message, error))


def _measured(value: object, duration_us: int, cpu_us: int | None = None) -> ToolOutput:
    output = value if isinstance(value, ToolOutput) else ToolOutput(value)
    return replace(output, telemetry=replace(output.telemetry, duration_us=duration_us, cpu_us=cpu_us))
