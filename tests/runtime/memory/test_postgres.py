"""The memory on a server: equal to a plain one, shared by processes, and quiet about its address."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings

from callboard.errors import MemoryFailed, MisuseError
from callboard.memory import PostgresMemory
from tests.effort import effort
from tests.postgres_server import execute, shared
from tests.runtime.memory.steps import STEPS, Steps, entry, sizes_after

SCHEMA = "memories"


@pytest.fixture
def url() -> Iterator[str]:
    yield shared().url(SCHEMA)
    execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


@settings(
    max_examples=effort(5, 200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(STEPS)
def test_it_does_what_a_plain_memory_does(url: str, steps: Steps) -> None:
    memory = PostgresMemory(url)
    memory.remember("shared", entry(99, "-"))
    execute(f"DELETE FROM {SCHEMA}.memory_entries")
    assert sizes_after(steps, memory) == memory.sizes()
    memory.close()


def test_a_look_makes_no_tables(url: str) -> None:
    memory = PostgresMemory(url)
    assert memory.recall("shared", "tea", 5) == []
    assert memory.sizes() == {}
    assert not memory.forget("shared", "a")
    assert execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{SCHEMA}'") == []
    memory.close()


def test_the_bound_of_a_memory_holds_for_writers_at_once(url: str) -> None:
    def fill(first: int) -> int:
        memory, count = PostgresMemory(url, entries_max=10), 0
        for number in range(first, first + 8):
            with suppress(MemoryFailed):
                memory.remember("shared", entry(number, "tea"))
                count += 1
        memory.close()
        return count

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(fill, (0, 100))) == 10
    memory = PostgresMemory(url, entries_max=10)
    with pytest.raises(MemoryFailed, match="10 entries, which is its limit"):
        memory.remember("shared", entry(50, "tea"))
    (kept, *_) = memory.recall("shared", "", 1)
    memory.remember("shared", kept)  # which it has
    memory.close()


def test_a_cut_connection_is_made_again(url: str) -> None:
    memory = PostgresMemory(url)
    memory.remember("shared", entry(1, "tea"))
    execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE application_name = 'callboard' AND datname = current_database()"
    )
    memory.remember("shared", entry(2, "tea"))
    assert [one.id for one in memory.recall("shared", "tea", 5)] == ["id2", "id1"]
    memory.close()


def test_the_model_reads_no_address_of_a_server_that_is_gone() -> None:
    memory = PostgresMemory("postgresql://me:geheim@127.0.0.1:1/agents")
    with pytest.raises(MemoryFailed, match="cannot be used") as raised:
        memory.recall("shared", "tea", 5)
    assert raised.value.reason == "missing"
    assert "127.0.0.1" not in str(raised.value)
    assert "geheim" not in f"{raised.value!r} {raised.value.__cause__!r} {memory!r}"


def test_a_newer_format_and_unusable_texts_are_refused(url: str) -> None:
    memory = PostgresMemory(url)
    with pytest.raises(MemoryFailed, match="NUL"):
        memory.remember("shared", entry(1, "a\0b"))
    memory.remember("shared", entry(1, "tea"))
    assert (memory.recall("a\0", "", 1), memory.forget("a\0", "b")) == ([], False)
    execute(f"UPDATE {SCHEMA}.memory_entries SET labels = '{{'")
    with pytest.raises(MemoryFailed, match="damaged"):
        memory.recall("shared", "", 1)
    execute(f"UPDATE {SCHEMA}.memory_meta SET value = '9'")
    memory.close()
    with pytest.raises(MemoryFailed) as raised:
        memory.sizes()
    assert raised.value.reason == "too_new"
    with pytest.raises(MisuseError, match="at least 1"):
        PostgresMemory(url, entries_max=0)
    memory.close()
