# Written by `python -m tools.public_names` from the table in __init__.py; do not edit.

from callboard.actors.protocol.bundles import Allowed as Allowed
from callboard.actors.protocol.bundles import Bundle as Bundle
from callboard.actors.protocol.bundles import Denied as Denied
from callboard.actors.protocol.bundles import LabelRule as LabelRule
from callboard.actors.protocol.endings import OutcomeKind as OutcomeKind
from callboard.actors.protocol.endings import Status as Status
from callboard.actors.protocol.errors import AgentsChanged as AgentsChanged
from callboard.actors.protocol.errors import AskFailed as AskFailed
from callboard.actors.protocol.errors import CallboardError as CallboardError
from callboard.actors.protocol.errors import CallFailed as CallFailed
from callboard.actors.protocol.errors import CorruptLog as CorruptLog
from callboard.actors.protocol.errors import DelegationFailed as DelegationFailed
from callboard.actors.protocol.errors import Diverged as Diverged
from callboard.actors.protocol.errors import Fenced as Fenced
from callboard.actors.protocol.errors import FileError as FileError
from callboard.actors.protocol.errors import HasForks as HasForks
from callboard.actors.protocol.errors import HttpError as HttpError
from callboard.actors.protocol.errors import InsideLoop as InsideLoop
from callboard.actors.protocol.errors import Interrupted as Interrupted
from callboard.actors.protocol.errors import InvalidAgent as InvalidAgent
from callboard.actors.protocol.errors import InvalidHistory as InvalidHistory
from callboard.actors.protocol.errors import InvalidPrompt as InvalidPrompt
from callboard.actors.protocol.errors import InvalidSchema as InvalidSchema
from callboard.actors.protocol.errors import InvalidState as InvalidState
from callboard.actors.protocol.errors import MemoryFailed as MemoryFailed
from callboard.actors.protocol.errors import MissingDeps as MissingDeps
from callboard.actors.protocol.errors import MissingExtra as MissingExtra
from callboard.actors.protocol.errors import MissingFiles as MissingFiles
from callboard.actors.protocol.errors import MissingKey as MissingKey
from callboard.actors.protocol.errors import MissingProgram as MissingProgram
from callboard.actors.protocol.errors import MissingType as MissingType
from callboard.actors.protocol.errors import MisuseError as MisuseError
from callboard.actors.protocol.errors import NotApproved as NotApproved
from callboard.actors.protocol.errors import OutcomeError as OutcomeError
from callboard.actors.protocol.errors import ScriptError as ScriptError
from callboard.actors.protocol.errors import SessionBusy as SessionBusy
from callboard.actors.protocol.errors import SessionDetached as SessionDetached
from callboard.actors.protocol.errors import SessionEnded as SessionEnded
from callboard.actors.protocol.errors import SessionExists as SessionExists
from callboard.actors.protocol.errors import SessionFailed as SessionFailed
from callboard.actors.protocol.errors import SessionNotFound as SessionNotFound
from callboard.actors.protocol.errors import StoreError as StoreError
from callboard.actors.protocol.errors import StoreFailed as StoreFailed
from callboard.actors.protocol.errors import StoreIncomplete as StoreIncomplete
from callboard.actors.protocol.errors import StoreLocked as StoreLocked
from callboard.actors.protocol.errors import StoreReadOnly as StoreReadOnly
from callboard.actors.protocol.errors import StoreTooNew as StoreTooNew
from callboard.actors.protocol.errors import StoreUnreadable as StoreUnreadable
from callboard.actors.protocol.errors import TellRefused as TellRefused
from callboard.actors.protocol.errors import ToolError as ToolError
from callboard.actors.protocol.errors import ToolInterrupted as ToolInterrupted
from callboard.actors.protocol.errors import UnknownModel as UnknownModel
from callboard.actors.protocol.errors import UnknownName as UnknownName
from callboard.actors.protocol.errors import WrongHead as WrongHead
from callboard.actors.protocol.errors import WrongKey as WrongKey
from callboard.actors.protocol.events import Event as Event
from callboard.actors.protocol.limits import Limits as Limits
from callboard.actors.protocol.origin import Origin as Origin
from callboard.actors.protocol.profiles import ModelSpec as ModelSpec
from callboard.actors.protocol.profiles import Prices as Prices
from callboard.actors.protocol.profiles import PriceTier as PriceTier
from callboard.actors.protocol.request import ModelRequest as ModelRequest
from callboard.actors.protocol.telemetry import Metric as Metric
from callboard.actors.protocol.telemetry import Telemetry as Telemetry
from callboard.actors.protocol.usage import Usage as Usage
from callboard.actors.protocol.value_types import ModelFailure as ModelFailure
from callboard.actors.session.capacity import Capacity as Capacity
from callboard.actors.session.contexts import ContextRequest as ContextRequest
from callboard.actors.session.permissions import Permission as Permission
from callboard.replay.divergence import Divergence as Divergence
from callboard.replay.recording import Recording as Recording
from callboard.replay.verification import Verification as Verification
from callboard.runtime.agent import Agent as Agent
from callboard.runtime.approvals import Approval as Approval
from callboard.runtime.approvals import ApprovalAnswer as ApprovalAnswer
from callboard.runtime.approvals import Approver as Approver
from callboard.runtime.brief import Brief as Brief
from callboard.runtime.brief import Transcript as Transcript
from callboard.runtime.capacity import CapacityReport as CapacityReport
from callboard.runtime.contexts import SystemContext as SystemContext
from callboard.runtime.files.files import Files as Files
from callboard.runtime.histories.history import History as History
from callboard.runtime.http.settings import Http as Http
from callboard.runtime.log.memory import MemoryLog as MemoryLog
from callboard.runtime.log.opening import open_log as open_log
from callboard.runtime.log.protocol import EventLog as EventLog
from callboard.runtime.log.protocol import Head as Head
from callboard.runtime.log.session_rows import SessionQuery as SessionQuery
from callboard.runtime.log.session_rows import SessionRow as SessionRow
from callboard.runtime.log.session_rows import SessionStatus as SessionStatus
from callboard.runtime.log.sqlite.log import SQLiteLog as SQLiteLog
from callboard.runtime.mcp.options import Share as Share
from callboard.runtime.mcp.server import MCPServer as MCPServer
from callboard.runtime.memory.protocol import Memory as Memory
from callboard.runtime.memory.protocol import MemoryEntry as MemoryEntry
from callboard.runtime.memory.sqlite import SQLiteMemory as SQLiteMemory
from callboard.runtime.models.anthropic.model import AnthropicModel as AnthropicModel
from callboard.runtime.models.fallback import Fallback as Fallback
from callboard.runtime.models.layered.bedrock import BedrockModel as BedrockModel
from callboard.runtime.models.layered.gemini import GeminiModel as GeminiModel
from callboard.runtime.models.layered.openai import OllamaModel as OllamaModel
from callboard.runtime.models.layered.openai import OpenAICompatibleModel as OpenAICompatibleModel
from callboard.runtime.models.layered.openai import OpenAIModel as OpenAIModel
from callboard.runtime.models.layered.openai import OpenRouterModel as OpenRouterModel
from callboard.runtime.models.protocol import Model as Model
from callboard.runtime.models.protocol import ModelAnswer as ModelAnswer
from callboard.runtime.models.protocol import OnText as OnText
from callboard.runtime.models.scripted import Call as Call
from callboard.runtime.models.scripted import Policy as Policy
from callboard.runtime.models.scripted import Reply as Reply
from callboard.runtime.models.scripted import ScriptedModel as ScriptedModel
from callboard.runtime.models.scripted import call as call
from callboard.runtime.models.scripted import calls as calls
from callboard.runtime.models.scripted import fail as fail
from callboard.runtime.models.scripted import say as say
from callboard.runtime.orchestrator.aggregation import Aggregator as Aggregator
from callboard.runtime.orchestrator.analysis import HintRule as HintRule
from callboard.runtime.orchestrator.analysis import ModelAnalyzer as ModelAnalyzer
from callboard.runtime.orchestrator.analysis import QueryAnalyzer as QueryAnalyzer
from callboard.runtime.orchestrator.contracts import Conflict as Conflict
from callboard.runtime.orchestrator.contracts import Finding as Finding
from callboard.runtime.orchestrator.contracts import OrchestratorResult as OrchestratorResult
from callboard.runtime.orchestrator.contracts import OrchestratorUsage as OrchestratorUsage
from callboard.runtime.orchestrator.contracts import QueryIntent as QueryIntent
from callboard.runtime.orchestrator.contracts import Question as Question
from callboard.runtime.orchestrator.contracts import SpecialistContext as SpecialistContext
from callboard.runtime.orchestrator.contracts import SpecialistResult as SpecialistResult
from callboard.runtime.orchestrator.contracts import ToolUse as ToolUse
from callboard.runtime.orchestrator.orchestrator import Orchestrator as Orchestrator
from callboard.runtime.orchestrator.policy_run import PolicyRun as PolicyRun
from callboard.runtime.orchestrator.routing import Router as Router
from callboard.runtime.orchestrator.specialists import Registry as Registry
from callboard.runtime.orchestrator.specialists import Specialist as Specialist
from callboard.runtime.outputs.tool_output import OutputError as OutputError
from callboard.runtime.outputs.tool_output import OutputRules as OutputRules
from callboard.runtime.outputs.tool_output import ResponseFormat as ResponseFormat
from callboard.runtime.outputs.tool_output import ToolOutput as ToolOutput
from callboard.runtime.outputs.tool_output import metrics as metrics
from callboard.runtime.outputs.unified import unified as unified
from callboard.runtime.programs.context import ProgramContext as ProgramContext
from callboard.runtime.programs.program import Program as Program
from callboard.runtime.programs.program import program as program
from callboard.runtime.runtime import Runtime as Runtime
from callboard.runtime.secrets.refs import SecretPattern as SecretPattern
from callboard.runtime.secrets.refs import SecretRef as SecretRef
from callboard.runtime.sessions.agents_policy import AgentsPolicy as AgentsPolicy
from callboard.runtime.sessions.outcome import DelegationOutcome as DelegationOutcome
from callboard.runtime.sessions.outcome import Outcome as Outcome
from callboard.runtime.sessions.resume_many import Resumption as Resumption
from callboard.runtime.sessions.session import Session as Session
from callboard.runtime.sessions.snapshots import AgentView as AgentView
from callboard.runtime.sessions.snapshots import ApprovalView as ApprovalView
from callboard.runtime.sessions.snapshots import AskView as AskView
from callboard.runtime.sessions.snapshots import ReplyView as ReplyView
from callboard.runtime.sessions.stream_items import AnyStreamItem as AnyStreamItem
from callboard.runtime.sessions.stream_items import Snapshot as Snapshot
from callboard.runtime.sessions.stream_items import StreamCut as StreamCut
from callboard.runtime.sessions.stream_items import StreamEvent as StreamEvent
from callboard.runtime.sessions.stream_items import StreamItem as StreamItem
from callboard.runtime.sessions.stream_items import TextDelta as TextDelta
from callboard.runtime.sessions.stream_items import TextReset as TextReset
from callboard.runtime.sessions.stream_items import ToolProgress as ToolProgress
from callboard.runtime.sessions.streaming import SessionStream as SessionStream
from callboard.runtime.statistics import CommitStats as CommitStats
from callboard.runtime.statistics import RuntimeStats as RuntimeStats
from callboard.runtime.tools.context import ToolContext as ToolContext
from callboard.runtime.tools.output import Blocks as Blocks
from callboard.runtime.tools.shared_state import SharedKey as SharedKey
from callboard.runtime.tools.tool import Tool as Tool
from callboard.runtime.tools.tool import tool as tool
from callboard.runtime.whole_history import WholeHistory as WholeHistory

