"""A session of files without a runtime: calls write, and their answers go into a history."""

from collections.abc import Mapping
from pathlib import Path

from callboard import Files
from callboard.actors.protocol.addresses import HOST, TOOLS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.file_history import FileHistory
from callboard.actors.session.file_labels import FileLabels
from callboard.runtime.files.call_files import CallFiles
from callboard.runtime.files.versions import CallVersions, SessionVersions
from callboard.runtime.log.file_contents import Contents
from callboard.runtime.log.recorded_files import RecordedFiles
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.tools.access import Access


class Told:
    """A folder whose calls are answered into a history. bytes_max: of the contents in the log."""

    def __init__(self, root: Path, bytes_max: int = 10_000_000, redactor: Redactor | None = None) -> None:
        root.mkdir(exist_ok=True)
        self.root = root
        self.files = Files(root, write=["."], history=True)
        self.history = FileHistory()
        self.contents = Contents()
        self.session = SessionVersions(self.files, self.history, redactor or Redactor(), bytes_max)
        self.seq = 0

    def call(self) -> CallVersions:
        return self.session.call()

    def files_of(self, call: CallVersions) -> CallFiles:
        return CallFiles(self.files, Access(), FileLabels(), call)

    def answer(self, call: CallVersions) -> ToolReturned:
        """Post the answer to a call, as the port does."""
        files, contents, gap = call.told()
        body = ToolReturned(1, self.seq, files=files, contents=contents, files_gap=gap)
        self.seq += 1
        self.contents.add(contents)
        self.history.take(Event(self.seq, 0, TOOLS, HOST, 0, body))
        return body

    def write(self, path: str, data: bytes) -> ToolReturned:
        """Let one call write a file."""
        call = self.call()
        self.files_of(call).write_bytes(path, data)
        return self.answer(call)

    def run(self, *changes: "tuple[str, bytes | None]") -> ToolReturned:
        """Let a program change files in the folder; None removes one."""
        call = self.call()
        call.begin()
        for path, data in changes:
            change(self.root / path, data)
        call.end()
        return self.answer(call)

    def recorded(self, at: int | None = None) -> RecordedFiles:
        return RecordedFiles("s", self.seq if at is None else at, self.history, self.contents)

    def as_of(self, at: int | None = None) -> dict[str, bytes]:
        found = self.recorded(at)
        return {path: found.read(path) for path in found.there}


def change(path: Path, data: bytes | None) -> None:
    """Write a file, with the folders above it, or remove it."""
    if data is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def folder(root: Path) -> Mapping[str, bytes]:
    """Return all files of a folder."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
