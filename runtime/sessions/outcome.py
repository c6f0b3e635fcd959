"""The outcome of an ask, as its caller gets it."""

from dataclasses import dataclass, replace

import msgspec

from callboard.actors.protocol.endings import EXPLAINED, STATUS, OutcomeKind, Status
from callboard.actors.protocol.errors import OutcomeError
from callboard.actors.protocol.messages import AskEnded
from callboard.actors.protocol.usage import NOTHING, Need, Usage
from callboard.runtime.log.protocol import Head


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one ask. Endings by a limit are outcomes, not exceptions.

    status: ok, failed or cancelled. kind: of the end (docs/delegation.md).
    text: the answer, or the partial work. structured_output: the report, if one won.
    usage: of this ask and all agents below it.
    unsettled, in_doubt: at the end of the cancel grace, the open reservations and the agents that had not
        drained.
    by: the seq of the event that ended the ask.
    head: seq and digest of the log with this outcome in it. Keep it to prove later that the log is whole.
    """

    kind: OutcomeKind
    text: str
    structured_output: object
    usage: Usage
    session_id: str
    request_id: str
    head: tuple[int, str]
    detail: str = ""
    by: int = 0
    unsettled: Need = NOTHING
    in_doubt: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """Return ok, failed or cancelled."""
        return STATUS[self.kind]

    @property
    def is_ok(self) -> bool:
        """Return True if there is a result."""
        return self.status == "ok"

    def unwrap(self) -> object:
        """Return the report if there is one, else the text. Raises OutcomeError without a result."""
        if not self.is_ok:
            why = self.detail or EXPLAINED[self.kind]
            raise OutcomeError(
                f"session {self.session_id}: the ask ended {self.status} ({self.kind}): {why}; "
                f"see `callboard show {self.session_id}`",
                self,
            )
        return self.structured_output if self.kind == "reported" else self.text


def outcome_of(session_id: str, ended: AskEnded, head: tuple[int, str]) -> Outcome:
    """Build the outcome from its `AskEnded`. head: of the log, as seq and digest."""
    report = msgspec.json.decode(ended.value) if ended.kind == "reported" else None
    return Outcome(
        ended.kind,
        ended.text,
        report,
        ended.usage,
        session_id,
        ended.request_id,
        head,
        ended.detail,
        ended.by,
        ended.unsettled,
        ended.in_doubt,
    )


def with_head(outcome: Outcome, head: Head) -> Outcome:
    """Return the outcome with a later head of the same log."""
    return replace(outcome, head=(head.seq, head.digest.hex())) if head.seq else outcome
