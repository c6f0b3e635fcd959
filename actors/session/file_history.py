"""The versions of the files of a session, folded from its log: the folder as of any event.

Rules
  - The newest version of a path up to an event is the one that the folder held then. A late one is not the
    newest: another call had written the file after it.
  - Before the first version of a path the folder held the one that was found first.
  - A call that was interrupted may have changed any file, so it is a gap. So is a folder that could not be
    compared. A gap says in words what the history does not know.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.client_messages import SessionOpened, resumed_in
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ToolReturned

INTERRUPTED: Final = "the call was interrupted, and the files that it changed are not known"


FileState: TypeAlias = tuple[str, int, bool]
"""Digest, size and permission of a version: `FileVersion.state`."""


class Recorded(NamedTuple):
    """A version in the log. seq: of the event that names it."""

    seq: int
    version: FileVersion


class Gap(NamedTuple):
    """A place of the log at which files may have changed unseen. why: in words."""

    seq: int
    why: str


class FileHistory:
    """The versions of files after the events so far.

    is_kept: True if the session keeps versions of its files.
    versions: of each path, in the order of the log. steps: of each digest whose bytes the log has, the number
    of differences that lead to them. stored_bytes: of all contents in the log.
    """

    def __init__(self) -> None:
        self.is_kept = False
        self.versions: dict[str, list[Recorded]] = {}
        self.gaps: list[Gap] = []
        self.steps: dict[str, int] = {}
        self.stored_bytes = 0

    def declare(self, event: Event) -> None:
        """Take in the first event of a session, of a resume or of a fork."""
        body = event.body
        opened = body if isinstance(body, SessionOpened) else resumed_in(body)
        if opened is not None and opened.files is not None:
            self.is_kept = opened.files.history

    def take(self, event: Event) -> None:
        """Take in the answer to a tool call."""
        body = event.body
        if not isinstance(body, ToolReturned):
            return
        is_interrupted = body.status == "interrupted"
        if not (is_interrupted or body.files or body.files_gap):  # as nearly all
            return
        for version in body.files:
            self.versions.setdefault(version.path, []).append(Recorded(event.seq, version))
            if version.digest and not version.left_out:
                self.steps.setdefault(version.digest, version.differences)
        self.stored_bytes += sum(map(len, body.contents))
        if body.files_gap:
            self.gaps.append(Gap(event.seq, body.files_gap))
        elif is_interrupted and self.is_kept:
            self.gaps.append(Gap(event.seq, INTERRUPTED))

    def now(self, path: str) -> FileVersion | None:
        """Return the newest version of a path; None if the log does not name it."""
        for one in reversed(self.versions.get(path, ())):
            if not one.version.is_late:
                return one.version
        return None

    def as_of(self, seq: int) -> dict[str, Recorded]:
        """Return the version of each path that the folder held after an event, in the order of the paths."""
        return {path: _as_of(self.versions[path], seq) for path in sorted(self.versions)}

    def gaps_to(self, seq: int) -> list[Gap]:
        """Return the gaps up to an event."""
        return [gap for gap in self.gaps if gap.seq <= seq]


def _as_of(versions: "list[Recorded]", seq: int) -> Recorded:
    newest = versions[0]
    for one in versions:
        if one.seq > seq:
            break
        if not one.version.is_late:
            newest = one
    return newest


def history_of(events: Iterable[Event]) -> FileHistory:
    """Return the history of a session's files, from its events in order."""
    found = FileHistory()
    for event in events:
        body = event.body
        if isinstance(body, ToolReturned):
            found.take(event)
        elif isinstance(body, SessionOpened) or resumed_in(body) is not None:
            found.declare(event)
    return found


def finals_of(body: ToolReturned) -> dict[str, FileVersion]:
    """Return the version that each file has after an answer, of those that it names."""
    return {version.path: version for version in body.files if not version.is_late}


class _Name(msgspec.Struct, frozen=True, gc=False):
    """The name of a version in `ToolReturned.contents`, and of the one from which it is a difference."""

    digest: str
    base: str = ""


_name: Final = msgspec.json.Decoder(_Name).decode


def digest_in(content: Json) -> str:
    """Return the digest of the version that a content has."""
    return _name(content).digest


def contents_for(
    files: Iterable[FileVersion], contents: Mapping[str, Json], known: Container[str]
) -> tuple[Json, ...]:
    """Return the contents that a log needs for some versions, with those of their bases.

    contents: by digest. known: the digests whose bytes the log has.
    """
    found: dict[str, Json] = {}
    for version in files:
        digest = "" if version.left_out else version.digest
        while digest not in known and digest not in found and digest in contents:
            found[digest] = contents[digest]
            digest = _name(contents[digest]).base
    return tuple(found.values())


def bases_of(body: ToolReturned, history: FileHistory) -> dict[str, FileState]:
    """Return the state of each file before a call, with all that others did before it.

    history: of the log before the answer.
    """
    found: dict[str, FileState] = {}
    for version in body.files:
        before = history.now(version.path)
        found.setdefault(version.path, (before or version).state)
    return found


def why_unfit(
    body: ToolReturned,
    bases: Mapping[str, FileState],
    start: Mapping[str, Recorded],
    now: FileHistory,
    *,
    skips_lost: bool = False,
) -> str:
    """Return why a copy cannot have the recorded files of a result; empty if it can.

    bases: the state of each file before the recorded call. start: of the files of the copy at its base.
    now: the history of the fork. skips_lost: as in `Forked`.
    """
    finals = finals_of(body)
    for path, version in finals.items():
        if version.left_out and not skips_lost:
            return f"the log does not have the bytes of {path} ({version.left_out})"
    for path in finals:
        here = now.now(path) or (start[path].version if path in start else None)
        if here is not None and here.state != bases[path]:
            return f"{path} has other bytes in this fork than the call found"
    return ""
