"""A disk that fails on demand, and that can lose its power at any moment.

SQLite runs on it unchanged, through a VFS written in Python (apsw), with the statements and settings of the
real store: `Disk.connect` returns the part of a `sqlite3.Connection` that the store uses.

After a power loss (`Disk.after_power_loss`) all writes before a file's last sync are there; of later writes
any part, torn at sectors of 512 bytes; of files made and removed since the folder was synced, those up to
any moment. (SQLite syncs the folder with the first sync of a new journal or WAL.) These are the legal
outcomes that LazyFS (https://github.com/dsrhaslab/lazyfs) and the model of ALICE (Pillai et al., OSDI 2014)
allow a file system.
"""

import itertools
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import apsw

SECTOR: Final = 512
_NEW: Final = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
_names = itertools.count()

ERRORS: Final[dict[str, Callable[[], apsw.Error]]] = {
    "input/output error": lambda: _error(apsw.IOError, apsw.SQLITE_IOERR_WRITE),
    "disk full": lambda: _error(apsw.FullError, apsw.SQLITE_FULL),
    "short write": lambda: _error(apsw.IOError, apsw.SQLITE_IOERR_WRITE),
}


class Op(NamedTuple):
    """One operation on the disk. file: a number of its own for every file that was ever made."""

    kind: str
    file: int
    name: str = ""
    offset: int = 0
    data: bytes = b""


class Disk:
    """SQLite's operations on its files: recorded, counted, and refused once at the n-th call.

    is_lying: syncs are not carried out, as on a disk that acknowledges data in its cache.
    """

    def __init__(self, *, is_lying: bool = False) -> None:
        self.trace: list[Op] = []
        self.calls = 0
        self.fail_at = 0
        self.failure = "input/output error"
        self.is_lying = is_lying
        self.files: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._vfs = _Vfs(self, f"disk {next(_names)}")

    def connect(self, path: Path) -> sqlite3.Connection:
        """Return a connection whose files are on this disk."""
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        return cast("sqlite3.Connection", _Connection(str(path), flags, self._vfs.name))

    def close(self) -> None:
        self._vfs.unregister()

    # --- recording and failing ----------------------------------------------------

    def note(self, kind: str, name: str, offset: int = 0, data: bytes = b"") -> None:
        self.trace.append(Op(kind, self.files.get(name, 0), name, offset, data))

    def made(self, name: str) -> None:
        if name not in self.files:
            self.files[name] = next(self._numbers)
            self.note("link", name)

    def removed(self, name: str) -> None:
        self.note("unlink", name)
        self.files.pop(name, None)

    def count(self) -> bool:
        """Count a call. Return whether it fails."""
        self.calls += 1
        return self.calls == self.fail_at

    # --- power --------------------------------------------------------------------

    def after_power_loss(self, at: int, chance: random.Random | None, folder: Path) -> None:
        """Write the files that remain if the power fails after `at` operations into a folder.

        chance: chooses the unsynced data that remain; None: none of them.
        """
        folder.mkdir(parents=True, exist_ok=True)
        trace = self.trace[:at]
        for name, file in _links(trace, chance).items():
            (folder / Path(name).name).write_bytes(_content(trace, file, chance))


def _links(trace: Sequence[Op], chance: random.Random | None) -> dict[str, int]:
    """Return the files of the folder by name."""
    synced = max((place for place, op in enumerate(trace) if op.kind == "sync folder"), default=-1)
    changes = [(place, op) for place, op in enumerate(trace) if op.kind in ("link", "unlink")]
    later = sum(place > synced for place, _ in changes)
    kept = len(changes) - later + (chance.randint(0, later) if chance else 0)
    found: dict[str, int] = {}
    for _, op in changes[:kept]:
        if op.kind == "link":
            found[op.name] = op.file
        else:
            found.pop(op.name, None)
    return found


def _content(trace: Sequence[Op], file: int, chance: random.Random | None) -> bytes:
    """Return the bytes of a file."""
    own = [op for op in trace if op.file == file and op.kind in ("write", "truncate", "sync")]
    synced = max((place for place, op in enumerate(own) if op.kind == "sync"), default=-1)
    content = bytearray()
    for place, op in enumerate(own):
        for part in [op] if place <= synced else _survivors(op, chance):
            _apply(content, part)
    return bytes(content)


