"""Tools whose functions run as tasks of Ray: `@tool(on=ray_options(num_cpus=4))`.

    called -> task submitted -> returns            the value
                             -> raises             an exception of its name, with its words and traceback
                             -> worker or node dies `ToolInterrupted`: its effect is unknown
    cancelled -> the task is cancelled -> a grace -> its process is killed

Ray is given no retry for a task (`max_retries=0`). A call that a crash cut off runs again, or does not, by
the tool's effect, as every call does.
"""

import asyncio
import functools
import importlib
import inspect
import math
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Literal, NamedTuple

from callboard.actors.protocol.errors import (
    CallboardError,
    InvalidAgent,
    MisuseError,
    ToolError,
    ToolInterrupted,
)
from callboard.runtime.cluster.ray_driver import connected
from callboard.runtime.failure_text import text_of
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.signature import Function, context_parameter, undecorated
from callboard.runtime.tools.tool import Tool, ToolPlace

_TRACE_CHARS_MAX: Final = 8_000
GRACE_S: Final = 2.0  # for a cancelled task, before its process is killed: less than a tool's own grace


class RayCall(NamedTuple):
    """The identity of the call that a task runs. idempotency_key: the same for each run of the call."""

    session_id: str
    address: str
    tool: str
    call_id: str
    idempotency_key: str


class _Raised(NamedTuple):
    """An exception of a function, in words: Ray cannot send every exception, nor read it here."""

    kind: Literal["tool", "interrupted", "other"]
    name: str
    words: str
    trace: str

    def error(self) -> Exception:
        """Return an exception that is described as the one of the function."""
        if self.kind != "other":
            return ToolError(self.words) if self.kind == "tool" else ToolInterrupted(self.words)
        made: Exception = type(self.name, (Exception,), {})(self.words)
        made.add_note(self.trace)
        return made


_CURRENT: Final[ContextVar[RayCall]] = ContextVar("callboard_ray_call")


def ray_call() -> RayCall:
    """Return the identity of the call that this task of Ray runs. Raises MisuseError outside of one."""
    try:
        return _CURRENT.get()
    except LookupError:
        raise MisuseError("there is no call here: ray_call() is for tools that run on Ray") from None


class RayOptions(ToolPlace):
    """The place of a tool on the nodes of a Ray cluster. `ray_options` makes it."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = dict(options)

    def __repr__(self) -> str:
        return f"ray_options({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"

    def placed(self, function: Function, tool: str) -> Function:
        """Return an async function that runs this one as a task. Raises InvalidAgent."""
        if context_parameter(function):
            raise InvalidAgent(
                f"tool {tool} runs on Ray, where no ToolContext is: drop the parameter, and take session and "
                "idempotency key from ray_call()"
            )
        code = _travelling(function)

        async def on_ray(ctx: ToolContext, *args: object, **kwargs: object) -> object:
            call = RayCall(ctx.session_id, ctx.address, ctx.tool, ctx.call_id, ctx.idempotency_key)
            try:
                ray = connected()
                task = ray.remote(_run).options(max_retries=0, name=f"callboard {tool}", **self.options)
                reference = task.remote(code, call, args, kwargs)
            except CallboardError as error:
                raise ToolError(f"{tool} was not started: {error}") from error
            value = await _result(ray, reference, tool)
            if isinstance(value, _Raised):
                raise value.error()
            return value

        return on_ray


def ray_options(
    *,
    num_cpus: float = 1,
    num_gpus: float = 0,
    memory_bytes: int = 0,
    resources: Mapping[str, float] | None = None,
) -> RayOptions:
    """Return a place for `@tool(on=...)`: a node of the Ray cluster with these resources free.

    A call waits until a node has them, within the time limit of the tool.
    The function and its arguments travel to that node, so its module must be importable there, and it takes
    no ToolContext. `ray_call` has the identity of the call. Ray is imported with the first call.

    num_cpus, num_gpus: of the node, parts of one too. memory_bytes: that Ray reserves. resources: of your
    own, by their names. Raises MisuseError.

    >>> ray_options(num_cpus=4)
    ray_options(num_cpus=4)
    """
    amounts: dict[str, float] = {"num_cpus": num_cpus, "num_gpus": num_gpus, "memory_bytes": memory_bytes}
    for name, amount in {**amounts, **(resources or {})}.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < math.inf:
            raise MisuseError(f"{name} is a number from 0 up, not {amount!r:.40}")
    options: dict[str, Any] = {"num_cpus": num_cpus}
    if num_gpus:
        options["num_gpus"] = num_gpus
    if memory_bytes:
        options["memory"] = memory_bytes
    if resources:
        options["resources"] = dict(resources)
    return RayOptions(options)


# --- in this process ------------------------------------------------------------------


async def _result(ray: Any, reference: Any, tool: str) -> object:
    """Await a task. Cancel it with this coroutine; kill its process if it does not end."""
    waiting = asyncio.ensure_future(_awaited(reference))
    try:
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            ray.cancel(reference, force=False)
            await asyncio.wait([waiting], timeout=GRACE_S)
            if not waiting.done() or isinstance(waiting.exception(), ray.exceptions.TaskCancelledError):
                raise
            return waiting.result()  # it ended before the cancellation had reached it
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise (cause if isinstance(cause, Exception) else ToolError(str(error))) from None
    except (ray.exceptions.RuntimeEnvSetupError, ray.exceptions.TaskUnschedulableError) as error:
        raise ToolError(f"{tool} was not started: {_first_line(error)}") from None
    except ray.exceptions.RayError as error:
        raise ToolInterrupted(
            f"{tool} was lost with its Ray worker ({type(error).__name__}); "
            "whether it had its effect is not known"
        ) from None
    finally:
        if not waiting.done():
            ray.cancel(reference, force=True)
            waiting.cancel()


async def _awaited(reference: Any) -> Any:
    return await reference


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _travelling(function: Function) -> Function | str:
    """Return `module:name` for a function that can be imported there, else itself, which Ray pickles.

    The name leads to the tool by now. Ray would take the function for one without a name, and send all that
    its module holds along.
    """
    plain = undecorated(function)
    module, name = getattr(plain, "__module__", ""), getattr(plain, "__qualname__", "")
    is_importable = module and module != "__main__" and "<" not in name and plain is function
    return f"{module}:{name}" if is_importable else function


# --- on the node ----------------------------------------------------------------------


def _run(code: Function | str, call: RayCall, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Run a function of a tool in this task, with the identity of its call."""
    _CURRENT.set(call)
    try:
        function = _found(code) if isinstance(code, str) else code
        value = function(*args, **kwargs)
        return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value
    except (
        Exception,
        SystemExit,
        asyncio.CancelledError,
    ) as error:  # a KeyboardInterrupt is Ray's cancellation
        kind: Literal["tool", "interrupted", "other"] = "tool" if isinstance(error, ToolError) else "other"
        if isinstance(error, ToolInterrupted):
            kind = "interrupted"
        trace = "".join(traceback.format_exception(error))[-_TRACE_CHARS_MAX:]
        return _Raised(kind, type(error).__name__, text_of(error), trace)


def _found(name: str) -> Callable[..., object]:
    module, _, path = name.partition(":")
    try:
        found = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ToolError(f"{name} cannot be imported on the Ray node, where it should run: {error}") from None
    return found.function if isinstance(found, Tool) else found  # type: ignore[return-value]  # it was a tool's
