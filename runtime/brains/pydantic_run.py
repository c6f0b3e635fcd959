"""One run of a brain: every agent that runs in it asks through its gate, and calls tools by the session.

Agents run others inside their tools, validators and output functions. All of these runs begin with
`Agent.iter`, which is wrapped once, when the first brain runs: it leads runs in a brain to the brain, and
hands on all others.

Rules
  - What the framework makes of chance or of the clock is taken from the run: its run id and its clock.
  - Failed, interrupted and refused calls are told to the model as failed tools, and the run goes on.
"""

import asyncio
import contextlib
import contextvars
import dataclasses
import functools
import itertools
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Never

import msgspec
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
from pydantic_ai.messages import ToolCallPart, ToolReturn
from pydantic_ai.models import Model
from pydantic_ai.tools import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    Tool,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
)
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import UsageLimits
from pydantic_core import ValidationError, to_jsonable_python

from callboard.actors.protocol.errors import CallFailed, Interrupted, NotApproved
from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.brains.common import Latch, called, during, note_of, with_note
from callboard.runtime.brains.pydantic_gate import Gate, leads_to_gate
from callboard.runtime.brains.pydantic_messages import Conversation
from callboard.runtime.brains.pydantic_model import model_key
from callboard.runtime.brains.pydantic_tools import DEFERRED, RETRY, AnyAgent, toolsets_of
from callboard.runtime.programs.context import ProgramContext

_KEPT: Final = ("conversation", "workspace")
"""The options of a run that keep its messages or files elsewhere."""


_OF_FRAMEWORK: Final = frozenset({"tool-search", "capability-load"})
"""The kinds of tools by which the framework itself shows more tools to the model; they do nothing else."""


class Parts(NamedTuple):
    """The agents of a brain, and their tools and models.

    agents: the agent itself, and those that its tools run. known: their functions, by name. tools: the names
    of those that are calls of the session, with those that a person must permit. asked: those whose calls
    wait for a person. inner: those that run in the program. names: of models of the session, by the model
    that an agent states; None if one model is asked for all. deps: of its runs.
    """

    agents: Sequence[AnyAgent]
    known: Mapping[str, Tool[Never]]
    tools: Collection[str]
    asked: Collection[str]
    inner: Collection[str]
    names: Mapping[object, str] | None
    deps: object


class BrainRun:
    """The agents of one run, with the runs inside it."""

    def __init__(self, ctx: ProgramContext, parts: Parts) -> None:
        self.latch = Latch()
        self._ctx = ctx
        self._parts = parts
        self._said = Conversation()
        self._runs = itertools.count()

    @property
    def model(self) -> Gate:
        """Return the gate to the model that the brain asks by default."""
        return self._gate("")

    def options(self, agent: AnyAgent, options: JsonObject) -> JsonObject:
        """Return the options of a run of the framework, led to this brain. Raises MisuseError."""
        if kept := [key for key in _KEPT if options.get(key) is not None]:
            raise self.latch.refuse(f"a run in a brain has no {kept[0]} of its own: leave it out")
        if options.get("toolsets"):
            raise self.latch.refuse(
                "a run in a brain gets no toolsets, because their calls could not be recorded: give the "
                "functions to the agent"
            )
        self._check_tools(agent, options.get("deps"))
        number = next(self._runs)
        name = self._ctx.run_name if not number else f"{self._ctx.run_name}/{number}"
        hooks = Hooks(self._ctx, self.latch, name, self._parts)
        return {
            **options,
            "model": self._model(agent, options.get("model")),
            "capabilities": [hooks, *(options.get("capabilities") or ())],
            "usage_limits": options.get("usage_limits") or UsageLimits(request_limit=None),  # ours hold
        }

    def _check_tools(self, agent: AnyAgent, deps: object) -> None:
        names = _names_of_tools(agent)
        if names and all(agent is not one for one in self._parts.agents):
            raise self.latch.refuse(
                f"agent {agent.name!r} has the tool {names[0]!r}, and its brain does not know it, so its "
                "calls cannot be recorded: name the agent in `pydantic_ai_agent(..., nested=[...])`"
            )
        recorded = [name for name in names if name not in self._parts.inner]
        if recorded and deps is not None and deps is not self._parts.deps:
            raise self.latch.refuse(
                f"agent {agent.name!r} runs with deps of its own, and its tool {recorded[0]!r} may run in "
                "another process: give the brain `deps`, or name the tool in `in_program`"
            )

    def _model(self, agent: AnyAgent, given: object) -> Model:
        """Return the gate for the model of a run. Raises MisuseError for one that the brain lacks."""
        if isinstance(given, Model) and leads_to_gate(given):
            return given
        wanted, names = agent.model if given is None else given, self._parts.names
        if wanted is None or names is None:
            return self.model
        if (name := names.get(model_key(wanted))) is None:
            raise self.latch.refuse(
                f"agent {agent.name!r} asks {wanted!r:.80}, which its brain does not know: pass "
                "`model=ctx.model` to its run, name the agent in `pydantic_ai_agent(..., nested=[...])`, or "
                "give the brain one `model=` for all"
            )
        return self._gate(name)

    def _gate(self, name: str) -> Gate:
        return Gate(self._ctx, self.latch, self._said, name)


def _names_of_tools(agent: AnyAgent) -> list[str]:
    """Return the names of an agent's tools; of a toolset that is not a list of functions, its class."""
    found: list[str] = []
    for toolset in toolsets_of(agent):
        found += toolset.tools if isinstance(toolset, FunctionToolset) else [type(toolset).__name__]
    return found


