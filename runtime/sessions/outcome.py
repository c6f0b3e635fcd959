"""How an ask ended, as callers get it."""

from dataclasses import dataclass

import msgspec

from callboard.actors.protocol.endings import EXPLAINED, STATUS, OutcomeKind, Status
from callboard.actors.protocol.errors import OutcomeError
from callboard.actors.protocol.messages import AskEnded
from callboard.actors.protocol.usage import NOTHING, Need, Usage


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one ask. Endings by a limit are outcomes, not exceptions.

    status: ok, failed or cancelled; kind: which ending (docs/delegation.md). text: the answer, or the partial
    work. structured_output: the report, if one won. usage: of this ask, the whole subtree. unsettled: what
    was still reserved, in_doubt: who had not drained, when the cancel grace was over. by: the seq of the
    event that ended it. head: the seq and digest of the log with this outcome in it: keep it to prove later
    that nothing was cut off.
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
        """ok, failed or cancelled."""
        return STATUS[self.kind]

    @property
    def is_ok(self) -> bool:
        """Whether there is a result."""
        return self.status == "ok"

    def unwrap(self) -> object:
        """The report if there is one, else the text. Raises OutcomeError if the ask did not succeed."""
        if not self.is_ok:
            why = self.detail or EXPLAINED[self.kind]
            raise OutcomeError(
                f"session {self.session_id}: the ask ended {self.status} ({self.kind}): {why}; "
                f"see `callboard show {self.session_id}`",
                self,
            )
        return self.structured_output if self.kind == "reported" else self.text


def outcome_of(session_id: str, ended: AskEnded, head: tuple[int, str]) -> Outcome:
    """The outcome that an `AskEnded` tells of."""
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
