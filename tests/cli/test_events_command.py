import asyncio
import json
import threading
from pathlib import Path

import pytest

from callboard.actors.protocol.events import Event
from callboard.cli.events_command import KINDS
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.cli.conftest import Callboard
from tests.cli.recorded import add_session, damage, rows_of


def seqs(text: str) -> list[int]:
    return [int(line.split()[0]) for line in text.splitlines()]


def test_each_event_is_one_line(callboard: Callboard) -> None:
    done = callboard("events", "20250101")
    assert done.exit_code == 0
    assert seqs(done.stdout) == list(range(1, 29))
    line = done.stdout.splitlines()[6]
    for words in ("host → supervisor", "Delegate", "←6", "to counter: Count the files in src"):
        assert words in line


def test_a_range_bounds_them(callboard: Callboard) -> None:
    assert seqs(callboard("events", "20250101", "--from", "3", "--to", "5").stdout) == [3, 4, 5]
    beyond = callboard("events", "20250101", "--from", "99")
    assert (beyond.exit_code, beyond.stdout) == (0, "")
    assert "has 28 events" in beyond.stderr


def test_kinds_are_chosen_in_any_case_of_letters(callboard: Callboard) -> None:
    found = callboard("events", "20250101", "--kind", "calltool", "--kind", "ToolReturned").stdout
    assert seqs(found) == [14, 16]


def test_an_actors_events_are_those_it_sent_or_received_and_its_grants(callboard: Callboard) -> None:
    found = callboard("events", "20250101", "--actor", "host.1").stdout
    assert {9, 11, 12, 13, 14, 15, 16} <= set(seqs(found))
    assert not {1, 2, 3, 5, 10} & set(seqs(found))


def test_unknown_kinds_and_actors_are_answered_with_those_there_are(callboard: Callboard) -> None:
    kind = callboard("events", "--kind", "Foo")
    assert kind.exit_code == 2
    assert "CallModel" in kind.stderr
    actor = callboard("events", "--actor", "boss")
    assert actor.exit_code == 2
    assert "supervisor" in actor.stderr
    assert "SessionOpened" in KINDS


def test_as_json_each_line_is_an_event_with_its_whole_body(callboard: Callboard) -> None:
    lines = callboard("events", "20250101", "--json").stdout.splitlines()
    assert len(lines) == 28
    event = json.loads(lines[6])
    assert (event["seq"], event["sender"], event["recipient"], event["cause"]) == (7, "host", "supervisor", 6)
    assert event["kind"] == event["body"]["type"] == "Delegate"
    assert event["body"]["prompt"] == "Count the files in src"
    assert event["at"].endswith("Z")
    assert len(event["digest"]) == 64


@pytest.mark.slow
def test_following_waits_for_more_and_ends_with_the_session(
    callboard: Callboard, tmp_path: Path, recorded: Path
) -> None:
    log = tmp_path / "live.db"
    events = rows_of(recorded, "20250101-survey")
    add_session(log, "first", events[:3])
    later = threading.Timer(0.3, add_rest, (log, events))
    later.start()
    done = callboard("events", "first", "--follow", "--log", str(log))
    later.join()
    assert seqs(done.stdout) == list(range(1, 29))


def add_rest(log: Path, events: list[Event]) -> None:
    async def write() -> None:
        store = SQLiteLog(log, durability="process")
        await store.open()
        epoch, head = await store.take_over("first")
        await store.append([Append("first", head.seq, epoch, events[3:])])
        await store.close()

    asyncio.run(write())


def test_grouped_a_line_is_a_turn_a_call_or_a_delegation(callboard: Callboard) -> None:
    lines = callboard("events", "20250101", "--grouped").stdout.splitlines()
    assert len(lines) == 8
    assert "delegation counter" in lines[2]
    assert lines[2].split()[0] == "7-21"
    of_child = callboard("events", "20250101", "--grouped", "--actor", "host.1", "--json").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in of_child] == ["turn", "tool", "turn"]
    later = callboard("events", "20250101", "--grouped", "--from", "17").stdout.splitlines()
    assert [line.split()[0] for line in later] == ["17-19", "22-24"]


def test_grouped_does_not_follow(callboard: Callboard) -> None:
    refused = callboard("events", "--grouped", "--follow")
    assert refused.exit_code == 2
    assert "leave out --follow" in refused.stderr


def test_steps_are_those_of_all_events_and_check_reads_the_digests(
    callboard: Callboard, own_log: Path
) -> None:
    for options in (("--follow",), ("--grouped",), ("--kind", "Ask"), ("--actor", "host"), ("--full",)):
        assert callboard("events", "20250101", "--step", *options).exit_code == 2, options
    damage(own_log, 20)
    listed = ("events", "20250101", "--to", "5", "--log", str(own_log))
    assert callboard(*listed).exit_code == 0
    assert callboard(*listed, "--check").exit_code == 4
