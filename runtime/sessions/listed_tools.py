"""The tools of a session that a source lists otherwise now: posted as a change of each agent that has it."""

import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.client_messages import ToolsChanged
from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.profiles import ToolsChange, ToolSpec
from callboard.actors.supervisor.state import SupervisorState
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_agents import SessionAgents
from callboard.runtime.tools.sources import ToolSource

logger = logging.getLogger("callboard.tools")


class ListedTools:
    """The tools that sources list for the agents of a session that is live on this board."""

    def __init__(self, session: Session, board: Board, found: SessionAgents) -> None:
        self._session = session
        self._board = board
        self._agents = found.agents

    def tell(self, source: ToolSource, known: Collection[str], now: Sequence[ToolSpec]) -> None:
        """Post the changes of a source's list.

        known: the names of the tools that it listed before. now: the tools that it lists.
        """
        with contextlib.suppress(CallboardError):  # the session has ended: nothing to tell
            self._session._check_open()
            for name, agent in self._agents.items():
                if source in agent.sources:
                    self._change(name, source.label, known, now)

    def _change(self, profile: str, label: str, known: Collection[str], now: Sequence[ToolSpec]) -> None:
        supervisor = self._board.core.states[SUPERVISOR]
        row = supervisor.profiles.get(profile) if isinstance(supervisor, SupervisorState) else None
        if row is None:
            return
        tools = changed_tools(row[0].tools, label, known, now)
        if tools != row[0].tools:
            self._board.submit_for_client(ToolsChanged(ToolsChange(tools, profile=profile)))


def changed_tools(
    current: tuple[ToolSpec, ...], label: str, known: Collection[str], now: Sequence[ToolSpec]
) -> tuple[ToolSpec, ...]:
    """Return an agent's tools after a change of a source's list.

    current: its tools before. label: of the source. known: the names that the source listed before; an agent
    without one of these was given other tools since, and does not get it back.
    """
    listed = {spec.name: spec for spec in now}
    kept = [_as_listed(spec, label, listed) for spec in current]
    names = {spec.name for spec in current}
    new = [spec for spec in now if not (spec.name in names or spec.name in known)]
    return (*(spec for spec in kept if spec is not None), *new)


def _as_listed(spec: ToolSpec, label: str, listed: Mapping[str, ToolSpec]) -> ToolSpec | None:
    """Return a tool of an agent after the change; None if the source has it no more."""
    if spec.origin is None or spec.origin.source != label:
        if spec.name in listed:
            logger.warning("the tool %s of %r is left out: the agent has another one", spec.name, label)
        return spec
    return listed.get(spec.name)
