"""`callboard worker`, `submit` and `cluster` on the command line."""

import json

import pytest
from click.testing import CliRunner

from callboard.cli.main import cli
from tests.runtime.log.postgres.places import on_server


@pytest.mark.parametrize("log", ["callboard.db", ":memory:"])
def test_a_log_that_one_process_owns_has_no_workers(log: str) -> None:
    for words in ("worker m:a", "cluster status", "submit host hi"):
        found = CliRunner().invoke(cli, [*words.split(), "--log", log])
        assert found.exit_code == 2
        assert "give --log postgresql://" in found.stderr


def test_status_lists_what_was_submitted_and_what_it_waits_for() -> None:
    with on_server() as place:
        for _ in range(2):  # the client got no answer and repeats itself
            done = CliRunner().invoke(cli, ["submit", "host", "hi", "--session", "s", "--log", place.url])
            assert (done.exit_code, done.stdout) == (0, "s\n")
        found = CliRunner().invoke(cli, ["cluster", "status", "--json", "--log", place.url])
        assert json.loads(found.stdout) == {
            "workers": [],
            "waiting": [{"session": "s", "for": "a worker with the agent 'host'", "refusal": ""}],
            "shares": [],
        }
        shown = CliRunner().invoke(cli, ["cluster", "status", "--log", place.url])
        assert "no worker is registered" in shown.stderr
        assert "a worker with the agent 'host'" in shown.stdout
