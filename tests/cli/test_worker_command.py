"""`callboard worker` and `submit` on the command line."""

import pytest
from click.testing import CliRunner

from callboard.cli.main import cli


@pytest.mark.parametrize("log", ["callboard.db", ":memory:"])
def test_a_log_that_one_process_owns_has_no_workers(log: str) -> None:
    for words in ("worker m:a", "cluster status", "submit host hi"):
        found = CliRunner().invoke(cli, [*words.split(), "--log", log])
        assert found.exit_code == 2
        assert "give --log postgresql://" in found.stderr
