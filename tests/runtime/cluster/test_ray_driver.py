"""The library `ray`: missing, or not connected to a cluster."""

import os
import sys
from types import SimpleNamespace

import pytest

from callboard.actors.protocol.errors import MissingExtra, MisuseError
from callboard.runtime.cluster.ray_driver import connected, driver


def test_without_the_library_the_error_has_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'callboard\[ray\]'"):
        driver()


def test_a_process_without_a_cluster_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    with pytest.raises(MisuseError, match=r'ray.init\(address="auto"\)'):
        connected()


def test_usage_statistics_are_off_unless_the_user_has_set_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace())
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    driver()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    driver()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "1"
