"""The page docs/rules.md: every ready-made rule of sessions, and every fault, from the code."""

import inspect
from collections.abc import Iterator
from typing import Final

from callboard.replay.testing.rules.invariants import INVARIANTS
from callboard.replay.testing.rules.requests import REQUEST_RULES
from callboard.replay.testing.sessions import faults
from callboard.replay.testing.sessions.monitors import session_monitors

INTRO: Final = """\
# Rules and faults

What `callboard.testing` holds every session to, and what it can have go wrong in one.
[Testing](testing.md) shows how to use it.

## On any log

`callboard check` holds recorded sessions to these, `callboard.testing.check_log(events)` any list of
events, and every simulated run is held to them. A breach names the event at which it shows.
"""
REQUESTS: Final = """
## On what models are asked

Requests are in no log: a simulation has them at hand, and for a recorded session the deciders compute them
anew (`callboard.testing.check_requests`).
"""
SIMULATED: Final = """
## On simulated sessions

These need what a log does not hold: what is left in the actors, what tools really did, what ports were told.
"""
FAULTS: Final = """
## Faults

`faults="all"`, or a list of kinds: `faults=["timeout", "crash"]`.
"""


def rules_page(notice: str) -> str:
    """The page, below a notice."""
    more = [(one.name, one.rule) for one in session_monitors() if one.rule]
    return "\n".join(
        [
            notice,
            "",
            INTRO,
            *_table([(one.name, one.rule) for one in INVARIANTS]),
            REQUESTS,
            *_table(list(REQUEST_RULES.items())),
            SIMULATED,
            *_table(more),
            FAULTS,
            "```",
            *_kinds(),
            "```",
            "",
        ]
    )


def _table(rows: list[tuple[str, str]]) -> list[str]:
    return ["| name | rule |", "|---|---|", *(f"| `{name}` | {rule} |" for name, rule in rows)]


def _kinds() -> Iterator[str]:
    """The list of kinds that the module of faults begins with."""
    paragraphs = inspect.cleandoc(faults.__doc__ or "").split("\n\n")
    yield from (line.removeprefix("    ") for line in paragraphs[1].splitlines())
