"""The features of callboard, each with the sessions in which mutants of it are hunted, the rules that look at
it, and the mutants.

    python -m tests.mutants.feature_table            prints the page
    python -m tests.mutants.feature_table --write    rewrites tests/mutants/FEATURES.md

A feature without a session, without a rule of its own or without three mutants is one whose faults pass
everything. Each name in a row exists: `tests/mutants/test_feature_table.py`.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from callboard.replay.testing.rules.invariants import INVARIANTS
from callboard.replay.testing.rules.requests import REQUEST_RULES
from callboard.replay.testing.sessions import budget_world, capacity_monitors
from callboard.replay.testing.sessions.fork_rules import FORK_RULES
from callboard.replay.testing.sessions.monitors import session_monitors
from tests.mutants import downtime, orchestrated
from tests.mutants.mutant import ROOT
from tests.mutants.parts import PARTS
from tests.mutants.seeded_shell import SHELL

PAGE: Final = ROOT / "tests" / "mutants" / "FEATURES.md"
CAPACITY_RULES: Final = ("CALLS", "PLACED", "BUCKET", "ORDER", "FAIR", "IDLE", "ONCE", "USAGE", "SUM", "LEFT")
BUDGET_RULES: Final = ("OVER", "SPENT", "OPEN", "LEFT")


class Feature(NamedTuple):
    """One row. sessions: `part: name`. groups, mutants: whole groups of mutants, and single ones."""

    sessions: Sequence[str]
    rules: Sequence[str]
    groups: Sequence[str] = ()
    mutants: Sequence[str] = ()

    @property
    def all_mutants(self) -> list[str]:
        """Return the names of all mutants of the feature."""
        groups = {name: group for part in PARTS.values() for name, group in part.groups.items()}
        return [*(one.name for name in self.groups for one in groups[name]), *self.mutants]


def rules() -> dict[str, str]:
    """Return every rule that a row may name, with its sentence."""
    found = {one.name: one.rule for one in INVARIANTS} | dict(REQUEST_RULES)
    found |= {one.name: one.rule for one in session_monitors() if one.rule}
    found |= {f"fork-{one.name}": one.rule for one in FORK_RULES}
    found |= {f"capacity-{name.lower()}": getattr(capacity_monitors, name) for name in CAPACITY_RULES}
    found |= {f"scopes-{name.lower()}": getattr(budget_world, name) for name in BUDGET_RULES}
    return found | {"routes": orchestrated.RULE, "downtime": downtime.RULE}


FEATURES: Final[Mapping[str, Feature]] = {
    "background": Feature(
        ["background: two_tasks", "background: nested_tasks", "background: crowded", "later: tight_tasks"],
        ["tasks-read", "tasks-end", "both-sides", "places-are-held"],
        ["Background tasks"],
    ),
    "denied_tasks": Feature(
        ["waits: denied_tasks", "waits: denied_and_priced"],
        ["reserved-is-open", "same-books", "places-are-held", "both-sides"],
        ["Tasks denied before they begin"],
    ),
    "task_wait": Feature(
        ["background: first_of_two", "background: all_of_two", "background: started_and_awaited"],
        ["task-waits", "provenance"],
        [],
        ["any-waits-for-all", "all-waits-for-any", "wait-misses-its-own-reply", "refused-start-awaited"],
    ),
    "named_waits": Feature(
        [
            "waits: some_of_three",
            "waits: first_of_named",
            "waits: waits_side_by_side",
            "waits: names_of_others",
        ],
        ["task-waits"],
        ["Waits by name"],
    ),
    "tells": Feature(
        ["background: words_anywhere", "waits: words_in_line", "waits: words_at_retries"],
        ["one-tell-end", "both-sides"],
        ["Words for agents", "Words told one by one"],
    ),
    "programs": Feature(
        ["programs: gather", "programs: first_of_many", "programs: nested", "programs: timeouts"],
        ["free-steps", "live-copies", "step-answers", "given-up-calls", "places-are-held"],
        ["Steps of programs", "Calls given up", "Deadlines of programs", "Costs of programs"],
    ),
    "whole requests": Feature(
        ["programs: whole_requests"],
        ["whole-request", "whole-bounds", "whole-asked", "whole-reply"],
        ["Whole requests"],
    ),
    "lines": Feature(
        ["core: one_budget", "later: changing_in_line", "later: tight_boss", "programs: gather"],
        ["first-come", "parallel-calls", "line-of-tools", "tool-line", "places-are-held"],
        ["The line for model calls", "Records from before a wake", "Lines with contexts"],
        ["line-from-its-end", "line-of-copies-passed", "line-jumped"],
    ),
    "budgets": Feature(
        ["core: budgets", "core: costs", "core: to_the_token", "later: later_requests"],
        ["budgets", "nothing-refused-that-fits", "same-books", "bound", "later-needs", "needs"],
        ["Budgets", "Needs of later requests"],
    ),
    "budgets_above": Feature(
        ["budgets: third_refused", "budgets: narrow", "budgets: crash_of_one", "budgets: failing"],
        ["reserved-above", "settled-above", "scopes-over", "scopes-spent", "scopes-open", "scopes-left"],
        ["Scopes above sessions", "Reservations in a log", "Reservations of agents"],
    ),
    "capacity": Feature(
        ["capacity: pair", "capacity: stops", "capacity: parked", "capacity: crashes"],
        ["places", "capacity-sum", "capacity-once", "capacity-placed", "capacity-order", "capacity-left"],
        ["The policy of the capacity", "Places of a session", "Places given up late"],
    ),
    "reopen_and_sleep": Feature(
        ["core: reopened", "core: closed", "core: resumed_with_time", "core: polite_ends", "capacity: leave"],
        ["stays-closed", "detaches", "resumes", "in-time"],
        ["Polite ends", "Going on"],
    ),
    "fork_effects": Feature(
        [
            "forks: cut short, recorded",
            "forks: cut short, ask",
            "forks: cut short, live",
            "forks: approved at 8",
        ],
        ["fork-no-effect", "fork-effects-once", "fork-fresh-reads", "fork-needs-effect", "fork-results-once"],
        ["Results given once", "Starts in forks"],
        ["effects-run-silently", "people-not-asked", "idempotent-is-read", "old-reads-after-an-effect"],
    ),
    "file_history": Feature(
        ["forks: files, recorded", "forks: files, live, changed", "forks: files, another result"],
        ["file-versions", "fork-files"],
        ["Files of a copy"],
    ),
    "fork_clock": Feature(
        ["forks: late at 9", "forks: late with host.1:1:0", "forks: retries at 32"],
        ["fork-clock", "fork-inputs-once", "fork-same-tail"],
        [],
        ["timers-fire-early", "inputs-at-once", "open-answers-forgotten"],
    ),
    "permissions": Feature(
        [
            "rights: narrowed_trees",
            "rights: denied_models",
            "rights: narrower_resumes",
            "rights: used_rights",
        ],
        ["permissions", "narrowing"],
        ["Rights that widen", "Uses beyond the rights"],
    ),
    "labels": Feature(
        ["rights: labels_in_line", "rights: labels_of_delegations", "rights: labels_of_words"],
        ["labels"],
        ["Labels that get lost"],
    ),
    "rooms": Feature(
        ["core: rooms", "core: inner_budgets", "core: spent_by_the_reply"],
        ["rooms", "reserve-holds", "closing-turns", "reserved-is-open", "same-books"],
        ["Rooms for results"],
    ),
    "fallback": Feature(
        ["fallback: anywhere", "fallback: rounds", "fallback: tiers"],
        ["fallbacks", "needs", "per-origin", "other-origin"],
        ["The choice of the next model"],
    ),
    "approvals": Feature(
        ["core: approvals", "core: answers_of_people", "rights: used_rights"],
        ["approvals", "approved-arguments", "permitted-calls", "expired-questions"],
        ["Approvals"],
    ),
    "forms": Feature(
        ["rounds: two_rounds", "rounds: declined", "rounds: too_many_rounds", "rounds: programs_rounds"],
        ["input-rounds"],
        ["Rounds of input"],
    ),
    "contracts": Feature(
        ["contracts: inputs", "contracts: small-rooms", "contracts: of-programs"],
        ["contracts", "folded"],
        ["Inputs of agents", "Ends of agent tools"],
    ),
    "contexts": Feature(
        ["core: contexts", "core: handed_histories", "changed: agents_gone", "changed: agents_broken"],
        ["contexts", "context-from-log", "system", "makers", "changed-agents"],
        ["Contexts", "Histories that are handed over", "Agents that change"],
    ),
    "changing_tools": Feature(
        [
            "core: changing_tools",
            "core: other_tools",
            "later: changing_in_line",
            "later: changing_one_by_one",
        ],
        ["tools", "tools-passed-on", "line-of-tools", "append-only"],
        ["Tools that change", "Tools that change in line"],
    ),
    "cached_results": Feature(
        ["cache: given-again", "cache: effects-between", "cache: effect-first"],
        ["cached-answers", "telemetry"],
        ["Keys of results", "Results of a session"],
    ),
    "shared_state": Feature(
        ["core: shared_states"],
        ["state-updates", "state-is-fold"],
        ["Shared state"],
    ),
    "memory": Feature(
        ["rights: used_rights"],
        ["permissions", "labels"],
        [],
        ["uses-of-any-name", "uses-without-capability", "uses-whatever-was-read"],
    ),
    "orchestrator": Feature(
        ["orchestrators: note, in a row", "orchestrators: hops, at once", "orchestrators: disturbed"],
        ["routes"],
        ["Analysis of questions", "Routes", "Merged findings"],
    ),
    "compaction": Feature(
        [
            "compaction: cleared",
            "compaction: summarised",
            "compaction: bad-summaries",
            "compaction: refused",
            "compaction: within-a-budget",
            "compaction: by-function",
            "compaction: thoughtful",
            "compaction: stopped",
        ],
        ["compactions", "compacted", "summary-request", "append-only", "later-needs"],
        [
            "Summaries",
            "Cleared results",
            "Cleared thinking",
            "Summaries by a function",
            "Room for a summary",
        ],
    ),
    "silence": Feature(
        ["endings: silent", "endings: silent_with_tasks", "endings: curious"],
        ["empty-answers", "question-limit", "latched"],
        ["Empty last words", "Refusals and questions"],
    ),
    "cancels of agents": Feature(
        ["endings: cancelled_agents"],
        ["cancelled-agents", "cancelled"],
        ["Cancels of agents"],
    ),
    "last_depth": Feature(
        [
            "later: no_deeper",
            "later: session_no_deeper",
            "later: child_no_deeper",
            "later: program_no_deeper",
        ],
        ["depth", "deserved"],
        ["The last depth"],
    ),
    "races": Feature(
        ["core: races", "core: trees"],
        ["first-valid-wins", "one-end", "transitive-stop"],
        ["Reports", "Ends and stops"],
    ),
    "reports": Feature(
        ["core: reports", "core: fresh_schemas", "core: schemas"],
        ["one-judgement", "first-valid-wins", "checked"],
        ["Reports"],
    ),
    "deadlines": Feature(
        ["core: deadlines", "core: in_time", "core: resumed_with_time"],
        ["timers", "in-time", "no-rescue"],
        [],
        ["grace-never-ends", "grace-not-cancelled", "every-timer-extended", "one-deadline-extended"],
    ),
    "downtime": Feature(
        ["downtime: short stops", "downtime: long stops", "downtime: stops above and below"],
        ["downtime"],
        ["Time left out"],
    ),
    "crossing_messages": Feature(
        ["orders: questions_and_stops", "orders: changes_and_stops", "orders: races", "orders: closed"],
        ["transitive-stop", "nothing-after-stop", "timers", "no-rescue", "tools-passed-on"],
        ["Late and early messages"],
    ),
    "retries": Feature(
        ["core: retries", "core: one_crash_after_the_other", "waits: words_at_retries"],
        ["deserved", "turns", "usage-is-the-sum"],
        [],
        ["retry-waits-for-the-last-attempt", "settled-twice-by-retries", "unknown-use-of-a-retry-is-free"],
    ),
}
"""By the names of `tests/mutants/features.py`, where those are known, and some more."""

INTRO: Final = """\
# Features, and what looks at them

