"""Owner: one process writes, by a lock on a file of its own."""

import errno
import fcntl
import os
import platform
from contextlib import suppress
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import (
    StoreError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    StoreUnreadable,
)
from callboard.runtime.log.sqlite import owner
from callboard.runtime.log.sqlite.owner import (
    Owner,
    _drop_all,
    check_place,
    read_lock,
)


def test_the_lock_is_a_file_beside_the_log_and_names_the_owner(path: Path) -> None:
    owner = Owner(path)
    owner.acquire()
    lock = path.with_name("log.db.lock")
    assert lock.read_text() == f"{os.getpid()}\n\n{platform.node()}\n"
    assert not path.exists()
    owner.release()
    assert lock.read_text() == ""


@pytest.mark.parametrize(
    ("note", "named"),
    [
        (b"4711\n\nbox-7\n", "process 4711 on box-7 since 2023-11-1"),
        (f"4711\n/run/x.sock\n{platform.node()}\n".encode(), "process 4711 since 2023-11-1"),
        (b"4711\n", "process 4711 since 2023-11-1"),
        (b"\x1b[31m\n\xff\n\x00\n", r"process \?\[31m on \? since"),
        (b"", "another process"),
    ],
)
def test_a_second_worker_reads_who_has_the_log_since_when_and_what_to_do(
    path: Path, note: bytes, named: str
) -> None:
    lock = path.with_name("log.db.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
    os.pwrite(descriptor, note, 0)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.utime(lock, (1_700_000_000, 1_700_000_000))
    with pytest.raises(StoreLocked, match=named) as refused:
        Owner(path).acquire()
    assert "a log of its own" in str(refused.value)
    assert "open_reader" in str(refused.value)
    assert str(refused.value).isprintable()
    os.close(descriptor)


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


def test_a_lock_file_left_by_a_dead_owner_locks_no_process_out(path: Path) -> None:
    lock = path.with_name("log.db.lock")
    lock.write_text("999999\n")
    owner = Owner(path)
    owner.acquire()
    assert owner.is_here
    assert lock.read_text().startswith(f"{os.getpid()}\n")
    owner.release()


@pytest.mark.parametrize(("call", "said"), [("fcntl.flock", "refuses locks"), ("os.open", "No locks")])
def test_a_file_system_that_refuses_locks_is_named_in_the_error(
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


# --- by force -----------------------------------------------------------------------


def held_by_another(path: Path) -> int:
    """Lock as another process does. Return the descriptor, for the caller to close."""
    descriptor = os.open(path.with_name("log.db.lock"), os.O_RDWR | os.O_CREAT)
    os.pwrite(descriptor, b"999999\n", 0)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def test_force_replaces_the_lock_of_another_process(path: Path) -> None:
    other = held_by_another(path)
    owner = Owner(path)
    with pytest.raises(StoreLocked, match="process 999999"):
        owner.acquire()
    owner.acquire(force=True)
    assert owner.is_contested
    assert not owner.is_here
    owner.check()
    owner.seize()
    assert owner.is_here
    assert not owner.is_contested
    assert [one.name for one in path.parent.iterdir()] == ["log.db.lock"]
    assert path.with_name("log.db.lock").read_text().startswith(f"{os.getpid()}\n")
    with pytest.raises(StoreLocked, match="this process"):
        Owner(path).acquire()
    os.close(other)
    with pytest.raises(StoreLocked, match="this process"):
        Owner(path).acquire()
    owner.release()
    Owner(path).acquire()


def test_an_owner_with_the_lock_seizes_nothing(path: Path) -> None:
    owner = Owner(path)
    owner.acquire()
    lock = path.with_name("log.db.lock")
    before = lock.stat().st_ino
    owner.seize()
    assert lock.stat().st_ino == before
    assert sorted(one.name for one in path.parent.iterdir()) == ["log.db.lock"]
    owner.release()


def test_where_no_one_may_replace_an_open_lock_the_other_process_is_to_be_ended_first(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = held_by_another(path)
    owner = Owner(path)
    owner.acquire(force=True)

    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, "in use by another process")

    monkeypatch.setattr(Path, "replace", refused)  # as on Windows
    with pytest.raises(StoreFailed, match="end that process"):
        owner.seize()
    assert not owner.is_here
    assert [one.name for one in path.parent.iterdir()] == ["log.db.lock"]
    os.close(other)
    Owner(path).acquire()


def test_taking_by_force_in_vain_leaves_the_other_process_its_lock(path: Path) -> None:
    other = held_by_another(path)
    owner = Owner(path)
    owner.acquire(force=True)
    owner.release()
    with pytest.raises(StoreLocked, match="process 999999"):
        Owner(path).acquire()
    os.close(other)


@pytest.mark.parametrize("is_replaced", [True, False], ids=["replaced", "removed"])
def test_a_lock_file_that_is_seized_while_it_is_being_locked_is_not_taken(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    lock, flock = path.with_name("log.db.lock"), fcntl.flock
    seized: list[int] = []

    def slow(descriptor: int, operation: int) -> None:
        if not seized:
            lock.unlink()
            seized.append(0)
            seized[0] = held_by_another(path) if is_replaced else 0
        flock(descriptor, operation)

    owner = Owner(path)
    monkeypatch.setattr(fcntl, "flock", slow)
    if is_replaced:
        with pytest.raises(StoreLocked, match="process 999999"):
            owner.acquire()
        os.close(seized[0])
    else:
        owner.acquire()
        assert lock.read_text().startswith(f"{os.getpid()}\n")
        owner.release()


def test_a_forked_child_gives_its_copy_of_the_lock_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Owner(path)
    owner.acquire()
    with monkeypatch.context() as patched:
        patched.setattr("callboard.runtime.log.sqlite.owner._live", [owner])
        _drop_all()
    assert not owner.is_here
    Owner(path).acquire()


def test_a_process_takes_no_lock_from_itself_by_force(path: Path) -> None:
    first, second = Owner(path), Owner(path)
    first.acquire()
    with pytest.raises(StoreLocked, match="this process"):
        second.acquire(force=True)
    assert not second.is_contested


def test_a_lock_names_the_process_and_the_socket_of_its_owner(path: Path) -> None:
    assert read_lock(path) == ("", "")
    owner = Owner(path)
    owner.announce("/nowhere")
    owner.acquire()
    assert read_lock(path) == (str(os.getpid()), "")
    owner.announce("/run/callboard/x.sock")
    descriptors = Path("/proc/self/fd")
    before = len([*descriptors.iterdir()])
    assert read_lock(path) == (str(os.getpid()), "/run/callboard/x.sock")
    assert len([*descriptors.iterdir()]) == before
    owner.release()
    assert read_lock(path) == ("", "")


def test_a_place_that_is_forbidden_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", forbidden)
    with pytest.raises(StoreUnreadable, match="cannot be reached: Permission denied"):
        check_place(path)


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EACCES])
def test_both_errors_of_a_lock_that_another_has_are_known(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def held(*arguments: object) -> None:
        raise OSError(code, "held")

    monkeypatch.setattr("fcntl.flock", held)
    with pytest.raises(StoreLocked, match="is owned by another process"):
        Owner(path).acquire()
    owner = Owner(path)
    owner.acquire(force=True)
    assert owner.is_contested


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.EACCES, StoreReadOnly),
        (errno.EPERM, StoreReadOnly),
        (errno.EROFS, StoreReadOnly),
        (errno.ENOSPC, StoreFailed),
    ],
)
def test_a_lock_that_cannot_be_written_is_read_only_or_a_failure(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[StoreError]
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("os.open", fail)
    with pytest.raises(kind, match=r"log\.db\.lock cannot be written") as info:
        Owner(path).acquire()
    assert type(info.value) is kind


def test_an_owner_that_is_refused_leaves_no_file_open(path: Path) -> None:
    other = held_by_another(path)
    before = sorted(one.name for one in Path("/proc/self/fd").iterdir())
    for force in (False, True):
        owner = Owner(path)
        with suppress(StoreLocked):
            owner.acquire(force=force)
    assert sorted(one.name for one in Path("/proc/self/fd").iterdir()) == before
    os.close(other)


def test_a_second_opener_in_the_same_process_is_refused_until_the_first_closes(tmp_path: Path) -> None:
    first, second = owner.opened(tmp_path / "lock"), owner.opened(tmp_path / "lock")
    owner.lock(first)
    with pytest.raises(BlockingIOError):
        owner.lock(second)
    os.close(first)
    owner.lock(second)
    os.close(second)


def test_a_shorter_content_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    file = owner.opened(tmp_path / "lock")
    owner.write(file, b"12345\n/a/socket\n")
    owner.write(file, b"6\n")
    assert owner.content(file, 1_000) == b"6\n"
    os.close(file)


def test_a_lock_file_is_made_for_its_owner_to_write_and_all_to_read(tmp_path: Path) -> None:
    file = owner.opened(tmp_path / "lock")
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o644
    assert owner.content(file, 10) == b""
    owner.write(file, b"12345")
    assert owner.content(file, 3) == b"123"
    os.close(file)
