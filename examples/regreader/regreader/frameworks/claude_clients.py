"""The Claude Agent SDK: one client for each specialist, with its tools only, and hand-offs between them.

The host asks one client after the other, or all at once, and hands over the findings so far.
"""

from dataclasses import replace
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions

from callboard import Agent, Limits
from callboard.brains import claude_agent
from callboard.orchestrator import Orchestrator, Specialist
from regreader.frameworks.parts import SERVER, Parts, report_of


def host_of(parts: Parts) -> Agent:
    """Return an orchestrator of clients."""
    return Orchestrator(
        (_client(one, parts) for one in parts.rules.enabled),
        analyzer=parts.rules.analyzer,
        router=parts.rules.router,
        aggregator=parts.rules.aggregator,
        mode=parts.rules.mode,
    )


def _client(one: Specialist, parts: Parts) -> Specialist:
    allowed = {tool.name for tool in one.tools}
    server: Any = {"type": "sdk", "name": SERVER, "instance": parts.server}
    options = ClaudeAgentOptions(
        system_prompt=one.instructions,
        mcp_servers={SERVER: server},
        allowed_tools=[f"mcp__{SERVER}__{name}" for name in sorted(allowed)],
        disallowed_tools=[f"mcp__{SERVER}__{name}" for name in sorted(parts.tools.keys() - allowed)],
        output_format={"type": "json_schema", "schema": report_of(one)},
    )
    agent = claude_agent(
        options,
        one.name,
        description=one.description,
        effects=dict.fromkeys(parts.tools, "read"),
        limits=Limits(max_iterations=one.max_iterations),
    )
    return replace(one, tools=(), instructions="", policy=None, agent=agent)
