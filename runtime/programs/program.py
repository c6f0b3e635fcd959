"""`@program`: an async function as an agent."""

import copy
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypedDict, TypeVar, Unpack, overload

import msgspec

from callboard.actors.protocol.bundles import Bundle
from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import Profile
from callboard.runtime.agent import Agent
from callboard.runtime.agent_fields import OnBroken, model_of
from callboard.runtime.agent_types import Out_co
from callboard.runtime.models.fallback import ModelChoice, model_or_name, models_of
from callboard.runtime.models.protocol import Model
from callboard.runtime.programs.asks import text_of_blocks
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.model import ProgramModel
from callboard.runtime.programs.run import Main, ProgramRun, RunsBefore
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.tools.docstrings import described
from callboard.runtime.tools.sources import ToolSource
from callboard.runtime.tools.tool import Tool

if TYPE_CHECKING:
    from callboard.runtime.agent_types import OutputSchema, Untyped
    from callboard.runtime.compaction import Compact

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class _AgentOptions(TypedDict, total=False):
    agents: Sequence[Agent]
    tools: Sequence[Tool | ToolSource]
    limits: Limits | None
    state: Mapping[str, object] | None
    later_tools: Sequence[Tool]
    permissions: Bundle | None
    input: type | None
    on_broken: OnBroken


class ProgramOptions(_AgentOptions, total=False):
    """The options of `@program` beside a name and a description; `program` describes each."""

    model: ModelChoice | str | None
    models: Sequence[ModelChoice | str]


class BrainOptions(ProgramOptions, total=False):
    """The options of the program that a brain of a framework is."""

    description: str
    schema: "OutputSchema[object]"


class BrainBounds(TypedDict, total=False):
    """The bounds of a brain, as of any agent."""

    limits: Limits | None
    permissions: Bundle | None


class Program(Agent[Any, Out_co], Generic[R_co, Out_co]):
    """An agent that is a program; `@program` creates it. Calling it calls the function.

    default_model: of its questions and of its agents; None for the one that it inherits.
    models: those that `ctx.ask_model(model=...)` may name.
    Raises InvalidAgent for a function that cannot be a program, and as `Agent` does.
    """

    model: ProgramModel

    def __init__(
        self,
        function: Callable[[ProgramContext, Any], Coroutine[object, None, R_co]],
        name: str,
        *,
        description: str = "",
        schema: "OutputSchema[Out_co]" = None,
        model: ModelChoice | str | None = None,
        models: Sequence[ModelChoice | str] = (),
        **options: Unpack[_AgentOptions],
    ) -> None:
        _check_function(name, function)
        super().__init__(
            name,
            description=description,
            output_schema=schema,
            model=ProgramModel(name, self._main_of),
            **options,
        )
        self.function = function
        self.default_model = model_of(name, model)
        self.models = tuple(found for one in models if (found := model_or_name(one)) is not None)

    def __repr__(self) -> str:
        return f"Program({self.name!r})"

    def __call__(self, ctx: ProgramContext, prompt: object) -> Coroutine[object, None, R_co]:
        """Call the function itself, as a part of another program."""
        return self.function(ctx, prompt)

    @property
    def all_models(self) -> tuple[Model, ...]:
        """Return the models that the program's own steps and questions may use."""
        choices = (self.default_model, *self.models)
        return (self.model, *dict.fromkeys(one for choice in choices for one in models_of(choice)))

    @property
    def model_below(self) -> ModelChoice | None:
        """Return the model for its questions and for agents without one; None for the inherited one."""
        return self.default_model

    def with_compact(self, compact: "Compact") -> Self:
        """Raise InvalidAgent: a program has no conversation with a model."""
        raise InvalidAgent(
            f"program {self.name!r} has no conversation that could be shortened; give compact to the agents "
            "that it asks"
        )

    def profile(self) -> Profile:
        """Return the plain description that goes into the log."""
        models = tuple(model.spec for model in self.models)
        default = self.default_model.spec if self.default_model else None
        return msgspec.structs.replace(super().profile(), turns="any", models=models, default_model=default)

    def with_model(self, model: ModelChoice) -> Self:
        """Return this program with another default model."""
        agent = copy.copy(self)
        agent.default_model = model
        return agent

    def text_of(self, outcome: Outcome[object]) -> str:
        """Return the result of an ask of this program as text, as a chat shows it."""
        return outcome.text

    def _main_of(self, prompt: Json, before: RunsBefore) -> Main:
        def main(run: ProgramRun) -> Coroutine[object, None, object]:
            ctx, text = ProgramContext(run, self, prompt, before), text_of_blocks(prompt)
            return self.function(ctx, text) if self.contract is None else self._with_input(ctx, text)

        return main

    async def _with_input(self, ctx: ProgramContext, text: str) -> R_co:
        """Call the function with the value of the contract that the prompt was made of."""
        assert self.contract is not None
        return await self.function(ctx, self.contract.value_of(text))

    def _renamed(self, name: str) -> Self:
        agent = super()._renamed(name)
        agent.model = ProgramModel(name, agent._main_of)
        return agent


