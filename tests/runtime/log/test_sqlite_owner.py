"""Owner: one process writes, by a lock on a file of its own."""

import errno
import os
from pathlib import Path

import pytest

from callboard.actors.errors import StoreFailed, StoreLocked, StoreUnreadable
from callboard.runtime.log.sqlite_owner import Owner, check_place


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def test_the_lock_is_a_file_beside_the_log_and_names_the_owner(path: Path) -> None:
    owner = Owner(path)
    owner.acquire()
    lock = path.with_name("log.db.lock")
    assert lock.read_text() == f"{os.getpid()}\n"
    assert not path.exists()
    owner.release()
    assert lock.read_text() == ""


def test_ownership_can_be_given_up_and_taken_again(path: Path) -> None:
    first, second = Owner(path), Owner(path)
    for one, other in ((first, second), (second, first)):
        one.acquire()
        one.check()
        assert one.is_here
        with pytest.raises(StoreLocked, match="this process"):
            other.acquire()
        one.release()
        one.release()
        assert not one.is_here


def test_a_lock_file_that_says_nothing_still_locks(path: Path) -> None:
    owner = Owner(path)
    owner.acquire()
    path.with_name("log.db.lock").write_text("")
    with pytest.raises(StoreLocked, match="another process"):
        Owner(path).acquire()
    owner.release()


def test_a_lock_file_left_by_a_dead_owner_locks_nobody_out(path: Path) -> None:
    path.with_name("log.db.lock").write_text("999999\n")
    owner = Owner(path)
    owner.acquire()
    owner.release()


@pytest.mark.parametrize(("call", "said"), [("fcntl.flock", "refuses locks"), ("os.open", "No locks")])
def test_a_file_system_that_refuses_locks_is_told_as_such(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, said: str
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patched:
        patched.setattr(call, fail)
        with pytest.raises(StoreFailed, match=said):
            Owner(path).acquire()
    owner = Owner(path)
    owner.acquire()
    owner.release()


def test_another_process_id_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Owner(path)
    owner.acquire()
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(StoreLocked, match="forked"):
        owner.check()
    assert not owner.is_here
    monkeypatch.undo()
    owner.release()


def test_a_place_where_no_log_can_be_is_refused(tmp_path: Path) -> None:
    check_place(tmp_path / "log.db")
    for path in (tmp_path, tmp_path / "a" / "b.db"):
        with pytest.raises(StoreUnreadable):
            check_place(path)
        with pytest.raises(StoreUnreadable):
            Owner(path).acquire()
