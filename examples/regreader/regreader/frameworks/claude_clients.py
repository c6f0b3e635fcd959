"""The Claude Agent SDK: one client for each specialist, with its tools only, and hand-offs between them.

The host asks one client after the other, or all at once, and hands over the findings so far.
"""

from dataclasses import replace

from claude_agent_sdk import ClaudeAgentOptions, McpSdkServerConfig

from callboard import Agent, Limits
from callboard.brains import claude_agent
from callboard.orchestrator import Orchestrator, Specialist
from regreader.frameworks.parts import REPORT, SERVER, Parts


def host_of(parts: Parts) -> Agent:
    """Return an orchestrator of clients."""
    rules = parts.rules
    clients = [_client(one, parts) for one in rules.enabled]
    return Orchestrator(
        clients, analyzer=rules.analyzer, router=rules.router, aggregator=rules.aggregator, mode=rules.mode
    )


def _client(one: Specialist, parts: Parts) -> Specialist:
    own = {tool.name for tool in one.tools}
    called = {name: f"mcp__{SERVER}__{name}" for name in parts.tools}
    options = ClaudeAgentOptions(
        system_prompt=one.instructions,
        mcp_servers={SERVER: McpSdkServerConfig(type="sdk", name=SERVER, instance=parts.server)},
        allowed_tools=[called[name] for name in sorted(own)],
        disallowed_tools=[called[name] for name in sorted(called.keys() - own)],
        output_format={"type": "json_schema", "schema": REPORT},
    )
    agent = claude_agent(
        options, one.name, description=one.description, effects=dict.fromkeys(parts.tools, "read"),
        limits=Limits(max_iterations=one.max_iterations),
    )  # fmt: skip
    return replace(one, tools=(), instructions="", policy=None, agent=agent)
