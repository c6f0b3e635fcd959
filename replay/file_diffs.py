"""The differences of files: of two versions line by line, and of the folders of two sessions."""

import difflib
from collections.abc import Iterator
from typing import Final, NamedTuple

from callboard.actors.protocol.errors import MissingVersions
from callboard.actors.protocol.file_versions import FileVersion
from callboard.runtime.log.recorded_files import WHY, RecordedFiles

LINES_MAX: Final = 5_000
"""Lines of a version that are compared; the time of a comparison may grow with their square."""


class FileChange(NamedTuple):
    """A file that differs. first, second: its versions, None if a history does not know it.

    lines: of a unified diff, or the reason for its absence.
    """

    path: str
    first: FileVersion | None
    second: FileVersion | None
    lines: tuple[str, ...]


def line_diff(path: str, old: bytes | None, new: bytes | None) -> tuple[str, ...]:
    """Return the unified diff of two versions; None for no file."""
    texts = [_lines(data) for data in (old, new)]
    before, after = texts
    if before is None or after is None:
        return (f"binary: {_size(old)}, then {_size(new)}",)
    if max(len(before), len(after)) > LINES_MAX:
        return (f"more than {LINES_MAX:,} lines: {_size(old)}, then {_size(new)}",)
    names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
    return tuple(difflib.unified_diff(before, after, *names, lineterm="", n=2))


def _size(data: bytes | None) -> str:
    return "no file" if data is None else f"{len(data):,} bytes"


def _lines(data: bytes | None) -> list[str] | None:
    """Return the lines of a text; None for one that is not UTF-8."""
    if data is None:
        return []
    try:
        return None if b"\0" in data else data.decode().splitlines()
    except UnicodeDecodeError:
        return None


def folder_diff(first: RecordedFiles, second: RecordedFiles) -> Iterator[FileChange]:
    """Yield the files that differ in the folders of two sessions, of those that both histories know.

    A file that one history does not know was there as it is today, so only one that both know can differ.
    """
    for path in sorted({*first.files, *second.files}):
        one, other = first.files.get(path), second.files.get(path)
        versions = (one.version if one else None, other.version if other else None)
        if one is not None and other is not None and one.version.state == other.version.state:
            continue
        yield FileChange(path, *versions, _compared(path, first, second))


def _compared(path: str, first: RecordedFiles, second: RecordedFiles) -> tuple[str, ...]:
    datas: list[bytes | None] = []
    for folder in (first, second):
        recorded = folder.files.get(path)
        if recorded is None:
            return (f"session {folder.session_id} neither found nor changed it",)
        try:
            datas.append(folder.bytes_of(recorded.version) if recorded.version.is_there else None)
        except MissingVersions:
            reason = WHY[recorded.version.left_out]
            return (f"session {folder.session_id} does not have the bytes: {reason}",)
    return line_diff(path, *datas)
