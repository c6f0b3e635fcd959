"""`callboard prune`, and `callboard delete` beside a live owner."""

from pathlib import Path

import pytest

from callboard.runtime.log.reading import open_reader
from callboard.runtime.sessions.session import Session
from tests.cli.conftest import Callboard
from tests.cli.test_approvals_command import Run, beside
from tests.runtime.ports.test_approval_port import NAME


def names(log: Path) -> list[str]:
    with open_reader(log) as reader:
        return sorted(row.session_id for row in reader.sessions())


def test_old_sessions_are_deleted_without_an_owner(callboard: Callboard, own_log: Path) -> None:
    assert len(names(own_log)) == 3
    kept = callboard("prune", "--older-than", "10000", "--status", "any", "--yes", "--log", str(own_log))
    assert (kept.exit_code, kept.stderr) == (0, "0 sessions deleted\n")
    done = callboard("prune", "--older-than", "0", "--status", "any", "--yes", "--log", str(own_log))
    assert (done.exit_code, done.stderr) == (0, "3 sessions deleted\n")
    assert names(own_log) == []


def test_nothing_is_deleted_without_a_yes_or_a_log(
    callboard: Callboard, own_log: Path, tmp_path: Path
) -> None:
    assert callboard("prune", "--older-than", "0", "--log", str(own_log)).exit_code == 2
    assert len(names(own_log)) == 3
    missing = tmp_path / "none.db"
    assert callboard("prune", "--older-than", "0", "--yes", "--log", str(missing)).exit_code == 3
    assert not missing.exists()


@pytest.mark.parametrize("days", ["-1", "nan", "soon"])
def test_a_time_that_is_none_is_refused(callboard: Callboard, own_log: Path, days: str) -> None:
    assert callboard("prune", "--older-than", days, "--yes", "--log", str(own_log)).exit_code == 2
    assert len(names(own_log)) == 3


def test_a_session_that_runs_is_neither_deleted_nor_pruned_by_its_owner(
    callboard: Callboard, own_log: Path
) -> None:
    async def talk(session: Session, run: Run) -> None:
        busy = await run("delete", NAME, "--yes")
        assert busy.exit_code == 2
        assert "runs here and is not deleted" in busy.stderr
        done = await run("delete", "20250101-survey", "--yes")
        assert done.exit_code == 0, done.stderr
        assert names(own_log).count(NAME) == 1
        assert "20250101-survey" not in names(own_log)
        pruned = await run("prune", "--older-than", "0", "--status", "any", "--yes")
        assert pruned.stderr == "2 sessions deleted\n"

    beside(callboard, own_log, talk)
    assert names(own_log) == [NAME]
