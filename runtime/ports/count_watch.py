"""A warning for each model of which the counts of tokens cannot be right."""

import logging

from callboard.actors.agent.input_bound import is_doubted
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.port_messages import ModelReplied

logger = logging.getLogger("callboard.models")


class CountWatch:
    """Looks at the counts of the models of one runtime, and warns once of each model."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def look(self, state: object, reply: ModelReplied) -> None:
        """Warn of an answer whose count its agent will not believe. state: of the agent that asked."""
        if not isinstance(state, AgentState) or reply.status != "ok" or not is_doubted(state, reply.usage):
            return
        name = state.model.name
        if name in self._told:
            return
        self._told.add(name)
        logger.warning(
            "model %r reports a count of tokens that its prompt cannot have (%s): it is charged, and further "
            "calls are bounded by the bytes of the conversation instead",
            name,
            reply.usage,
        )
