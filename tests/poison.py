"""A supervisor that raises, for tests of the log that is left, and of the next process."""

from typing import NoReturn

import pytest

from callboard.actors.supervisor.decider import HANDLERS, Handler


def poison_supervisor(patch: pytest.MonkeyPatch, kind: type, error: BaseException) -> None:
    """Make the supervisor raise on messages of this kind, alone or among several. object: on all."""

    def poisoned(*_: object) -> NoReturn:
        raise error

    for known in HANDLERS:
        if issubclass(known, kind):
            patch.setitem(HANDLERS, known, Handler(poisoned))
