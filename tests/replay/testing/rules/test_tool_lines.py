"""The rule of the line for tools: of good sessions it holds, and of logs that leave the order it does not."""

from collections.abc import Sequence

from msgspec.structs import replace

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.tool_changes import ToolsPassedOn
from callboard.replay.testing.rules.tool_lines import LinesOfTools
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.mutants.scenarios_later import changing_in_line, changing_one_by_one
from tests.replay.testing.edited_logs import edited, limited, of_kind

LOG = SessionWorld(changing_one_by_one()).run().log


def broken(log: Sequence[Event]) -> list[str]:
    return [one.detail for one in check_log(log, kinds=[LinesOfTools])]


def starts() -> list[Event]:
    return [one for one in LOG if isinstance(one.body, CallTool)]


def test_sessions_with_lines_of_tools_keep_the_rule_in_any_order() -> None:
    for scenario in (changing_in_line(), changing_one_by_one()):
        for seed in range(5):
            assert broken(SessionWorld(scenario).run(in_random_order(seed)).log) == []


def test_a_call_that_starts_out_of_order_is_found() -> None:
    third = starts()[2]
    assert isinstance(third.body, CallTool)
    log = [replace(one, body=replace(third.body, call=3)) if one is third else one for one in LOG]
    assert broken(log)[0] == "host starts call 3 as number 3"


def test_a_call_that_starts_without_a_free_place_is_found() -> None:
    second = starts()[1]
    log = [replace(one, cause=starts()[0].cause) if one is second else one for one in LOG]
    assert broken(log)[0] == "host starts call 1, and no place is free for it"


def test_a_call_that_is_never_started_is_found() -> None:
    last = [one for one in starts() if isinstance(one.body, CallTool) and one.body.turn == 1][-1]
    log = edited(LOG, lambda one: one.seq == last.seq, turn=99)
    assert any("has not started" in one for one in broken(log))


def test_a_change_that_is_not_told_to_the_supervisor_is_found() -> None:
    seq = next(one.seq for one in LOG if isinstance(one.body, ToolReturned) and one.body.tools)
    log = [
        replace(one, cause=seq - 1) if one.kind == "ToolsChanged" and one.cause == seq else one for one in LOG
    ]
    found = [one.detail for one in check_log(log, kinds=[ToolsPassedOn])]
    assert f"host does not tell the change of event {seq}" in found


def test_the_line_is_as_long_as_the_limit_of_the_agent_says() -> None:
    assert broken(limited(LOG, of_kind(Begin), max_parallel_tools=2))
