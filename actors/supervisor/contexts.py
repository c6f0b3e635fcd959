"""Contexts: a delegation begins when its schema is accepted and every context for its agents is made.

Rules
  - The context port is asked when `Delegate` is handled, beside the schema port. The last answer begins the
    agents.
  - A context that fails ends its delegation as `unavailable`. Answers that come later change nothing.
  - So does a resume that has taken one of its agents away, or made it want a context, in the meantime.
  - The parent's end ends the delegation, and with it the wait for its contexts.
"""

from msgspec.structs import replace

from callboard.actors.protocol.port_messages import ContextMade
from callboard.actors.supervisor.delegating import begin
from callboard.actors.supervisor.ending import end_delegation
from callboard.actors.supervisor.resolving import (
    CHECKED_AGAIN_SINCE,
    Denial,
    Profiles,
    resolve_again,
)
from callboard.actors.supervisor.state import Delegation
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def on_context_made(work: UnitOfWork, made: ContextMade) -> None:
    """Keep a context until its delegation begins, or end the delegation if the port gave no context."""
    delegation = work.delegation(made.parent, made.delegation)
    if delegation is None or not delegation.is_checking:
        return
    if made.status != "ok":
        why = f"{_lacking(work, made.profile)}: {made.detail or 'no reason was given'}"
        end_delegation(work, made.parent, delegation, "unavailable", detail=why)
        return
    contexts = (*delegation.contexts, (made.profile, made))
    begin_if_ready(work, made.parent, replace(delegation, contexts=contexts))


def _lacking(work: UnitOfWork, name: str) -> str:
    known = work.state.profiles.get(name)
    if known is not None and known[0].factory:
        return f"a new {name} could not be made"
    return f"the context for {name} could not be made"


def begin_if_ready(work: UnitOfWork, parent: str, delegation: Delegation) -> None:
    """Count one answer that a delegation has waited for. Begin it if that was the last."""
    if delegation.waits > 1:
        work.put_delegation(parent, replace(delegation, waits=delegation.waits - 1))
        return
    ancestry = work.ancestry(parent)
    assert ancestry is not None
    profiles = resolve_again(work.state, ancestry, delegation)
    if not isinstance(profiles, Denial):
        profiles = _unprepared(work, delegation, profiles) or profiles
    if isinstance(profiles, Denial):
        end_delegation(work, parent, delegation, profiles.kind, detail=profiles.detail)
    else:
        begin(work, parent, replace(delegation, waits=0), profiles)


def _unprepared(work: UnitOfWork, delegation: Delegation, profiles: Profiles) -> Denial | None:
    """Deny if an agent wants a context by now for which the port was not asked."""
    made = dict(delegation.contexts)
    for profile, _ in profiles if work.state.rules >= CHECKED_AGAIN_SINCE else ():
        if profile.is_prepared and profile.name not in made:
            why = "the session was resumed with another definition of it"
            return Denial("unavailable", f"{_lacking(work, profile.name)}: {why}")
    return None
