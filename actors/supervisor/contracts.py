"""Agents with a contract, or of a factory: what their callers are told, first and last.

Rules
  - A caller is told the contracts of the agents that it may call, and no model is told their presets.
  - The end of each delegation to a known agent has metadata, which no model reads.
"""

from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.contracts import Callee, callees_of
from callboard.actors.protocol.folded_results import fits_folded, response_of, with_problems_cut
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.actors.protocol.profiles import Profile
from callboard.actors.protocol.value_types import CallMetadata
from callboard.actors.supervisor.state import SupervisorState

ROOMS_HOLD_SINCE: Final = 2
"""The rules of a session from which on the result of an agent tool is never longer than its room."""


def roster_of(
    state: SupervisorState, profile: Profile, depth: int, limits: Limits
) -> tuple[tuple[tuple[str, str], ...], tuple[Callee, ...]]:
    """Return name and description of the agents that an agent may delegate to; none at the depth limit.

    The second part tells of those among them that it does not call as any other.
    """
    if depth >= (limits.max_depth or 0):
        return (), ()
    known = [state.profiles[name][0] for name in profile.agents if name in state.profiles]
    return tuple((one.name, one.description) for one in known), callees_of(known)


def callee_of(state: SupervisorState, request: Delegate) -> str:
    """Return the agent that the end of a delegation names; empty for a question to a model."""
    known = state.profiles.get(request.profiles[0]) if request.implicit == NULL else None
    return known[0].name if known is not None else ""


def described_end(
    state: SupervisorState, end: DelegationEnded, supervisor: str, callee: str
) -> DelegationEnded:
    """Add the metadata to the end of a delegation.

    supervisor: the profile of its caller. callee: as `callee_of` has it.
    """
    if callee not in state.profiles:  # as for a question to a model, whose callee is empty
        return end
    profile = state.profiles[callee][0]
    is_folded = profile.is_folded
    if is_folded and state.rules >= ROOMS_HOLD_SINCE:
        is_folded = fits_folded(end)
        end = with_problems_cut(end) if is_folded else end
    response = response_of(end, is_folded=is_folded)
    return replace(end, metadata=CallMetadata(callee, supervisor, response, profile.context))
