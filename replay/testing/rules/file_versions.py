"""The rules of the versions of files: of the log alone, and of forks that work in a copy.

`Disk` folds a log in other words than `FileHistory`: the newest state of each path, and nothing else.
"""

from collections.abc import Iterable

import msgspec

from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.replay.testing.rules.base import Invariant


class _Content(msgspec.Struct):
    digest: str
    base: str = ""


class Disk:
    """The files that a log knows. now: the newest state of each path. first: the one that was found there."""

    def __init__(self) -> None:
        self.now: dict[str, FileVersion] = {}
        self.first: dict[str, FileVersion] = {}

    def take(self, files: Iterable[FileVersion]) -> None:
        """Take in the versions of an answer."""
        for one in files:
            self.first.setdefault(one.path, one)
            if not one.is_late:
                self.now[one.path] = one

    def digest(self, path: str) -> str:
        """Return the digest of a path as far as it is known: the newest, else the first that was found."""
        found = self.now.get(path) or self.first.get(path)
        return "" if found is None else found.digest


class FileVersions(Invariant):
    """The versions that answers name."""

    name = "file-versions"
    rule = (
        "The first version of a path is the one that was found; the bytes of each kept version, and those of "
        "its base, are in the log by then; a late version comes after another one of its path."
    )
    _known: dict[str, bool] = {}
    _bytes: dict[str, bool] = {}
    _has_copy: bool = True

    def on_Forked(self, event: Event, body: Forked) -> None:
        """Note a fork without a copy: no call of it finds a file, but its recorded results name some."""
        self._has_copy = body.has_copy

    def on_ToolReturned(self, event: Event, body: ToolReturned) -> None:
        """Check the versions that an answer names."""
        found = [msgspec.json.decode(one, type=_Content) for one in body.contents]
        self._bytes.update(dict.fromkeys((one.digest for one in found), True))
        for one in found:
            if one.base and one.base not in self._bytes:
                self.broken(event.seq, f"version {one.digest} has a base that the log does not have")
        for version in body.files:
            self._check(event.seq, version)
            self._known[version.path] = True

    def _check(self, seq: int, version: FileVersion) -> None:
        path = version.path
        if path not in self._known and not version.is_found and self._has_copy:
            self.broken(seq, f"{path} has a version, and the one before it is not known")
        if path not in self._known and version.is_late:
            self.broken(seq, f"the first version of {path} is late")
        if version.digest and not version.left_out and version.digest not in self._bytes:
            self.broken(seq, f"the log does not have the bytes of {path}")
