"""The table of costs in the documentation is the one that the benchmark makes."""

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SMALL = 500
"""Rows of the largest made table that is rendered here; larger ones take seconds."""


@pytest.fixture(scope="module")
def benchmark() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "output_formats.py"))


def test_the_rows_of_the_page_are_those_of_the_benchmark(benchmark: dict[str, Any]) -> None:
    sample, paths = benchmark["Sample"], sorted(benchmark["RUNS"].glob("*.json"))
    small = [(name, rows) for name, rows in benchmark["TABLES"].items() if rows <= SMALL]
    found = [sample(path.stem, benchmark["results"](path)) for path in paths]
    found += [sample(f"{name}, {rows:,} rows", [benchmark["made_table"](name, rows)]) for name, rows in small]
    page = (ROOT / "docs" / "tool-output.md").read_text()
    lines = list(benchmark["table_of_formats"](found))
    assert len(lines) == 2 + len(paths) + len(small)
    assert [line for line in lines if line not in page] == []


def test_the_recorded_runs_have_results(benchmark: dict[str, Any]) -> None:
    for path in benchmark["RUNS"].glob("*.json"):
        assert benchmark["results"](path), path.name
