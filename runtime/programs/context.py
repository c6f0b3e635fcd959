"""The context of a program: its asks, its time and its chance."""

import asyncio
import datetime
from collections.abc import Callable, Coroutine, Mapping, Sequence
from random import Random
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Never,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    overload,
)

from callboard.actors.protocol.endings import OwnKind
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.prompts import ASK_MODEL, TASK
from callboard.runtime.agent import Agent, prompt_json
from callboard.runtime.contracts import Prompt
from callboard.runtime.programs.asks import VALUE_DEPTH_MAX, Answer, ProgramFailed
from callboard.runtime.programs.history import EarlierRun
from callboard.runtime.programs.kept_requests import Written
from callboard.runtime.programs.model_reply import ModelReply, reply_of, whole_request
from callboard.runtime.programs.run import ProgramRun, RunsBefore
from callboard.runtime.programs.values import delegated_value, tool_value
from callboard.runtime.sanitize import to_json
from callboard.runtime.schemas.output_types import output_type
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.shared_state import ProgramState
from callboard.runtime.tools.sources import ToolSource
from callboard.runtime.tools.tool import FunctionTool, Tool

if TYPE_CHECKING:
    from callboard.runtime.agent_types import OtherSchema
    from callboard.runtime.models.fallback import ModelChoice

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

_TakesContext: TypeAlias = (
    Callable[Concatenate[Never, ToolContext, ...], R]
    | Callable[Concatenate[Never, Never, ToolContext, ...], R]
    | Callable[Concatenate[Never, Never, Never, ToolContext, ...], R]
    | Callable[Concatenate[Never, Never, Never, Never, ToolContext, ...], R]
    | Callable[Concatenate[Never, Never, Never, Never, Never, ToolContext, ...], R]
)
"""A function with a tool's context behind other parameters, which no type can name one by one."""

_SECOND_MS: Final = 1_000


class Roster(Protocol):
    """The agent of a program: the tools, agents and models that it may use."""

    name: str
    tools: dict[str, Tool]
    sources: tuple[ToolSource, ...]
    later_tools: dict[str, Tool]
    agents: tuple[Agent, ...]
    default_model: "ModelChoice | None"
    models: "tuple[ModelChoice, ...]"


