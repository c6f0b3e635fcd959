# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.actors.protocol.endings import OutcomeKind as OutcomeKind
from callboard.actors.protocol.endings import Status as Status
from callboard.actors.protocol.events import Event as Event
from callboard.actors.protocol.limits import Limits as Limits
from callboard.actors.protocol.origin import Origin as Origin
from callboard.actors.protocol.request import ModelRequest as ModelRequest
from callboard.actors.protocol.telemetry import Metric as Metric
from callboard.actors.protocol.telemetry import Telemetry as Telemetry
from callboard.actors.protocol.usage import Usage as Usage
from callboard.actors.session.budget_limits import Budget as Budget
from callboard.actors.session.capacity import Capacity as Capacity
from callboard.actors.session.contexts import ContextRequest as ContextRequest
from callboard.runtime.agent import Agent as Agent
from callboard.runtime.approvals import Approval as Approval
from callboard.runtime.approvals import ApprovalAnswer as ApprovalAnswer
from callboard.runtime.approvals import Approver as Approver
from callboard.runtime.brief import Brief as Brief
from callboard.runtime.brief import Transcript as Transcript
from callboard.runtime.budgets import CapacityReport as CapacityReport
from callboard.runtime.cluster.client import Client as Client
from callboard.runtime.compaction import Compact as Compact
from callboard.runtime.contexts import SystemContext as SystemContext
from callboard.runtime.contexts import WholeHistory as WholeHistory
from callboard.runtime.files.files import Files as Files
from callboard.runtime.histories.history import History as History
from callboard.runtime.http.settings import Http as Http
from callboard.runtime.mcp.options import Share as Share
from callboard.runtime.mcp.server import MCPServer as MCPServer
from callboard.runtime.models.anthropic.model import AnthropicModel as AnthropicModel
from callboard.runtime.models.fallback import Fallback as Fallback
from callboard.runtime.models.layered.bedrock import BedrockModel as BedrockModel
from callboard.runtime.models.layered.gemini import GeminiModel as GeminiModel
from callboard.runtime.models.layered.openai import OllamaModel as OllamaModel
from callboard.runtime.models.layered.openai import OpenAICompatibleModel as OpenAICompatibleModel
from callboard.runtime.models.layered.openai import OpenAIModel as OpenAIModel
from callboard.runtime.models.layered.openai import OpenRouterModel as OpenRouterModel
from callboard.runtime.models.scripted import Call as Call
from callboard.runtime.models.scripted import Policy as Policy
from callboard.runtime.models.scripted import Reply as Reply
from callboard.runtime.models.scripted import ScriptedModel as ScriptedModel
from callboard.runtime.models.scripted import call as call
from callboard.runtime.models.scripted import calls as calls
from callboard.runtime.models.scripted import fail as fail
from callboard.runtime.models.scripted import say as say
from callboard.runtime.programs.context import ProgramContext as ProgramContext
from callboard.runtime.programs.program import Program as Program
from callboard.runtime.programs.program import program as program
from callboard.runtime.runtime import Runtime as Runtime
from callboard.runtime.secrets.refs import SecretPattern as SecretPattern
from callboard.runtime.secrets.refs import SecretRef as SecretRef
from callboard.runtime.sessions.agents_policy import AgentsPolicy as AgentsPolicy
from callboard.runtime.sessions.outcomes import DelegationOutcome as DelegationOutcome
from callboard.runtime.sessions.outcomes import Outcome as Outcome
from callboard.runtime.sessions.resume_many import Resumption as Resumption
from callboard.runtime.sessions.session import Session as Session
from callboard.runtime.sessions.snapshots import AgentView as AgentView
from callboard.runtime.sessions.snapshots import ApprovalView as ApprovalView
from callboard.runtime.sessions.snapshots import AskView as AskView
from callboard.runtime.sessions.snapshots import ReplyView as ReplyView
from callboard.runtime.statistics import CommitStats as CommitStats
from callboard.runtime.statistics import RuntimeStats as RuntimeStats
from callboard.runtime.statistics import WorkerStats as WorkerStats
from callboard.runtime.telemetry.open_telemetry import OpenTelemetry as OpenTelemetry
from callboard.runtime.tools.context import ToolContext as ToolContext
from callboard.runtime.tools.output import Blocks as Blocks
from callboard.runtime.tools.shared_state import SharedKey as SharedKey
from callboard.runtime.tools.tool import Tool as Tool
from callboard.runtime.tools.tool import tool as tool

__version__: str

__all__ = [
    "Agent",
    "AgentView",
    "AgentsPolicy",
    "AnthropicModel",
    "Approval",
    "ApprovalAnswer",
    "ApprovalView",
    "Approver",
    "AskView",
    "BedrockModel",
    "Blocks",
    "Brief",
    "Budget",
    "Call",
    "Capacity",
    "CapacityReport",
    "Client",
    "CommitStats",
    "Compact",
    "ContextRequest",
    "DelegationOutcome",
    "Event",
    "Fallback",
    "Files",
    "GeminiModel",
    "History",
    "Http",
    "Limits",
    "MCPServer",
    "Metric",
    "ModelRequest",
    "OllamaModel",
    "OpenAICompatibleModel",
    "OpenAIModel",
    "OpenRouterModel",
    "OpenTelemetry",
    "Origin",
    "Outcome",
    "OutcomeKind",
    "Policy",
    "Program",
    "ProgramContext",
    "Reply",
    "ReplyView",
    "Resumption",
    "Runtime",
    "RuntimeStats",
    "ScriptedModel",
    "SecretPattern",
    "SecretRef",
    "Session",
    "Share",
    "SharedKey",
    "Status",
    "SystemContext",
    "Telemetry",
    "Tool",
    "ToolContext",
    "Transcript",
    "Usage",
    "WholeHistory",
    "WorkerStats",
    "call",
    "calls",
    "fail",
    "program",
    "say",
    "tool",
]
