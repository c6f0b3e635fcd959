import json
from pathlib import Path

import msgspec
import pytest

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import ReportJudged
from callboard.cli import check_command
from callboard.cli.errors import CORRUPT, FAILED, USAGE
from callboard.replay.reading import Rows
from callboard.replay.testing.rules.base import Breach
from tests.cli.conftest import Callboard
from tests.cli.recorded import add_session, damage, rows_of


def late_report(events: list[Event]) -> list[Event]:
    """Judge a report once more at the end of the events."""
    judged = next(one for one in events if isinstance(one.body, ReportJudged))
    last = events[-1]
    return [
        *events[:-1],
        msgspec.structs.replace(judged, seq=last.seq, at=last.at),
        msgspec.structs.replace(last, seq=last.seq + 1),
    ]


def test_recorded_sessions_keep_every_rule(callboard: Callboard) -> None:
    done = callboard("check", "20250101")
    assert (done.exit_code, done.stdout) == (0, "session 20250101-survey: 28 events, every rule kept\n")
    done = callboard("check", "--all")
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 3
    assert "3 sessions checked, none not as they should be" in done.stderr


def test_a_broken_rule_is_listed_with_its_seq(callboard: Callboard, own_log: Path) -> None:
    events = late_report(rows_of(own_log, "20250102-report"))
    add_session(own_log, "late", events)
    done = callboard("check", "late", "--log", str(own_log))
    assert done.exit_code == FAILED
    head, first, rule, *_ = done.stdout.splitlines()
    assert head.startswith(f"session late: {len(events)} events, ")
    assert head.endswith(" broken")
    assert first.startswith(f"  seq {events[-2].seq}: ")
    assert rule.startswith("    one-judgement: ")
    told = json.loads(callboard("check", "late", "--log", str(own_log), "--json").stdout)
    assert told["result"] == "broken"
    assert (told["breaches"][0]["seq"], told["breaches"][0]["name"]) == (events[-2].seq, "one-judgement")
    everything = json.loads(callboard("check", "--all", "--log", str(own_log), "--json").stdout)
    assert sorted(one["result"] for one in everything["sessions"]) == ["broken", "ok", "ok", "ok"]


def test_a_log_that_ends_in_the_middle_breaks_no_rule(callboard: Callboard, own_log: Path) -> None:
    events = rows_of(own_log, "20250101-survey")
    for length in range(1, len(events), 5):
        add_session(own_log, f"cut-{length}", events[:length])
        done = callboard("check", f"cut-{length}", "--log", str(own_log))
        assert done.exit_code == 0, done.stdout


def test_a_corrupt_log_is_reported_as_corrupt(callboard: Callboard, own_log: Path) -> None:
    damage(own_log, 7)
    done = callboard("check", "20250101", "--log", str(own_log))
    assert done.exit_code == CORRUPT
    assert done.stdout.startswith("corrupt: ")
    done = callboard("check", "--all", "--log", str(own_log), "--json")
    assert done.exit_code == CORRUPT
    assert {one["result"] for one in json.loads(done.stdout)["sessions"]} == {"ok", "corrupt"}


def test_the_events_of_a_session_are_read_when_used_and_not_held_in_memory(
    callboard: Callboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def check_requests(events: object) -> list[Breach]:
        seen.append(events)
        return []

    monkeypatch.setattr(check_command, "check_requests", check_requests)
    assert callboard("check", "20250101").exit_code == 0
    assert isinstance(seen[0], Rows)


def test_all_and_a_session_exclude_each_other(callboard: Callboard) -> None:
    assert callboard("check", "20250101", "--all").exit_code == USAGE
