"""Views of unusual sessions: hostile texts, old logs, endless repetition, unrelated sessions.

Each has a defined outcome, and none ends in a traceback or in an escape sequence on the terminal.
"""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from callboard.actors.protocol.codec import decode, encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.cli.conftest import Callboard
from tests.cli.recorded import ATTACK, add_session, rows_of
from tests.effort import effort
from tests.golden import golden, names_of

OUTCOMES = {0, 1, 3, 5}
"""Exit codes of a view of a readable session: shown, with a failure in it, nothing found, not as decided."""

VIEWS = (
    ("show",),
    ("tree",),
    ("tree", "--reports"),
    ("tree", "--permissions"),
    ("events",),
    ("events", "--grouped"),
    ("search", "e"),
    ("show", "--tools"),
    ("diagnose",),
)
DECIDED = (
    ("show", "--state"),
    ("events", "--step"),
    ("verify",),
    ("check",),
    ("show", "--budget"),
    ("why", "#6"),
    ("request", "#6"),
)
"""Views that decide the session again, or need one that callboard has decided."""


def with_session(command: tuple[str, ...], session: str) -> tuple[str, ...]:
    """Put the session behind the name of a command, or before its `#SEQ`."""
    name, *rest = command
    if rest and rest[0].startswith("#"):
        return name, f"{session}{rest[0]}", *rest[1:]
    return name, session, *rest


@pytest.mark.parametrize("rules", [1, 2])
def test_every_view_shows_the_sessions_of_older_callboards(
    callboard: Callboard, own_log: Path, rules: int
) -> None:
    names = names_of(rules)
    for name in names:
        add_session(own_log, f"old-{name}", golden(name, rules))
    for name in names:
        for command in (*VIEWS, *DECIDED):
            done = callboard(*with_session(command, f"old-{name}"), "--log", str(own_log))
            assert done.exit_code == 0, (name, command, done.stderr)
    assert callboard("sessions", "--log", str(own_log)).exit_code == 0
    first, second, *_ = names
    assert callboard("diff", f"old-{first}", f"old-{second}", "--log", str(own_log)).exit_code == 5


def test_a_diff_of_unrelated_sessions_is_short_and_says_which_is_which(callboard: Callboard) -> None:
    for one, other in (("20250101", "20250103"), ("20250103", "20250101"), ("20250102", "20250101")):
        done = callboard("diff", one, other)
        assert done.exit_code == 5, done.stderr
        assert "first event that differs" in done.stdout
        assert len(done.stdout.splitlines()) < 200
        found = json.loads(callboard("diff", one, other, "--json").stdout)
        assert not found["same"]
        assert all(max(one["seqs"]) > 0 for one in found["differences"])


def hostile(value: object) -> object:
    """Return a JSON value with each string replaced, and the names of the fields kept."""
    if isinstance(value, str):
        return ATTACK
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return {name: hostile(one) for name, one in value.items()} if isinstance(value, dict) else value


def attacked(body: AnyMessage) -> AnyMessage:
    """Return a message with hostile texts in each field that takes them."""
    fields = msgspec.json.decode(encode(body), type=dict[str, object])
    for name in fields:
        if name == "type":
            continue
        changed = {**fields, name: hostile(fields[name])}
        try:
            decode(msgspec.json.encode(changed))
        except Exception:  # an address, or one of a few words
            continue
        fields = changed
    return decode(msgspec.json.encode(fields))


def test_no_view_prints_a_control_character_of_a_recorded_text(callboard: Callboard, own_log: Path) -> None:
    events = [
        msgspec.structs.replace(event, body=attacked(event.body) if event.seq > 1 else event.body)
        for name in ("everything", "flaky", "refused")
        for event in golden(name)
    ]
    events = [
        msgspec.structs.replace(event, seq=seq, cause=min(event.cause, seq - 1))
        for seq, event in enumerate(events, 1)
    ]
    add_session(own_log, "hostile", events)
    assert sum(b"\\u001b[2J" in encode(event.body) for event in events) > 60
    for command in (*VIEWS, ("search", "evil"), ("events", "--full"), ("diff", "20250101")):
        done = callboard(*with_session(command, "hostile"), "--log", str(own_log))
        assert done.exit_code in OUTCOMES, (command, done.stderr, done.exception)
        bad = {char for char in done.stdout + done.stderr if not (char.isprintable() or char == "\n")}
        assert not bad, (command, bad)
    done = callboard("sessions", "--log", str(own_log))
    assert all(char.isprintable() or char == "\n" for char in done.stdout)


def repeated(times: int) -> list[Event]:
    """Return a session in which one value occurs in each of many results, and often in each."""
    first = [event for event in golden("report") if event.seq <= 3]
    head = first[-1]
    value = Json(msgspec.json.encode("41900 " * 10))
    results = [
        Event(head.seq + at, head.at, "tools", "host", head.seq, ToolReturned(1, at, "ok", value))
        for at in range(1, times + 1)
    ]
    return [*first, *results]


def test_a_value_in_every_event_is_found_within_bounded_output(callboard: Callboard, own_log: Path) -> None:
    times = effort(300, 100_000)
    add_session(own_log, "same", repeated(times))
    log = ("--log", str(own_log))
    done = callboard("why", f"same#{times}", "--value", "41900", *log)
    assert done.exit_code == 0, done.stderr
    assert len(done.stdout.splitlines()) < 60
    found = callboard("search", "same", "41900", "--json", *log)
    assert found.stdout.count('"seq"') == times
    assert callboard("diagnose", "same", *log).exit_code == 0
    assert callboard("events", "same", "--grouped", *log).exit_code == 0


def test_a_running_session_of_another_process_is_not_forked_into_its_log(
    callboard: Callboard, folder: Path, own_log: Path
) -> None:
    events = rows_of(own_log, "20250101-survey")
    add_session(own_log, "running", [event for event in events if event.seq < 20])
    options = ("--with", "survey:host", "--log", str(own_log), "-q")

    async def while_it_runs() -> tuple[int, str]:
        log = SQLiteLog(own_log)
        await log.open()
        try:
            done = await asyncio.to_thread(callboard, "fork", "running#15", *options)
        finally:
            await log.close()
        return done.exit_code, done.stderr

    code, said = asyncio.run(while_it_runs())
    assert code == 1
    assert "wait for the other process, or name another log with --log" in said
    assert json.loads(callboard("show", "running", "--json", "--log", str(own_log)).stdout)["forks"] == []
    done = callboard("fork", "running#15", *options)
    assert done.exit_code == 0, done.stderr
    assert json.loads(callboard("show", "running", "--json", "--log", str(own_log)).stdout)["events"] == 19