class Hooks(AbstractCapability[object]):
    """The hooks of one run of an agent: its ids and its clock, its model, and where its tools run."""

    def __init__(self, ctx: ProgramContext, latch: Latch, run: str, parts: Parts) -> None:
        self._ctx = ctx
        self._latch = latch
        self._run = run
        self._parts = parts
        self._notes: dict[str, str] = {}  # by the ids of calls that a person has changed

    def get_default_run_id(self) -> str:
        """Return the name of the program's run; of a run inside it, with its number."""
        return self._run

    def get_default_conversation_id(self, run_id: str) -> str:
        """Return the same name."""
        return self._run

    def get_run_clock(self) -> Callable[[], datetime]:
        """Return the clock of the program's steps."""
        return self._ctx.now

    def get_wrapper_model(self, model: Model) -> Model | None:
        """Leave a gate as it is. Raises MisuseError for a model that was put in its place."""
        if leads_to_gate(model):
            return None
        raise self._latch.refuse(
            f"{type(model).__name__} is put in the place of the brain's model, and its calls cannot be "
            "recorded: pass it to the brain, `pydantic_ai_agent(..., model=PydanticAIModel(...))`"
        )

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[object], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Let every call that needs an approval go on, if a person approves it."""
        if not requests.approvals:
            return None
        decisions = await asyncio.gather(*map(self._decision, requests.approvals))
        ids = (call.tool_call_id for call in requests.approvals)
        return DeferredToolResults(approvals=dict(zip(ids, decisions, strict=True)))

    async def _decision(self, call: ToolCallPart) -> bool | ToolApproved | ToolDenied:
        name, wanted = call.tool_name, call.args_as_dict()
        if name not in self._parts.asked:
            raise self._latch.refuse(
                f"tool {name!r} raises ApprovalRequired, and no person is asked: name it in `approvals`"
            )
        if name not in self._parts.inner:
            return True  # our own approval of the call asks the person
        try:
            permitted = await called(self._ctx, name, wanted)
        except NotApproved as error:
            return ToolDenied(str(error))
        if not permitted.note:
            return True
        self._notes[call.tool_call_id] = permitted.note
        return ToolApproved(override_args=msgspec.json.decode(permitted.text))

    async def wrap_tool_execute(
        self,
        ctx: RunContext[object],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: JsonObject,
        handler: Callable[[JsonObject], Awaitable[object]],
    ) -> Any:
        """Call the tool by the session, or in the program. Raises as the tool does, or ToolFailed."""
        name = call.tool_name
        if name in self._parts.inner or tool_def.kind == "output":
            if name in self._parts.tools and not ctx.tool_call_approved:
                raise ApprovalRequired
            result = await handler(args)
            note = self._notes.get(call.tool_call_id)
            return _with_note(note, result) if note else result
        if name not in self._parts.tools:
            if tool_def.tool_kind in _OF_FRAMEWORK:
                return await handler(args)
            raise self._latch.refuse(
                f"tool {name!r} is not one of the agent's functions, so its calls cannot be recorded; "
                "define it on the agent, or name it in `in_program`"
            )
        try:
            result = await called(self._ctx, name, _arguments(self._parts.known[name], call, args))
        except (Interrupted, NotApproved) as error:
            raise ToolFailed(with_note(note_of(error), str(error))) from None
        except CallFailed as error:
            if (raised := error.text.partition(":")[0]) in DEFERRED:
                raise self._latch.refuse(
                    f"tool {name!r} raises {raised}, and its call has no run that could go on with it: name "
                    "it in `in_program`"
                ) from None
            if (words := retry_words(error.text)) is not None:
                raise ModelRetry(with_note(note_of(error), words)) from None
            raise ToolFailed(with_note(note_of(error), error.text)) from None
        return with_note(result.note, result.text)


def _arguments(tool: Tool[Never], call: ToolCallPart, args: JsonObject) -> JsonObject:
    """Return the arguments of a call as the model wrote them, or as a capability has rewritten them since."""
    wanted = call.args_as_dict()
    with contextlib.suppress(ValidationError):
        if args == tool.function_schema.validator.validate_python(wanted):
            return wanted
    rewritten: JsonObject = to_jsonable_python(args)
    return rewritten


def _with_note(note: str, result: object) -> object:
    """Return the result of a tool that runs in the program, with words about its call."""
    if isinstance(result, str):
        return with_note(note, result)
    if not isinstance(result, ToolReturn):
        return ToolReturn(result, content=note)
    more = result.content or ()
    return dataclasses.replace(result, content=[note, *([more] if isinstance(more, str) else more)])


def retry_words(text: str) -> str | None:
    """Return the words of a `ModelRetry` that a tool raised; None for another failure."""
    _, mark, words = text.partition(f"{RETRY}: ")
    return words if mark else None


# --- the door -------------------------------------------------------------------------------

_CURRENT: Final[contextvars.ContextVar[BrainRun | None]] = contextvars.ContextVar("brain", default=None)


@contextlib.contextmanager
def inside(run: BrainRun) -> Iterator[None]:
    """Lead the runs of agents within to a brain."""
    _open_door()
    with during(_CURRENT, run):
        yield


@functools.cache
def _open_door() -> None:
    """Wrap the method, once in a process."""
    original: Callable[..., Any] = Agent.iter

    @functools.wraps(original)
    def begin(agent: AnyAgent, *args: object, **options: object) -> Any:
        run = _CURRENT.get()
        return original(agent, *args, **(options if run is None else run.options(agent, options)))

    setattr(Agent, "iter", begin)  # noqa: B010  # a method, to the type checkers
