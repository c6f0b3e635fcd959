"""The agents of other frameworks, by functions that import a framework when they are called."""

import importlib
import importlib.metadata
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from callboard.actors.protocol.bundles import Bundle
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import MissingExtra
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import Approval
from callboard.runtime.brains.tool_terms import ToolTerms
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.programs.program import Program

if TYPE_CHECKING:
    from pydantic_ai import Agent as PydanticAIAgent

TESTED: Final = ("2.68", "2.69")
"""The first version of pydantic-ai-slim that brains were tested with, and the first one after those."""


class UntestedFramework(UserWarning):
    """A framework in a version with which its brains were not tested."""


def pydantic_ai_agent(
    agent: "PydanticAIAgent[Any, Any]",
    name: str = "",
    *,
    description: str = "",
    effects: Mapping[str, Effect] | None = None,
    approvals: Mapping[str, Approval] | None = None,
    in_program: Collection[str] = (),
    nested: "Sequence[PydanticAIAgent[Any, Any]]" = (),
    deps: object = None,
    model: ModelChoice | str | None = None,
    models: Sequence[ModelChoice | str] = (),
    limits: Limits | None = None,
    permissions: Bundle | None = None,
) -> Program[Any, Any]:
    """Turn an agent of Pydantic AI into an agent of a session, for any roster.

    name, description: instead of the agent's own. effects: of its tools, and of those of the nested agents,
    by name; `write` for one that is not named. approvals: of tools by name, as `approval` of `@tool`.
    in_program: tools that delegate, which run in the program itself. nested: the agents that they run. deps:
    of its runs and tools; without them tools get the `deps` of the runtime. model: that all agents ask; by
    default each one's own, else the one that it inherits. models, limits, permissions: as of `@program`.
    docs/pydantic-ai.md says what a brain does not do.
    Raises MissingExtra, InvalidAgent.
    """
    check_installed("pydantic_ai", "pydantic-ai-slim", "pydantic-ai", TESTED)
    from callboard.runtime.brains.pydantic_agent import pydantic_brain

    return pydantic_brain(
        agent,
        name,
        description,
        ToolTerms(effects or {}, approvals or {}, in_program),
        nested,
        deps,
        model,
        models=models,
        limits=limits,
        permissions=permissions,
    )


def check_installed(module: str, distribution: str, extra: str, tested: tuple[str, str]) -> None:
    """Check that a framework is installed, and warn if its version was not tested. Raises MissingExtra.

    tested: the first version that was tested, and the first one after those.
    """
    try:
        importlib.import_module(module)
    except ImportError:
        raise MissingExtra(
            f"agents of this framework need {distribution}: pip install 'callboard[{extra}]'"
        ) from None
    found = importlib.metadata.version(distribution)
    if not _numbers(tested[0]) <= _numbers(found)[:2] < _numbers(tested[1]):
        text = (
            f"{distribution} {found} is installed, and brains were tested with {tested[0]} up to {tested[1]}"
        )
        warnings.warn(text, UntestedFramework, stacklevel=3)  # of the one who makes the brain


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
