"""Specialists behind one agent: a query is analysed, routed, asked, and the answers are aggregated."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "runtime.orchestrator.choices": ("Aggregator", "Router"),
    "runtime.orchestrator.analysis": ("HintRule", "ModelAnalyzer", "QueryAnalyzer", "Registry", "Specialist"),
    "runtime.orchestrator.contracts": (
        "Conflict",
        "Finding",
        "OrchestratorResult",
        "OrchestratorUsage",
        "PolicyRun",
        "QueryIntent",
        "Question",
        "SpecialistContext",
        "SpecialistResult",
        "ToolUse",
    ),
    "runtime.orchestrator.offline": ("offline_model",),
    "runtime.orchestrator.orchestrator": ("Orchestrator",),
    "runtime.orchestrator.route": ("Route",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
