"""The example of tenants prints who got answers, the budgets and the bill."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT


@pytest.mark.slow
def test_the_example_prints_answers_budgets_and_the_bill(tmp_path: Path) -> None:
    script = str(ROOT / "examples" / "tenants.py")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == [
        "acme: 4 answered",
        "acme: 4 budget",
        "bikes: 2 answered",
        "*: 4,800 of 1,000,000 tokens",
        "tenant:*=tenant:acme: 3,200 of 4,000 tokens",
        "tenant:*=tenant:bikes: 1,600 of 4,000 tokens",
        "bill of tenant:acme: 4 calls, 3,200 tokens",
        "bill of tenant:bikes: 2 calls, 1,600 tokens",
    ]
