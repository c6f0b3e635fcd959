"""Every exception that callboard raises, in one tree.

    CallboardError
      MisuseError                 the caller can mend it: a wrong argument, a wrong moment
        InvalidAgent              an agent, tool or roster that cannot work
        InvalidPrompt             a prompt, schema or value that is refused at the boundary
        AgentsChanged             a session is resumed with other agents than it was recorded with
        UnknownName               an agent, tool, model or session that is not there
        SessionBusy               a second ask while one runs
        SessionEnded              the session is closed
        InsideLoop                a blocking call inside a running event loop
        MissingKey                no API key
        WrongKey                  a digest or encryption key that is not the log's
        ScriptError               a scripted model was asked what its script does not know
        BadSchedule               no schedule, or one of another scenario  (callboard.testing)
        ScheduleMisfit            a schedule that the code fits no longer  (callboard.testing)
      SessionFailed               the session's memory is dead; the log is not
      OutcomeError                Outcome.unwrap() of an outcome that is not ok
      StoreError
        StoreLocked               another process owns the file
        StoreReadOnly             the file or its folder cannot be written
        StoreUnreadable           not a callboard log, or damaged
          StoreIncomplete         copied or moved without its WAL, where its newest events are
        StoreTooNew               written by a newer callboard
        StoreFailed               a write failed; what was acknowledged stays
        SessionExists, SessionNotFound
        WrongHead, Fenced         another writer was there
      CorruptLog                  events that contradict their digests, order or format
      Diverged                    the code no longer does what the log says
      Nondeterminism              a decider whose states depend on more than its inputs  (callboard.testing)

    RuleBroken                    an exploration that broke a rule; an AssertionError  (callboard.testing)
    ToolError                     raised by users' tools: its text reaches the model as it is

Limit endings are outcomes, not exceptions. A message says what happened, where, and what to do next.
"""


class CallboardError(Exception):
    """Anything that callboard raises."""


class MisuseError(CallboardError):
    """The call cannot work as it stands; the message says what to change."""


class InvalidAgent(MisuseError, ValueError):
    """An agent, tool or roster that cannot work."""


class InvalidPrompt(MisuseError, ValueError):
    """A prompt, schema or value that is refused at the boundary."""


class AgentsChanged(MisuseError):
    """A session is resumed with other agents than it was recorded with; `differences` says which."""

    def __init__(self, message: str, differences: tuple[str, ...]) -> None:
        super().__init__(message)
        self.differences = differences


class UnknownName(MisuseError, LookupError):
    """An agent, tool, model or session that is not there."""


class SessionBusy(MisuseError):
    """A second ask while one runs."""


class SessionEnded(MisuseError):
    """The session is closed."""


class InsideLoop(MisuseError, RuntimeError):
    """A blocking call inside a running event loop, which would wait for itself."""


class MissingKey(MisuseError):
    """No API key."""


class WrongKey(MisuseError):
    """A digest or encryption key that is not the one the log was made with, or none where one is needed."""


class ScriptError(MisuseError):
    """A scripted model was asked what its script does not know, or was not asked all it knows."""


class SessionFailed(CallboardError):
    """The session can go no further in this process; what is in the log stays readable."""


class OutcomeError(CallboardError):
    """`Outcome.unwrap()` of an outcome that is not ok; the outcome is in `.outcome`."""

    def __init__(self, message: str, outcome: object) -> None:
        super().__init__(message)
        self.outcome = outcome


class StoreError(CallboardError):
    """Something about the file or server that keeps the log."""


class StoreLocked(StoreError):
    """Another process owns the file."""


class StoreReadOnly(StoreError):
    """The file or its folder cannot be written."""


class StoreUnreadable(StoreError):
    """Not a callboard log, or damaged."""


class StoreIncomplete(StoreUnreadable):
    """A log that was copied or moved without its WAL, where its newest events are."""


class StoreTooNew(StoreError):
    """Written by a newer callboard."""


class StoreFailed(StoreError):
    """A write failed: nothing of it is known to be stored, what was acknowledged before is."""


class SessionExists(StoreError):
    """A session of this id is there already."""


class SessionNotFound(StoreError, LookupError):
    """No session of this id."""


class WrongHead(StoreError):
    """The session's log does not end where this writer thinks."""


class Fenced(StoreError):
    """Another writer has taken the session over; this one may append nothing more."""


class CorruptLog(CallboardError):
    """Events that contradict their digests, their order or their format."""

    def __init__(self, message: str, session_id: str = "", seq: int = 0) -> None:
        super().__init__(message)
        self.session_id = session_id
        self.seq = seq


class Diverged(CallboardError):
    """The code no longer does what the log says."""


class ToolError(Exception):
    """Raise it in a tool to tell the model what went wrong in your own words, without a class name."""
