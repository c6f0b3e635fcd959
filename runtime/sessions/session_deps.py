"""The object that a program hands to its tools: of the runtime, or of one ask. It is never logged.

The log has the name of its type, so that an ask is not resumed without one.
"""

from collections.abc import Sequence

from callboard.actors.protocol.errors import MissingDeps


class SessionDeps:
    """The object of one session. current: of the latest ask; None for none. own: of asks that bring none."""

    def __init__(self, own: object) -> None:
        self.current = self._own = own

    def now(self) -> object:
        """Return the object of the latest ask."""
        return self.current

    def take(self, given: object) -> str:
        """Take the object of a new ask, None for the session's own. Return the name of its type, or ''."""
        self.current = self._own if given is None else given
        kind = type(self.current)
        return "" if self.current is None else f"{kind.__module__}.{kind.__qualname__}"


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
