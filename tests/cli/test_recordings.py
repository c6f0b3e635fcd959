"""Keys of a log on the command line: named by files, honoured by every command that opens a log."""

from pathlib import Path

import click
import pytest

from callboard.cli.recordings import ENCRYPTION_KEY_FILE, KEY_FILE, keyed_log, read_key
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.cli.conftest import Callboard


@pytest.fixture
def folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a user's folder the current one, with two keys that the environment names."""
    (folder / "digests").write_text("a secret of the digests\n")
    (folder / "bodies").write_text("0123456789abcdef" * 4 + "\n")
    monkeypatch.setenv(KEY_FILE, str(folder / "digests"))
    monkeypatch.setenv(ENCRYPTION_KEY_FILE, str(folder / "bodies"))
    return folder


def test_a_run_with_keys_writes_an_encrypted_log_that_only_they_open(
    callboard: Callboard, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ("--log", str(folder / "own.db"))
    assert callboard("run", "survey:host", "How many files?", *log).exit_code == 0
    assert b"How many" not in (folder / "own.db").read_bytes()
    for command in ("sessions", "show", "tree", "events", "verify", "export"):
        assert callboard(command, *log).exit_code == 0, command
    assert callboard("run", "survey:host", "And now?", *log).exit_code == 0
    monkeypatch.delenv(KEY_FILE)
    assert callboard("events", *log).exit_code == 0
    done = callboard("verify", *log)
    assert done.exit_code == 2
    assert "digest key; pass that key" in done.stderr
    assert callboard("run", "survey:host", "Again", *log).exit_code == 2
    monkeypatch.delenv(ENCRYPTION_KEY_FILE)
    done = callboard("sessions", *log)
    assert done.exit_code == 2
    assert "is encrypted" in done.stderr


def test_an_option_goes_before_the_environment(callboard: Callboard, folder: Path) -> None:
    log = ("--log", str(folder / "own.db"))
    callboard("run", "survey:host", "How many files?", *log)
    (folder / "other").write_text("another secret")
    assert callboard("verify", *log, "--key-file", str(folder / "other")).exit_code == 2
    assert callboard("verify", *log, "--key-file", str(folder / "digests")).exit_code == 0
    assert callboard("delete", "20", "--yes", *log).exit_code == 0


def test_without_keys_the_path_is_left_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(keyed_log("log.db"), SQLiteLog)
    monkeypatch.delenv(KEY_FILE)
    monkeypatch.delenv(ENCRYPTION_KEY_FILE)
    assert isinstance(keyed_log(":memory:"), MemoryLog)


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b"abc\n", b"abc"),
        (b"abc\r\n", b"abc"),
        (b"abc", b"abc"),
        (b"\x00\xff\n", b"\x00\xff\n"),
        (b" abc \n", b" abc "),
    ],
)
def test_the_line_end_of_a_text_file_is_not_part_of_the_key(
    tmp_path: Path, content: bytes, key: bytes
) -> None:
    (tmp_path / "key").write_bytes(content)
    assert read_key(str(tmp_path / "key")) == key


def test_a_key_file_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"\n", bytes(5_000)):
        (tmp_path / "key").write_bytes(content)
        with pytest.raises(
            click.ClickException, match=r"is (empty|too large .*); name the file with the key"
        ):
            read_key(str(tmp_path / "key"))
