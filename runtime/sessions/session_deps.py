"""The objects that a program hands to its tools: deps, of the runtime or of one ask, files and memory.

The log has the name of the type of deps, and the name and prefixes of files, so that a session is not resumed
without them. It never has the objects.

The files of a session: where they come from, and the refusal to go on without them.

The long-term memory of a session: where it comes from.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.errors import MissingDeps, MissingFiles, MisuseError
from callboard.actors.protocol.file_area import FileArea
from callboard.runtime.files.copying import mark_of
from callboard.runtime.files.files import Files
from callboard.runtime.http.settings import DEFAULT_HTTP, Http
from callboard.runtime.memory.access import Memory
from callboard.runtime.memory.opening import memory_at

FilesMaker: TypeAlias = Callable[[str, tuple[str, ...], object], Files | None]
FilesChoice: TypeAlias = Files | str | Path | FilesMaker | None
"""Files, a folder that may be read, or a function of a session's id, tags and metadata that returns files."""


def checked_files(given: FilesChoice) -> Files | FilesMaker | None:
    """Return files for a folder, and anything else as it is. Raises MisuseError for another object."""
    if isinstance(given, str | Path):
        return Files(given)
    if given is not None and not isinstance(given, Files) and not callable(given):
        raise MisuseError(
            f"files={given!r:.100}: use Files(folder), a folder, or a function that returns Files"
        )
    return given


def files_of(given: FilesChoice, session_id: str, tags: Sequence[str], metadata: object) -> Files | None:
    """Return the files of a session. Raises MisuseError if a function returns anything else."""
    given = checked_files(given)
    if given is None or isinstance(given, Files):
        return given
    made = given(session_id, tuple(tags), metadata)
    if made is not None and not isinstance(made, Files):
        raise MisuseError(
            f"the function files= returned {made!r:.100} for session {session_id}, which is not a Files"
        )
    return made


def refuse_other_files(
    session_id: str, recorded: FileArea | None, now: Files | None, copy: str | None
) -> None:
    """Refuse to go on with a session that had other files, or files at all.

    copy: the mark of the folder in which a fork works, empty for one that nobody checks; None without a copy.
    Raises MissingFiles.
    """
    if recorded is not None and (now is None or now.area.name != recorded.name):
        found = f"the files given are named {now.area.name!r}" if now else "no files are given"
        raise MissingFiles(
            f"session {session_id} has files named {recorded.name!r}, and {found}: pass "
            f"Runtime(files=Files(folder, name={recorded.name!r})), `resume(..., files=...)`, or "
            "`callboard resume --files FOLDER`"
        )
    if copy is None or (now is not None and (not copy or mark_of(session_id, now) == copy)):
        return
    raise MissingFiles(
        f"session {session_id} is a fork that works in a copy of the files, and another folder is given: "
        "pass the folder of the copy, by `resume(..., files=Files(...))` or `callboard resume --files "
        "FOLDER`, or fork again"
    )


MemoryMaker: TypeAlias = Callable[[str, tuple[str, ...], object], Memory | None]
MemoryChoice: TypeAlias = Memory | str | Path | MemoryMaker | None
"""A memory, its file or server, or a function of a session's id, tags and metadata that returns one."""


def checked_memory(given: MemoryChoice) -> Memory | MemoryMaker | None:
    """Return a memory for an address, and anything else as it is. Raises MisuseError for another object."""
    if isinstance(given, str | Path):
        return memory_at(given)
    if given is None or isinstance(given, Memory) or callable(given):
        return given
    raise MisuseError(
        f"memory={given!r:.100}: use a path, an object with remember, recall and forget, or a function that "
        "returns one"
    )


def memory_of(given: MemoryChoice, session_id: str, tags: Sequence[str], metadata: object) -> Memory | None:
    """Return the memory of a session. Raises MisuseError if a function returns anything else."""
    given = checked_memory(given)
    if given is None or isinstance(given, Memory):
        return given
    made = given(session_id, tuple(tags), metadata)
    if made is not None and not isinstance(made, Memory):
        raise MisuseError(
            f"the function memory= returned {made!r:.100} for session {session_id}, which is not a memory"
        )
    return made


class Given(NamedTuple):
    """The objects that one session is given in place of the runtime's; None for those of the runtime."""

    deps: object = None
    files: FilesChoice = None
    memory: MemoryChoice = None


class SessionDeps:
    """The objects of one session. current: of the latest ask; None for none. own: of asks that bring none.

    files, memory: that its tools may reach, None for none. http: the settings of its network. tags: of the
    session. left_out: the paths that the copy of a fork does not have.
    """

    def __init__(
        self,
        own: object,
        files: Files | None = None,
        http: Http = DEFAULT_HTTP,
        memory: Memory | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        self.current = self._own = own
        self.tags = tags
        self.files, self.http, self.memory = files, http, memory
        self.left_out: tuple[str, ...] = ()

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
