"""The agents that a runtime has run sessions with: those that a fork on command may use."""

from typing import Final

from callboard.runtime.agent import Agent

_KEPT_MAX: Final = 256
"""Hosts that are remembered of each kind: a service may make an agent for every session."""


class KnownHosts:
    """The latest hosts of a runtime, by session and by name.

    default: the host of `callboard ui --with`, for every session; None in other programs.
    """

    def __init__(self) -> None:
        self.default: Agent | None = None
        self._of_sessions: dict[str, Agent] = {}
        self._by_name: dict[str, Agent] = {}

    def note(self, session_id: str, host: Agent) -> None:
        """Remember the host of a session that runs here."""
        for known, key in ((self._of_sessions, session_id), (self._by_name, host.name)):
            known.pop(key, None)  # to the end: the oldest goes first
            known[key] = host
            if len(known) > _KEPT_MAX:
                del known[next(iter(known))]

    def find(self, session_id: str, name: str, *, is_imported: bool) -> Agent | None:
        """Return the host of a session, or else the latest one with its name; None for neither.

        is_imported: no agent of an imported session has run here, and one of the same name is another.
        """
        if self.default is not None or is_imported:
            return self.default
        return self._of_sessions.get(session_id) or self._by_name.get(name)
