"""`callboard cluster status` on the command line."""

import json
from unittest.mock import ANY

from click.testing import CliRunner

from callboard.cli.main import cli
from tests.runtime.log.postgres.places import on_server


def test_status_lists_what_was_submitted_and_what_it_waits_for() -> None:
    with on_server() as place:
        for _ in range(2):  # the client got no answer and repeats itself
            done = CliRunner().invoke(cli, ["submit", "host", "hi", "--session", "s", "--log", place.url])
            assert (done.exit_code, done.stdout) == (0, "s\n")
        found = CliRunner().invoke(cli, ["cluster", "status", "--json", "--log", place.url])
        assert json.loads(found.stdout) == {
            "workers": [],
            "waiting": [{"session": "s", "for": "a worker with the agent 'host'", "refusal": ""}],
            "backlog": {"sessions": 1, "oldest_ms": ANY},
            "shares": [],
            "replicas": [],
            "warnings": [ANY, ANY, ANY],  # the tests' server keeps no promise about a loss of power
        }
        assert json.loads(found.stdout)["backlog"]["oldest_ms"] >= 0
        shown = CliRunner().invoke(cli, ["cluster", "status", "--log", place.url])
        assert "no worker is registered" in shown.stderr
        assert "a worker with the agent 'host'" in shown.stdout
        assert "1 session without a worker, the oldest since 0." in shown.stderr
        assert "warning: synchronous_commit is off: " in shown.stderr
