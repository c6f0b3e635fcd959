"""The doors of LangChain: where its chat models and tools leave the graph for the world.

A graph is compiled, and holds its models and tools where no one can exchange them: in closures, in
sub-graphs, in other agents. So each is caught where it is called. The methods of the framework's base classes
are wrapped once, when the first brain is made. Outside of a brain's run they are unchanged.

    door                                leads to
    a call of a chat model              a question of the program
    a stream of a chat model            the same question, its reply in one piece
    a call of a decision model          a question of the program
    a call of a tool                    a call of the program, or the tool itself in the program
    a function on the framework's pool  the function itself, at once: a program has one thread
    a call of a tool by a tool node     the same; a failure that nothing of the framework handles is told
    the chance in a pause of a retry    the chance of the program
    a synchronous pause of a retry      a pause of the program
    the clock of a node's timeouts      the time of the program's steps
"""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from types import ModuleType
from typing import Any, Final, NoReturn, ParamSpec, Protocol, TypeAlias, TypeVar

import langchain.agents.middleware._retry as middleware_retry
import langchain.agents.middleware.model_retry as model_retry
import langchain.agents.middleware.tool_retry as tool_retry
import langgraph.pregel._retry as node_retry
import tenacity.nap
import tenacity.wait
from langchain_core.decisions import BaseDecisionModel, ClassifierRequest, ClassifierResponse
from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.messages import BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables.config import ContextThreadPoolExecutor
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_core.tools import Tool as SimpleTool
from langgraph.prebuilt import ToolNode
from langsmith.run_helpers import tracing_context

from callboard.runtime.brains.common import during

P = ParamSpec("P")
T = TypeVar("T")

ToolInput: TypeAlias = str | Mapping[str, Any]
"""The argument of a tool, its arguments by name, or a whole tool call."""

Through = Callable[[], Coroutine[object, None, object]]


class Run(Protocol):
    """A brain's run, which answers at the doors."""

    async def answer(
        self,
        chat: BaseChatModel,
        messages: list[BaseMessage],
        stop: list[str] | None,
        given: Mapping[str, object],
    ) -> ChatResult:
        """Answer a call of a chat model."""

    async def decide(self, decider: BaseDecisionModel, asked: ClassifierRequest) -> ClassifierResponse:
        """Answer a call of a decision model."""

    async def call(self, tool: BaseTool, wanted: ToolInput, through: Through) -> object:
        """Answer a call of a tool. through: runs the tool itself."""

    def now(self, work: Coroutine[object, None, T]) -> T:
        """Do asynchronous work for a synchronous caller."""

    def refuse(self, text: str) -> Exception:
        """Return the error for a way that does not lead to the session."""

    def chance(self) -> object:
        """Return the generator of random numbers."""

    def clock(self) -> float:
        """Return the time of the step, in seconds since 1970 UTC."""


RUN: Final[ContextVar[Run | None]] = ContextVar("callboard_run", default=None)
_PASSED: Final[ContextVar[object]] = ContextVar("callboard_passed", default=None)
"""The tool that has gone through its door: one calls other methods of its own."""


@contextlib.contextmanager
def inside(run: Run) -> Iterator[None]:
    """Lead what the code within does to a run. Nothing of it is traced to the framework's vendor."""
    with during(RUN, run), untraced():
        yield


def untraced() -> contextlib.AbstractContextManager[None]:
    """Send no traces, even if the environment asks for them."""
    return tracing_context(enabled=False)


@functools.cache
def open_doors() -> None:
    """Wrap the methods, once in a process."""
    _wrap(BaseChatModel, "_agenerate_with_cache", _answer)
    _wrap(BaseChatModel, "_generate_with_cache", _answer_now)
    for name in ("_should_stream", "_should_use_protocol_streaming"):
        _wrap(BaseChatModel, name, _no_stream)
    for name in ("_achat_model_stream_v3", "_chat_model_stream_v3"):
        _wrap(BaseChatModel, name, _no_event_stream)
    for name in ("_agenerate_helper", "_generate_helper"):
        _wrap(BaseLLM, name, _no_completion)
    _wrap(BaseDecisionModel, "ainvoke", _decide)
    _wrap(BaseDecisionModel, "invoke", _decide_now)
    for kind in (BaseTool, StructuredTool, SimpleTool):
        _wrap(kind, "ainvoke", _call)
    _wrap(BaseTool, "arun", _call)
    _wrap(BaseTool, "run", _call_now)
    _wrap(ContextThreadPoolExecutor, "submit", _at_once)
    for module in (node_retry, middleware_retry, tenacity.wait):
        vars(module)["random"] = _Chance(vars(module)["random"])
    for module in (node_retry, model_retry, tool_retry, tenacity.nap):
        vars(module)["time"] = _Time(vars(module)["time"])
    _wrap(ToolNode, "_arun_one", _told)
    _wrap(ToolNode, "_run_one", _told_now)


def _wrap(kind: type, name: str, door: Callable[..., object]) -> None:
    original = getattr(kind, name)  # docs/decisions/0014 has the private ones

    @functools.wraps(original)
    def method(self: object, *args: object, **more: object) -> object:
        run = RUN.get()
        return original(self, *args, **more) if run is None else door(run, original, self, *args, **more)

    setattr(kind, name, method)


