"""Resuming: a resume may change the profiles, the model and the limits of a session, and extend deadlines.

Living agents keep their profile, model, limits and rights. Agents that begin after the resume get the new
ones, or, with `from_next_ask`, those that begin after the running ask. The rights of a session are narrowed
by a resume, never widened. A closed session that is reopened goes on: its conversation, its agents' ordinals
and its spending continue. Requests and delegations that wait are looked at again under new limits.
"""

from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLOCK, HOST
from callboard.actors.protocol.client_messages import Forked, Resumed
from callboard.actors.protocol.layers import all_added
from callboard.actors.protocol.limits import Limits, fill, narrow
from callboard.actors.protocol.port_messages import ExtendTimer
from callboard.actors.supervisor.asks import host_budget, read_profiles, take_agents
from callboard.actors.supervisor.line import wake_along
from callboard.actors.supervisor.resolving import CHECKED_AGAIN_SINCE
from callboard.actors.supervisor.state import Agents, SupervisorState
from callboard.actors.supervisor.unit_of_work import UnitOfWork

LOOKED_AT_SINCE: Final = 2
"""The first rules under which new limits let go on what waits for room, or for a place."""


def on_resumed(work: UnitOfWork, resumed: Resumed) -> None:
    """Apply the changes with which another process resumes the session."""
    if work.state.phase == "new":
        return
    # Only a resume that says so: an ordinary one may follow a `Close` that the last process did not handle.
    if work.state.phase == "closed" and resumed.reopens:
        work.update_session(phase="open", is_closing=False)
    _replace_agents(work, resumed)
    work.update_session(permissions=all_added(work.state.permissions, resumed.permissions))
    if resumed.limits is not None:
        _bound(work, fill(resumed.limits))
    if resumed.capacity is not None:
        work.update_session(capacity=resumed.capacity)
    if resumed.scopes is not None:
        work.update_session(scopes=resumed.scopes)
    if resumed.extend_ms:
        _extend(work, resumed.extend_ms)


def on_forked(work: UnitOfWork, forked: Forked) -> None:
    """Apply the changes with which the session begins as a fork."""
    on_resumed(work, forked.resumed)


def _replace_agents(work: UnitOfWork, resumed: Resumed) -> None:
    """Take the new agents, now or for the next ask."""
    agents = _changed(work.state, resumed)
    if agents is None:
        return
    if resumed.from_next_ask and work.state.ask is not None:
        work.update_session(later=agents)
    else:
        work.update_session(later=None)
        take_agents(work, agents)
        if work.state.rules >= CHECKED_AGAIN_SINCE and _is_waiting(work):
            _bound(work, work.state.limits)


def _changed(state: SupervisorState, resumed: Resumed) -> Agents | None:
    """Return the new agents; None for no change."""
    profiles = read_profiles(resumed.profiles)
    if profiles is None or not (resumed.profiles or resumed.model):
        return None
    former = state.later or Agents(state.host_name, state.profiles)
    named = replace(former, host_name=resumed.host, profiles=profiles) if profiles else former
    return replace(named, model=resumed.model or former.model)


def _bound(work: UnitOfWork, limits: Limits) -> None:
    """Set the limits of the session and of the running ask. Amounts spent and reserved stay."""
    work.update_session(limits=limits)
    ask, host = work.state.ask, work.record(HOST)
    if ask is None:
        return
    own = narrow(limits, _limits_of_host(work))
    ask = replace(ask, limits=narrow(own, ask.own))
    work.update_session(ask=ask)
    if host is not None and not _is_waiting(work):
        work.update_record(HOST, limits=ask.limits, budget=host_budget(own, ask.own, ask.before))
        if work.state.rules >= LOOKED_AT_SINCE:
            wake_along(work, [host])
            work.free_places(HOST, 0)


def _is_waiting(work: UnitOfWork) -> bool:
    """Return True if the running ask waits for the check of its schema, so that its host has not begun."""
    ask = work.state.ask
    return ask is not None and ask.delegation.is_checking


def _limits_of_host(work: UnitOfWork) -> Limits:
    """Return the limits in the profile of the host that works on the running ask, or will."""
    host, state = work.record(HOST), work.state
    if host is not None and state.rules >= CHECKED_AGAIN_SINCE and not _is_waiting(work):
        return host.profile.limits
    known = state.profiles.get(state.host_name)
    return known[0].limits if known is not None else Limits()


def _extend(work: UnitOfWork, by_ms: int) -> None:
    """Extend every running deadline. Back-offs and graces stay as they are."""
    for number, timer in work.state.timers.items():
        if timer.purpose == "deadline":
            work.post(CLOCK, ExtendTimer(number, by_ms))
