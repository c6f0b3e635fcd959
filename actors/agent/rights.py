"""The permissions of an agent at its calls, and its labels, which grow with the answers that it is given.

A call may wait for a place or for a person, and the agent may meanwhile read something that changes its
rights. So the check is made at the end of the wait, when the `CallTool` is posted, also of a call that passed
it before.
"""

from msgspec.structs import replace

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.labels import Labels, united
from callboard.actors.protocol.layers import refusal_of, refused_by
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.profiles import ToolSpec
from callboard.actors.protocol.refusals import denied, not_called


def call_refusal(state: AgentState, use: ToolUse) -> str:
    """Return the answer to a call that the agent's permissions forbid; empty if the call may run."""
    if not state.permissions or use.spec is None:
        return ""
    refusal = _refusal(state, use.spec)
    return not_called(refusal) if refusal else ""


def _refusal(state: AgentState, spec: ToolSpec) -> str:
    layers = state.permissions
    for entry, name in (("tools", spec.name), ("effects", spec.effect)):
        if by := refused_by(layers, entry, name):
            return denied(entry, name, by)
    for capability in spec.capabilities:
        if found := refusal_of(layers, capability, state.labels):
            return denied("capabilities", capability, found.by, found.label)
    return ""


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
