"""Agents with a contract, or of a factory: what their callers are told, and which calls cannot begin.

Rules
  - A caller is told the contracts of the agents that it may call, and no model is told their presets.
  - An agent that was found broken is `unavailable`: no call of it begins.
  - The end of each delegation to a known agent has metadata, which no model reads.
"""

from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.contracts import Callee, callees_of
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.folded_results import fits_folded, response_of, with_problems_cut
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.actors.protocol.profiles import Profile
from callboard.actors.protocol.value_types import CallMetadata
from callboard.actors.supervisor.state import SupervisorState

ROOMS_HOLD_SINCE: Final = 2
"""The rules of a session from which on the result of an agent tool is never longer than its room."""


NAMED_SINCE: Final = 2
"""The rules of a session from which on the error for an unknown agent names those that there are."""

_NAMES_TOLD: Final = 20


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


def names_told(state: SupervisorState, profile: Profile) -> str:
    """Return the agents that a `task` call of an agent may name, as the end of the error for another name."""
    known = [state.profiles[name][0] for name in profile.agents if name in state.profiles]
    names = [one.name for one in known if not one.has_contract]
    if state.rules < NAMED_SINCE or not names:
        return ""
    more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
    return f"; there are: {', '.join(names[:_NAMES_TOLD])}{more}"


def why_unfit(state: SupervisorState, request: Delegate) -> tuple[OutcomeKind, str] | None:
    """Return a denial if one of the agents is broken, or is given an input of the wrong form."""
    if request.implicit != NULL:
        return None
    for name in request.profiles:
        profile = state.profiles[name][0]
        if profile.unavailable:
            return "unavailable", profile.unavailable
        if refusal := _why_wrong_form(profile, request):
            return "denied", refusal
    return None


def _why_wrong_form(profile: Profile, request: Delegate) -> str:
    if profile.has_contract != (request.input != NULL):
        wanted = "the fields of its contract" if profile.has_contract else "a prompt"
        return f"agent '{profile.name}' takes {wanted}"
    is_alone = not profile.has_contract or profile.name == request.profiles[0]
    return "" if is_alone else "agents with different contracts cannot race"


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
    if not callee or callee not in state.profiles:
        return end
    profile = state.profiles[callee][0]
    is_folded = profile.is_folded
    if is_folded and state.rules >= ROOMS_HOLD_SINCE:
        is_folded = fits_folded(end)
        end = with_problems_cut(end) if is_folded else end
    response = response_of(end, is_folded=is_folded)
    return replace(end, metadata=CallMetadata(callee, supervisor, response, profile.context))
