"""The parts of the campaign: for each its groups of mutants, and the sessions in which they are hunted.

Nothing of callboard is imported here: a mutant must be in place before that.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.mutants.mutant import Mutant
from tests.mutants.seeded_actors import AGENT, DESK, RECOVERY
from tests.mutants.seeded_approvals import APPROVALS
from tests.mutants.seeded_background import FAILING, TASKS, WORDS
from tests.mutants.seeded_budgets import HOOK, KEYS_OF_CALLS, SCOPES
from tests.mutants.seeded_cache import KEYS, RESULTS
from tests.mutants.seeded_capacity import PLACES, POLICY
from tests.mutants.seeded_cases import CALLS
from tests.mutants.seeded_changed import CHANGING
from tests.mutants.seeded_compaction import CLEARING, FUNCTIONS, RESERVED, SUMMARIES, THINKING
from tests.mutants.seeded_contracts import FOLDS, INPUTS
from tests.mutants.seeded_corners import ENDS
from tests.mutants.seeded_detaching import DETACHING
from tests.mutants.seeded_downtime import LEFT_OUT
from tests.mutants.seeded_endings import CANCELS, LATCHES, SILENCE
from tests.mutants.seeded_fallback import NEXT_MODEL
from tests.mutants.seeded_findings import MERGES
from tests.mutants.seeded_forks import FILES, LOOK_UP, ONCE, PLAYBACK, STARTS
from tests.mutants.seeded_histories import HISTORY
from tests.mutants.seeded_late_places import LATE
from tests.mutants.seeded_later import IN_LINE, LAST_DEPTH, NEEDS, STALE
from tests.mutants.seeded_orchestrators import ANALYSIS, ROUTES
from tests.mutants.seeded_orders import CROSSING
from tests.mutants.seeded_origins import MAKERS, REPAIRS, TRANSLATION
from tests.mutants.seeded_programs import COSTS, DEADLINES, GIVING_UP, LINES, STEPS
from tests.mutants.seeded_reopening import LEAVING, REOPENING
from tests.mutants.seeded_requests import NEW, SECOND
from tests.mutants.seeded_reserves import ROOMS, TAKING_BACK
from tests.mutants.seeded_rights import REACHING, UNLABELLED, WIDER
from tests.mutants.seeded_rounds import INPUT
from tests.mutants.seeded_session import ASKS, BUDGETS, LINE
from tests.mutants.seeded_state import CONTEXT, STATE, TOOLS
from tests.mutants.seeded_supervisor import DELEGATING, ENDINGS, REPORTS
from tests.mutants.seeded_waits import DENIED, NAMED, ONE_BY_ONE
from tests.mutants.seeded_whole import WHOLE


class Part(NamedTuple):
    """One part of the campaign.

    subject: what its sessions are about, for the page. sessions: `module:NAME` of a mapping of scenarios, in
    the order in which runs are made. groups: the mutants, by the part of the core that they change.
    """

    name: str
    subject: str
    sessions: str
    groups: Mapping[str, tuple[Mutant, ...]]

    @property
    def mutants(self) -> dict[str, Mutant]:
        """Return the mutants of all groups, by name."""
        return {one.name: one for group in self.groups.values() for one in group}


CORE: Final = Part(
    "core",
    "Sessions of agents",
    "tests.mutants.scenarios:SCENARIOS",
    {
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
        "Histories that are handed over": HISTORY,
        "Tools that change": TOOLS,
        "Rooms for results": ROOMS,
        "Turns taken back": TAKING_BACK,
    },
)
BACKGROUND: Final = Part(
    "background",
    "Background tasks, and words for running agents",
    "tests.mutants.scenarios_background:BACKGROUND",
    {"Background tasks": TASKS, "Words for agents": WORDS, "Agents that fail": FAILING},
)
WAITED: Final = Part(
    "waits",
    "Waits by name, denied tasks, and words one by one",
    "tests.mutants.scenarios_waits:WAITS",
    {
        "Waits by name": NAMED,
        "Tasks denied before they begin": DENIED,
        "Words told one by one": ONE_BY_ONE,
    },
)
COMING: Final = Part(
    "later",
    "Tools that change in line, later requests, and the last depth",
    "tests.mutants.scenarios_later:LATER",
    {
        "Tools that change in line": IN_LINE,
        "Needs of later requests": NEEDS,
        "The last depth": LAST_DEPTH,
        "Records from before a wake": STALE,
    },
)
PROGRAMS: Final = Part(
    "programs",
    "Programs",
    "tests.mutants.scenarios_programs:PROGRAMS",
    {
        "Steps of programs": STEPS,
        "Calls given up": GIVING_UP,
        "Deadlines of programs": DEADLINES,
        "Costs of programs": COSTS,
        "Lines with contexts": LINES,
        "Whole requests": WHOLE,
    },
)
CAPACITY: Final = Part(
    "capacity",
    "Capacity that sessions share",
    "tests.mutants.scenarios_capacity:SHARED",
    {"The policy of the capacity": POLICY, "Places of a session": PLACES, "Places given up late": LATE},
)
FALLBACK: Final = Part(
    "fallback",
    "Agents with several models",
    "tests.mutants.scenarios_fallback:HUNTED",
    {"The choice of the next model": NEXT_MODEL},
)
ROUNDS: Final = Part(
    "rounds",
    "Calls that ask for input",
    "tests.mutants.scenarios_rounds:ROUNDS",
    {"Rounds of input": INPUT},
)
RIGHTS: Final = Part(
    "rights",
    "Permissions and labels",
    "tests.mutants.scenarios_rights:RIGHTS",
    {"Rights that widen": WIDER, "Uses beyond the rights": REACHING, "Labels that get lost": UNLABELLED},
)
FORKS: Final = Part(
    "forks",
    "Forks of sessions",
    "tests.mutants.scenarios_forks:FORKS",
    {
        "Recorded answers": LOOK_UP,
        "Playback of a fork": PLAYBACK,
        "Results given once": ONCE,
        "Files of a copy": FILES,
        "Starts in forks": STARTS,
    },
)

CONTRACTED: Final = Part(
    "contracts",
    "Agents with contracts and of factories",
    "tests.mutants.scenarios_contracts:CONTRACTS",
    {"Inputs of agents": INPUTS, "Ends of agent tools": FOLDS},
)
CACHE: Final = Part(
    "cache",
    "Results that are given again",
    "tests.mutants.scenarios_cache:CACHED",
    {"Keys of results": KEYS, "Results of a session": RESULTS},
)
COMPACTED: Final = Part(
    "compaction",
    "Conversations that become shorter",
    "tests.mutants.scenarios_compaction:COMPACTED",
    {
        "Cleared results": CLEARING,
        "Cleared thinking": THINKING,
        "Summaries": SUMMARIES,
        "Summaries by a function": FUNCTIONS,
        "Room for a summary": RESERVED,
    },
)
ORCHESTRATED: Final = Part(
    "orchestrators",
    "Orchestrators and their specialists",
    "tests.mutants.scenarios_orchestrators:ORCHESTRATED",
    {"Analysis of questions": ANALYSIS, "Routes": ROUTES, "Merged findings": MERGES},
)

ENDED: Final = Part(
    "endings",
    "Empty answers, refusals that latch, bounded questions, cancels of agents",
    "tests.mutants.scenarios_endings:ENDINGS",
    {"Empty last words": SILENCE, "Refusals and questions": LATCHES, "Cancels of agents": CANCELS},
)

PAUSED: Final = Part(
    "downtime",
    "Programs over the time without a process",
    "tests.mutants.scenarios_downtime:DOWNTIME",
    {"Time left out": LEFT_OUT},
)

ORDERED: Final = Part(
    "orders",
    "Messages that cross an end",
    "tests.mutants.scenarios_orders:ORDERS",
    {"Late and early messages": CROSSING},
)

OTHERS: Final = Part(
    "changed",
    "Agents that change while delegations wait",
    "tests.mutants.scenarios_changed:CHANGED",
    {"Agents that change": CHANGING},
)

SCOPED: Final = Part(
    "budgets",
    "Budgets that sessions share",
    "tests.mutants.scenarios_budgets:BUDGETED",
    {
        "Scopes above sessions": SCOPES,
        "Reservations in a log": KEYS_OF_CALLS,
        "Reservations of agents": HOOK,
    },
)

_PARTS: Final = (
    CORE, BACKGROUND, PROGRAMS, CAPACITY, FALLBACK, ROUNDS, RIGHTS, FORKS, CONTRACTED, CACHE, ORCHESTRATED,
    ENDED, PAUSED, ORDERED, WAITED, COMING, OTHERS, SCOPED, COMPACTED,
)  # fmt: skip
PARTS: Final[Mapping[str, Part]] = {one.name: one for one in _PARTS}

MUTANTS: Final[dict[str, Mutant]] = {
    name: one for part in PARTS.values() for name, one in part.mutants.items()
}

ORIGINS: Final[dict[str, Mutant]] = {one.name: one for one in (*MAKERS, *TRANSLATION, *REPAIRS)}
"""Mutants of conversations with several models, in no part: `tests/mutants/test_origins.py` hunts them with
unit tests."""

PART_OF: Final[dict[str, Part]] = {name: part for part in PARTS.values() for name in part.mutants}

DRIVING: Final = (
    "Background tasks",
    "Words for agents",
    *PROGRAMS.groups,
    "Shared state",
    "Contexts",
    "Tools that change",
    "Rooms for results",
    "Turns taken back",
)
"""The groups about ways to drive a session beyond asks and delegations."""

NAIVE: Final = (
    "wakes-at-every-end",
    "refused-words-stay",
    "children-counted-anew",
    "reserve-dropped-at-the-next-turn",
    "budget-for-last-words",
    "end-of-an-earlier-turn-ignored",
)
"""Mutants that are the naive rules of background tasks and words, as a first design would have them."""
