"""A memory by its address."""

from pathlib import Path

import pytest

from callboard.errors import MisuseError
from callboard.memory import PostgresMemory, SQLiteMemory
from callboard.runtime.memory.opening import memory_at


def test_an_address_is_that_of_a_file_or_of_a_server(tmp_path: Path) -> None:
    assert isinstance(memory_at(tmp_path / "memory.db"), SQLiteMemory)
    assert repr(memory_at("sqlite:///memory.db")) == "SQLiteMemory('memory.db')"
    found = memory_at("postgresql://me:geheim@db.example/agents")
    assert isinstance(found, PostgresMemory)
    assert "geheim" not in repr(found)
    with pytest.raises(MisuseError, match="mysql:// is not a store") as raised:
        memory_at("mysql://me:geheim@db.example/agents")
    assert "geheim" not in str(raised.value)
