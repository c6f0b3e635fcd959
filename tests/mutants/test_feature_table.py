"""Every feature has sessions, rules and mutants, and every name in the table exists."""

from tests.mutants.campaign import sessions
from tests.mutants.feature_table import FEATURES, PAGE, Feature, page, rules
from tests.mutants.parts import MUTANTS, PARTS
from tests.tables import table

ASKED_FOR = {
    "background", "task_wait", "named_waits", "tells", "programs", "lines", "capacity", "reopen_and_sleep",
    "fork_effects", "fork_clock", "permissions", "labels", "rooms", "fallback", "approvals", "forms",
    "contracts", "contexts", "changing_tools", "cached_results", "memory", "orchestrator", "budgets_above",
    "compaction", "file_history",
}  # fmt: skip
"""The features that the table must have at least."""

MUTANTS_MIN = 3


def test_the_table_has_a_row_for_each_feature() -> None:
    assert set(FEATURES) >= ASKED_FOR


@table("feature", FEATURES.values(), ids=list(FEATURES))
def test_every_name_exists_and_each_feature_has_sessions_rules_and_three_mutants(feature: Feature) -> None:
    known = {f"{part}: {name}" for part in PARTS for name in sessions(PARTS[part])}
    assert set(feature.sessions) <= known
    assert set(feature.rules) <= set(rules())
    mutants = feature.all_mutants
    assert set(mutants) <= set(MUTANTS)
    assert feature.sessions
    assert feature.rules
    assert len(set(mutants)) == len(mutants) >= MUTANTS_MIN


def test_each_mutant_of_a_feature_is_hunted_in_the_part_of_one_of_its_sessions_or_by_its_tests() -> None:
    for name, feature in FEATURES.items():
        parts = {one.partition(": ")[0] for one in feature.sessions}
        hunted = {mutant for part in parts for mutant in PARTS[part].mutants}
        assert set(feature.all_mutants) <= hunted, name


def test_every_group_of_mutants_of_a_part_but_the_core_belongs_to_a_feature() -> None:
    told = {group for one in FEATURES.values() for group in one.groups}
    told |= {
        group
        for part in PARTS.values()
        for group, mutants in part.groups.items()
        if {one.name for one in mutants} & {name for one in FEATURES.values() for name in one.mutants}
    }
    groups = {group for name, part in PARTS.items() for group in part.groups if name != "core"}
    assert groups - told <= {"Recorded answers", "Agents that fail"}


def test_the_page_is_written_of_the_table() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.mutants.feature_table --write`"
