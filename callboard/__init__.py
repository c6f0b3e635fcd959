"""callboard: an event-sourced actor runtime for LLM agents.

A host agent and its sub-agents are actors that exchange immutable messages. Every message is an event in an
append-only log, and the log alone is enough to replay a session to the byte.
"""

from callboard.lazy_names import lazy_names

__version__ = "0.1.0"

# Loaded on first use: `import callboard` must stay light. Run `python -m tools.public_names` after a change.
_HOMES = {
    "actors.protocol.endings": ("OutcomeKind", "Status"),
    "actors.protocol.events": ("Event",),
    "actors.protocol.limits": ("Limits",),
    "actors.protocol.origin": ("Origin",),
    "actors.protocol.request": ("ModelRequest",),
    "actors.protocol.telemetry": ("Metric", "Telemetry"),
    "actors.protocol.usage": ("Usage",),
    "actors.session.budget_limits": ("Budget",),
    "actors.session.capacity": ("Capacity",),
    "actors.session.contexts": ("ContextRequest",),
    "runtime.agent": ("Agent",),
    "runtime.approvals": ("Approval", "ApprovalAnswer", "Approver"),
    "runtime.brief": ("Brief", "Transcript"),
    "runtime.budgets": ("CapacityReport",),
    "runtime.cluster.client": ("Client",),
    "runtime.compaction": ("Compact",),
    "runtime.contexts": ("SystemContext", "WholeHistory"),
    "runtime.files.files": ("Files",),
    "runtime.histories.history": ("History",),
    "runtime.http.settings": ("Http",),
    "runtime.mcp.options": ("Share",),
    "runtime.mcp.server": ("MCPServer",),
    "runtime.models.anthropic.model": ("AnthropicModel",),
    "runtime.models.fallback": ("Fallback",),
    "runtime.models.layered.bedrock": ("BedrockModel",),
    "runtime.models.layered.gemini": ("GeminiModel",),
    "runtime.models.layered.openai": (
        "OllamaModel",
        "OpenAICompatibleModel",
        "OpenAIModel",
        "OpenRouterModel",
    ),
    "runtime.models.scripted": ("Call", "Policy", "Reply", "ScriptedModel", "call", "calls", "fail", "say"),
    "runtime.programs.context": ("ProgramContext",),
    "runtime.programs.program": ("Program", "program"),
    "runtime.runtime": ("Runtime",),
    "runtime.secrets.refs": ("SecretPattern", "SecretRef"),
    "runtime.sessions.agents_policy": ("AgentsPolicy",),
    "runtime.sessions.outcomes": ("DelegationOutcome", "Outcome"),
    "runtime.sessions.resume_many": ("Resumption",),
    "runtime.sessions.session": ("Session",),
    "runtime.sessions.snapshots": ("AgentView", "ApprovalView", "AskView", "ReplyView"),
    "runtime.statistics": ("CommitStats", "RuntimeStats", "WorkerStats"),
    "runtime.telemetry.open_telemetry": ("OpenTelemetry",),
    "runtime.tools.context": ("ToolContext",),
    "runtime.tools.output": ("Blocks",),
    "runtime.tools.shared_state": ("SharedKey",),
    "runtime.tools.tool": ("Tool", "tool"),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
