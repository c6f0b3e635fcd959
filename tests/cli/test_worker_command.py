"""`callboard worker` and `submit` on the command line."""

import gc
import json
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from callboard.cli.main import cli
from callboard.cli.worker_command import COLLECTIONS, rare_collections
from tests.cli.agents import command, environment, piped
from tests.runtime.log.postgres.places import on_server


@pytest.mark.parametrize("log", ["callboard.db", ":memory:"])
def test_a_log_that_one_process_owns_has_no_workers(log: str) -> None:
    for words in ("worker m:a", "cluster status", "submit host hi"):
        found = CliRunner().invoke(cli, [*words.split(), "--log", log])
        assert found.exit_code == 2
        assert "give --log postgresql://" in found.stderr


def test_a_call_of_a_worker_waits_for_a_person_anywhere(tmp_path: Path) -> None:
    (tmp_path / "pays.py").write_text(PAYS)
    with on_server() as place:
        log = ["--log", place.url]
        process = subprocess.Popen(command("worker", "pays:host", *log), cwd=tmp_path, env=environment())
        try:
            said("submit", "host", "Pay.", "--session", "s", *log)
            while not (asked := json.loads(said("approvals", "--json", *log))):
                time.sleep(0.1)
            said("approvals", "--yes", asked[0]["id"], *log)
            while "ok: answered" not in (shown := said("show", "s", *log)):
                time.sleep(0.1)
        finally:
            process.terminate()
            assert process.wait(20) == 0
    assert "paid 3" in shown


def test_a_worker_whose_agents_can_run_no_session_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "pays.py").write_text(PAYS)
    with on_server() as place:
        found = piped(tmp_path, "worker", "pays:broken", "--log", place.url)
    assert found.returncode == 2
    assert "two different models are named 'scripted'" in found.stderr


PAYS = '''
from callboard import Agent, ModelRequest, ScriptedModel, call, say, tool


@tool(approval="before")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def policy(request: ModelRequest):
    return call("pay", amount=3) if request.turn == 1 else say("paid 3")


host = Agent("host", tools=[pay], model=ScriptedModel(policy))
other = Agent("other", model=ScriptedModel(["well"]))
broken = Agent("host", tools=[pay], model=ScriptedModel(policy), agents=[other])
'''


def said(*words: str) -> str:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_garbage_is_collected_less_often_while_a_worker_runs() -> None:
    former = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() == COLLECTIONS
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == former
    assert gc.get_freeze_count() == 0
