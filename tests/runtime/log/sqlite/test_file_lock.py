"""The lock on an open file, and its content."""

import os
from pathlib import Path

import pytest

from callboard.runtime.log.sqlite import file_lock


def test_a_second_opener_in_the_same_process_is_refused_until_the_first_closes(tmp_path: Path) -> None:
    first, second = file_lock.opened(tmp_path / "lock"), file_lock.opened(tmp_path / "lock")
    file_lock.lock(first)
    with pytest.raises(BlockingIOError):
        file_lock.lock(second)
    os.close(first)
    file_lock.lock(second)
    os.close(second)


def test_a_shorter_content_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    file = file_lock.opened(tmp_path / "lock")
    file_lock.write(file, b"12345\n/a/socket\n")
    file_lock.write(file, b"6\n")
    assert file_lock.content(file, 1_000) == b"6\n"
    os.close(file)


def test_a_lock_file_is_made_for_its_owner_to_write_and_all_to_read(tmp_path: Path) -> None:
    file = file_lock.opened(tmp_path / "lock")
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o644
    assert file_lock.content(file, 10) == b""
    file_lock.write(file, b"12345")
    assert file_lock.content(file, 3) == b"123"
    os.close(file)
