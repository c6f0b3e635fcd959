import json

import pytest
from rich.cells import cell_len

from callboard.cli import show_command
from callboard.cli.output import WIDE
from callboard.replay.tool_figures import tool_usage
from tests.cli.conftest import Callboard


def test_tools_and_agents_have_a_row_each(callboard: Callboard) -> None:
    lines = callboard("show", "20250101", "--tools").stdout.splitlines()
    assert lines[0].split() == ["TOOL", "CALLS", "ERRORS", "HITS", "TOKENS~", "MEAN", "P50", "P95"]
    assert lines[1].split()[:2] == ["count_files", "1"]
    assert lines[3].split()[0] == "AGENT"
    assert lines[-1].startswith("up to event 28: 1 call, 0 % errors, about ")
    assert all(cell_len(line) <= 80 for line in lines)


def test_the_figures_are_there_for_programs(callboard: Callboard) -> None:
    found = json.loads(callboard("show", "20250101", "--tools", "--json").stdout)
    assert found["at"] == 28
    assert found["session"].startswith("20250101")
    total = found["total"]
    assert (total["calls"], total["errors"], total["error_rate"]) == (1, 0, 0.0)
    assert total["cache_hit_rate"] is None
    assert set(total["latency"]) == {"mean_ms", "p50_ms", "p95_ms"}
    assert found["by_tool"]["count_files"] == total
    assert sum(one["calls"] for one in found["by_agent"].values()) == 1


def test_an_earlier_event_has_the_calls_up_to_it(callboard: Callboard) -> None:
    assert (
        callboard("show", "20250101", "--tools", "--at", "1").stdout == "no tool was called up to event 1\n"
    )
    assert json.loads(callboard("show", "20250101", "--tools", "--at", "1", "--json").stdout)["by_tool"] == {}


def test_an_event_that_is_not_there(callboard: Callboard) -> None:
    assert callboard("show", "20250101", "--tools", "--at", "99").exit_code == 3


LONG = "look_up_the_regulations_of_the_whole_country"


@pytest.mark.parametrize(("width", "name"), [(80, f"{LONG[:23]}…"), (160, LONG), (WIDE, LONG)])
def test_a_long_name_is_cut_only_where_the_terminal_is_narrow(
    width: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show_command, "width_of_stdout", lambda: width)
    figures = tool_usage([]).total._replace(calls=1_000, tokens_out_estimated=30_000)
    heading, row = show_command._table("TOOL", {LONG: figures})
    assert row.plain.split()[0] == name
    assert max(cell_len(heading.plain), cell_len(row.plain)) <= min(width, 100)
