"""The files of a session as of an event, as far as its log knows them."""

from collections.abc import Iterable, Mapping
from typing import Final

from callboard.actors.protocol.errors import MissingVersions, UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.file_history import FileHistory, Gap, Recorded, history_of
from callboard.runtime.log.file_contents import Contents

WHY: Final[Mapping[str, str]] = {
    "secret": "it held a secret",
    "large": "it was too large to be kept",
    "full": "the history was at its limit",
    "unread": "nobody had read it before it was changed",
}
"""The reasons why the log does not have the bytes of a version, in words."""


class RecordedFiles:
    """The files that the history of a session knows, as its folder held them after an event.

    at: the seq of that event; 0 for the start. files: the version of each path, also of paths at which there
    was no file then. gaps: the places up to there at which files may have changed unseen. is_kept: False if
    the session keeps no history of its files.
    """

    def __init__(self, session_id: str, at: int, history: FileHistory, contents: Contents) -> None:
        self.session_id = session_id
        self.at = at
        self.history = history
        self.files: Mapping[str, Recorded] = history.as_of(at)
        self.gaps: list[Gap] = history.gaps_to(at)
        self.is_kept = history.is_kept or bool(history.versions)
        self._contents = contents

    @property
    def there(self) -> dict[str, Recorded]:
        """Return the files that were there."""
        return {path: one for path, one in self.files.items() if one.version.is_there}

    @property
    def lost(self) -> list[FileVersion]:
        """Return the versions whose bytes the log does not have."""
        return [one.version for one in self.files.values() if one.version.left_out]

    def read(self, path: str) -> bytes:
        """Return the bytes of a file. Raises UnknownName, MissingVersions, CorruptLog."""
        found = self.files.get(path)
        if found is None or not found.version.is_there:
            said = "the history does not know it" if found is None else f"it was not there at event {self.at}"
            raise UnknownName(f"session {self.session_id}, {path}: {said}; `callboard files` lists the files")
        return self.bytes_of(found.version)

    def bytes_of(self, version: FileVersion) -> bytes:
        """Return the bytes of a version. Raises MissingVersions, CorruptLog."""
        if version.left_out:
            said = f"the log does not have the bytes of {version.path}: {WHY[version.left_out]}"
            raise MissingVersions(said, (version.path,))
        return self._contents.read(version.digest)

    def knows(self, path: str, digest: str) -> bool:
        """Return True if the history can put these bytes back. digest: empty for no file."""
        versions = (one.version for one in self.history.versions.get(path, ()))
        return any(one.digest == digest and not one.left_out for one in versions)


def recorded_files(session_id: str, events: Iterable[Event], at: int) -> RecordedFiles:
    """Return the files of a session as of an event. events: of the whole session."""
    found, contents = list(events), Contents()
    for event in found:
        if isinstance(event.body, ToolReturned):
            contents.add(event.body.contents)
    return RecordedFiles(session_id, at, history_of(found), contents)
