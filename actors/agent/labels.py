"""The labels of an agent: they grow with the answers that it is given."""

from msgspec.structs import replace

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.labels import Labels, united
from callboard.actors.protocol.port_messages import ToolReturned


def labelled(state: AgentState, labels: Labels) -> AgentState:
    """Return the state of an agent that has read something with these labels."""
    if not labels:
        return state
    new = tuple(label for label in labels if label not in state.labels)
    if not new:
        return state
    return replace(state, labels=united(state.labels, new), new_labels=united(state.new_labels, new))


def labels_of_result(use: ToolUse, returned: ToolReturned) -> Labels:
    """Return the labels of a tool's answer to a call."""
    own = () if use.spec is None else use.spec.labels
    return united(own, returned.labels) if returned.labels else own