def _survivors(op: Op, chance: random.Random | None) -> Iterable[Op]:
    """Yield the parts of an unsynced operation that the disk has."""
    if chance is None:
        return
    fate = chance.random()
    if fate < 0.4:
        yield op
    elif fate < 0.7 and op.kind == "write":
        for start, end in _sectors(op):
            if chance.random() < 0.5:
                yield op._replace(offset=op.offset + start, data=op.data[start:end])


def _sectors(op: Op) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(op.data):
        end = min(len(op.data), start + SECTOR - (op.offset + start) % SECTOR)
        yield start, end
        start = end


def _apply(content: bytearray, op: Op) -> None:
    if op.kind == "write":
        content.extend(bytes(max(0, op.offset - len(content))))
        content[op.offset : op.offset + len(op.data)] = op.data
    elif op.kind == "truncate":
        del content[op.offset :]


# --- the VFS ------------------------------------------------------------------------


class _Vfs(apsw.VFS):
    def __init__(self, disk: Disk, name: str) -> None:
        self.disk = disk
        self.name = name
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> "_File":
        return _File(self.disk, name, flags)

    def xDelete(self, name: str, is_synced: bool) -> None:
        if self.disk.count():
            raise ERRORS["input/output error"]()
        super().xDelete(name, is_synced)
        self.disk.removed(name)
        if is_synced:
            self.disk.note("sync folder", name)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self.disk = disk
        self.name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self.is_new = bool(flags[0] & _NEW and flags[0] & apsw.SQLITE_OPEN_CREATE)
        super().__init__("", name, flags)
        disk.made(self.name)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self.disk.count():
            if self.disk.failure == "short write":
                self._write(bytes(data)[: len(data) // 2], offset)
            raise ERRORS[self.disk.failure]()
        self._write(bytes(data), offset)

    def _write(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self.disk.note("write", self.name, offset, data)

    def xTruncate(self, size: int) -> None:
        if self.disk.count():
            raise _error(apsw.IOError, apsw.SQLITE_IOERR_TRUNCATE)
        super().xTruncate(size)
        self.disk.note("truncate", self.name, size)

    def xSync(self, flags: int) -> None:
        if self.disk.count():
            raise _error(apsw.IOError, apsw.SQLITE_IOERR_FSYNC)
        if self.disk.is_lying:
            return
        self.disk.note("sync", self.name)
        if self.is_new:
            self.disk.note("sync folder", self.name)
            self.is_new = False


def _error(kind: type[apsw.Error], code: int) -> apsw.Error:
    error = kind("the disk fails, as the test wants it to")
    vars(error).update(result=code & 0xFF, extendedresult=code)
    return error


# --- the connection -----------------------------------------------------------------


class _Connection:
    """The part of `sqlite3.Connection` that the store uses."""

    def __init__(self, path: str, flags: int, vfs: str) -> None:
        with _translated():
            self._connection = apsw.Connection(path, flags=flags, vfs=vfs)
            self._connection.set_busy_timeout(0)

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.in_transaction)

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> "_Rows":
        with _translated():
            before = self._connection.total_changes()
            rows = self._connection.execute(statement, parameters).fetchall()
            changed = self._connection.total_changes() - before
            return _Rows(rows, changed, self._connection.last_insert_rowid())

    def executemany(self, statement: str, many: Iterable[Sequence[object]]) -> None:
        with _translated():
            self._connection.executemany(statement, many)

    def executescript(self, statements: str) -> None:
        self.execute(statements)

    def close(self) -> None:
        with _translated():
            self._connection.close()


class _Rows:
    def __init__(self, rows: list[Any], rowcount: int, lastrowid: int) -> None:
        self._rows = iter(rows)
        self.rowcount = rowcount
        self.lastrowid = lastrowid

    def fetchone(self) -> Any:
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        return list(self._rows)


class _translated:
    """apsw's errors as sqlite3's."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, apsw.Error):
            code = getattr(error, "extendedresult", 0)
            said = sqlite3.OperationalError(str(error))
            said.sqlite_errorcode = code
            names: Mapping[Any, Any] = apsw.mapping_extended_result_codes
            said.sqlite_errorname = str(names.get(code) or apsw.mapping_result_codes.get(code & 0xFF, ""))
            raise said from None
