"""The graphs of LangGraph, by a function that imports the framework when it is called."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from callboard.actors.protocol.bundles import Bundle
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import MissingExtra
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import Approval
from callboard.runtime.brains.frameworks import check_installed
from callboard.runtime.brains.tool_terms import ToolTerms
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.programs.program import Program

if TYPE_CHECKING:
    from langgraph.pregel import Pregel

    from callboard.runtime.agent_types import OutputSchema

TESTED: Final = {"langgraph": ("1.2", "1.3"), "langchain": ("1.5", "1.6")}
"""By distribution, the first version that brains were tested with, and the first one after those."""


def langgraph_agent(
    graph: "Pregel[Any, Any, Any, Any]",
    name: str = "",
    *,
    description: str = "",
    effects: Mapping[str, Effect] | None = None,
    approvals: Mapping[str, Approval] | None = None,
    in_program: Collection[str] = (),
    input: type | None = None,
    to_state: Callable[[Any], Any] | None = None,
    output: Callable[[Any], object] | None = None,
    schema: "OutputSchema[Any]" = None,
    context: object = None,
    state: Mapping[str, object] | None = None,
    model: ModelChoice | str | None = None,
    models: Sequence[ModelChoice | str] = (),
    limits: Limits | None = None,
    permissions: Bundle | None = None,
) -> Program[Any, Any]:
    """Turn a compiled graph of LangGraph, or what `create_agent` gives, into an agent for any roster.

    effects: of its tools by name; `write` for one that is not named. approvals: of tools by name, as
    `approval` of `@tool`. in_program: tools that run in the program itself, because they run agents or change
    the graph. input: the contract of its prompts, whose fields are the state that the graph starts with.
    to_state: makes that state of the prompt; by default it is the prompt as a message. output: makes the
    result of the last state; by default the structured response, or the text of the last message. schema: the
    type of the result. context: of its runs, as `context_schema` states it. model: that answers all questions
    of the graph; by default each chat model of the graph answers its own. name, description, state, models,
    limits, permissions: as of `@program`. docs/langgraph.md says what a brain does not do.
    Raises MissingExtra, InvalidAgent.
    """
    for distribution, tested in TESTED.items():
        check_installed(distribution, distribution, "langgraph", tested)
    try:
        from callboard.runtime.brains.langgraph_agent import langgraph_brain
        from callboard.runtime.brains.langgraph_doors import open_doors

        open_doors()
    except (ImportError, AttributeError) as error:  # of another version, or without one of its packages
        raise MissingExtra(
            f"a part of LangGraph that brains need is not there ({error}): pip install "
            "'callboard[langgraph]' installs the versions that were tested"
        ) from error
    return langgraph_brain(
        graph,
        name,
        description,
        ToolTerms(effects or {}, approvals or {}, in_program),
        to_state,
        output,
        context,
        model,
        models,
        input=input,
        schema=schema,
        state=state,
        limits=limits,
        permissions=permissions,
    )
