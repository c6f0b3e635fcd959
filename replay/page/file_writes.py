"""The differences of the files that each call wrote, as lines of a page."""

from collections.abc import Iterator
from typing import Final

import msgspec

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.file_history import FileHistory
from callboard.replay.file_diffs import line_diff
from callboard.runtime.log.file_contents import Contents
from callboard.runtime.log.recorded_files import WHY

FILES_MAX: Final = 20
"""Files of one call whose lines a page has."""
CHARS_MAX: Final = 20_000
"""Characters of the lines of one file in a page."""

_encode: Final = msgspec.json.Encoder().encode


class FileWrites:
    """The files of a session. Feed it every event in order."""

    def __init__(self) -> None:
        self._history = FileHistory()
        self._contents = Contents()

    def take(self, event: Event) -> Iterator[bytes]:
        """Take an event in. Yield the line with the differences of the files that it names."""
        body = event.body
        if not isinstance(body, ToolReturned) or not body.files:
            return
        self._contents.add(body.contents)
        found: list[tuple[str, str]] = []
        before: dict[str, FileVersion] = {}
        for version in body.files:
            if version.is_found:
                before[version.path] = version
            elif len(found) < FILES_MAX:
                old = before.get(version.path) or self._history.now(version.path)
                found.append((version.path, self._difference(version, old)[:CHARS_MAX]))
        self._history.take(event)
        if found:
            yield b"+" + _encode([event.seq, found])

    def _difference(self, version: FileVersion, old: FileVersion | None) -> str:
        for one in (version, old):
            if one is not None and one.left_out:
                return f"@@ the log does not have the bytes: {WHY[one.left_out]}"
        try:
            before, after = (self._bytes(one) for one in (old, version))
        except CorruptLog as error:
            return f"@@ {error}"
        return "\n".join(line_diff(version.path, before, after)) or "@@ the permission alone"

    def _bytes(self, version: FileVersion | None) -> bytes | None:
        return None if version is None or not version.is_there else self._contents.read(version.digest)
