"""Events as lines of text, whose columns stand below each other."""

import pytest

from callboard.actors.session.place_names import call_name
from callboard.cli.event_lines import lines_of, summary_of
from tests.golden import golden

EVENTS = list(golden("everything"))


@pytest.mark.parametrize("width", [80, 160])
def test_the_columns_of_a_list_stand_below_each_other(width: int) -> None:
    lines = [line.plain for line in lines_of(EVENTS, width)]
    kinds = {
        line.index(f"  {event.kind}", line.index(" → ")) for line, event in zip(lines, EVENTS, strict=True)
    }
    assert len(kinds) == 1
    if width == 160:
        assert max(len(call_name(event)) for event in EVENTS) > 10
        columns = {
            len(line) - len(summary_of(event.body))
            for line, event in zip(lines, EVENTS, strict=True)
            if summary_of(event.body)
        }
        assert len(columns) == 1


def test_lines_that_are_not_all_known_widen_when_one_needs_it() -> None:
    lines = [line.plain for line in lines_of(iter(EVENTS), 160)]
    columns = [
        line.index(f"  {event.kind}", line.index(" → ")) for line, event in zip(lines, EVENTS, strict=True)
    ]
    assert columns == sorted(columns)
    assert columns[0] < columns[-1]
