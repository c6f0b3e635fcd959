"""Events and spans as lines of text, whose columns stand below each other."""

import pytest

from callboard.actors.session.place_names import call_name
from callboard.cli.event_lines import lines_of, span_lines, summary_of
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import duration
from callboard.replay.grouping import spans
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


def test_the_columns_of_spans_stand_below_each_other_and_a_failure_says_why() -> None:
    found = spans(EVENTS)
    lines = [line.plain for line in span_lines(found, 160)]
    ends = {
        line.index(f"{duration(span.duration_ms):>5}  ", 20 + len(span.place)) + 5
        for line, span in zip(lines, found, strict=True)
    }
    assert len(ends) == 1
    assert max(len(span.outcome) for span in found) > len("answered")
    assert all(span.failure[:40] in line for line, span in zip(lines, found, strict=True))


def test_a_narrow_terminal_has_the_reason_of_a_failure_in_lines_of_its_own() -> None:
    found = spans(EVENTS)
    lines = [line.plain for line in span_lines(found, 80)]
    reasons = [line for line in lines if line.startswith(" " * 13)]
    assert "".join(reasons).replace(" ", "") == "".join(
        safe_line(span.reason, 300) for span in found
    ).replace(" ", "")
    assert max(map(len, reasons)) <= 80
    assert len(lines) - len(reasons) == len(found)