def _answer(
    run: Run,
    original: object,
    chat: BaseChatModel,
    messages: list[BaseMessage],
    stop: list[str] | None = None,
    run_manager: object = None,
    **given: object,
) -> Coroutine[object, None, ChatResult]:
    return run.answer(chat, messages, stop, given)


def _answer_now(
    run: Run,
    original: object,
    chat: BaseChatModel,
    messages: list[BaseMessage],
    stop: list[str] | None = None,
    run_manager: object = None,
    **given: object,
) -> ChatResult:
    return run.now(run.answer(chat, messages, stop, given))


def _decide(
    run: Run, original: object, decider: BaseDecisionModel, asked: ClassifierRequest, *args: Any, **given: Any
) -> Coroutine[object, None, ClassifierResponse]:
    return run.decide(decider, asked)


def _decide_now(
    run: Run, original: object, decider: BaseDecisionModel, asked: ClassifierRequest, *args: Any, **given: Any
) -> ClassifierResponse:
    return run.now(run.decide(decider, asked))


def _no_stream(*args: object, **given: object) -> bool:
    return False


def _no_event_stream(run: Run, *args: object, **given: object) -> NoReturn:
    raise run.refuse("a brain does not stream events of a model: a reply comes whole; use `ainvoke`")


def _no_completion(run: Run, original: object, model: object, *args: object, **given: object) -> NoReturn:
    raise run.refuse(
        f"{type(model).__name__} completes texts, and no question of a session has that form: give the graph "
        "a chat model"
    )


def _call(
    run: Run,
    original: Callable[..., Awaitable[object]],
    tool: BaseTool,
    wanted: ToolInput,
    *args: object,
    **more: object,
) -> Coroutine[object, None, object]:
    async def through() -> object:
        token = _PASSED.set(tool)
        try:
            return await original(tool, wanted, *args, **more)
        finally:
            _PASSED.reset(token)

    return through() if _PASSED.get() is tool else run.call(tool, _as_call(wanted, more), through)


def _call_now(
    run: Run,
    original: Callable[..., object],
    tool: BaseTool,
    wanted: ToolInput,
    *args: object,
    **more: object,
) -> object:
    async def through() -> object:
        return original(tool, wanted, *args, **more)

    if _PASSED.get() is tool:
        return original(tool, wanted, *args, **more)
    return run.now(run.call(tool, _as_call(wanted, more), through))


class FailedCall(ToolException):
    """The failure of a call that a tool node makes, for its handlers of errors and for middleware."""


_OF_NODE: Final[ContextVar[str]] = ContextVar("callboard_of_node", default="")
"""The id of the call that a tool node makes."""


def is_of_node(call: Mapping[str, Any]) -> bool:
    """Return True if a tool node makes a call, so that its failure is raised there."""
    return bool(call["id"] == _OF_NODE.get())


async def _told(run: Run, original: Any, node: object, call: ToolCall, *args: Any, **more: Any) -> Any:
    with during(_OF_NODE, str(call["id"])):
        try:
            return await original(node, call, *args, **more)
        except FailedCall as error:
            return failed_message(call, str(error))


def _told_now(run: Run, original: Any, node: object, call: ToolCall, *args: Any, **more: Any) -> Any:
    with during(_OF_NODE, str(call["id"])):
        try:
            return original(node, call, *args, **more)
        except FailedCall as error:
            return failed_message(call, str(error))


def failed_message(call: Mapping[str, Any], text: str) -> ToolMessage:
    """Return the message that tells a model the failure of a call."""
    return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")


def _as_call(wanted: ToolInput, more: Mapping[str, object]) -> ToolInput:
    """Return what a call wants as `ainvoke` gets it: `run` and `arun` get the id of a call apart."""
    if (call := more.get("tool_call_id")) is None:
        return wanted
    return {"type": "tool_call", "id": call, "args": wanted}


def _at_once(
    run: Run, original: object, pool: object, function: Callable[P, T], *args: P.args, **more: P.kwargs
) -> "Future[T]":
    future: Future[T] = Future()
    try:
        future.set_result(copy_context().run(function, *args, **more))
    except Exception as error:
        future.set_exception(error)
    return future


class _Chance:
    """The module `random` for pauses of retries: in a run, the generator of the program."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        run = RUN.get()
        return getattr(self._module if run is None else run.chance(), name)


class _Time:
    """The module `time` for retries and timeouts: in a run, it is that of the program's steps."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def monotonic(self) -> float:
        """Return the time of the loop."""
        run = RUN.get()
        return self._module.monotonic() if run is None else asyncio.get_running_loop().time()

    def time(self) -> float:
        """Return the time of the step."""
        run = RUN.get()
        return self._module.time() if run is None else run.clock()

    def sleep(self, seconds: float) -> None:
        """Wait, without a hold of the loop."""
        run = RUN.get()
        if run is None:
            self._module.sleep(seconds)
        else:
            run.now(asyncio.sleep(seconds))