_Function: TypeAlias = Callable[[ProgramContext, Any], Coroutine[object, None, R]]


@overload
def program(function: _Function[R], /) -> Program[R]: ...


@overload
def program(
    *,
    schema: type[T],
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ProgramOptions],
) -> Callable[[_Function[T]], Program[T, T]]: ...


@overload
def program(
    *,
    schema: Mapping[str, object] | None = None,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ProgramOptions],
) -> Callable[[_Function[R]], Program[R]]: ...


@overload
def program(
    *,
    schema: "Untyped",
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ProgramOptions],
) -> Callable[[_Function[Any]], Program[Any, Any]]: ...


def program(
    function: _Function[Any] | None = None,
    /,
    *,
    schema: Any = None,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ProgramOptions],
) -> Program[Any, Any] | Callable[[_Function[Any]], Program[Any, Any]]:
    """Turn an async function of a context and a prompt into an agent, a host or a sub-agent.

    The function asks for work by its context, with all of asyncio that needs no I/O, and returns a text or
    any other JSON value. After a restart it is executed again, with the answers that it had.

    name, description: instead of the function's own name and the first paragraph of its docstring.
    schema: of its result, as `output_schema` of an `Agent`. agents, tools: those that it may ask.
    model: of its questions, and of its agents without one; by default the one that it inherits.
    models: further ones that `ctx.ask_model(model=...)` may name. limits: its own bounds.
    state: keys of the session's shared state that its tools use. later_tools: those that `set_tools` may give
    it. permissions: its bundle. input: its contract; the prompt then is a value of that type. on_broken: the
    effect of missing parts. All of these are as of an `Agent`.
    Raises InvalidAgent with the correction.

    >>> @program
    ... async def shout(ctx: ProgramContext, prompt: str) -> str:
    ...     '''Write a text in capitals.'''
    ...     return prompt.upper()
    >>> shout.name, shout.description
    ('shout', 'Write a text in capitals.')
    """

    def make(function: _Function[Any]) -> Program[Any, Any]:
        called = str(name or getattr(function, "__name__", ""))
        told = described(function.__doc__).summary if description is None else description
        return Program(function, called, description=told, schema=schema, **options)

    return make if function is None else make(function)


def _check_function(name: str, function: object) -> None:
    if not inspect.iscoroutinefunction(function):
        raise InvalidAgent(
            f"program {name!r}: {function!r:.100} is not an async function; write "
            f"`async def {name}(ctx, prompt)`"
        )
    try:
        inspect.signature(function).bind(None, "")
    except TypeError as error:
        raise InvalidAgent(
            f"program {name!r} takes a context and a prompt ({error}); write `async def {name}(ctx, prompt)`"
        ) from None