class ProgramContext:
    """The first argument of a program. Each method belongs to this run and to its event loop.

    A program is executed again after a restart, step by step, with the answers and times that it had. So all
    that it does must follow from its prompt and from this context: no I/O of its own, no clock, no chance.
    """

    __slots__ = ("_agent", "_before", "_prompt", "_run")

    def __init__(
        self, run: ProgramRun, agent: Roster, prompt: Json, before: RunsBefore = lambda most: ()
    ) -> None:
        self._run = run
        self._agent = agent
        self._prompt = prompt
        self._before = before

    @property
    def prompt_json(self) -> Json:
        """Return the prompt as it came: a JSON string, or a list of content blocks."""
        return self._prompt

    @property
    def run_name(self) -> str:
        """Return the name of this run, the same in each execution."""
        return self._run.run

    def earlier(self, most: int = 1) -> tuple[EarlierRun, ...]:
        """Return the last runs of earlier asks in this session that returned, oldest first.

        most: as many. Each has `prompt`, `text` and `value`. A sub-agent has no earlier runs.
        """
        return self._before(most)

    # --- asks ---------------------------------------------------------------------------

    @overload
    async def delegate(
        self, agent: Agent | Sequence[Agent], prompt: Prompt, *, schema: type[T], copies: int = 1
    ) -> T: ...

    @overload
    async def delegate(
        self, agent: Agent | Sequence[Agent], prompt: Prompt, *, schema: None = None, copies: int = 1
    ) -> str: ...

    @overload
    async def delegate(
        self,
        agent: Agent | Sequence[Agent],
        prompt: Prompt,
        *,
        schema: "OtherSchema",
        copies: int = 1,
    ) -> Any: ...

    async def delegate(
        self, agent: Agent | Sequence[Agent], prompt: Prompt, *, schema: object = None, copies: int = 1
    ) -> Any:
        """Delegate to one of the program's agents, and return its result.

        agent: several race, and the first valid result wins. prompt: of an agent with a contract, a value of
        it, or its fields as a dict. schema: of the result, as `output_schema` of an
        ask; without one the result is text, of a report its JSON. copies: how many race.
        Raises DelegationFailed, whose `kind` is the end of the delegation; MisuseError for another agent.
        """
        racers = self._known_agents(agent)
        names = [one.name for one in racers]
        kind = output_type(schema)
        wish: dict[str, object] = {"agent": names[0]} if len(names) == 1 else {"agents": names}
        given = _input_or_prompt(racers, prompt)
        more = {**given, "copies": copies, "output_schema": kind.schema}
        left_out = {"copies": copies == 1, "output_schema": schema is None}
        wish |= {name: value for name, value in more.items() if not left_out.get(name)}
        answer = await self._ask(TASK, wish)
        return delegated_value(f"the delegation to {', '.join(names)}", kind, answer)

    @overload
    async def call(
        self, tool: FunctionTool[P, Coroutine[object, None, R]], /, *args: P.args, **arguments: P.kwargs
    ) -> R: ...

    @overload
    async def call(self, tool: FunctionTool[P, R], /, *args: P.args, **arguments: P.kwargs) -> R: ...

    @overload
    async def call(
        self,
        tool: FunctionTool[Concatenate[ToolContext, P], Coroutine[object, None, R]],
        /,
        *args: P.args,
        **arguments: P.kwargs,
    ) -> R: ...

    @overload
    async def call(
        self,
        tool: FunctionTool[Concatenate[ToolContext, P], R],
        /,
        *args: P.args,
        **arguments: P.kwargs,
    ) -> R: ...

    @overload
    async def call(self, tool: _TakesContext[Coroutine[object, None, R]], /, **arguments: object) -> R: ...

    @overload
    async def call(self, tool: _TakesContext[R], /, **arguments: object) -> R: ...

    @overload
    async def call(self, tool: str, /, **arguments: object) -> object: ...

    # No overload takes a `Tool`: mypy would find two for a function with a ToolContext, and take neither.
    async def call(self, tool: Any, /, *args: object, **arguments: object) -> object:
        """Call one of the program's tools, and return its result, of the type that its function returns.

        tool: made by `@tool`, or the name of any tool, as of a tool of an MCP server, whose result is text.
        arguments: by their names, without the tool's context; a type checker compares them with the
        function's, unless it takes a context behind other parameters.
        Raises CallFailed, Interrupted for a call whose effect is unknown, NotApproved; MisuseError for a tool
        that the program does not list.
        """
        if args:
            raise MisuseError(f"give the arguments of {tool!r} by their names, as in `call(tool, path=...)`")
        found = self._known_tool(tool)
        answer = await self._ask(found if isinstance(found, str) else found.name, arguments)
        return tool_value(found, answer)

    @overload
    async def ask_model(
        self, prompt: Prompt, *, schema: type[T], system: str = "", model: "ModelChoice | str" = ""
    ) -> T: ...

    @overload
    async def ask_model(
        self, prompt: Prompt, *, schema: None = None, system: str = "", model: "ModelChoice | str" = ""
    ) -> str: ...

    @overload
    async def ask_model(
        self,
        prompt: Prompt,
        *,
        schema: "OtherSchema",
        system: str = "",
        model: "ModelChoice | str" = "",
    ) -> Any: ...

    @overload
    async def ask_model(
        self,
        *,
        messages: Sequence[Mapping[str, object]],
        schema: type[T],
        tools: Sequence[Mapping[str, object]] = (),
        system: Prompt = "",
        settings: Mapping[str, object] | None = None,
        max_tokens: int | None = None,
        force_tool: str = "",
        model: "ModelChoice | str" = "",
    ) -> T: ...

    @overload
    async def ask_model(
        self,
        *,
        messages: Sequence[Mapping[str, object]],
        schema: None = None,
        tools: Sequence[Mapping[str, object]] = (),
        system: Prompt = "",
        settings: Mapping[str, object] | None = None,
        max_tokens: int | None = None,
        force_tool: str = "",
        model: "ModelChoice | str" = "",
    ) -> ModelReply: ...

    async def ask_model(
        self,
        prompt: Prompt | None = None,
        *,
        schema: object = None,
        system: Prompt = "",
        model: "ModelChoice | str" = "",
        messages: Sequence[Mapping[str, object]] | None = None,
        tools: Sequence[Mapping[str, object]] = (),
        settings: Mapping[str, object] | None = None,
        max_tokens: int | None = None,
        force_tool: str = "",
    ) -> Any:
        """Ask a model one question, and return its answer.

        schema: of the answer; text without one. system: the system prompt. model: one of the program's
        `models`, or its name; by default its own, or the one that it inherits.
        messages: the whole conversation in place of a prompt, as of the Messages API; the answer without a
        schema is a `ModelReply`, whose calls are the program's to make. tools: their definitions, with
        `name`, `description` and `input_schema`. settings: further parameters of the call, as `params` of a
        model. max_tokens: of the reply. force_tool: the tool that it must use.
        Raises DelegationFailed, whose `kind` is the reason; MisuseError for a model that the program does not
        list; InvalidPrompt for a request of the wrong form.
        """
        kind = output_type(schema)
        wish: dict[str, object] = {} if schema is None else {"schema": kind.schema}
        if model and (named := self._known_model(model)):
            wish["model"] = named
        if messages is None:
            whole = {"tools": tools, "settings": settings, "max_tokens": max_tokens, "force_tool": force_tool}
            if given := ", ".join(name for name, value in whole.items() if value):
                raise MisuseError(f"ask_model: give messages= in place of a prompt to set {given}")
            wish |= {"prompt": prompt_json(prompt), **({"system": system} if system else {})}
            return delegated_value("the question to the model", kind, await self._ask(ASK_MODEL, wish))
        if prompt is not None:
            raise MisuseError("ask_model: give a prompt or messages, not both")
        request = whole_request(
            messages, tools, system, settings, max_tokens, force_tool, self._run.requests.has
        )
        answer = await self._ask(ASK_MODEL, {**self._run.requests.arguments(request), **wish}, request)
        if answer.reply is None or answer.is_error:
            return delegated_value("the question to the model", kind, answer)
        return reply_of(answer)

    # --- time and chance ----------------------------------------------------------------

    def now(self) -> datetime.datetime:
        """Return the time of this step, in UTC. It stands still until the next answer or deadline."""
        whole, ms = divmod(self._run.at, _SECOND_MS)
        return datetime.datetime.fromtimestamp(whole, datetime.UTC).replace(microsecond=ms * 1_000)

    async def sleep(self, seconds: float) -> None:
        """Wait, even over restarts: a resumed program waits for the remaining time."""
        await asyncio.sleep(seconds)

    async def sleep_until(self, when: datetime.datetime) -> None:
        """Wait until a time, even over restarts. Raises MisuseError for a time without a zone."""
        if when.tzinfo is None:
            raise MisuseError(f"sleep_until({when!r}): give the time a zone, for example datetime.UTC")
        await self._run.wait_by_clock((when - self.now()).total_seconds())

    def random(self) -> Random:
        """Return the run's generator of random numbers, which is the same in each execution."""
        return self._run.random

    @property
    def state(self) -> "ProgramState":
        """Return the shared state of the session at this step, to read by key (docs/shared-state.md)."""
        return ProgramState(self._run)

    def since(self, name: str) -> bool:
        """Return True if this run first reaches the name with code that asks for it.

        Write `if ctx.since("fee"):` around new code. A run that passed this place with the old code gets
        False, now and later, so that it asks what its recorded steps asked.
        """
        return self._run.since(name)

    # --- the end ------------------------------------------------------------------------

    def fail(self, text: str, *, kind: OwnKind = "failed") -> ProgramFailed:
        """Return the error by which this program ends itself: `raise ctx.fail("no source is left")`.

        text: the reason, the `detail` of the outcome, up to 10,000 characters. kind: of the outcome, where
        another one than `failed` says more: `iteration_cap`, `budget`, `deadline`, `empty`, `no_report`,
        `model_error`, `model_refused`, `context_full`.
        Raises MisuseError for any other kind, and for a reason that is not text or empty.
        """
        if not isinstance(text, str) or not text.strip():
            raise MisuseError(f"ctx.fail({text!r:.80}): give the reason, as a text")
        if kind not in get_args(OwnKind):
            raise MisuseError(
                f"ctx.fail(kind={kind!r:.80}): a program ends itself as one of {', '.join(get_args(OwnKind))}"
            )
        return ProgramFailed(text, kind)

    # --- helpers ------------------------------------------------------------------------

    async def _ask(self, name: str, wish: Mapping[str, object], request: Written | None = None) -> Answer:
        given = to_json(wish, max_depth=VALUE_DEPTH_MAX, what=f"The arguments of {name}")
        ask, answer = self._run.ask(name, given)
        if request is not None:
            self._run.requests.ask(ask, request)
        try:
            return await answer
        finally:
            self._run.release(ask)

    def _known_agents(self, agent: object) -> list[Agent]:
        # A str is a sequence too; as one racer it is named whole in the error.
        racers = [*agent] if isinstance(agent, Sequence) and not isinstance(agent, str) else [agent]
        return [self._known_agent(racer) for racer in racers]

    def _known_agent(self, agent: object) -> Agent:
        if not isinstance(agent, Agent) or agent not in self._agent.agents:
            raise MisuseError(
                f"program {self._agent.name!r} may not delegate to {agent!r}: "
                "list it in @program(agents=[...])"
            )
        return agent

    def _known_tool(self, tool: Tool | str) -> Tool | str:
        """Return a tool of the program, or a name that its sources may have."""
        name = tool if isinstance(tool, str) else getattr(tool, "name", "")
        found = {**self._agent.later_tools, **self._agent.tools}.get(name)
        if found is None and isinstance(tool, str) and self._agent.sources:
            # This object serves many sessions, and each has a list of its own: the gate knows that one.
            return tool
        if found is None or (not isinstance(tool, str) and found is not tool):
            raise MisuseError(
                f"program {self._agent.name!r} has no tool {tool!r}: list it in @program(tools=[...])"
            )
        return found

    def _known_model(self, model: "ModelChoice | str") -> str:
        """Return the name of a model of the program, "" for its default one. Raises MisuseError."""
        name = model if isinstance(model, str) else model.spec.name
        default = self._agent.default_model
        if default is not None and name == default.spec.name:
            return ""
        if name not in [one.spec.name for one in self._agent.models]:
            raise MisuseError(
                f"program {self._agent.name!r} may not ask model {name!r}: list it in @program(models=[...])"
            )
        return name


def _input_or_prompt(racers: Sequence[Agent], prompt: object) -> dict[str, object]:
    """Return the argument with what agents are told. Raises InvalidPrompt."""
    contract = next((one.contract for one in racers if one.contract is not None), None)
    return {"prompt": prompt_json(prompt)} if contract is None else {"input": contract.given(prompt)}
