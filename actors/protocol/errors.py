"""All exceptions of callboard, in one tree.

    CallboardError
      MisuseError                 a wrong argument or a wrong moment, which the caller can change
        InvalidAgent              an agent, tool or roster that cannot work
        InvalidState              an update of the shared state that does not fit its declaration
        InvalidPrompt             a prompt, schema or value that the boundary refuses
          InvalidSchema           an output schema, or a type, that cannot describe a report
          InvalidHistory          a conversation of another product that is broken
        MissingBudgets            the budgets that bind a recorded session, which the runtime does not have
        MissingDeps               the object for the tools of a recorded ask, which the program does not give
        MissingFiles              the files of a recorded session, which the resuming program does not give
        MissingVersions           versions of files whose bytes the log does not have
        ChangedFiles              a folder with changes that putting files back would lose
        MissingProgram            a program at work at the event to fork at, which the host does not have
        MissingType               the type of a recorded ask, which the resuming program does not give
        AgentsChanged             other agents than those of the recorded session
        UnknownName               a missing agent, tool, model or session
          UnknownModel            a model's name without a provider, or with an unknown one
        SessionBusy               a second ask while one runs
        SessionEnded              a closed session
        SessionImported           a session that was made of another program's traffic, which cannot go on
        HasForks                  a session whose first events others share
        TellRefused               words that their agent did not hear
        InsideLoop                a blocking call inside a running event loop
        MissingExtra              a library that an extra of callboard installs
        MissingKey                no API key
        WrongKey                  a digest or encryption key that does not fit the log
        ScriptError               a request that a scripted model has no answer for
        BadSchedule               no schedule, or one of another scenario  (callboard.testing)
        ScheduleMisfit            a schedule that no longer fits the code  (callboard.testing)
      SessionFailed               a session that ended in this process; its log stays readable
      SessionDetached             a session that this process has left; another one, or a resume, goes on
      OutcomeError                Outcome.unwrap() of an outcome that is not ok
      AskFailed                   an ask of a program that brought no value; raised inside the program
        CallFailed                a tool that failed, or did not run
        Interrupted               a tool whose effect is unknown
        NotApproved               a tool that a person did not allow to run
        DelegationFailed          a delegation, or a question to a model, that ended without a result
      StoreError
        StoreLocked               a file that another process owns
        StoreReadOnly             a file or folder that cannot be written
        StoreUnreadable           a damaged file, or no callboard log
          StoreIncomplete         a log without its WAL, which holds the newest events
        StoreTooNew               a log of a newer callboard
        StoreFailed               a write that failed; acknowledged events stay
        SessionExists, SessionNotFound
        WrongHead, Fenced         another writer
      CorruptLog                  events that contradict their digests, order or format
      Diverged                    code that decides otherwise than the log says
      Nondeterminism              a decider whose states depend on more than its inputs  (callboard.testing)

    BrokenRules                   a rule broken in an exploration; an AssertionError  (callboard.testing)
    ToolError                     raised by users' tools: the model reads its text unchanged
      ToolInterrupted             the same, where it is not known whether the call had its effect
      FileError                   a file of `ctx.files` that is refused, or that cannot be read or written
      HttpError                   a request of `ctx.http` that is refused, or that fails
      MemoryFailed                a memory of `ctx.memory` that cannot be read or written

Limit endings are outcomes, not exceptions. A message names the event, its place, and the next step.
"""

from typing import Literal, TypeAlias


class CallboardError(Exception):
    """The base of callboard's exceptions."""


class MisuseError(CallboardError):
    """A call that cannot work; the message says how to change it."""


class InvalidAgent(MisuseError, ValueError):
    """An agent, tool or roster that cannot work."""


class InvalidState(MisuseError, ValueError):
    """An update of the shared state that does not fit its declaration."""


class InvalidPrompt(MisuseError, ValueError):
    """A prompt, schema or value that the boundary refuses."""


