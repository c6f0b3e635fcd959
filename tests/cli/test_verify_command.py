import asyncio
import json
import shutil
from pathlib import Path

import msgspec
import pytest

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import ReportJudged
from callboard.cli import verify_command
from callboard.cli.errors import CORRUPT, FAILED, USAGE
from callboard.replay.reading import Rows
from callboard.replay.testing.rules.base import Breach
from callboard.replay.testing.stores.events import added, event
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.cli.conftest import Callboard
from tests.cli.recorded import add_session, damage, diverging, rows_of


def head_of(callboard: Callboard, session: str) -> str:
    return str(json.loads(callboard("show", session, "--json").stdout)["head"])


def test_a_recorded_session_verifies(callboard: Callboard) -> None:
    done = callboard("verify", "20250101")
    assert done.exit_code == 0
    assert done.stdout.startswith("session 20250101-survey: 28 events")
    assert "all as recorded; head 28:" in done.stdout


def test_every_session_can_be_verified_at_once(callboard: Callboard) -> None:
    done = callboard("verify", "--all")
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 3
    assert "3 sessions checked, all as recorded" in done.stderr


def test_a_head_that_was_kept_is_checked(callboard: Callboard) -> None:
    head = head_of(callboard, "20250101")
    assert callboard("verify", "20250101", "--head", head).exit_code == 0
    forged = f"28:{'0' * 64}"
    done = callboard("verify", "20250101", "--head", forged)
    assert done.exit_code == 4
    assert done.stdout.startswith("corrupt: ")


def test_a_log_that_was_cut_is_found_by_the_head(callboard: Callboard, own_log: Path) -> None:
    events = rows_of(own_log, "20250101-survey")
    add_session(own_log, "whole", events)
    head = head_of_log(callboard, own_log, "whole")
    add_session(own_log, "cut", events[:20])
    assert callboard("verify", "cut", "--log", str(own_log)).exit_code == 0
    assert callboard("verify", "cut", "--log", str(own_log), "--head", head).exit_code == 4


def head_of_log(callboard: Callboard, log: Path, session: str) -> str:
    return str(json.loads(callboard("show", session, "--json", "--log", str(log)).stdout)["head"])


def test_text_that_is_not_a_head_is_a_mistake_of_usage(callboard: Callboard) -> None:
    for text in ("28", "28:abc", "x:" + "0" * 64):
        done = callboard("verify", "--head", text)
        assert done.exit_code == 2
        assert "SEQ:HEX" in done.stderr
    assert callboard("verify", "--all", "--head", "1:" + "0" * 64).exit_code == 2


def test_a_changed_event_is_found_and_named(callboard: Callboard, own_log: Path) -> None:
    damage(own_log, 7)
    done = callboard("verify", "20250101", "--log", str(own_log))
    assert done.exit_code == 4
    assert "20250101-survey" in done.stdout
    assert "7" in done.stdout
    found = json.loads(callboard("verify", "20250101", "--log", str(own_log), "--json").stdout)
    assert (found["result"], found["seq"]) == ("corrupt", 7)


def test_code_that_does_something_else_is_found_and_explained(callboard: Callboard, own_log: Path) -> None:
    add_session(own_log, "other", diverging(rows_of(own_log, "20250101-survey")))
    done = callboard("verify", "other", "--log", str(own_log))
    assert done.exit_code == 5
    for words in (
        "diverged at seq 4",
        "body.attempt",
        "expected (this code): (absent)",
        "actual (the log) : 7",
    ):
        assert words in done.stdout
    found = json.loads(callboard("verify", "other", "--log", str(own_log), "--json").stdout)
    assert found["divergence"]["field"] == "body.attempt"


def test_among_all_sessions_the_bad_ones_decide_the_exit_code(callboard: Callboard, own_log: Path) -> None:
    add_session(own_log, "other", diverging(rows_of(own_log, "20250101-survey")))
    assert callboard("verify", "--all", "--log", str(own_log)).exit_code == 5
    damage(own_log, 7)
    done = callboard("verify", "--all", "--log", str(own_log), "--json")
    assert done.exit_code == 4
    results = {one["session"]: one["result"] for one in json.loads(done.stdout)["sessions"]}
    assert results == {
        "other": "diverged",
        "20250103-failed": "ok",
        "20250102-report": "ok",
        "20250101-survey": "corrupt",
    }


def test_a_damaged_log_is_refused_by_every_other_command_too(callboard: Callboard, own_log: Path) -> None:
    damage(own_log, 7)
    for command in ("show", "tree", "events --step", "show --state"):
        done = callboard(*command.split(), "20250101", "--log", str(own_log))
        assert done.exit_code == 4, command
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1


def test_a_key_is_read_from_a_file_that_an_option_or_the_environment_names(
    callboard: Callboard, own_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed = tmp_path / "keyed.db"

    async def write() -> None:
        log = SQLiteLog(keyed, "process", key=b"a secret")
        await log.open()
        await log.create("s", 1, "")
        await log.append([Append("s", 0, 1, posted)])
        await log.close()

    posted = rows_of(own_log, "20250101-survey")
    asyncio.run(write())
    (tmp_path / "key").write_text("a secret\n")
    (tmp_path / "wrong").write_text("another")
    for arguments, code in (((), 2), (("--key-file", "wrong"), 2), (("--key-file", "key"), 0)):
        assert callboard("verify", "s", "--log", str(keyed), *arguments).exit_code == code, arguments
    assert callboard("show", "s", "--log", str(keyed)).exit_code == 2
    monkeypatch.setenv("CALLBOARD_KEY_FILE", "key")
    for command in ("verify", "show", "tree", "events"):
        assert callboard(command, "s", "--log", str(keyed)).exit_code == 0, command


def test_a_key_file_that_holds_no_key_is_a_mistake_of_usage(callboard: Callboard, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "long").write_bytes(bytes(5_000))
    for name, code, said in (("empty", 2, "empty"), ("long", 2, "too large"), ("none", 3, "cannot be read")):
        done = callboard("verify", "--key-file", name)
        assert done.exit_code == code
        assert said in done.stderr
    (tmp_path / "short").write_bytes(b"short")
    assert callboard("verify", "--encryption-key-file", "short").exit_code == 2


def test_a_damaged_wal_is_reported_although_every_readable_session_is_whole(
    callboard: Callboard, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"

    async def write() -> None:
        log = SQLiteLog(path)
        await log.open()
        for name in ("s", "t"):
            await log.create(name, 1, "")
            for seq in range(1, 9):
                await added(log, name, 1, [event(seq)])
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{path}.left{suffix}")
        await log.close()

    asyncio.run(write())
    left = f"{path}.left"
    assert callboard("verify", "--all", "--log", left).exit_code in (0, 5)
    wal = Path(f"{left}-wal")
    content = bytearray(wal.read_bytes())
    content[len(content) // 2] ^= 1
    wal.write_bytes(content)
    for arguments in (["--all"], ["s"], ["t"], ["--all", "--json"], ["t", "--json"]):
        done = callboard("verify", *arguments, "--log", left)
        assert done.exit_code == 4, arguments
        assert "is damaged at frame" in done.stdout


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
    assert "3 sessions checked, every rule kept" in done.stderr


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

    monkeypatch.setattr(verify_command, "check_requests", check_requests)
    assert callboard("check", "20250101").exit_code == 0
    assert isinstance(seen[0], Rows)


def test_all_and_a_session_exclude_each_other(callboard: Callboard) -> None:
    assert callboard("check", "20250101", "--all").exit_code == USAGE
