"""`callboard doctor`: the facts about an installation and a log that a bug report needs.

All environment variables that callboard reads by a name of its own.
"""

import os
import platform
import re
import sqlite3
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import click

from callboard.actors.protocol.errors import CallboardError
from callboard.cli.errors import Failure
from callboard.cli.options import json_option, log_option
from callboard.cli.output import emit, emit_json, emit_lines, fields
from callboard.cli.recordings import key_options, open_reader
from callboard.replay.formats import counted
from callboard.runtime.clock import now_ms
from callboard.runtime.log.reading import file_of, is_memory, is_server, shown_address
from callboard.runtime.log.sqlite import owner
from callboard.runtime.log.sqlite.owner import read_lock

VARIABLES: Final = MappingProxyType(
    {
        "CALLBOARD_LOG": "the log file of commands without `--log`",
        "CALLBOARD_KEY_FILE": "the file with the key of the log's digests",
        "CALLBOARD_ENCRYPTION_KEY_FILE": "the file with the log's encryption key",
        "CALLBOARD_UVLOOP": "`0` keeps `run_sync` and the command line from using uvloop",
        "CALLBOARD_RUNS": "the number of runs of an exploration",
        "CALLBOARD_SEED": "the seed of an exploration",
        "CALLBOARD_JOBS": "the number of processes of `callboard explore`",
        "CALLBOARD_SECONDS": "the longest time of an exploration by pytest, in seconds",
        "CALLBOARD_SCHEDULER": "the scheduler of an exploration by pytest",
        "CALLBOARD_CHECK_DETERMINISM": "any value lets an exploration make each run twice",
    }
)
"""Variable -> its use. A test compares the names with those that the code reads."""


_REMOTE: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs"}
)
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_EXTRA: Final = re.compile(r"extra == [\"']([a-z0-9-]+)")
_NOISE: Final = ("COMPILER", "DEFAULT", "MAX_")  # options of SQLite that say nothing of a fault
_SKEW_MS: Final = 2_000  # between the clocks of the file system and of the process
_MOUNTS: Final = Path("/proc/self/mounts")


class Findings(NamedTuple):
    """Facts by section and label, and the problems among them, each a sentence."""

    facts: dict[str, dict[str, str]]
    problems: list[str]


@click.command("doctor")
@log_option
@key_options
@json_option
def doctor(log: str, as_json: bool) -> int:
    """Print the facts that a bug report needs: versions, libraries, SQLite, locks, clock, file system.

    It prints nothing from a session, no key, and no value of an environment variable. The exit code is 1 if
    it finds something that can cause trouble.

    \b
    Examples:
      callboard doctor
      callboard doctor --log service.db --json
    """
    found = Findings({}, [])
    for look in (_versions, _sqlite, _environment, lambda all_: _log(all_, log)):
        look(found)
    if as_json:
        emit_json({**found.facts, "problems": found.problems})
        return int(bool(found.problems))
    for section, facts in found.facts.items():
        emit(f"{section}:")
        emit_lines(fields({f"  {label}": value for label, value in facts.items()}))
    emit("\n".join(["", *(f"problem: {one}" for one in found.problems or ())]))
    if not found.problems:
        emit("no problem found")
    return int(bool(found.problems))


