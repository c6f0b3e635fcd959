"""`callboard doctor` finds the facts of an installation, and prints no secret."""

import json
import re
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from callboard import pytest_plugin
from callboard.cli import doctor_command
from callboard.cli.doctor_command import VARIABLES, Findings, file_system
from callboard.runtime.log.sqlite import owner
from tests.cli.conftest import Callboard
from tests.pages import ROOT


def facts(callboard: Callboard, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(callboard("doctor", "--json", *arguments).stdout)
    return found


def test_a_good_log_has_its_facts_and_no_problem(callboard: Callboard) -> None:
    done = callboard("doctor")
    assert done.exit_code == 0
    assert done.stdout.endswith("no problem found\n")
    found = facts(callboard)
    assert found["problems"] == []
    assert found["sqlite"]["version"] == sqlite3.sqlite_version
    assert found["libraries"]["msgspec"][0].isdigit()
    assert found["log"]["sessions"] == "3 sessions"
    assert (found["log"]["locks"], found["log"]["folder"]) == ("hold", "can be written")


def test_no_value_of_a_variable_and_no_text_of_a_session_is_printed(
    callboard: Callboard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = tmp_path / "hunter2"
    key.write_text("swordfish")
    monkeypatch.setenv("CALLBOARD_KEY_FILE", str(key))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    for words in (callboard("doctor").stdout, callboard("doctor", "--json").stdout):
        assert "CALLBOARD_KEY_FILE" in words
        for secret in ("hunter2", "swordfish", "sk-ant", "count_files"):
            assert secret not in words


def test_it_leaves_nothing_behind(callboard: Callboard, tmp_path: Path) -> None:
    log = tmp_path / "new.db"
    assert facts(callboard, "--log", str(log))["log"]["size"] == "none"
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_cannot_be_read_and_a_folder_that_is_not_there_are_problems(
    callboard: Callboard, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database" * 100)
    done = callboard("doctor", "--log", str(broken))
    assert done.exit_code == 1
    assert "problem: the log cannot be read" in done.stdout
    done = callboard("doctor", "--log", str(tmp_path / "no" / "log.db"))
    assert done.exit_code == 1
    assert "does not exist" in done.stdout


def test_a_log_in_memory_has_no_file(callboard: Callboard) -> None:
    assert facts(callboard, "--log", ":memory:")["log"] == {"place": "in memory"}


def test_an_owner_that_is_gone_is_said_to_be_gone(callboard: Callboard, own_log: Path) -> None:
    own_log.with_name("own.db.lock").write_text("999999999\n\nhere\n")
    assert facts(callboard, "--log", str(own_log))["log"]["owner"].endswith("does not run here")


def test_locks_that_do_not_hold_and_clocks_that_differ_are_problems(
    callboard: Callboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "lock", lambda descriptor: None)
    monkeypatch.setattr(doctor_command, "now_ms", lambda: time.time_ns() // 1_000_000 - 10**12)
    problems = " ".join(facts(callboard)["problems"])
    assert "do not hold" in problems
    assert "clock differs" in problems
    assert "in the future" in problems


def test_a_file_system_over_a_network_is_a_problem(
    callboard: Callboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_command, "file_system", lambda folder: "nfs4")
    assert "network (nfs4)" in " ".join(facts(callboard)["problems"])


def test_the_file_system_of_a_folder_is_that_of_its_deepest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    there = str(tmp_path).replace(" ", "\\040")
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nserver:/x {there} nfs4 rw 0 0\nbroken\n/dev/b /else xfs rw\n")
    assert file_system(tmp_path / "sub", mounts) == "nfs4"
    assert file_system(Path("/"), mounts) == "ext4"
    assert file_system(tmp_path, tmp_path / "none") == "unknown"


def test_a_library_that_is_missing_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor_command, "_requirements", lambda: {("no-such-library", ""), ("nor-this", "ui")}
    )
    found = Findings({}, [])
    doctor_command._versions(found)
    assert found.facts["libraries"] == {
        "no-such-library": "missing",
        "nor-this": "not installed (callboard[ui])",
    }
    assert found.problems == ["the library no-such-library is missing; install callboard again"]


_READ = re.compile(r'"(CALLBOARD_[A-Z_]+)"')
_FOLDERS = ("actors", "runtime", "replay", "callboard")


def test_the_table_has_every_variable_that_the_code_reads_and_no_other() -> None:
    own = ROOT / "callboard" / "cli" / "environment.py"
    files = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.py") if path != own]
    assert len(files) > 400
    read = {name for path in files for name in _READ.findall(path.read_text())}
    of_pytest = {f"CALLBOARD_{name.upper()}" for name in pytest_plugin._OPTIONS}
    assert set(VARIABLES) == read | of_pytest


def test_the_page_of_the_command_line_has_the_table() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    rows = re.findall(r"^\| `(CALLBOARD_[A-Z_]+)` \| (.+) \|$", page, re.MULTILINE)
    assert dict(rows) == dict(VARIABLES)
