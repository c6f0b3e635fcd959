"""Deciders that raise, for tests of the log that is left, and of the next process."""

from typing import NoReturn

import pytest

from callboard.actors.agent import decider as agent
from callboard.actors.supervisor.decider import HANDLERS, Handler


def poison_supervisor(patch: pytest.MonkeyPatch, kind: type, error: BaseException) -> None:
    """Make the supervisor raise on messages of this kind, alone or among several. object: on all."""

    def poisoned(*_: object) -> NoReturn:
        raise error

    for known in HANDLERS:
        if issubclass(known, kind):
            patch.setitem(HANDLERS, known, Handler(poisoned))


def poison_agents(patch: pytest.MonkeyPatch, kind: type, error: BaseException) -> None:
    """Make every agent raise on messages of this kind, in each phase in which it takes them."""

    def poisoned(*_: object) -> NoReturn:
        raise error

    rows = [row for row in agent._IN_PHASE.values() if kind in row]
    assert rows, f"agents take no {kind.__name__}"
    for row in rows:
        patch.setitem(row, kind, poisoned)
