"""Agents of the OpenAI Agents SDK, by a function that imports the framework when it is called."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from callboard.actors.protocol.bundles import Bundle
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import Approval
from callboard.runtime.brains.frameworks import check_installed
from callboard.runtime.brains.tool_terms import ToolTerms
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.programs.program import Program

if TYPE_CHECKING:
    from agents import Agent as OpenAIAgent
    from agents import RunConfig

TESTED: Final = ("0.24", "0.25")
"""The first version of openai-agents that brains were tested with, and the first one after those."""


def openai_agent(
    agent: "OpenAIAgent[Any]",
    name: str = "",
    *,
    description: str = "",
    effects: Mapping[str, Effect] | None = None,
    approvals: Mapping[str, Approval] | None = None,
    in_program: Collection[str] = (),
    nested: "Sequence[OpenAIAgent[Any]]" = (),
    context: object = None,
    run_config: "RunConfig | None" = None,
    model: ModelChoice | str | None = None,
    models: Sequence[ModelChoice | str] = (),
    limits: Limits | None = None,
    permissions: Bundle | None = None,
) -> Program[Any, Any]:
    """Turn an agent of the OpenAI Agents SDK into an agent of a session, for any roster.

    name, description: instead of the agent's own. effects: of its function tools, and of those of the agents
    that it hands off to, by name; `write` for one that is not named. approvals: of tools by name, as
    `approval` of `@tool`. in_program: tools that run agents, which run in the program itself; agents used as
    tools are found by themselves. nested: the agents that such tools run. context: of its runs and tools;
    without it tools get the `deps` of the runtime. run_config: of its runs, for hand-off filters and
    guardrails. model: that all agents ask; by default each one's own, else the one that it inherits. models,
    limits, permissions: as of `@program`. docs/openai-agents.md says what a brain does not do.
    Raises MissingExtra, InvalidAgent.
    """
    check_installed("agents", "openai-agents", "openai-agents", TESTED)
    from callboard.runtime.brains.openai_agent import openai_brain

    return openai_brain(
        agent,
        name,
        description,
        ToolTerms(effects or {}, approvals or {}, in_program),
        nested,
        context,
        run_config,
        model,
        models=models,
        limits=limits,
        permissions=permissions,
    )
