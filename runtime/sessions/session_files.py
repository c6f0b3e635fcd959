"""The files of a session: where they come from, and the refusal to go on without them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from callboard.actors.protocol.errors import MissingFiles, MisuseError
from callboard.actors.protocol.file_area import FileArea
from callboard.runtime.files.files import Files

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


def refuse_without_files(session_id: str, recorded: FileArea | None, now: Files | None) -> None:
    """Refuse to go on with a session that had other files, or files at all. Raises MissingFiles."""
    if recorded is None or (now is not None and now.area.name == recorded.name):
        return
    found = f"the files given are named {now.area.name!r}" if now else "no files are given"
    raise MissingFiles(
        f"session {session_id} has files named {recorded.name!r}, and {found}: pass "
        f"Runtime(files=Files(folder, name={recorded.name!r})), `resume(..., files=...)`, or "
        "`callboard resume --files FOLDER`"
    )
