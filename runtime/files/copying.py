"""The copy of a folder for a fork: its files as of an event, and all others as of today.

Rules
  - No link of the copy leads out of it, so nothing that works in the copy writes into the folder. Links that
    would are left out, and so are devices and pipes.
  - A file that this process has open, such as its log, is left out.
  - The copy is made in an empty place, and removed if it cannot be completed.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from callboard.actors.protocol.errors import CorruptLog, FileError, MisuseError
from callboard.actors.protocol.file_area import ALL, FileArea
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.file_history import finals_of
from callboard.runtime.files.files import HISTORY_BYTES, Files
from callboard.runtime.files.folder_scan import open_here
from callboard.runtime.files.opening import READ
from callboard.runtime.files.restoring import check_names, lost_versions, put
from callboard.runtime.log.file_contents import Contents, digest_of
from callboard.runtime.log.recorded_files import RecordedFiles

_ADVICE: Final = "pass skip_lost=True (`--skip-lost`) to leave these files as they are today"


class Copied(NamedTuple):
    """A copy. left_out: paths of links, devices and open files that it does not have.

    is_new: its folder was made for it.
    """

    files: Files
    left_out: tuple[str, ...]
    is_new: bool

    def discard(self) -> None:
        """Remove the copy, and its folder if it was made for it."""
        _remove(Path(self.files.root), is_new=self.is_new)


def copied(
    source: Files | None,
    area: FileArea | None,
    target: Path,
    wanted: RecordedFiles,
    *,
    skip_lost: bool = False,
) -> Copied:
    """Make a copy of a folder as of an event; blocks.

    source: the folder today; None makes a copy of the files of the history alone. area: of the recorded
    session. Raises MisuseError for a target that is not empty, or that lies in the folder or around it,
    MissingVersions unless `skip_lost`.
    """
    if wanted.lost and not skip_lost:
        raise lost_versions(wanted.lost, _ADVICE)
    is_new = not target.exists()
    _check(source, target)
    try:
        target.mkdir(parents=True, exist_ok=True)
        left_out = () if source is None else tuple(_copy(source, target))
        files = _files_of(source, area, target)
        whole = Files(target, write=ALL)
        check_names(whole, wanted.there)
        for path, (_, version) in wanted.files.items():
            if not version.left_out:
                put(whole, version, wanted.bytes_of(version) if version.is_there else None)
            elif source is None:
                left_out = (*left_out, path)
    except BaseException:
        _remove(target, is_new=is_new)
        raise
    return Copied(files, left_out, is_new)


def _check(source: Files | None, target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise MisuseError(f"{target} is not an empty folder; name one that is empty, or does not exist yet")
    if source is None:
        return
    if _overlap(Path(source.root).resolve(), target.resolve()):
        raise MisuseError(f"{target} lies in the folder of the session, or around it; name another place")


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def _files_of(source: Files | None, area: FileArea | None, target: Path) -> Files:
    about = source.area if source is not None else area
    if about is None:
        raise MisuseError("this session has no files, so there is nothing to copy; leave files_to out")
    made = Files(
        target,
        read=about.read,
        write=about.write,
        name=about.name,
        hard_links=source is not None and source._hard_links,
        history=about.history or bool(area and area.history),
        history_bytes=HISTORY_BYTES if source is None else source.history_bytes,
    )
    made._area = replace(made.area, labels=about.labels)
    return made


def _copy(source: Files, target: Path) -> Iterator[str]:
    """Copy all that a folder has. Yield the paths that are left out.

    Folders and files are opened below the open folder and never through a link, so nothing from outside
    comes in where a name is swapped for a link meanwhile.
    """
    without, links = open_here(), []
    for above, folders, files, here in os.fwalk(dir_fd=source.fileno()):
        for name in sorted((*folders, *files)):
            path = os.path.normpath(f"{above}/{name}")
            try:
                about = os.stat(name, dir_fd=here, follow_symlinks=False)
                if stat.S_ISLNK(about.st_mode):
                    (target / path).symlink_to(os.readlink(name, dir_fd=here))
                    links.append(path)
                elif stat.S_ISDIR(about.st_mode):
                    (target / path).mkdir(parents=True, exist_ok=True)
                elif not stat.S_ISREG(about.st_mode) or (about.st_dev, about.st_ino) in without:
                    yield path
                else:
                    _copy_file(here, name, target / path)
            except OSError:  # it went away or became another thing, or may not be read by the user
                yield path
    root = target.resolve()
    for path in links:  # once all are there: one may lead through others
        if root not in (target / path).resolve().parents:
            (target / path).unlink()
            yield path


def _copy_file(folder: int, name: str, target: Path) -> None:
    """Copy a file with its mode and times. Raises OSError, also for a link or a device in its place."""
    opened = os.open(name, READ | os.O_NOFOLLOW, dir_fd=folder)
    with os.fdopen(opened, "rb") as source:
        about = os.fstat(opened)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
        with target.open("xb") as made:
            shutil.copyfileobj(source, made)
            os.fchmod(made.fileno(), stat.S_IMODE(about.st_mode))
    os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))


def _remove(target: Path, *, is_new: bool) -> None:
    """Remove a copy that could not be completed; of an empty folder that was there, its contents."""
    if is_new:
        shutil.rmtree(target, ignore_errors=True)
        return
    for entry in target.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def mark_of(session_id: str, files: Files) -> str:
    """Return the digest by which the folder of a fork's copy is known. It says nothing about its place."""
    # Not its device, whose number may be another one after a restart of the machine.
    return digest_of(f"{session_id} {os.fstat(files.fileno()).st_ino}".encode())[:32]


class FolderCopy:
    """The copy in which a fork works: it gets the recorded versions with each result that is given again."""

    def __init__(self, files: Files, contents: Contents) -> None:
        self._files = Files(files.root, write=ALL)
        self._contents = contents

    def put_result(self, body: AnyMessage) -> str:
        """Put the files of a recorded result into the copy. Return why that fails; empty if it does not."""
        # Not on a thread: answers are given in their order, and after a crash the files are put again.
        if not isinstance(body, ToolReturned) or not body.files:
            return ""
        try:
            kept = [version for version in finals_of(body).values() if not version.left_out]
            read = [self._contents.read(one.digest) if one.is_there else None for one in kept]
            for version, data in zip(kept, read, strict=True):  # once all of them could be read
                put(self._files, version, data)
        except (FileError, CorruptLog) as error:
            return str(error)
        return ""
