"""Putting files back: a folder gets the versions that the log has, and loses nothing that the log lacks.

Rules
  - Only files that the history knows are touched. All others stay.
  - A file whose bytes the history does not know was changed by others. Nothing is written, to any file,
    unless the caller says so.
  - A file whose bytes the history has may be replaced: they can be put back as well.
  - Each file is written whole or not at all, so a process that ends in between is started again.
"""

import os
import stat
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from callboard.actors.protocol.errors import ChangedFiles, FileError, MissingVersions, MisuseError
from callboard.actors.protocol.file_versions import FileVersion
from callboard.runtime.files.files import Files
from callboard.runtime.files.folder_scan import Found, look
from callboard.runtime.files.opening import FOLDER, READ, shown
from callboard.runtime.log.file_contents import digest_of
from callboard.runtime.log.recorded_files import RecordedFiles

NAMED_MAX: Final = 10
"""Files that an error names."""


class Restored(NamedTuple):
    """The files that were put back: written, removed, and left as they are because the log lacks them."""

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def restore(
    folder: Files, wanted: RecordedFiles, *, force: bool = False, skip_lost: bool = False
) -> Restored:
    """Put the files of a session back into a folder, as they were after an event.

    folder: with the rights to write all of them. force: overwrite changes that the history does not know.
    skip_lost: leave files as they are whose bytes the log does not have. Raises ChangedFiles,
    MissingVersions, MisuseError, CorruptLog, and nothing is written then; FileError for a file that cannot
    be written.
    """
    lost = wanted.lost
    if lost and not skip_lost:
        raise lost_versions(lost, "pass skip_lost=True (`--skip-lost`) to leave these files as they are")
    kept = [one.version for one in wanted.files.values() if not one.version.left_out]
    check_names(folder, [version.path for version in kept if version.is_there])
    changed, todo = [], []
    for version in kept:
        here = look(folder, version.path)
        if not _is_there(here, version):
            todo.append(version)
            changed += [version.path] if _is_loss(here, version.path, wanted) else []
    if changed and not force:
        raise ChangedFiles(
            f"the folder has changes that the history does not know: {named(changed)}; nothing was written; "
            "pass force=True (`--force`) to overwrite them",
            tuple(changed),
        )
    contents = {one.path: wanted.bytes_of(one) for one in todo if one.is_there}  # before the first write
    for version in todo:
        put(folder, version, contents.get(version.path))
    written = tuple(one.path for one in todo if one.is_there)
    removed = tuple(one.path for one in todo if not one.is_there)
    return Restored(written, removed, tuple(one.path for one in lost))


def lost_versions(lost: Iterable[FileVersion], advice: str) -> MissingVersions:
    """Return the error for versions whose bytes the log does not have."""
    paths = {one.path: one.left_out for one in lost}
    told = named([f"{path} ({why})" for path, why in paths.items()])
    return MissingVersions(f"the log does not have the bytes of {told}; {advice}", tuple(paths))


def named(paths: Iterable[str]) -> str:
    """Return some paths for an error."""
    found = list(paths)
    more = f" and {len(found) - NAMED_MAX:,} more" if len(found) > NAMED_MAX else ""
    return ", ".join(map(shown, found[:NAMED_MAX])) + more


def _is_there(here: Found, version: FileVersion) -> bool:
    """Return True if a folder has this version."""
    if here.data is None or not version.is_there:
        return not here.is_there and not version.is_there
    return digest_of(here.data) == version.digest and here.is_executable == version.is_executable


def _is_loss(here: Found, path: str, wanted: RecordedFiles) -> bool:
    """Return True if to replace a file would lose bytes that the log does not have."""
    if here.data is None and here.is_there:
        return True
    return not wanted.knows(path, "" if here.data is None else digest_of(here.data))


def put(folder: Files, version: FileVersion, data: bytes | None) -> None:
    """Write a version of a file, or remove the file. data: None for no file. Raises FileError."""
    folder.check_write(version.path)
    if data is None:
        _remove(folder, version.path)
        return
    folder.write_bytes(version.path, data)
    file = folder._opener(folder._folder, version.path, READ)
    try:
        mode = stat.S_IMODE(os.fstat(file).st_mode)
        wanted = mode | (mode & 0o444) >> 2 if version.is_executable else mode & ~0o111
        if wanted != mode:
            os.fchmod(file, wanted)
    finally:
        os.close(file)


def _remove(folder: Files, path: str) -> None:
    """Remove a file. The folders above it stay."""
    above, _, name = path.rpartition("/")
    try:
        parent = folder._opener(folder._folder, above or ".", FOLDER)
    except FileNotFoundError:
        return
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise FileError(f"{shown(path)}: it cannot be removed: {error.strerror}", "failed") from None
    finally:
        os.close(parent)


def check_names(folder: Files, paths: Iterable[str]) -> None:
    """Refuse files whose names differ in case alone, if the folder takes them for one. Raises MisuseError."""
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for path in paths:
        alike[unicodedata.normalize("NFC", path).casefold()].append(path)
    clashes = [path for group in alike.values() if len(group) > 1 for path in group]
    if clashes and takes_cases_for_one(folder):
        raise MisuseError(
            f"this folder takes upper and lower case for one, so it cannot have all of {named(clashes)}; "
            "use a folder of a file system that tells them apart"
        )


def takes_cases_for_one(folder: Files) -> bool:
    """Return True if the file system of a folder does not tell upper from lower case."""
    name = f".callboard-{os.getpid()}-case"
    folder.write_bytes(name, b"")
    try:
        return look(folder, name.upper()).is_there
    finally:
        Path(folder.root, name).unlink(missing_ok=True)
