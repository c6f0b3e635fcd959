"""The page docs/rules.md: every ready-made rule of sessions, and every fault, from the code."""

import inspect
from collections.abc import Iterator
from typing import Final

from callboard.replay.testing.rules.invariants import INVARIANTS
from callboard.replay.testing.rules.requests import REQUEST_RULES
from callboard.replay.testing.sessions import faults
from callboard.replay.testing.sessions.faults import KINDS
from callboard.replay.testing.sessions.monitors import session_monitors
from tests.mutants.campaign import sessions
from tests.mutants.features import FAULT_RUNS, FEATURES, PAIR_RUNS, PAIRS
from tests.mutants.parts import PARTS

INTRO: Final = """\
# Rules and faults

The testing kit holds every session to these rules, and can let these faults happen in it.
[Test how agents delegate](testing.md) shows how to use both.

## Rules for any log

`callboard check` checks these rules on recorded sessions.
`callboard.testing.check_log(events)` checks them on any events.
Every simulated run is checked as well.
A breach names the event at which it shows.
"""
REQUESTS: Final = """
## Rules for requests to models

No log holds whole requests.
A simulation has them; for a recorded session the deciders compute them again.
`callboard.testing.check_requests` checks these rules.
"""
SIMULATED: Final = """
## Rules for simulated sessions

These rules need facts that no log holds: the states of the actors, and the true effects of tools.
"""
TRIED: Final = """
## How far the rules were tried

A rule that a good session breaks is a false alarm.
So `make campaign` holds sessions of callboard itself to these rules:

| sessions | faults | runs of each |
|---|---|---|"""
FAULTS: Final = """
## Faults

Pass `faults="all"`, or a list of kinds: `faults=["timeout", "crash"]`.
"""


def rules_page(notice: str) -> str:
    """Write docs/rules.md."""
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
            *_tried(),
            FAULTS,
            "```text",
            *_kinds(),
            "```",
            "",
        ]
    )


def _table(rows: list[tuple[str, str]]) -> list[str]:
    return ["| name | rule |", "|---|---|", *(f"| `{name}` | {rule} |" for name, rule in rows)]


def _tried() -> Iterator[str]:
    """Yield how far the rules were tried on the sessions of callboard itself."""
    scenarios = sum(len(sessions(part)) for part in PARTS.values())
    yield from TRIED.splitlines()
    early = "alone and with timers that fire early"
    yield f"| {scenarios} scenarios | each of the {len(KINDS)} kinds, {early} | {FAULT_RUNS} |"
    yield f"| one for each of {len(FEATURES)} features | each kind, {early} | {FAULT_RUNS} |"
    yield f"| one for each of the {len(PAIRS)} pairs of features | all kinds, three in a run | {PAIR_RUNS} |"
    yield from ("", "The suite tries a sample of them; a broken rule fails it.")


def _kinds() -> Iterator[str]:
    """Yield the list of kinds from the docstring of the module of faults."""
    paragraphs = inspect.cleandoc(faults.__doc__ or "").split("\n\n")
    yield from (line.removeprefix("    ") for line in paragraphs[1].splitlines())
