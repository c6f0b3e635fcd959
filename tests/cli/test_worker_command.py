"""`callboard worker` and `submit` on the command line."""

import gc

import pytest
from click.testing import CliRunner

from callboard.cli.main import cli
from callboard.cli.worker_command import COLLECTIONS, rare_collections


@pytest.mark.parametrize("log", ["callboard.db", ":memory:"])
def test_a_log_that_one_process_owns_has_no_workers(log: str) -> None:
    for words in ("worker m:a", "cluster status", "submit host hi"):
        found = CliRunner().invoke(cli, [*words.split(), "--log", log])
        assert found.exit_code == 2
        assert "give --log postgresql://" in found.stderr


def test_garbage_is_collected_less_often_while_a_worker_runs() -> None:
    former = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() == COLLECTIONS
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == former
    assert gc.get_freeze_count() == 0
