"""The cost of a call, of a list, and of many sessions on one server, beside the SDK's own (benchmarks)."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.effort import timed
from tests.pages import ROOT

pytestmark = [pytest.mark.slow, timed]


def measured(part: str) -> dict[str, Any]:
    script = ROOT / "benchmarks" / "mcp_servers.py"
    done = subprocess.run(
        [sys.executable, str(script), part], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_call_costs_at_most_1_3_times_the_sdks() -> None:
    assert min(measured("call")["ratio"] for _ in range(3)) <= 1.3


def test_a_thousand_tools_become_specs_in_50_ms() -> None:
    assert measured("specs")["ms"] <= 50


def test_fifty_sessions_share_a_server_at_the_cost_of_one_client() -> None:
    found = measured("sessions")
    assert found["wrong"] == 0
    assert found["ratio"] <= 1.5
