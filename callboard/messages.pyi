# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.actors.protocol.client_messages import Ask as Ask
from callboard.actors.protocol.client_messages import AskEnded as AskEnded
from callboard.actors.protocol.client_messages import Cancel as Cancel
from callboard.actors.protocol.client_messages import Close as Close
from callboard.actors.protocol.client_messages import Forked as Forked
from callboard.actors.protocol.client_messages import Resumed as Resumed
from callboard.actors.protocol.client_messages import RevokePermission as RevokePermission
from callboard.actors.protocol.client_messages import SessionClosed as SessionClosed
from callboard.actors.protocol.client_messages import SessionOpened as SessionOpened
from callboard.actors.protocol.client_messages import Tell as Tell
from callboard.actors.protocol.client_messages import TellEnded as TellEnded
from callboard.actors.protocol.client_messages import ToolsChanged as ToolsChanged
from callboard.actors.protocol.compaction_messages import Compacted as Compacted
from callboard.actors.protocol.compaction_messages import SummaryRefused as SummaryRefused
from callboard.actors.protocol.messages import Begin as Begin
from callboard.actors.protocol.messages import CancelTask as CancelTask
from callboard.actors.protocol.messages import DeciderFailed as DeciderFailed
from callboard.actors.protocol.messages import Delegate as Delegate
from callboard.actors.protocol.messages import Delegated as Delegated
from callboard.actors.protocol.messages import DelegationEnded as DelegationEnded
from callboard.actors.protocol.messages import Finished as Finished
from callboard.actors.protocol.messages import ReportBack as ReportBack
from callboard.actors.protocol.messages import ReportJudged as ReportJudged
from callboard.actors.protocol.messages import Stop as Stop
from callboard.actors.protocol.messages import Stopped as Stopped
from callboard.actors.protocol.messages import Told as Told
from callboard.actors.protocol.messages import ToolsGiven as ToolsGiven
from callboard.actors.protocol.messages import TurnRequested as TurnRequested
from callboard.actors.protocol.messages import TurnSettled as TurnSettled
from callboard.actors.protocol.messages import Wake as Wake
from callboard.actors.protocol.messages import Woken as Woken
from callboard.actors.protocol.port_messages import ApprovalGiven as ApprovalGiven
from callboard.actors.protocol.port_messages import BudgetGiven as BudgetGiven
from callboard.actors.protocol.port_messages import CallModel as CallModel
from callboard.actors.protocol.port_messages import CallTool as CallTool
from callboard.actors.protocol.port_messages import CancelCall as CancelCall
from callboard.actors.protocol.port_messages import CancelTimer as CancelTimer
from callboard.actors.protocol.port_messages import CapacityGiven as CapacityGiven
from callboard.actors.protocol.port_messages import CheckSchema as CheckSchema
from callboard.actors.protocol.port_messages import ContextMade as ContextMade
from callboard.actors.protocol.port_messages import ExtendTimer as ExtendTimer
from callboard.actors.protocol.port_messages import MakeContext as MakeContext
from callboard.actors.protocol.port_messages import ModelReplied as ModelReplied
from callboard.actors.protocol.port_messages import RequestApproval as RequestApproval
from callboard.actors.protocol.port_messages import RequestBudget as RequestBudget
from callboard.actors.protocol.port_messages import RequestCapacity as RequestCapacity
from callboard.actors.protocol.port_messages import SchemaChecked as SchemaChecked
from callboard.actors.protocol.port_messages import SetTimer as SetTimer
from callboard.actors.protocol.port_messages import SettleBudget as SettleBudget
from callboard.actors.protocol.port_messages import TimerFired as TimerFired
from callboard.actors.protocol.port_messages import ToolReturned as ToolReturned
from callboard.actors.protocol.port_messages import ToolStarted as ToolStarted
from callboard.actors.protocol.step_messages import RunStep as RunStep

__all__ = [
    "ApprovalGiven",
    "Ask",
    "AskEnded",
    "Begin",
    "BudgetGiven",
    "CallModel",
    "CallTool",
    "Cancel",
    "CancelCall",
    "CancelTask",
    "CancelTimer",
    "CapacityGiven",
    "CheckSchema",
    "Close",
    "Compacted",
    "ContextMade",
    "DeciderFailed",
    "Delegate",
    "Delegated",
    "DelegationEnded",
    "ExtendTimer",
    "Finished",
    "Forked",
    "MakeContext",
    "ModelReplied",
    "ReportBack",
    "ReportJudged",
    "RequestApproval",
    "RequestBudget",
    "RequestCapacity",
    "Resumed",
    "RevokePermission",
    "RunStep",
    "SchemaChecked",
    "SessionClosed",
    "SessionOpened",
    "SetTimer",
    "SettleBudget",
    "Stop",
    "Stopped",
    "SummaryRefused",
    "Tell",
    "TellEnded",
    "TimerFired",
    "Told",
    "ToolReturned",
    "ToolStarted",
    "ToolsChanged",
    "ToolsGiven",
    "TurnRequested",
    "TurnSettled",
    "Wake",
    "Woken",
]
