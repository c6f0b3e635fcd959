"""The versions of the files of a session, as calls write and find them, on their way to the log.

Each call has a `CallVersions`, which its answer takes: so versions are durable with the answer, in the same
commit. A version that the log has already is named without its bytes.

Rules
  - A difference has a base that the log has before the answer, or that the same answer has: never a version
    of another call under way, whose answer may not come.
  - Two calls at once may write one file. The one that wrote last has the version that the folder holds; if
    the other answers later, its version is late.
  - A program that works in the folder is compared before and after. A change that the log did not know of
    before it was made by others: it is found, and the call wrote none of it.
"""

import codecs
import threading
from typing import Final, NamedTuple

from msgspec.structs import replace

from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.file_history import FileHistory, FileState
from callboard.runtime.files.files import Files
from callboard.runtime.files.folder_scan import ENTRIES_MAX, Folder, Found, Seen, is_text, others_changed
from callboard.runtime.log.file_contents import STEPS_MAX, Base, digest_of, packed
from callboard.runtime.secrets.redactor import Redactor

CHANGED_MAX: Final = 1_000
"""Files that one program has changed, of which versions are kept."""
CHANGED_BYTES_MAX: Final = 50_000_000
"""Bytes of the versions that one call brings into the log, before they are compressed."""


class Told(NamedTuple):
    """What the answer to a call says about files: fields of `ToolReturned`."""

    files: tuple[FileVersion, ...] = ()
    contents: tuple[Json, ...] = ()
    gap: str = ""


class _Kept(NamedTuple):
    """A version, and its bytes for the log if the log has to take them now."""

    version: FileVersion
    content: Json | None = None


class _Change(NamedTuple):
    """The change of one path by a call. found: before it, None if the log knows that. order: of writes.

    base, steps: the bytes before it, as a base of a difference, and the differences that lead to them.
    """

    found: _Kept | None
    base: Base | None
    steps: int
    order: int = 0
    wrote: _Kept | None = None


class SessionVersions:
    """The versions of the files of one session in this process.

    history: of the log so far. bytes_max: of all contents in the log, as they stand in it.
    """

    def __init__(self, files: Files, history: FileHistory, redactor: Redactor, bytes_max: int) -> None:
        self.history = history
        self.folder = Folder(files)
        self.lock = threading.RLock()
        self.checked: dict[str, object] = {}
        self._redactor = redactor
        self._left = bytes_max
        self._pending = 0
        self._latest: dict[str, FileState] = {}
        self._orders: dict[str, int] = {}
        self._order = 0

    def call(self) -> "CallVersions":
        """Return the versions of a new call."""
        return CallVersions(self)

    def may_name(self, path: str) -> bool:
        """Return False for a path that the log cannot hold."""
        return is_text(path) and not self._redactor.finds(path)

    def state_of(self, path: str) -> FileState | None:
        """Return the newest known state of a file, also of calls under way; None if there is none."""
        known = self.history.now(path)
        return self._latest.get(path) or (known.state if known else None)

    def wrote(self, path: str, state: FileState) -> int:
        """Note a write. Return its order."""
        self._order += 1
        self._latest[path] = state
        return self._order

    def is_late(self, path: str, order: int) -> bool:
        """Note that an answer has a version. Return True if another answer had a later one."""
        known = self._orders.get(path, 0)
        self._orders[path] = max(known, order)
        return order < known

    def kept(self, path: str, file: Found, base: Base | None = None, steps: int = 0) -> _Kept:
        """Return a version of a file, as the log keeps it.

        base: a version that the log has. steps: the number of differences that lead to it.
        """
        digest = "" if file.data is None else digest_of(file.data)
        about = FileVersion(path, digest, file.size, file.left_out, is_executable=file.is_executable)
        if file.data is None:
            return _Kept(about)
        if self._redactor.finds(_text(file.data)):
            return _Kept(replace(about, left_out="secret"))
        if (known := self.history.steps.get(digest)) is not None:
            return _Kept(replace(about, differences=known))
        made = packed(digest, file.data, base)
        if self._redactor.may_be_in(bytes(made.content)):  # the log would replace a part of it
            return _Kept(replace(about, left_out="secret"))
        if self.history.stored_bytes + self._pending + len(made.content) > self._left:
            return _Kept(replace(about, left_out="full"))
        return _Kept(replace(about, differences=steps + 1 if made.is_difference else 0), made.content)

    def count(self, bytes_: int) -> None:
        """Count bytes on their way to the log, or off it."""
        self._pending += bytes_


