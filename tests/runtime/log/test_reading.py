"""Addresses of logs, and logs that are opened for reading only."""

from pathlib import Path

import pytest

from callboard.actors.protocol.errors import MisuseError, StoreUnreadable, WrongKey
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.reading import file_of, given_log, is_memory, open_reader, shown_address
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.runtime.log.kit import added, events, run
from tests.tables import table


@table(
    ("address", "file"),
    [
        ("callboard.db", "callboard.db"),
        (Path("a/b.db"), "a/b.db"),
        ("C:/log.db", "C:/log.db"),
        ("file:log.db", "file:log.db"),
        ("sqlite:///log.db", "log.db"),
        ("SQLite:////log.db", "/log.db"),
        ("a log?#%20.db", "a log?#%20.db"),
        ("sqlite:///a log?#%20.db", "a log?#%20.db"),
        ("sqlite:////var/log.db", "/var/log.db"),
        ("sqlite:///a\nb", "a\nb"),
    ],
)
def test_a_sqlite_address_has_a_file(address: str | Path, file: str) -> None:
    assert (file_of(address), is_memory(address)) == (Path(file), False)


def test_an_address_in_memory_is_known_by_its_name_alone() -> None:
    assert is_memory(":memory:")
    assert is_memory(Path(":memory:"))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "sqlite:///",
            r"sqlite:/// names no file: write sqlite:///callboard.db or sqlite:////absolute/path.db",
        ),
        ("sqlite:////", r"sqlite://// names"),
        ("mysql://host/db", r"mysql:// is not a store that callboard knows; give a path"),
    ],
)
def test_a_url_of_another_kind_or_without_a_file_is_refused(address: str, said: str) -> None:
    if address == "sqlite:////":  # a folder, which opening refuses, not reading the address
        assert file_of(address) == Path("/")
        return
    with pytest.raises(MisuseError, match=said):
        file_of(address)


def test_a_log_or_reader_that_is_given_is_taken_as_it_is() -> None:
    for log in (MemoryLog(), MemoryReader(MemoryLog())):
        assert given_log(log) is log
    with pytest.raises(
        MisuseError, match=r"5 is not a log; give a path, such as \"callboard.db\", or \":memory:\""
    ):
        given_log(5)


def test_an_address_of_a_server_is_shown_without_its_password_and_opened_there() -> None:
    address = "postgresql://u:s3cret@/db?host=/nowhere"
    assert shown_address(Path("a/b.db")) == "a/b.db"
    assert "s3cret" not in shown_address(address)
    assert "/db" in shown_address(address)
    with pytest.raises(StoreUnreadable, match="check that the server runs"):
        open_reader(address, b"key")


def test_a_log_in_memory_has_no_reader_by_address() -> None:
    with pytest.raises(MisuseError, match="read a log in memory with MemoryReader"):
        open_reader(":memory:")


def test_a_reader_has_the_keys_that_it_is_given(path: Path) -> None:
    async def write() -> None:
        log = SQLiteLog(path, key=b"k" * 32, encryption_key=b"e" * 32)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, 3))
        await log.close()

    run(write)
    with open_reader(f"sqlite:///{path}", b"k" * 32, b"e" * 32) as reader:
        assert len(reader.events("s")) == 3
        assert reader.verify_chain("s").seq == 3
    for keys in ((b"x" * 32, b"e" * 32), (b"k" * 32, b"x" * 32)):
        with pytest.raises(WrongKey), open_reader(path, *keys) as reader:
            reader.verify_chain("s")
