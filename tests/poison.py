"""A supervisor that raises, for tests of the log that is left, and of the next process."""

import pytest

from callboard.actors.protocol.messages import SupervisorInput
from callboard.actors.supervisor import decider as supervisor
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def poison_supervisor(patch: pytest.MonkeyPatch, kind: type, error: BaseException) -> None:
    """Make the supervisor raise on messages of this kind, alone or among several."""
    handle = supervisor._handle

    def poisoned(work: UnitOfWork, sender: str, body: SupervisorInput) -> None:
        if isinstance(body, kind):
            raise error
        handle(work, sender, body)

    patch.setattr(supervisor, "_handle", poisoned)
