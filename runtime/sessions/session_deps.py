"""The objects that a program hands to its tools: deps, of the runtime or of one ask, files and memory.

The log has the name of the type of deps, and the name and prefixes of files, so that a session is not resumed
without them. It never has the objects.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.errors import MissingDeps
from callboard.runtime.files.files import Files
from callboard.runtime.http.settings import DEFAULT_HTTP, Http
from callboard.runtime.memory.access import Memory
from callboard.runtime.sessions.session_files import FilesChoice
from callboard.runtime.sessions.session_memory import MemoryChoice


class Given(NamedTuple):
    """The objects that one session is given in place of the runtime's; None for those of the runtime."""

    deps: object = None
    files: FilesChoice = None
    memory: MemoryChoice = None


class SessionDeps:
    """The objects of one session. current: of the latest ask; None for none. own: of asks that bring none.

    files, memory: that its tools may reach, None for none. http: the settings of its network.
    """

    def __init__(
        self,
        own: object,
        files: Files | None = None,
        http: Http = DEFAULT_HTTP,
        memory: Memory | None = None,
    ) -> None:
        self.current = self._own = own
        self.files, self.http, self.memory = files, http, memory

    def added_to(self, opened: SessionOpened) -> SessionOpened:
        """Return the first event of a session with these files."""
        return opened if self.files is None else replace(opened, files=self.files.area)

    def now(self) -> object:
        """Return the object of the latest ask."""
        return self.current

    def take(self, given: object) -> str:
        """Take the object of a new ask, None for the session's own. Return the name of its type, or ''."""
        self.current = self._own if given is None else given
        kind = type(self.current)
        return "" if self.current is None else f"{kind.__module__}.{kind.__qualname__}"


def labels_of(opened: SessionOpened | None) -> tuple[tuple[str, ...], object]:
    """Return the tags and metadata of a recorded session, for functions that make its objects."""
    return ((), None) if opened is None else (opened.tags, msgspec.json.decode(opened.metadata))


def refuse_without_deps(session_id: str, needed: str) -> None:
    """Refuse to go on with an ask whose tools got an object. needed: its type, or ''. Raises MissingDeps."""
    if needed:
        raise MissingDeps(
            f"session {session_id}: the unfinished ask began with deps of type {needed}, which its tools "
            "may need: pass Runtime(deps=...), or `resume(..., deps=...)`"
        )


def deps_of(given: object, session_id: str, tags: Sequence[str], metadata: object) -> object:
    """Return the object of a session. given: the object itself, or a function that makes it."""
    return given(session_id, tuple(tags), metadata) if callable(given) else given
