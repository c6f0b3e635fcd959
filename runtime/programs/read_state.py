"""The shared state of a session, as a program reads it."""

from typing import Any

import msgspec

from callboard.runtime.programs.run import ProgramRun
from callboard.runtime.tools.shared_state import is_key_name


class ProgramState:
    """The shared state as a program reads it: `ctx.state["key"]`, and nothing else.

    The log keeps the values that a step has read, for its re-execution. Therefore this is not a mapping,
    because going through all keys would put the whole state into the log.
    """

    __slots__ = ("_run",)

    __iter__ = None  # else Python would look for the keys 0, 1, 2 ...
    __contains__ = None

    def __init__(self, run: ProgramRun) -> None:
        self._run = run

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key, as a new Python value. Raises KeyError for an undeclared key."""
        if not is_key_name(key):  # it cannot be declared, and the log may not be able to hold it
            raise KeyError(f"{key!r:.80} is not a name of a state key")
        return msgspec.json.decode(self._run.state_of(key))
