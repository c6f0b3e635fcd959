"""Agents of the Claude Agent SDK, by a function that imports the framework when it is called."""

from collections.abc import Mapping
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
    from claude_agent_sdk import ClaudeAgentOptions

TESTED: Final = ("0.2", "0.3")
"""The first version of claude-agent-sdk that brains were tested with, and the first one after those."""


def claude_agent(
    options: "ClaudeAgentOptions",
    name: str,
    *,
    description: str = "",
    effects: Mapping[str, Effect] | None = None,
    approvals: Mapping[str, Approval] | None = None,
    max_tokens: int = 8_192,
    model: ModelChoice | str | None = None,
    limits: Limits | None = None,
    permissions: Bundle | None = None,
) -> Program[Any, Any]:
    """Turn the options of a client of the Claude Agent SDK into an agent of a session, for any roster.

    The client is a process of its own, which asks a gateway on loopback. It gets none of this process's
    environment, and has none of its built-in tools.

    options: `system_prompt`, `mcp_servers` made by `create_sdk_mcp_server`, `allowed_tools`, `model`,
    `max_turns`, `output_format`; others are refused. name, description: of the agent. effects: of its tools
    by name; `write` for one that is not named. approvals: of tools by name, as `approval` of `@tool`.
    max_tokens: of each reply. model: that answers; by default the one that it inherits. limits, permissions:
    as of `@program`. docs/claude-agent.md says what a brain does not do.
    Raises MissingExtra, InvalidAgent.
    """
    check_installed("claude_agent_sdk", "claude-agent-sdk", "claude", TESTED)
    from callboard.runtime.brains.claude_agent import claude_brain

    return claude_brain(
        options,
        name,
        ToolTerms(effects or {}, approvals or {}),
        max_tokens,
        description=description,
        model=model,
        limits=limits,
        permissions=permissions,
    )
