"""A place for a log's file, and a bare connection to it."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(path, isolation_level=None, timeout=0.01)
    yield made
    made.close()