def _versions(found: Findings) -> None:
    found.facts["callboard"] = {
        "version": metadata.version("callboard"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": str(os.cpu_count() or "unknown"),
        "virtual environment": "yes" if sys.prefix != sys.base_prefix else "no",
    }
    libraries: dict[str, str] = {}
    for name, extra in sorted(_requirements()):
        try:
            libraries[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            libraries[name] = f"not installed (callboard[{extra}])" if extra else "missing"
            if not extra:
                found.problems.append(f"the library {name} is missing; install callboard again")
    found.facts["libraries"] = libraries


def _requirements() -> set[tuple[str, str]]:
    """Return the libraries that callboard needs, each with the first extra that has it, empty for none."""
    found: dict[str, str] = {}
    for line in metadata.requires("callboard") or ():
        name, extra = _NAME.match(line), _EXTRA.search(line)
        if name is not None:
            found.setdefault(name[0], extra[1] if extra is not None else "")
    return set(found.items())


def _sqlite(found: Findings) -> None:
    with sqlite3.connect(":memory:") as connection:
        options = [str(row[0]) for row in connection.execute("PRAGMA compile_options")]
    threads = next((one.partition("=")[2] for one in options if one.startswith("THREADSAFE=")), "")
    found.facts["sqlite"] = {
        "version": sqlite3.sqlite_version,
        "threads": threads or "unknown",
        "options": " ".join(one for one in sorted(options) if not one.startswith(_NOISE)),
    }
    if threads == "0":
        found.problems.append("this SQLite is built for one thread; use a Python with another SQLite")


def _environment(found: Findings) -> None:
    names = [name for name in VARIABLES if name in os.environ]
    found.facts["environment"] = {"set": ", ".join(names) or "nothing"}
    found.facts["clock"] = {
        "now": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "resolution": f"{time.get_clock_info('monotonic').resolution * 1e9:.0f} ns",
    }


def _log(found: Findings, log: str) -> None:
    if is_memory(log):
        found.facts["log"] = {"place": "in memory"}
        return
    if is_server(log):
        _read(found, found.facts.setdefault("log", {"server": shown_address(log)}), log)
        return
    path = file_of(log)
    facts = found.facts["log"] = {"file": path.name, "size": _size(path), "wal": _size(Path(f"{path}-wal"))}
    folder = path.parent
    if not folder.is_dir():
        found.problems.append(f"the folder of the log, {folder}, does not exist")
        return
    kind = facts["file system"] = file_system(folder)
    if kind in _REMOTE:
        found.problems.append(
            f"the log is on a file system over a network ({kind}), where locks may not hold"
        )
    _try_folder(found, facts, folder)
    process = read_lock(path)[0]
    if process:
        facts["owner"] = f"process {process}{'' if _lives(process) else ', which does not run here'}"
    if path.is_file():
        _read(found, facts, log)


def _read(found: Findings, facts: dict[str, str], log: str) -> None:
    try:
        with open_reader(log) as reader:
            rows = reader.sessions()
    except (CallboardError, Failure) as error:
        facts["sessions"] = f"cannot be read ({type(error).__name__})"
        found.problems.append(f"the log cannot be read: {error}")
        return
    facts["sessions"] = counted(len(rows), "session")
    if rows and (ahead := max(row.last_ms for row in rows) - now_ms()) > _SKEW_MS:
        found.problems.append(
            f"the newest event is {ahead / 1_000:.0f} s in the future: the clock was set back"
        )


def _try_folder(found: Findings, facts: dict[str, str], folder: Path) -> None:
    """Try a file in the log's folder: whether it can be written, its lock, and its clock."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".callboard-doctor-") as file:
            file.write(b"x")
            file.flush()
            skew_ms = abs(os.fstat(file.fileno()).st_mtime_ns // 1_000_000 - now_ms())
            facts["locks"] = _locks(Path(file.name))
    except OSError as error:
        facts["folder"] = f"cannot be written ({error.strerror})"
        return
    facts["folder"] = "can be written"
    if facts["locks"] != "hold":
        found.problems.append(f"locks in the log's folder: {facts['locks']}; use a local file system")
    if skew_ms > _SKEW_MS:
        found.problems.append(
            f"the file system's clock differs by {skew_ms / 1_000:.0f} s from this machine's"
        )


def _locks(path: Path) -> str:
    """Return `hold` if a second opener of a locked file is refused."""
    with ExitStack() as opened:
        first, second = (owner.opened(path) for _ in range(2))
        opened.callback(os.close, first)
        opened.callback(os.close, second)
        try:
            owner.lock(first)
        except OSError as error:
            return f"are refused ({error.strerror})"
        try:
            owner.lock(second)
        except OSError:
            return "hold"
        return "do not hold: two openers have one lock"


def file_system(folder: Path, mounts: Path = _MOUNTS) -> str:
    """Return the kind of the file system that a folder is on; `unknown` where the system does not say."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown"
    where, best, kind = folder.resolve(), -1, "unknown"
    for line in lines:
        _, place, found, *_ = [*line.split(" "), "", "", ""]
        mounted = Path(place.replace("\\040", " "))
        if where.is_relative_to(mounted) and len(mounted.parts) > best:
            best, kind = len(mounted.parts), found
    return kind


def _lives(process: str) -> bool:
    if os.name != "posix":  # elsewhere `os.kill` ends the process with any signal
        return True
    try:
        os.kill(int(process), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _size(path: Path) -> str:
    try:
        return f"{path.stat().st_size:,} bytes"
    except OSError:
        return "none"
