"""A supervisor that raises: for tests of what is left then, and of how the next process goes on."""

import pytest

from callboard.actors.protocol.messages import SupervisorInput
from callboard.actors.supervisor import decider as supervisor
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def poison_supervisor(patch: pytest.MonkeyPatch, kind: type, error: BaseException) -> None:
    """Have its decisions on messages of this kind raise, whether it is given one message or several."""
    handle = supervisor._handle

    def poisoned(work: UnitOfWork, sender: str, body: SupervisorInput) -> None:
        if isinstance(body, kind):
            raise error
        handle(work, sender, body)

    patch.setattr(supervisor, "_handle", poisoned)
