"""Every exception that callboard raises on purpose. All are a `CallboardError`.

except SessionNotFound: ...   # the message says what to do next
"""

from callboard.lazy_names import lazy_names

_HOMES = {
    "actors.protocol.errors": (
        "AgentsChanged",
        "AskFailed",
        "CallboardError",
        "CallFailed",
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
        "MissingDeps",
        "MissingExtra",
        "MissingFiles",
        "MissingKey",
        "MissingProgram",
        "MissingType",
        "MisuseError",
        "NotApproved",
        "OutcomeError",
        "ScriptError",
        "SessionBusy",
        "SessionDetached",
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
        "TellRefused",
        "ToolError",
        "ToolInterrupted",
        "UnknownModel",
        "UnknownName",
        "WrongHead",
        "WrongKey",
    ),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
