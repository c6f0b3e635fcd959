"""`ctx.files` of one call: the files of the session within the agent's rights, with labels.

A file has the labels of the agent that wrote it. A call that reads the file brings them to its own agent.

The files of a session that has none.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from callboard.actors.protocol.errors import FileError, MisuseError
from callboard.actors.protocol.file_area import ALL, FileArea, covers, narrowed
from callboard.actors.protocol.layers import file_prefixes
from callboard.actors.session.file_labels import FileLabels
from callboard.runtime.files.files import Files
from callboard.runtime.files.folder_scan import ABSENT, Found
from callboard.runtime.files.opening import relative
from callboard.runtime.files.versions import CallVersions
from callboard.runtime.files.whole_files import READ_BYTES_MAX, Entry
from callboard.runtime.tools.access import Access


class CallFiles(Files):
    """The files of one call. whole: of the session. history: the labels of its files.

    versions: those that the call writes, None for files without a history.
    """

    def __init__(
        self, whole: Files, access: Access, history: FileLabels, versions: CallVersions | None = None
    ) -> None:
        self.root = whole.root
        self._whole = whole
        self._folder, self._opener, self._hard_links = whole._folder, whole._opener, whole._hard_links
        self._access = access
        self._history = history
        self.versions = versions

    @cached_property
    def area(self) -> FileArea:  # made at the first use: few calls use files
        """Return the part of the session's files that the agent may reach."""
        if not self._access.rights:
            return self._whole.area
        allowed = file_prefixes(self._access.rights)
        own = self._whole.area
        return narrowed(
            own,
            own.read if allowed.read is None else allowed.read,
            own.write if allowed.write is None else allowed.write,
        )

    def read_bytes(self, path: str, *, max_bytes: int = READ_BYTES_MAX) -> bytes:
        """Read a file, and take its labels. Raises FileError."""
        data = super().read_bytes(path, max_bytes=max_bytes)
        name = relative(path)
        digest = hashlib.sha256(data).hexdigest() if self._history.is_written(name) else ""
        self._access.read("read", name, self._history.labels_of(name, digest), digest)
        return data

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file with the labels of this call. Raises FileError, ToolError."""
        name = relative(path)
        self.check_write(name)
        digest, labels = hashlib.sha256(data).hexdigest(), self._access.labels
        self._access.use("write", name, digest, labels)
        self._history.note(name, digest, labels)
        before = ABSENT if self.versions is None else self.versions.before(name)
        super().write_bytes(path, data)
        if self.versions is not None:
            self.versions.wrote(name, before, Found(data, len(data), before.is_executable))

    def fileno(self) -> int:
        """Return the descriptor of the root, for a process that starts there. Raises FileError in a fork."""
        return self._whole.fileno()

    def entries(self, path: str = ".") -> list[Entry]:
        """List a folder: the entries that may be read, or lead to them. Raises FileError."""
        self._refuse(self._access.refusal("read"))
        return super().entries(path)

    def narrowed(self, read: Sequence[str] = ALL, write: Sequence[str] = ALL) -> Files:
        """Return the same files with no more than these prefixes, for the same call."""
        return CallFiles(self._whole.narrowed(read, write), self._access, self._history, self.versions)

    def check_write(self, path: str) -> None:
        """Raise FileError unless the session and the rights of the agent let the file be written."""
        name = relative(path)
        if self._whole.is_of_origin:  # nothing is covered there, and the rights say more
            self._refuse(self._access.refusal("write", name))
        if name == "." or not covers(self._whole.area.write, name):
            self._whole.check_write(name)
        self._refuse(self._access.refusal("write", name))

    def _check_read(self, name: str) -> None:
        if not covers(self._whole.area.read, name):
            self._whole._check_read(name)
        self._refuse(self._access.refusal("read", name))

    def _refuse(self, refusal: str) -> None:
        if refusal:
            raise FileError(refusal, "denied")


class _NoFiles:
    """Stands for the files of a session that has none."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # asked by inspect and others, which expect this error
            raise AttributeError(name)
        raise MisuseError(
            "this session has no files: pass Runtime(files=...), or ToolContext(files=...) in a test"
        )


NO_FILES: Final = _NoFiles()
