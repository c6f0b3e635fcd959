# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.runtime.orchestrator.analysis import HintRule as HintRule
from callboard.runtime.orchestrator.analysis import ModelAnalyzer as ModelAnalyzer
from callboard.runtime.orchestrator.analysis import QueryAnalyzer as QueryAnalyzer
from callboard.runtime.orchestrator.analysis import Registry as Registry
from callboard.runtime.orchestrator.analysis import Specialist as Specialist
from callboard.runtime.orchestrator.choices import Aggregator as Aggregator
from callboard.runtime.orchestrator.choices import Router as Router
from callboard.runtime.orchestrator.contracts import Conflict as Conflict
from callboard.runtime.orchestrator.contracts import Finding as Finding
from callboard.runtime.orchestrator.contracts import OrchestratorResult as OrchestratorResult
from callboard.runtime.orchestrator.contracts import OrchestratorUsage as OrchestratorUsage
from callboard.runtime.orchestrator.contracts import PolicyRun as PolicyRun
from callboard.runtime.orchestrator.contracts import QueryIntent as QueryIntent
from callboard.runtime.orchestrator.contracts import Question as Question
from callboard.runtime.orchestrator.contracts import SpecialistContext as SpecialistContext
from callboard.runtime.orchestrator.contracts import SpecialistResult as SpecialistResult
from callboard.runtime.orchestrator.contracts import ToolUse as ToolUse
from callboard.runtime.orchestrator.offline import offline_model as offline_model
from callboard.runtime.orchestrator.orchestrator import Orchestrator as Orchestrator
from callboard.runtime.orchestrator.route import Route as Route

__all__ = [
    "Aggregator",
    "Conflict",
    "Finding",
    "HintRule",
    "ModelAnalyzer",
    "Orchestrator",
    "OrchestratorResult",
    "OrchestratorUsage",
    "PolicyRun",
    "QueryAnalyzer",
    "QueryIntent",
    "Question",
    "Registry",
    "Route",
    "Router",
    "Specialist",
    "SpecialistContext",
    "SpecialistResult",
    "ToolUse",
    "offline_model",
]
