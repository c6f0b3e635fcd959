"""The worker of the examples, killed and stopped again and again."""

import itertools
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from callboard.replay import Recording
from tests.pages import ROOT
from tests.processes import ENDS_WITHIN_S, running

pytestmark = pytest.mark.slow
SCRIPT = ROOT / "examples" / "queue_worker.py"
PROMPTS = [f"Say hello to number {number}" for number in range(10)]


def rows(folder: Path, query: str) -> list[tuple[str, ...]]:
    database = sqlite3.connect(folder / "jobs.db")
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def started(folder: Path, *arguments: str) -> AbstractContextManager["subprocess.Popen[str]"]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return running(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def add(folder: Path, prompts: list[str]) -> None:
    with started(folder, "add", *prompts) as process:
        assert process.communicate(timeout=ENDS_WITHIN_S)[1] == ""


def done(folder: Path) -> int:
    return len(rows(folder, "select id from jobs where state not in ('new', 'taken')"))


def letters(folder: Path) -> int:
    return len(rows(folder, "select key from letters"))


def test_no_job_is_lost_or_done_twice_however_the_worker_ends(tmp_path: Path) -> None:
    chance = random.Random(1)
    add(tmp_path, PROMPTS)
    for how in itertools.cycle([signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT]):
        before = letters(tmp_path)
        with started(tmp_path, "work") as worker:
            while letters(tmp_path) < before + 2 and done(tmp_path) < len(PROMPTS):
                assert worker.poll() is None, worker.communicate()[1]
                time.sleep(0.02)
            time.sleep(chance.random() / 5)  # so that the end comes at any moment of the next jobs
            worker.send_signal(how)
            errors = worker.communicate(timeout=ENDS_WITHIN_S)[1]
        assert how is not signal.SIGTERM or (worker.returncode, errors) == (0, "")
        if done(tmp_path) == len(PROMPTS):
            break
    assert rows(tmp_path, "select distinct state, result from jobs") == [("ok", "The letter is on its way.")]
    assert sorted(rows(tmp_path, "select words from letters")) == sorted((prompt,) for prompt in PROMPTS)
    resumes = 0
    for (job,) in rows(tmp_path, "select id from jobs"):
        recording = Recording.open(tmp_path / "sessions.db", job)
        kinds = [event.kind for event in recording.events]
        assert (kinds.count("Ask"), kinds.count("AskEnded"), kinds.count("Cancel")) == (1, 1, 0)
        resumes += kinds.count("Resumed")
    assert resumes


def test_a_second_worker_is_refused(tmp_path: Path) -> None:
    # So many that the first worker is not done before the second one has started, on a busy machine too.
    add(tmp_path, PROMPTS * 20)
    with started(tmp_path, "work") as first:
        while not letters(tmp_path):
            assert first.poll() is None, first.communicate()[1]
            time.sleep(0.02)
        with started(tmp_path, "work") as second:
            errors = second.communicate(timeout=ENDS_WITHIN_S)[1]
        assert second.returncode == 1
        assert f"process {first.pid}" in errors
        assert "Traceback" not in errors
        assert rows(tmp_path, "select id from jobs where state = 'taken'")
