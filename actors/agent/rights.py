"""The permissions of an agent at its calls: one check of each call, when its `CallTool` is posted.

A call may wait for a place or for a person, and the agent may meanwhile read something that changes its
rights. So the check is made at the end of the wait, also of a call that passed it before.
"""

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.layers import refusal_of, refused_by
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
