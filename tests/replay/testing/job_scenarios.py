"""Scenarios for campaigns of several jobs. Other processes import this module: it must import quickly."""

import os
from collections.abc import Sequence
from typing import NoReturn

from callboard.replay.testing.monitors import sometimes
from callboard.replay.testing.program import ProgramWorld
from callboard.replay.testing.world import MakeWorld, Monitor
from tests.replay.testing.known_bugs.shared_memory import account, needle
from tests.replay.testing.programs import collector

Found = tuple[MakeWorld[ProgramWorld], Sequence[Monitor[ProgramWorld]]]


def broken() -> Found:
    program, rules = account(False)
    return program.world, rules


def fine() -> Found:
    return collector(*"123456").world, [
        sometimes("1 is first", lambda world: world.states["c"][:1] == ("1",))
    ]


def no_needle() -> Found:
    program, rules = needle(True)
    return program.world, [*rules, sometimes("never", lambda world: False)]


def failing() -> NoReturn:
    raise ValueError("no luck")


def dying() -> NoReturn:
    os._exit(3)


def broken_in_one() -> Found:
    """Return a broken result in the first process that creates the file named by the environment."""
    try:
        os.close(os.open(os.environ["CALLBOARD_TEST_FLAG"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return fine()
    return broken()