class CallVersions:
    """The versions of the files that one call writes and finds. Writes may come from any thread."""

    def __init__(self, session: SessionVersions) -> None:
        self._session = session
        self._changes: dict[str, _Change] = {}
        self._seen: Seen | None = None
        self._gaps: list[str] = []
        self._is_over = False

    def before(self, path: str) -> Found:
        """Return a file that is about to be written."""
        return self._session.folder.look(path)

    def wrote(self, path: str, before: Found, after: Found) -> None:
        """Note that the call has changed a file."""
        session = self._session
        with session.lock:
            if self._is_over:  # a thread that was given up: the next call finds its write
                return
            if not session.may_name(path):
                self.failed("a file changed whose name is not UTF-8, or holds a secret")
                return
            change = self._changes.get(path) or self._begun(path, before)
            wrote = session.kept(path, after, change.base, change.steps)
            order = session.wrote(path, wrote.version.state)
            self._count(wrote, change.wrote)
            self._changes[path] = change._replace(order=order, wrote=wrote)

    def _begun(self, path: str, before: Found) -> _Change:
        """Return a change with the version before it, which it names if the log does not know it."""
        session = self._session
        known, found = session.history.now(path), session.kept(path, before)
        # Not if a call under way has another version, which comes into the log by its answer.
        is_known = known is not None and known.state == found.version.state == session.state_of(path)
        steps = found.version.differences
        is_base = (
            found.content is not None and not is_known
        ) or found.version.digest in session.history.steps
        base = Base(found.version.digest, before.data) if before.data is not None and is_base else None
        if is_known:
            return _Change(None, base if steps < STEPS_MAX else None, steps)
        self._count(found)
        first = _Kept(replace(found.version, is_found=True), found.content)
        return _Change(first, base if steps < STEPS_MAX else None, steps)

    def _count(self, new: _Kept, old: _Kept | None = None) -> None:
        self._session.count(len(new.content or b"") - (len(old.content or b"") if old else 0))

    # --- programs that work in the folder -----------------------------------------

    def begin(self) -> None:
        """Look at the folder before a program works in it, and note what others changed there; blocks."""
        session = self._session
        self._seen = seen = session.folder.seen()
        for path in list(session.history.versions):
            here = seen.files.get(path)
            if here is None or session.checked.get(path) is not here:
                self._note_found(path)
                session.checked[path] = here

    def _note_found(self, path: str) -> None:
        session, found = self._session, self._session.folder.look(path)
        with session.lock:
            kept = session.kept(path, found)
            if found.left_out != "unread" and session.state_of(path) != kept.version.state:
                change = self._begun(path, found)
                self._changes[path] = change._replace(order=session.wrote(path, kept.version.state))

    def end(self) -> None:
        """Look at the folder after the program, and note its changes; blocks."""
        if self._seen is None:
            return
        session, before = self._session, self._seen
        after = session.folder.seen()
        files, left, passed = CHANGED_MAX, CHANGED_BYTES_MAX, 0
        for path, was, now in session.folder.changes(before, after):
            if self._is_known(path, now):
                continue
            files, left = files - 1, left - len(now.data or b"")
            if files < 0 or left < 0:
                passed += 1
            else:
                self.wrote(path, was, now)
        if passed:
            self.failed(f"{passed:,} more files changed than are kept of one call")
        if after.scan.is_cut:
            self.failed(f"the folder has more than {ENTRIES_MAX:,} entries, and the rest was not compared")
        if others := others_changed(before.scan, after.scan):
            self.failed(f"links, devices or files with names that are not UTF-8 changed: {others:,}")

    def _is_known(self, path: str, now: Found) -> bool:
        """Return True if a call has noted this version of the file."""
        digest = now.left_out if now.data is None else digest_of(now.data)
        return self._session.state_of(path) == (digest, now.size, now.is_executable)

    def failed(self, why: str) -> None:
        """Note in words that some of the files that the call changed are not known."""
        if why not in self._gaps:
            self._gaps.append(why)

    # --- the answer ---------------------------------------------------------------

    def added_to(self, returned: ToolReturned) -> ToolReturned:
        """Return the answer to the call with its versions."""
        files, contents, gap = self.told()
        if not files and not gap:
            return returned
        return replace(returned, files=files, contents=contents, files_gap=gap)

    def told(self) -> Told:
        """Return what the answer says about files. Call it once, when the answer is posted."""
        session = self._session
        files: list[FileVersion] = []
        contents: dict[bytes, Json] = {}  # a file that was moved is found and written
        with session.lock:
            changes, self._changes, self._is_over = self._changes, {}, True
            for path, change in changes.items():
                is_late = session.is_late(path, change.order)
                for kept in (change.found, change.wrote):
                    if kept is None:
                        continue
                    session.count(-len(kept.content or b""))
                    if not self._is_idle(path, change):
                        files.append(replace(kept.version, is_late=True) if is_late else kept.version)
                        if kept.content is not None:
                            contents[bytes(kept.content)] = kept.content
        return Told(tuple(files), tuple(contents.values()), "; ".join(self._gaps))

    def _is_idle(self, path: str, change: _Change) -> bool:
        """Return True if the file is again as the log knows it."""
        known = self._session.history.now(path)
        return (
            change.found is None
            and known is not None
            and change.wrote is not None
            and change.wrote.version.state == known.state
        )


class LateVersions:
    """The versions of a session, made for its first call."""

    def __init__(self) -> None:
        self._made: SessionVersions | None = None

    def call(self, files: Files | None, history: FileHistory, redactor: Redactor) -> CallVersions | None:
        """Return the versions of a new call; None for files without a history."""
        if files is None or not keeps_versions(files):
            return None
        if self._made is None or self._made.history is not history:  # a resume has made its own
            self._made = SessionVersions(files, history, redactor, files.history_bytes)
        return self._made.call()


def keeps_versions(files: Files | None) -> bool:
    """Return True for files with a history."""
    return files is not None and files.area.history


def _text(data: bytes) -> str:
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_wide else "utf-8", "replace")
