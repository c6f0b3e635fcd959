"""The files of a recording, for a fork of it: which results fit a copy, and the bytes that come with them.

Rules
  - A recorded result is given in a fork with a copy only if each file that its call wrote is there as the
    call found it, or as it was before others changed it there.
  - The log of a fork has the bytes of every version that it names: those that stand behind the base of the
    fork come with the first result that names them.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.file_history import (
    FileHistory,
    FileState,
    Recorded,
    bases_of,
    contents_for,
    digest_in,
    why_unfit,
)


class CopyChoice(NamedTuple):
    """The choice for the files of a fork: fields of `Forked`."""

    has_copy: bool
    skips_lost: bool


NO_COPY: Final = CopyChoice(False, False)
_NOTHING: Final[Mapping[str, FileState]] = {}


class OriginFiles:
    """The files of a recorded session. contents: the bytes of their versions, by digest."""

    def __init__(self) -> None:
        self.contents: dict[str, Json] = {}
        self._history = FileHistory()

    def bases(self, body: AnyMessage) -> Mapping[str, FileState]:
        """Return the states of the files that a call wrote, before it did. Call it before `take`."""
        return bases_of(body, self._history) if isinstance(body, ToolReturned) and body.files else _NOTHING

    def take(self, event: Event) -> None:
        """Take in the answer to a tool call."""
        self._history.take(event)
        if isinstance(event.body, ToolReturned):
            for content in event.body.contents:
                self.contents.setdefault(digest_in(content), content)

    def as_of(self, base: int) -> Mapping[str, Recorded]:
        """Return the files that the whole recording knows, as of an event."""
        return self._history.as_of(base)


class CopiedFiles:
    """The files of a fork. has_copy, skips_lost: as in `Forked`. contents: of the recording, by digest.

    start: the files of the copy at the base of the fork.
    """

    def __init__(self, origin: OriginFiles, base: int, copy: CopyChoice) -> None:
        self.has_copy, self._skips_lost = copy
        self.contents: Mapping[str, Json] = origin.contents
        self._start = origin.as_of(base) if self.has_copy else {}
        self._unfit: dict[int, str] = {}

    def misfit(self, body: AnyMessage, bases: Mapping[str, FileState], now: FileHistory) -> str:
        """Return why the files of a recorded result do not fit the copy; empty if they do.

        bases: of the recorded result. now: the history of the fork.
        """
        if self.has_copy and isinstance(body, ToolReturned) and body.files:
            return why_unfit(body, bases, self._start, now, skips_lost=self._skips_lost)
        return ""

    def fitted(
        self, request: Event, answer: Post, bases: Mapping[str, FileState], now: FileHistory
    ) -> Post | None:
        """Return a recorded answer as it is given; None if its files do not fit, which is noted."""
        if why := self.misfit(answer.body, bases, now):
            self.refuse(request, why)
            return None
        return self.with_contents(answer, now)

    def refuse(self, request: Event, why: str) -> None:
        """Note why the recorded result of a call cannot be given."""
        self._unfit[request.seq] = why

    def why_refused(self, request: Event) -> str:
        """Return why the recorded result of a call was not given, once; empty if it has none."""
        return self._unfit.pop(request.seq, "")

    def with_contents(self, answer: Post, now: FileHistory) -> Post:
        """Return a recorded answer with the bytes of its files that the log of the fork lacks."""
        body = answer.body
        if not isinstance(body, ToolReturned) or not body.files:
            return answer
        contents = contents_for(body.files, self.contents, now.steps)
        return Post(answer.recipient, replace(body, contents=contents))
