"""The result of a verification."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from callboard.actors.protocol.errors import Diverged
from callboard.runtime.log.protocol import Head

if TYPE_CHECKING:  # a command that verifies nothing does not load the deciders
    from callboard.replay.divergence import Divergence


@dataclass(frozen=True)
class Verification:
    """The result of a verification: how much was checked, the head it holds for, the first divergence."""

    session_id: str
    events: int
    decisions: int
    head: Head
    divergence: "Divergence | None"

    @property
    def is_ok(self) -> bool:
        """Return whether the code does what the log says, byte for byte."""
        return self.divergence is None

    def check(self) -> None:
        """Raise Diverged with the report, if there is a divergence."""
        if self.divergence is not None:
            raise Diverged("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        if self.divergence is not None:
            return [f"session {self.session_id}", *self.divergence.lines()]
        return [
            f"session {self.session_id}: {self.events} events, {self.decisions} decisions, "
            f"all as recorded; head {self.head.seq}:{self.head.digest.hex()}"
        ]
