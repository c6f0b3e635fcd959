"""Changes of a state as lines."""

from callboard.cli.change_lines import change_lines, heading
from callboard.cli.folding import Folding
from callboard.replay.state_changes import Change

ATTACK = "\x1b[2J"


def test_a_change_has_the_field_and_both_values() -> None:
    lines = change_lines([Change("phase", "thinking", None)], Folding(is_full=False))
    assert [line.plain for line in lines] == ["  phase", '    - "thinking"', "    + null"]


def test_hostile_values_are_safe() -> None:
    for is_full in (False, True):
        lines = change_lines([Change(f"a{ATTACK}", ATTACK, {ATTACK: 1})], Folding(is_full=is_full))
        assert not any("\x1b" in line.plain for line in lines)


def test_many_changes_and_long_values_are_folded() -> None:
    many = [Change(str(number), "", "x" * 1_000) for number in range(50)]
    lines = change_lines(many, Folding(is_full=False))
    assert lines[-1].plain == "  … 10 more fields; --full shows them"
    assert max(len(line.plain) for line in lines) < 320
    assert len(change_lines(many, Folding(is_full=True))) == 150


def test_the_heading_names_the_decision() -> None:
    assert heading(12, "host.1", has_changes=True) == "the decision of host.1 on event 12 changed:"
    assert heading(12, "host.1", has_changes=False).endswith("changed nothing")
    assert heading(0, "", has_changes=False) == "no actor decides on this event"
