"""Tools on Ray, with a stand-in for Ray whose tasks run here. `tests/crash/test_ray.py` has the real one."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from callboard.actors.protocol.errors import InvalidAgent, MisuseError
from callboard.actors.protocol.immutable import Json
from callboard.runtime.cluster.ray_tools import _found, _run, ray_call, ray_options
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import tool
from tests.crash import ray_tools as on_nodes
from tests.runtime.tools.test_execution import outcome_of, whole_outcome_of


class RayError(Exception):
    pass


class TaskCancelledError(RayError):
    pass


class RayTaskError(RayError):
    cause: object = None


class Exceptions:
    RayError, RayTaskError, TaskCancelledError = RayError, RayTaskError, TaskCancelledError
    RuntimeEnvSetupError = type("RuntimeEnvSetupError", (RayError,), {})
    TaskUnschedulableError = type("TaskUnschedulableError", (RayError,), {})
    NodeDiedError = type("NodeDiedError", (RayError,), {})


class FakeRay:
    """As much of Ray as a call uses. task: makes the future of a task, of its function without arguments."""

    exceptions = Exceptions

    def __init__(self, task: Callable[[Callable[[], object]], "asyncio.Future[Any]"]) -> None:
        self.task = task
        self.options_given: dict[str, Any] = {}
        self.cancelled: list[bool] = []

    def is_initialized(self) -> bool:
        return True

    def remote(self, function: Callable[..., object]) -> Any:
        fake = self

        class Task:
            def options(self, **options: Any) -> "Task":
                fake.options_given = options
                return self

            def remote(self, *values: object) -> Any:
                return fake.task(lambda: function(*values))

        return Task()

    def cancel(self, reference: "asyncio.Future[Any]", *, force: bool) -> None:
        self.cancelled.append(force)
        if force and not reference.done():
            reference.set_exception(TaskCancelledError())


def done(work: Callable[[], object]) -> "asyncio.Future[Any]":
    future = asyncio.get_running_loop().create_future()
    try:
        future.set_result(work())
    except Exception as error:
        made = RayTaskError(str(error))
        made.cause = error
        future.set_exception(made)
    return future


def failing(error: Exception) -> Callable[[Callable[[], object]], "asyncio.Future[Any]"]:
    def task(work: Callable[[], object]) -> "asyncio.Future[Any]":
        future = asyncio.get_running_loop().create_future()
        future.set_exception(error)
        return future

    return task


def hanging(work: Callable[[], object]) -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


def fake(monkeypatch: pytest.MonkeyPatch, task: Any) -> FakeRay:
    made = FakeRay(task)
    monkeypatch.setitem(sys.modules, "ray", made)
    return made


@tool(effect="write", on=ray_options(num_cpus=4, num_gpus=0.5, memory_bytes=1_000, resources={"disk": 1}))
def put(n: int) -> int:
    """Do it."""
    return n + len(ray_call().tool)


def test_a_call_is_a_task_with_its_resources_which_ray_never_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = fake(monkeypatch, done)
    assert outcome_of(put, '{"n": 1}') == ("ok", "1")
    assert ray.options_given == {
        "max_retries": 0,
        "name": "callboard put",
        "num_cpus": 4,
        "num_gpus": 0.5,
        "memory": 1_000,
        "resources": {"disk": 1},
    }
    assert outcome_of(put, '{"n": "x"}')[0] == "error"  # checked here, before a task is made


def test_an_exception_of_the_function_is_the_one_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, done)
    assert outcome_of(on_nodes.fails) == ("error", "the disk of the node is full")
    assert outcome_of(on_nodes.breaks) == ("error", "KeyError: 'nothing here'")
    assert outcome_of(on_nodes.awkward) == ("error", "Awkward: status 7")
    assert "raise KeyError" in whole_outcome_of(on_nodes.breaks).trace
    fake(monkeypatch, failing(RayTaskError("the cause cannot be pickled")))
    assert outcome_of(on_nodes.fails) == ("error", "the cause cannot be pickled")


@pytest.mark.parametrize("name", ["NodeDiedError", "TaskCancelledError"])
def test_a_lost_node_leaves_the_effect_of_a_write_tool_unknown(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fake(monkeypatch, failing(getattr(Exceptions, name)()))
    status, told = outcome_of(put, '{"n": 1}')
    assert (status, name in told) == ("interrupted", True)
    assert outcome_of(on_nodes.add, '{"a": 1, "b": 2}')[0] == "error"  # a read tool has no effect


@pytest.mark.parametrize("name", ["RuntimeEnvSetupError", "TaskUnschedulableError"])
def test_a_task_that_could_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    fake(monkeypatch, failing(getattr(Exceptions, name)("no node\nhas it")))
    assert outcome_of(put, '{"n": 1}') == ("error", "put was not started: no node")


def test_a_call_that_takes_too_long_is_cancelled_and_then_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.runtime.cluster.ray_tools.GRACE_S", 0.01)
    ray = fake(monkeypatch, hanging)
    assert outcome_of(put, '{"n": 1}', timeout_s=0.01)[0] == "error"
    assert ray.cancelled == [False, True]


def test_a_result_that_comes_as_the_call_is_cancelled_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = fake(monkeypatch, hanging)
    made: list[asyncio.Future[Any]] = []

    def task(work: Callable[[], object]) -> "asyncio.Future[Any]":
        made.append(hanging(work))
        return made[0]

    ray.task = task

    def cancel(reference: object, *, force: bool) -> None:
        made[0].set_result("just in time")

    monkeypatch.setattr(ray, "cancel", cancel)

    async def scene() -> object:
        bound: Any = put.bind(Json(b'{"n": 1}'), ToolContext())
        call = asyncio.ensure_future(bound())
        await asyncio.sleep(0)
        call.cancel()
        return await call

    assert asyncio.run(scene()) == "just in time"


def test_without_ray_a_call_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    status, told = outcome_of(put, '{"n": 1}')
    assert status == "error"
    assert told.startswith("put was not started: ")
    assert "pip install 'callboard[ray]'" in told


def test_a_function_that_takes_a_context_cannot_run_there() -> None:
    with pytest.raises(InvalidAgent, match=r"tool f runs on Ray, where no ToolContext is.*ray_call\(\)"):

        @tool(on=ray_options())
        def f(ctx: ToolContext) -> str:
            return ""


@pytest.mark.parametrize(
    "options",
    [{"num_cpus": -1}, {"num_gpus": True}, {"memory_bytes": "1G"}, {"resources": {"a": float("inf")}}],
)
def test_resources_are_numbers_from_0_up(options: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match="is a number from 0 up"):
        ray_options(**options)


def test_a_function_is_found_by_the_name_of_its_tool_and_a_missing_one_is_named() -> None:
    assert _found("tests.crash.ray_tools:add") is on_nodes.add.function
    with pytest.raises(Exception, match=r"tests\.crash\.nowhere:add cannot be imported on the Ray node"):
        _found("tests.crash.nowhere:add")


def test_a_call_has_its_identity_only_in_a_task() -> None:
    with pytest.raises(MisuseError, match="ray_call"):
        ray_call()
    assert callable(_run)


def test_the_tool_itself_calls_the_function_here() -> None:
    assert on_nodes.add.function.__name__ == "add"

    @tool(on=ray_options())
    def twice(n: int) -> int:
        """Double it."""
        return 2 * n

    assert twice(2) == 4
