# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.actors.protocol.errors import AgentsChanged as AgentsChanged
from callboard.actors.protocol.errors import AskFailed as AskFailed
from callboard.actors.protocol.errors import CallboardError as CallboardError
from callboard.actors.protocol.errors import CallFailed as CallFailed
from callboard.actors.protocol.errors import ChangedFiles as ChangedFiles
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
from callboard.actors.protocol.errors import MissingBudgets as MissingBudgets
from callboard.actors.protocol.errors import MissingDeps as MissingDeps
from callboard.actors.protocol.errors import MissingExtra as MissingExtra
from callboard.actors.protocol.errors import MissingFiles as MissingFiles
from callboard.actors.protocol.errors import MissingKey as MissingKey
from callboard.actors.protocol.errors import MissingProgram as MissingProgram
from callboard.actors.protocol.errors import MissingType as MissingType
from callboard.actors.protocol.errors import MissingVersions as MissingVersions
from callboard.actors.protocol.errors import MisuseError as MisuseError
from callboard.actors.protocol.errors import NotApproved as NotApproved
from callboard.actors.protocol.errors import OutcomeError as OutcomeError
from callboard.actors.protocol.errors import ScriptError as ScriptError
from callboard.actors.protocol.errors import SessionBusy as SessionBusy
from callboard.actors.protocol.errors import SessionDetached as SessionDetached
from callboard.actors.protocol.errors import SessionEnded as SessionEnded
from callboard.actors.protocol.errors import SessionExists as SessionExists
from callboard.actors.protocol.errors import SessionFailed as SessionFailed
from callboard.actors.protocol.errors import SessionImported as SessionImported
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

__all__ = [
    "AgentsChanged",
    "AskFailed",
    "CallFailed",
    "CallboardError",
    "ChangedFiles",
    "CorruptLog",
    "DelegationFailed",
    "Diverged",
    "Fenced",
    "FileError",
    "HasForks",
    "HttpError",
    "InsideLoop",
    "Interrupted",
    "InvalidAgent",
    "InvalidHistory",
    "InvalidPrompt",
    "InvalidSchema",
    "InvalidState",
    "MemoryFailed",
    "MissingBudgets",
    "MissingDeps",
    "MissingExtra",
    "MissingFiles",
    "MissingKey",
    "MissingProgram",
    "MissingType",
    "MissingVersions",
    "MisuseError",
    "NotApproved",
    "OutcomeError",
    "ScriptError",
    "SessionBusy",
    "SessionDetached",
    "SessionEnded",
    "SessionExists",
    "SessionFailed",
    "SessionImported",
    "SessionNotFound",
    "StoreError",
    "StoreFailed",
    "StoreIncomplete",
    "StoreLocked",
    "StoreReadOnly",
    "StoreTooNew",
    "StoreUnreadable",
    "TellRefused",
    "ToolError",
    "ToolInterrupted",
    "UnknownModel",
    "UnknownName",
    "WrongHead",
    "WrongKey",
]
