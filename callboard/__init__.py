"""callboard: an event-sourced actor runtime for LLM agents.

A host agent and its sub-agents are actors that exchange immutable messages. Every message is an event in an
append-only log, and the log alone is enough to replay a session to the byte.
"""

from callboard.lazy_names import lazy_names

__version__ = "0.1.0"

# Loaded on first use: `import callboard` must stay light. Run `python -m tools.public_names` after a change.
_HOMES = {
    "actors.protocol.endings": ("OutcomeKind", "Status"),
    "actors.protocol.errors": (
        "AgentsChanged",
        "CallboardError",
        "CorruptLog",
        "Diverged",
        "Fenced",
        "InsideLoop",
        "InvalidAgent",
        "InvalidPrompt",
        "InvalidSchema",
        "MissingDeps",
        "MissingExtra",
        "MissingKey",
        "MissingType",
        "MisuseError",
        "OutcomeError",
        "ScriptError",
        "SessionBusy",
        "SessionEnded",
        "SessionExists",
        "SessionFailed",
        "SessionNotFound",
        "StoreError",
        "StoreFailed",
        "StoreIncomplete",
        "StoreLocked",
        "StoreReadOnly",
        "StoreTooNew",
        "StoreUnreadable",
        "ToolError",
        "UnknownName",
        "WrongHead",
        "WrongKey",
    ),
    "actors.protocol.events": ("Event",),
    "actors.protocol.limits": ("Limits",),
    "actors.protocol.profiles": ("ModelSpec", "Prices"),
    "actors.protocol.request": ("ModelRequest",),
    "actors.protocol.usage": ("Usage",),
    "actors.protocol.value_types": ("ModelFailure",),
    "actors.session.capacity": ("Capacity",),
    "replay.divergence": ("Divergence",),
    "replay.recording": ("Recording", "Verification"),
    "runtime.agent": ("Agent",),
    "runtime.approvals": ("Approval", "ApprovalAnswer", "Approver"),
    "runtime.capacity": ("CapacityReport",),
    "runtime.log.memory": ("MemoryLog",),
    "runtime.log.opening": ("open_log",),
    "runtime.log.protocol": ("EventLog", "Head"),
    "runtime.log.session_rows": ("SessionQuery", "SessionRow", "SessionStatus"),
    "runtime.log.sqlite.log": ("SQLiteLog",),
    "runtime.models.anthropic.model": ("AnthropicModel",),
    "runtime.models.protocol": ("Model", "ModelAnswer", "OnText"),
    "runtime.models.scripted": (
        "Call",
        "Policy",
        "Reply",
        "ScriptedModel",
        "call",
        "calls",
        "fail",
        "say",
    ),
    "runtime.runtime": ("Runtime",),
    "runtime.secrets.refs": ("SecretPattern", "SecretRef"),
    "runtime.sessions.agents_policy": ("AgentsPolicy",),
    "runtime.sessions.outcome": ("DelegationOutcome", "Outcome"),
    "runtime.sessions.resume_many": ("Resumption",),
    "runtime.sessions.session": ("Session",),
    "runtime.statistics": ("CommitStats", "RuntimeStats"),
    "runtime.tools.context": ("ToolContext",),
    "runtime.tools.output": ("Blocks",),
    "runtime.tools.tool": ("Tool", "tool"),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
