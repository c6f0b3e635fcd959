"""Every mutant, by name."""

from collections.abc import Mapping
from typing import Final

from tests.mutants.mutant import Mutant
from tests.mutants.seeded_actors import AGENT, DESK, RECOVERY
from tests.mutants.seeded_approvals import APPROVALS
from tests.mutants.seeded_background import TASKS, WORDS
from tests.mutants.seeded_capacity import PLACES, POLICY
from tests.mutants.seeded_cases import CALLS
from tests.mutants.seeded_corners import ENDS
from tests.mutants.seeded_detaching import DETACHING
from tests.mutants.seeded_programs import COSTS, DEADLINES, GIVING_UP, STEPS
from tests.mutants.seeded_reopening import LEAVING, REOPENING
from tests.mutants.seeded_requests import NEW, SECOND
from tests.mutants.seeded_reserves import ROOMS, TAKING_BACK
from tests.mutants.seeded_session import ASKS, BUDGETS, LINE
from tests.mutants.seeded_state import CONTEXT, STATE, TOOLS
from tests.mutants.seeded_supervisor import DELEGATING, ENDINGS, REPORTS

PARTS: Final[Mapping[str, tuple[Mutant, ...]]] = {
    "Reports": REPORTS,
    "Ends and stops": ENDINGS,
    "Delegating": DELEGATING,
    "Asks": ASKS,
    "Budgets": BUDGETS,
    "The line for model calls": LINE,
    "The agent": AGENT,
    "The gate": DESK,
    "Recovery": RECOVERY,
    "Approvals": APPROVALS,
    "One case of ends": ENDS,
    "One case of calls": CALLS,
    "What requests name": NEW,
    "One after the other": SECOND,
    "Polite ends": (*DETACHING, *LEAVING),
    "Going on": REOPENING,
    "Shared state": STATE,
    "Contexts": CONTEXT,
    "Tools that change": TOOLS,
    "Rooms for results": ROOMS,
    "Turns taken back": TAKING_BACK,
}

MUTANTS: Final[dict[str, Mutant]] = {one.name: one for part in PARTS.values() for one in part}

BACKGROUND: Final[dict[str, Mutant]] = {one.name: one for one in (*TASKS, *WORDS)}
"""Mutants of background tasks and words: `tests/mutants/test_background.py` hunts them in such sessions."""

CAPACITY: Final[dict[str, Mutant]] = {one.name: one for one in (*POLICY, *PLACES)}
"""Mutants of what sessions share: `tests/mutants/test_capacity.py` hunts them in sessions on one port."""

PROGRAMS: Final[dict[str, Mutant]] = {one.name: one for one in (*STEPS, *GIVING_UP, *DEADLINES, *COSTS)}
"""Mutants of programs: `tests/mutants/test_programs.py` hunts them in sessions of programs."""
