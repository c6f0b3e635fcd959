"""An agent of Pydantic AI as a program: its model calls are questions, its tool calls are calls of ours.

The framework runs inside the program's loop, and is executed again after a restart like any program. Its
hooks are those of a capability: a model in place of the agent's own, and a wrapper of each tool call.

The framework has a surface for engines, too, `pydantic_ai.durable_exec`. It runs a closure of the framework's
run in a unit of its own, and keeps what that returns. A tool call in our log is a request instead, with an
effect, an approval and limits, and may run in a process that never had the closure. So it is not used.

Rules
  - Each agent that runs in the brain runs through its gate, wherever its run begins.
  - A refusal for want of budget or of turns latches: the program ends so, even if the framework hides it.
"""

from collections.abc import Iterable, Sequence
from typing import Unpack

import pydantic
from pydantic_ai import Agent as FrameworkAgent
from pydantic_ai._utils import disable_threads
from pydantic_core import to_jsonable_python

from callboard.actors.protocol.errors import InvalidAgent
from callboard.runtime.brains.common import EARLIER_MAX, Brain, latching, result_of
from callboard.runtime.brains.pydantic_messages import earlier_messages, user_content
from callboard.runtime.brains.pydantic_model import PydanticAIModel, model_key
from callboard.runtime.brains.pydantic_run import BrainRun, Parts, inside
from callboard.runtime.brains.pydantic_tools import AnyAgent, check_capabilities, functions_of, tools_of
from callboard.runtime.brains.tool_terms import ToolTerms
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import BrainBounds, BrainOptions


class PydanticAIBrain(Brain):
    """An agent of Pydantic AI as a program; `pydantic_ai_agent` makes one."""

    def __init__(self, parts: Parts, name: str, **options: Unpack[BrainOptions]) -> None:
        self._parts = parts
        super().__init__(self._run, name, **options)

    async def _run(self, ctx: ProgramContext, prompt: object) -> object:
        run = BrainRun(ctx, self._parts)
        earlier = [(one.prompt, one.text) for one in ctx.earlier(EARLIER_MAX)]
        asked = user_content(ctx.prompt_json) if isinstance(prompt, str) else str(to_jsonable_python(prompt))
        with latching(ctx, run.latch), disable_threads(), inside(run):
            result = await self._parts.agents[0].run(
                asked,
                message_history=earlier_messages(earlier) or None,
                model=run.model,
                deps=self._parts.deps,
            )
        return result_of(result.output)


def pydantic_brain(
    agent: object,
    name: str,
    description: str,
    terms: ToolTerms,
    nested: Sequence[AnyAgent],
    deps: object,
    model: ModelChoice | str | None,
    *,
    models: Sequence[ModelChoice | str],
    **options: Unpack[BrainBounds],
) -> PydanticAIBrain:
    """Make the brain of an agent. Raises InvalidAgent for one that cannot be recorded."""
    agents = [_agent(one) for one in (agent, *nested)]
    for one in agents:
        check_capabilities(one, selects=model is None)
    first = agents[0]
    known = functions_of(agents)
    terms.check(known, "the agents have")
    own = tools_of(known, terms, lambda ctx: ctx.deps if deps is None else deps)
    named = None if model is not None else _models(agents, models)
    if named is not None and first.model is not None:
        model = named[model_key(first.model)]
    others = [one for one in (named or {}).values() if one is not model and one not in models]
    names = None if named is None else {key: _name(one, model) for key, one in named.items()}
    kind = first.output_type
    return PydanticAIBrain(
        Parts(
            agents,
            known,
            frozenset(one.name for one in own),
            frozenset(
                name for name, one in known.items() if terms.waits(name, is_asked=one.requires_approval)
            ),
            frozenset(terms.in_program),
            names,
            deps,
        ),
        name or first.name or "",
        description=description or first.description or "",
        tools=own,
        model=model,
        models=[*others, *models],
        schema=kind if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel) else None,
        **options,
    )


def _agent(one: object) -> AnyAgent:
    if not isinstance(one, FrameworkAgent):
        raise InvalidAgent(f"{one!r:.80} is not a pydantic_ai.Agent")
    return one


def _models(agents: Iterable[AnyAgent], listed: Iterable[ModelChoice | str]) -> dict[object, PydanticAIModel]:
    """Return the models that agents name, each under a name of its own. listed: those that there are."""
    found = {one.key: one for one in listed if isinstance(one, PydanticAIModel)}
    for agent in agents:
        if agent.model is None or model_key(agent.model) in found:
            continue
        one, taken = PydanticAIModel(agent.model), {other.spec.name for other in found.values()}
        if one.spec.name in taken:
            one = PydanticAIModel(agent.model, name=f"{one.spec.name}#{len(found) + 1}")
        found[one.key] = one
    return found


def _name(one: PydanticAIModel, default: ModelChoice | str | None) -> str:
    """Return the name by which a question asks a model; empty for the brain's own."""
    return "" if one is default else one.spec.name
