"""The labels of the files of a session, folded from its log.

A `ToolReturned` names each file that its tool wrote through its context, with the digest of the bytes and
the labels of the agent. The port asks here when a tool reads a file.

Rules
  - A file with the digest of a recorded write has the labels of that write.
  - A file that was written, and has other bytes now, was changed by an unknown hand: it has the label
    `unknown`, and keeps those of its writes.
  - A file that the log does not name has the labels of the files of the session's start. A call that was
    interrupted may have written any of them: they get its labels, and `unknown`.
  - No label is lost: bytes that come back after their version was forgotten have the labels of all that were.
"""

from typing import Final

from callboard.actors.protocol.bundles import UNKNOWN
from callboard.actors.protocol.client_messages import SessionOpened, resumed_in
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.labels import NO_LABELS, Labels, united
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CallTool, ToolReturned

VERSIONS_MAX: Final = 8
"""Recorded writes of one file that are told apart; an older one is `unknown`."""

_OLDER: Final = ""


class FileLabels:
    """The labels of files after the events so far. start: of files that the log does not name.

    The port notes a write before it happens, from any thread. So each change of a dict here is one step.
    """

    def __init__(self) -> None:
        self.start: Labels = NO_LABELS
        self._has_files = False
        self._versions: dict[str, dict[str, Labels]] = {}  # by path, then by digest

    def declare(self, event: Event) -> None:
        """Take in the first event of a session, or of a resume."""
        body = event.body
        opened = body if isinstance(body, SessionOpened) else resumed_in(body)
        if opened is not None and opened.files is not None:
            self._has_files = True
            self.start = united(self.start, opened.files.labels)

    def take(self, call: AnyMessage, returned: ToolReturned) -> None:
        """Take in the answer to a call."""
        for use in returned.uses:
            if use.entry == "write":
                self.note(use.name, use.digest, use.labels)
        is_untold = returned.status == "interrupted" and not returned.uses
        if is_untold and self._has_files and isinstance(call, CallTool):
            self.start = united(self.start, call.labels, (UNKNOWN,))

    def note(self, path: str, digest: str, labels: Labels) -> None:
        """Record a write."""
        versions = self._versions.setdefault(path, {})
        # These bytes may have been written before, as one of the versions that are no longer distinguished.
        before = versions.get(digest, versions.get(_OLDER, NO_LABELS))
        versions[digest] = united(before, labels)
        if len(versions) > VERSIONS_MAX:
            oldest = next(one for one in list(versions) if one != _OLDER)
            versions[_OLDER] = united(versions.get(_OLDER, NO_LABELS), versions[oldest])
            versions.pop(oldest, None)

    def is_written(self, path: str) -> bool:
        """Return True if a write of this file is recorded."""
        return path in self._versions

    def labels_of(self, path: str, digest: str) -> Labels:
        """Return the labels of a file with these bytes. digest: of them; not used if it was never written."""
        versions = self._versions.get(path)
        if versions is None:
            return self.start
        found = versions.get(digest or "no digest")
        return united(*list(versions.values()), (UNKNOWN,)) if found is None else found
