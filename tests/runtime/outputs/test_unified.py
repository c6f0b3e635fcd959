"""The wrapper for any function."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable

import pytest

from callboard import Telemetry
from callboard.errors import ToolError, ToolInterrupted
from callboard.outputs import ToolOutput, metrics, unified
from callboard.runtime.outputs.tool_output import OutputError
from callboard.runtime.outputs.unified import failure
from tests.tables import table


async def ended(answer: Awaitable[ToolOutput]) -> ToolOutput:
    return await answer


class Quota(Exception):
    code = "quota"


def half(number: int) -> float:
    """Halve a number."""
    return number / 2


def test_a_plain_value_becomes_the_result_with_its_times() -> None:
    found = unified(half)(3)
    assert found.result == 1.5
    assert found.telemetry.duration_us is not None
    assert found.telemetry.cpu_us is not None


def test_an_async_function_has_no_processor_time_of_its_own() -> None:
    async def slow(number: int) -> int:
        await asyncio.sleep(0)
        return number

    found = asyncio.run(ended(unified(slow)(4)))
    assert found.result == 4
    assert found.telemetry.duration_us is not None
    assert found.telemetry.cpu_us is None


def test_an_output_keeps_its_own_parts() -> None:
    def own() -> ToolOutput:
        return ToolOutput(1, summary="one", telemetry=Telemetry(retries=2, metrics=metrics(rows=1)))

    found = unified(own)()
    assert (found.summary, found.telemetry.retries, len(found.telemetry.metrics)) == ("one", 2, 1)


@table(
    ("error", "code", "message"),
    [
        (ValueError("wrong"), "ValueError", "wrong"),
        (ToolError("say this"), "ToolError", "say this"),
        (Quota("tomorrow"), "quota", "tomorrow"),
        (KeyError(), "KeyError", ""),
        (ValueError("x" * 9_000), "ValueError", "x" * 2_000),
    ],
)
def test_an_exception_becomes_an_error_with_code_and_message(
    error: Exception, code: str, message: str
) -> None:
    def fails() -> None:
        raise error

    found = unified(fails)()
    assert found.error == OutputError(code, message, error)
    assert failure(error).error == found.error


def test_exceptions_that_say_how_a_call_goes_on_pass_through() -> None:
    def fails() -> None:
        raise ToolInterrupted("who knows")

    with pytest.raises(ToolInterrupted):
        unified(fails)()


def test_the_signature_stays_and_a_second_wrapping_changes_nothing() -> None:
    wrapped = unified(half)
    assert inspect.signature(wrapped) == inspect.signature(half)
    assert wrapped.__doc__ == "Halve a number."
    assert unified(wrapped) is wrapped


def test_partials_and_objects_can_be_wrapped() -> None:
    class Adder:
        async def __call__(self, number: int) -> int:
            return number + 1

    assert unified(functools.partial(half, 8))().result == 4
    assert asyncio.run(ended(unified(Adder())(1))).result == 2
