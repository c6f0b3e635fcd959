"""The long-term memory of a session: where it comes from."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.memory.access import Memory
from callboard.runtime.memory.sqlite import SQLiteMemory

MemoryMaker: TypeAlias = Callable[[str, tuple[str, ...], object], Memory | None]
MemoryChoice: TypeAlias = Memory | str | Path | MemoryMaker | None
"""A memory, the path of its file, or a function of a session's id, tags and metadata that returns one."""


def checked_memory(given: MemoryChoice) -> Memory | MemoryMaker | None:
    """Return a memory for a path, and anything else as it is. Raises MisuseError for another object."""
    if isinstance(given, str | Path):
        return SQLiteMemory(given)
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