Each feature has sessions in which its mutants are hunted (`tests/mutants/parts.py`: part and name), rules of
the kit that look at it ([rules](../../docs/rules.md)), and mutants ([results](RESULTS.md)).
Names that begin with `capacity-`, `scopes-` and `fork-` are rules of sessions that share a runtime, of those
that share budgets, and of forks.
`routes` is the rule of an orchestrator, `downtime` that of programs whose process was away.

`python -m tests.mutants.feature_table --write` writes this page.

| feature | sessions | rules | groups of mutants | single mutants | mutants |
|---|---|---|---|---|---:|"""


OUTSIDE: Final = """
## Outside of simulated sessions

No session of the kit has forks' clocks, memory, workers, budgets on a server or the Claude client, so these
tests find their mutants (`tests/mutants/seeded_shell.py`).

| tests | mutants |
|---|---|"""


def page() -> str:
    """Render the page."""
    lines = [INTRO]
    for name, one in FEATURES.items():
        cells = (_named(one.sessions), _named(one.rules), ", ".join(one.groups), _named(one.mutants))
        lines.append(f"| {name} | {' | '.join(cells)} | {len(one.all_mutants)} |")
    lines.append(OUTSIDE)
    lines += [
        f"| {_named(tests.split())} | {_named([one.name for one in group])} |"
        for tests, group in SHELL.items()
    ]
    return "\n".join(lines) + "\n"


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main(arguments: Sequence[str]) -> None:
    """Run the command line."""
    if "--write" in arguments:
        PAGE.write_text(page())
    else:
        print(page(), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