class InvalidSchema(InvalidPrompt):
    """An output schema that is not a valid JSON schema, or a type that no JSON schema describes."""


class InvalidHistory(InvalidPrompt):
    """A broken conversation. index: of the message, from 0. fault: in it. others: further faults."""

    def __init__(self, index: int, fault: str, others: int = 0) -> None:
        more = f" (and {others:,} more)" if others else ""
        super().__init__(
            f"the history is broken: messages[{index}] {fault}{more}; History(..., repair=True) repairs it"
        )
        self.index = index
        self.fault = fault
        self.others = others


class MissingDeps(MisuseError, LookupError):
    """The object for the tools of a recorded ask, which the resuming program does not pass."""


class MissingFiles(MisuseError, LookupError):
    """The files of a recorded session, which the resuming program does not pass."""


class MissingVersions(MisuseError, LookupError):
    """Versions of files that a fork or a folder needs, and whose bytes the log does not have.

    paths: of the files.
    """

    def __init__(self, message: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.paths = paths


class ChangedFiles(MisuseError):
    """A folder with changes that putting files back would lose. paths: of the files."""

    def __init__(self, message: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.paths = paths


class MissingBudgets(MisuseError, LookupError):
    """The budgets that bind a recorded session, which the resuming runtime does not have."""


class MissingProgram(MisuseError, LookupError):
    """A program that was running at the event to fork at, which the given host does not have."""


class MissingType(MisuseError, LookupError):
    """The Python type of a recorded ask, which the resuming program does not pass; `names` lists all."""

    def __init__(self, message: str, names: tuple[str, ...]) -> None:
        super().__init__(message)
        self.names = names


class AgentsChanged(MisuseError):
    """Other agents than those of the recorded session; `differences` lists the changes."""

    def __init__(self, message: str, differences: tuple[str, ...]) -> None:
        super().__init__(message)
        self.differences = differences


class UnknownName(MisuseError, LookupError):
    """A missing agent, tool, model or session."""


class UnknownModel(UnknownName):
    """A model name without a provider, or with one that is not installed."""


class SessionBusy(MisuseError):
    """A second ask while one runs."""


class HasForks(MisuseError):
    """A session that cannot be deleted, because its forks share its first events."""


class SessionImported(MisuseError):
    """A session that was imported or recorded: another program, which callboard does not run, made it."""


class SessionEnded(MisuseError):
    """A session that is closed."""


class TellRefused(MisuseError):
    """A message that its agent did not read, because it is not running or ended first."""


class InsideLoop(MisuseError, RuntimeError):
    """A blocking call inside a running event loop, which would block itself."""


class MissingKey(MisuseError):
    """No API key."""


class MissingExtra(MisuseError):
    """A library that an extra of callboard installs is missing."""


class WrongKey(MisuseError):
    """A digest or encryption key that does not match the log, or a missing one."""


class ScriptError(MisuseError):
    """A request for which a scripted model has no answer, or a script that was not used to its end."""


class SessionFailed(CallboardError):
    """A session that cannot continue in this process; its log stays readable."""


class SessionDetached(CallboardError):
    """A session that this process has left; `resume` continues it."""


class OutcomeError(CallboardError):
    """`Outcome.unwrap()` of an outcome that is not ok; `outcome` holds it."""

    def __init__(self, message: str, outcome: object) -> None:
        super().__init__(message)
        self.outcome = outcome


class AskFailed(CallboardError):
    """A call of a program that returned no value. text: that of its answer."""

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message)
        self.text = text


class CallFailed(AskFailed):
    """A tool call that failed, or that did not run."""


class Interrupted(AskFailed):
    """A tool call that may have taken effect; nothing is known about its result."""


class NotApproved(AskFailed):
    """A tool call that a person did not allow to run."""


class DelegationFailed(AskFailed):
    """A delegation, or a question to a model, without a result. kind: its end, such as `budget`."""

    def __init__(self, message: str, text: str = "", kind: str = "") -> None:
        super().__init__(message, text)
        self.kind = kind


class StoreError(CallboardError):
    """A failure of the file or server that keeps the log."""


class StoreLocked(StoreError):
    """A file that another process owns."""


class StoreReadOnly(StoreError):
    """A file or folder that cannot be written."""


class StoreUnreadable(StoreError):
    """A damaged file, or one that is not a callboard log."""


class StoreIncomplete(StoreUnreadable):
    """A log that was copied or moved without its WAL, which holds the newest events."""


class StoreTooNew(StoreError):
    """A log of a newer callboard."""


class StoreFailed(StoreError):
    """A write that failed. Events that were acknowledged before are stored; those of the write may not be."""


class SessionExists(StoreError):
    """A session id that is in use."""


class SessionNotFound(StoreError, LookupError):
    """A session id without a session."""


class WrongHead(StoreError):
    """A session whose log ends at another event than its writer expects."""


class Fenced(StoreError):
    """A writer whose session another writer has taken over; it may append nothing more."""


class CorruptLog(CallboardError):
    """Events that contradict their digests, their order or their format."""

    def __init__(self, message: str, session_id: str = "", seq: int = 0) -> None:
        super().__init__(message)
        self.session_id = session_id
        self.seq = seq


class Diverged(CallboardError):
    """Code that decides differently than the log says."""


class ToolError(Exception):
    """An error that a tool raises. The model reads its text unchanged, without a class name."""


class ToolInterrupted(ToolError):
    """An error after which it is not known whether the call had its effect.

    The call ends as `interrupted`, as one that a crash cut off. A `read` tool has no effect: its call ends
    as an error.
    """


FileReason: TypeAlias = Literal[
    "bad_path", "denied", "missing", "link", "hard_link", "special", "folder", "large", "changed", "binary",
    "failed",
]  # fmt: skip
"""The kind of a `FileError`."""


class FileError(ToolError):
    """A file of a session that is refused or cannot be read or written.

    Its message names the file as the tool did, and no place of the machine.

    reason: `bad_path` for a path that leads out of the root or is no path, `denied` outside of the prefixes,
    `link` and `hard_link` for files with other names, `special` for devices and pipes, `changed` for a file
    that others write meanwhile, `failed` for what the system reports.
    """

    def __init__(self, message: str, reason: FileReason) -> None:
        super().__init__(message)
        self.reason: FileReason = reason


HttpReason: TypeAlias = Literal[
    "bad_url", "denied", "private", "unresolved", "redirect", "large", "encoding", "timeout", "failed"
]
"""The kind of an `HttpError`."""


class HttpError(ToolError):
    """A request of `ctx.http` that is refused or fails. Its message names the host, not the whole URL.

    reason: `bad_url` for an address with a user, a zone or an odd form, `denied` by the agent's permissions,
    `private` for a machine of the own network, `unresolved` for a name without an address, `redirect` for too
    many or for one that leaves https, `large` and `encoding` for the body, `failed` for what the network
    reports.
    """

    def __init__(self, message: str, reason: HttpReason) -> None:
        super().__init__(message)
        self.reason: HttpReason = reason


MemoryReason: TypeAlias = Literal[
    "damaged", "locked", "full", "missing", "denied", "foreign", "too_new", "too_large", "failed"
]
"""The kind of a `MemoryFailed`."""


class MemoryFailed(ToolError):
    """A long-term memory that cannot be read or written. Its message names no location on the machine.

    reason: `missing` for a file whose folder is not there, `denied` for one that the system withholds,
    `foreign` for a file that is no memory, `too_new` for one of a newer callboard, `too_large` for a text, a
    query or a number of entries beyond its limit, `failed` for anything else that the store reports.
    """

    def __init__(self, message: str, reason: MemoryReason) -> None:
        super().__init__(message)
        self.reason: MemoryReason = reason
