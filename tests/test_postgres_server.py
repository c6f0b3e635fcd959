"""The private server of the tests: where its programs are missing, the tests that need it are skipped."""

from pathlib import Path

import pytest

from tests import postgres_server
from tests.postgres_server import SKIP, shared, started


def test_without_its_programs_tests_are_skipped_for_one_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(postgres_server, "programs", lambda: None)
    with pytest.raises(pytest.skip.Exception, match="Debian: postgresql") as skipped:
        shared()
    assert str(skipped.value) == SKIP
    with pytest.raises(pytest.skip.Exception), started(tmp_path):
        pytest.fail("started without its programs")


def test_the_server_listens_on_no_port_and_is_not_the_system_s() -> None:
    if postgres_server.programs() is None:
        pytest.skip(SKIP)
    shared()
    shown = "SELECT current_setting('listen_addresses'), current_setting('data_directory')"
    ((addresses, folder),) = postgres_server.execute(shown)
    assert addresses == ""
    assert "callboard-pg-" in folder