__version__: str

__all__ = [
    "Agent",
    "AgentView",
    "AgentsChanged",
    "AgentsPolicy",
    "Aggregator",
    "Allowed",
    "AnthropicModel",
    "AnyStreamItem",
    "Approval",
    "ApprovalAnswer",
    "ApprovalView",
    "Approver",
    "AskFailed",
    "AskView",
    "BedrockModel",
    "Blocks",
    "Brief",
    "Bundle",
    "Call",
    "CallFailed",
    "CallboardError",
    "Capacity",
    "CapacityReport",
    "CommitStats",
    "Conflict",
    "ContextRequest",
    "CorruptLog",
    "DelegationFailed",
    "DelegationOutcome",
    "Denied",
    "Diverged",
    "Divergence",
    "Event",
    "EventLog",
    "Fallback",
    "Fenced",
    "FileError",
    "Files",
    "Finding",
    "GeminiModel",
    "HasForks",
    "Head",
    "HintRule",
    "History",
    "Http",
    "HttpError",
    "InsideLoop",
    "Interrupted",
    "InvalidAgent",
    "InvalidHistory",
    "InvalidPrompt",
    "InvalidSchema",
    "InvalidState",
    "LabelRule",
    "Limits",
    "MCPServer",
    "Memory",
    "MemoryEntry",
    "MemoryFailed",
    "MemoryLog",
    "Metric",
    "MissingDeps",
    "MissingExtra",
    "MissingFiles",
    "MissingKey",
    "MissingProgram",
    "MissingType",
    "MisuseError",
    "Model",
    "ModelAnalyzer",
    "ModelAnswer",
    "ModelFailure",
    "ModelRequest",
    "ModelSpec",
    "NotApproved",
    "OllamaModel",
    "OnText",
    "OpenAICompatibleModel",
    "OpenAIModel",
    "OpenRouterModel",
    "Orchestrator",
    "OrchestratorResult",
    "OrchestratorUsage",
    "Origin",
    "Outcome",
    "OutcomeError",
    "OutcomeKind",
    "OutputError",
    "OutputRules",
    "Permission",
    "Policy",
    "PolicyRun",
    "PriceTier",
    "Prices",
    "Program",
    "ProgramContext",
    "QueryAnalyzer",
    "QueryIntent",
    "Question",
    "Recording",
    "Registry",
    "Reply",
    "ReplyView",
    "ResponseFormat",
    "Resumption",
    "Router",
    "Runtime",
    "RuntimeStats",
    "SQLiteLog",
    "SQLiteMemory",
    "ScriptError",
    "ScriptedModel",
    "SecretPattern",
    "SecretRef",
    "Session",
    "SessionBusy",
    "SessionDetached",
    "SessionEnded",
    "SessionExists",
    "SessionFailed",
    "SessionNotFound",
    "SessionQuery",
    "SessionRow",
    "SessionStatus",
    "SessionStream",
    "Share",
    "SharedKey",
    "Snapshot",
    "Specialist",
    "SpecialistContext",
    "SpecialistResult",
    "Status",
    "StoreError",
    "StoreFailed",
    "StoreIncomplete",
    "StoreLocked",
    "StoreReadOnly",
    "StoreTooNew",
    "StoreUnreadable",
    "StreamCut",
    "StreamEvent",
    "StreamItem",
    "SystemContext",
    "Telemetry",
    "TellRefused",
    "TextDelta",
    "TextReset",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolInterrupted",
    "ToolOutput",
    "ToolProgress",
    "ToolUse",
    "Transcript",
    "UnknownModel",
    "UnknownName",
    "Usage",
    "Verification",
    "WholeHistory",
    "WrongHead",
    "WrongKey",
    "call",
    "calls",
    "fail",
    "metrics",
    "open_log",
    "program",
    "say",
    "tool",
    "unified",
]
