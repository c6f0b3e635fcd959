"""An agent of the OpenAI Agents SDK as a program: it asks its model and calls its tools by the session.

The framework runs inside the program's loop, and is executed again after a restart like any program. Its
agents are cloned for the run: each clone has a gate for its model, and tools that call the session.

Rules
  - Each agent that runs in the brain runs through the same gate: by hand-off, as a tool, or by `Runner.run`.
  - Failed, interrupted and refused calls are told to the model as failed tools, and the run goes on.
  - A refusal for want of budget or of turns latches: the program ends so, even if the framework hides it.
  - Nothing is traced.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Unpack

import pydantic
from agents import Agent as FrameworkAgent
from agents import AgentOutputSchema, RunConfig
from agents.exceptions import (
    AgentsException,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)

from callboard.actors.protocol.endings import OwnKind
from callboard.actors.protocol.errors import DelegationFailed, InvalidAgent
from callboard.runtime.brains.common import EARLIER_MAX, Brain, latching, result_of
from callboard.runtime.brains.openai_messages import input_of
from callboard.runtime.brains.openai_model import OpenAIAgentsModel, model_key
from callboard.runtime.brains.openai_run import BrainRun, Parts, run_in
from callboard.runtime.brains.openai_tools import agents_of, handed_to, tools_of
from callboard.runtime.brains.tool_terms import ToolTerms
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import BrainBounds, BrainOptions

_TRIPWIRES: Final = (InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered)
_TOOL_TRIPWIRES: Final = (ToolInputGuardrailTripwireTriggered, ToolOutputGuardrailTripwireTriggered)
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]+")


class OpenAIBrain(Brain):
    """An agent of the OpenAI Agents SDK as a program; `openai_agent` makes one."""

    def __init__(
        self,
        agent: FrameworkAgent,
        name: str,
        context: object,
        run_config: RunConfig | None,
        inner: Collection[str],
        named: Mapping[object, ModelChoice],
        *,
        is_overridden: bool,
        **options: Unpack[BrainOptions],
    ) -> None:
        self._framework_agent = agent
        self._context = context
        self._run_config = run_config
        self._inner = inner
        self._named = named
        self._is_overridden = is_overridden
        super().__init__(self._run, name, **options)

    async def _run(self, ctx: ProgramContext, prompt: object) -> object:
        parts = Parts(self.tools.keys(), self._inner, self._named, self.default_model, self._is_overridden)
        run = BrainRun(ctx, parts)
        earlier = [(one.prompt, one.text) for one in ctx.earlier(EARLIER_MAX)]
        with latching(ctx, run.latch):
            try:
                result = await run_in(
                    run,
                    self._framework_agent,
                    input_of(ctx.prompt_json, earlier),
                    context=self._context,
                    run_config=self._run_config,
                    max_turns=None,  # ours hold
                )
            except AgentsException as error:
                raise _ending(ctx, error) from error
        return result_of(result.final_output)


def _ending(ctx: ProgramContext, error: AgentsException) -> BaseException:
    """Return the end of a program whose framework gave up: by its kind, where there is one."""
    cause = error.__cause__
    while cause is not None:
        if isinstance(cause, DelegationFailed):
            return cause
        cause = cause.__cause__
    if isinstance(error, _TRIPWIRES):
        found = error.guardrail_result
        return ctx.fail(
            f"guardrail {found.guardrail.get_name()!r} stopped the run: {found.output.output_info!r:.1000}"
        )
    if isinstance(error, _TOOL_TRIPWIRES):
        return ctx.fail(
            f"guardrail {error.guardrail.get_name()!r} stopped the run: {error.output.output_info!r:.1000}"
        )
    kinds: dict[type[AgentsException], OwnKind] = {
        MaxTurnsExceeded: "iteration_cap",
        ModelRefusalError: "model_refused",
        ModelBehaviorError: "failed",
    }
    kind = kinds.get(type(error))
    return error if kind is None or not str(error) else ctx.fail(str(error), kind=kind)


def openai_brain(
    agent: object,
    name: str,
    description: str,
    terms: ToolTerms,
    nested: Sequence[FrameworkAgent],
    context: object,
    run_config: RunConfig | None,
    model: ModelChoice | str | None,
    *,
    models: Sequence[ModelChoice | str],
    **options: Unpack[BrainBounds],
) -> OpenAIBrain:
    """Make the brain of an agent. Raises InvalidAgent for one that cannot be recorded."""
    if not isinstance(agent, FrameworkAgent):
        raise InvalidAgent(f"{agent!r:.80} is not an agents.Agent")
    agents = agents_of(agent, nested)
    tools = tools_of(agents, terms, lambda ctx: ctx.deps if context is None else context)
    named = {} if model is not None else _models(agents, models)
    return OpenAIBrain(
        agent,
        name or _ILLEGAL.sub("_", agent.name),
        context,
        run_config,
        frozenset(terms.in_program),
        named,
        is_overridden=model is not None,
        description=description or agent.handoff_description or "",
        tools=tools,
        model=model if model is not None or agent.model is None else named[model_key(agent.model)],
        models=[*named.values(), *(one for one in models if one not in named.values())],
        schema=_schema(agent),
        **options,
    )


def _models(
    agents: Sequence[FrameworkAgent], listed: Sequence[ModelChoice | str]
) -> dict[object, ModelChoice]:
    """Return the models that agents name, each under a name of its own. listed: those that there are."""
    found: dict[object, ModelChoice] = {one.key: one for one in listed if isinstance(one, OpenAIAgentsModel)}
    for agent in agents:
        if agent.model is None or model_key(agent.model) in found:
            continue
        found[model_key(agent.model)] = _named_apart(agent.model, found)
    return found


def _named_apart(model: Any, known: Mapping[object, ModelChoice]) -> OpenAIAgentsModel:
    """Return a model under a name that no known one has."""
    one = OpenAIAgentsModel(model)
    if any(one.spec.name == other.spec.name for other in known.values()):
        return OpenAIAgentsModel(model, name=f"{one.spec.name.partition(':')[2]}#{len(known)}")
    return one


def _schema(agent: FrameworkAgent) -> type | None:
    """Return the type of the result, if every agent that may give it has this one."""
    first, *others = [_output_type(one) for one in handed_to(agent)]
    if not isinstance(first, type) or not issubclass(first, pydantic.BaseModel):
        return None
    return first if all(other is first for other in others) else None


def _output_type(agent: FrameworkAgent) -> object:
    kind = agent.output_type
    return kind.output_type if isinstance(kind, AgentOutputSchema) else kind
