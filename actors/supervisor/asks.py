"""Asks: the client opens the session, asks, cancels and closes; the supervisor concludes each ask.

An ask is a delegation by the client, with the host as its only racer. The first end in the log decides its
outcome. `AskEnded` follows when every agent has drained, or when the grace for that is over.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, HOST, names_agent
from callboard.actors.protocol.client_messages import Ask, AskEnded, Cancel, SessionClosed, SessionOpened
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.labels import united
from callboard.actors.protocol.layers import own_layers
from callboard.actors.protocol.limits import Limits, fill, micro, millis, narrow
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.profiles import Profile
from callboard.actors.protocol.usage import NOTHING, ZERO, Usage, minus
from callboard.actors.supervisor.contracts import roster_of
from callboard.actors.supervisor.delegating import ask_schema
from callboard.actors.supervisor.ending import end_agent, end_delegation, stop_below, stop_one
from callboard.actors.supervisor.latching import bounds_questions
from callboard.actors.supervisor.resolving import CHECKED_AGAIN_SINCE
from callboard.actors.supervisor.rights import model_refusal
from callboard.actors.supervisor.state import (
    Agents,
    AskOutcome,
    AskState,
    Budget,
    Delegation,
    Record,
    SupervisorState,
    Timer,
)
from callboard.actors.supervisor.tool_changes import changed_profile
from callboard.actors.supervisor.unit_of_work import UnitOfWork

_HOST_ORDINAL: Final = 0


def on_opened(work: UnitOfWork, opened: SessionOpened) -> None:
    """Open the session with its profiles, model and limits."""
    if work.state.phase != "new":
        return
    profiles = read_profiles(opened.profiles)
    if profiles is None:
        return  # asks will be refused: the session is not open
    work.update_session(
        phase="open",
        host_name=opened.host,
        profiles=profiles,
        model=opened.model,
        limits=fill(opened.limits),
        capacity=opened.capacity,
        scopes=opened.scopes,
        permissions=opened.permissions,
        rules=opened.rules,
    )


def read_profiles(raws: tuple[Json, ...]) -> dict[str, tuple[Profile, Json]] | None:
    """Return profiles by name, with their bytes; None if one of them is invalid."""
    try:
        read = [msgspec.json.decode(raw, type=Profile) for raw in raws]
    except (msgspec.DecodeError, RecursionError):
        return None
    return {profile.name: (profile, raw) for profile, raw in zip(read, raws, strict=True)}


def take_agents(work: UnitOfWork, agents: Agents) -> None:
    """Let the session have these agents from now on. Living ones stay as they are."""
    model = agents.model or work.state.model
    work.update_session(host_name=agents.host_name, profiles=agents.profiles, model=model, host_tools=None)


# --- the start of an ask ----------------------------------------------------------


def on_ask(work: UnitOfWork, ask: Ask) -> None:
    """Start an ask, or refuse it while another one runs or drains, and after the end of the session."""
    refusal = _why_refused(work.state, ask)
    if refusal:
        work.post(CLIENT, AskEnded(ask.request_id, "denied", detail=refusal, by=work.seq))
        return
    state = work.state
    profile = state.profiles[state.host_name][0]
    limits = narrow(narrow(state.limits, profile.limits), ask.limits)
    asked = ask if ask.schema != NULL else profile
    schema = asked.schema
    delegation = Delegation(
        key=work.seq, turn=0, call=0, racers=(_HOST_ORDINAL,), schema=schema, output_type=asked.output_type
    )
    host = work.record(HOST)
    spent = host.spent if host else ZERO
    timer = 0
    if limits.deadline_s is not None:
        timer = work.set_timer(Timer("deadline", HOST), millis(limits.deadline_s))
    running = AskState(
        request_id=ask.request_id,
        delegation=delegation,
        prompt=ask.prompt,
        limits=limits,
        own=ask.limits,
        labels=ask.labels,
        before=spent,
        deadline_timer=timer,
    )
    work.update_session(phase="asking", ask=running)
    if schema == NULL or work.has_accepted(schema):
        begin_host(work)
    else:
        work.put_delegation(CLIENT, replace(delegation, is_checking=True))
        ask_schema(work, CLIENT, delegation, CLIENT, "accept")


def _why_refused(state: SupervisorState, ask: Ask) -> str:
    """Return the reason to refuse an ask, in words for the client, or '' if it may start."""
    return _why_not_ready(state) or _why_not_priced(state, ask.limits) or _why_not_permitted(state)


def _why_not_ready(state: SupervisorState) -> str:
    if state.is_closing:
        return "the session is closed"
    if state.phase == "asking":
        return "another ask is running"
    if state.phase != "open":
        return "the session is not open"
    if state.live:
        return f"agents of an earlier ask have not stopped yet ({state.live})"
    return _why_not_there(state)


def _why_not_there(state: SupervisorState) -> str:
    return "" if state.host_name in state.profiles else f"there is no agent '{state.host_name}'"


def _why_not_priced(state: SupervisorState, asked: Limits) -> str:
    profile = state.profiles[state.host_name][0]
    model = profile.own_model(state.model)
    is_costed = any(limits.cost_usd is not None for limits in (state.limits, profile.limits, asked))
    if is_costed and model.unpriced:
        return f"a cost limit applies and the prices of {model.unpriced} are not known"
    return ""


def _why_not_permitted(state: SupervisorState) -> str:
    profile = state.profiles[state.host_name][0]
    model = profile.own_model(state.model)
    return model_refusal(own_layers(state.permissions, profile.name, profile.permissions), model)


def begin_checked(work: UnitOfWork) -> None:
    """Begin the host once the schema of its ask is accepted, unless a resume has made it unfit meanwhile."""
    ask, state = work.state.ask, work.state
    assert ask is not None
    refusal = _why_not_there(state)
    if not refusal and state.rules >= CHECKED_AGAIN_SINCE:
        refusal = _why_not_priced(state, ask.own) or _why_not_permitted(state)
    if refusal:
        end_delegation(work, CLIENT, ask.delegation, "denied", detail=refusal)
    else:
        begin_host(work)


def begin_host(work: UnitOfWork) -> None:
    """Begin the host on the running ask. The host keeps its conversation from ask to ask."""
    ask, state, former = work.state.ask, work.state, work.record(HOST)
    assert ask is not None
    profile, raw = state.profiles[state.host_name]
    if state.host_tools is not None:
        profile, raw = changed_profile(profile, state.host_tools)
    record = Record(
        address=HOST,
        ordinal=_HOST_ORDINAL,
        delegation=ask.delegation.key,
        profile=profile,
        model=profile.model_below(state.model),
        limits=ask.limits,
        depth=0,
        budget=host_budget(narrow(state.limits, profile.limits), ask.own, ask.before),
        spent=ask.before,
        deadline_timer=ask.deadline_timer,
        # No address occurs twice in a session.
        next_ordinal=former.next_ordinal if former else 1,
        handed=state.permissions,
        labels=united(former.labels if former else (), ask.labels),
    )
    work.put_delegation(CLIENT, replace(ask.delegation, running=1, is_checking=False))
    work.add(record)
    work.update_session(live=state.live + 1, agents=max(1, state.agents))
    roster, callees = roster_of(state, profile, 0, ask.limits)
    begin = Begin(
        profile=raw,
        prompt=ask.prompt,
        model=profile.own_model(record.model),
        limits=ask.limits,
        schema=ask.delegation.schema,
        roster=roster,
        permissions=record.permissions,
        labels=ask.labels,
        callees=callees,
        rules=state.rules,
        bounds_questions=bounds_questions(state.rules, profile, ask.own),
    )
    work.post(HOST, begin)


def host_budget(session: Limits, ask: Limits, spent: Usage) -> Budget:
    """Return the host's budget: the session's limits count from its start, the ask's from now."""
    return Budget(
        _least(session.tokens, ask.tokens, spent.tokens),
        _least(micro(session.cost_usd), micro(ask.cost_usd), spent.micro_usd),
    )


def _least(session: int | None, ask: int | None, spent: int) -> int | None:
    bounds = [bound for bound in (session, None if ask is None else spent + ask) if bound is not None]
    return min(bounds, default=None)


# --- the end of an ask ------------------------------------------------------------


def on_deadline(work: UnitOfWork) -> None:
    """End an ask whose deadline has passed while its schema was checked."""
    ask = work.state.ask
    if ask is not None and ask.delegation.is_checking:
        end_delegation(work, CLIENT, ask.delegation, "deadline")


def on_cancel(work: UnitOfWork, cancel: Cancel) -> None:
    """Cancel the running ask and stop every agent, or one agent with all below it."""
    if cancel.address in ("", HOST):
        cancel_ask(work, cancel.reason)
    elif names_agent(cancel.address):
        end_agent(work, cancel.address, "cancelled", cancel.reason)


def cancel_ask(work: UnitOfWork, reason: str) -> None:
    """Cancel the running ask and stop every agent."""
    ask = work.state.ask
    if ask is None or ask.outcome is not None:
        return
    stop_below(work, HOST)
    stop_one(work, HOST, "cancelled")
    end_delegation(work, CLIENT, ask.delegation, "cancelled", detail=reason)


def on_close(work: UnitOfWork) -> None:
    """Close the session, and cancel a running ask first."""
    if work.state.phase == "new":
        return
    work.update_session(is_closing=True)
    if work.state.phase == "asking":
        cancel_ask(work, "the session was closed")
    else:
        _close(work)


def _close(work: UnitOfWork) -> None:
    host = work.record(HOST)
    work.update_session(phase="closed")
    work.post(CLIENT, SessionClosed(host.spent if host else ZERO))


def conclude(work: UnitOfWork, is_grace_over: bool = False) -> None:
    """Post the outcome of an ask once every agent has drained or the grace is over."""
    ask = work.state.ask
    if ask is None or ask.outcome is None:
        return
    work.cancel_timer(ask.deadline_timer)
    if work.state.live and not is_grace_over:
        _start_grace(work, ask)
        return
    work.cancel_timer(ask.grace_timer)
    later = work.state.later
    work.update_session(ask=None, phase="open", later=None)
    if later is not None:
        take_agents(work, later)
    work.post(CLIENT, _ended(work, ask, ask.outcome))
    if work.state.is_closing:  # a close that came during the ask has waited for its outcome
        _close(work)


def _start_grace(work: UnitOfWork, ask: AskState) -> None:
    """Set the timer of the grace, unless it runs or only a host that finishes by itself is left."""
    if not ask.grace_timer and _has_stragglers(work):
        timer = work.set_timer(Timer("grace"), millis(ask.limits.cancel_grace_s))
        work.update_session(ask=replace(ask, grace_timer=timer))


def _ended(work: UnitOfWork, ask: AskState, outcome: AskOutcome) -> AskEnded:
    host = work.record(HOST)
    return AskEnded(
        request_id=ask.request_id,
        kind=outcome.kind,
        value=outcome.value,
        text=outcome.text,
        detail=outcome.detail,
        usage=minus(host.spent if host else ZERO, ask.before),
        unsettled=host.reserved if host else NOTHING,
        by=outcome.by,
        in_doubt=tuple(_undrained(work)) if work.state.live else (),
        labels=outcome.labels,
    )


def _has_stragglers(work: UnitOfWork) -> bool:
    """Return False if the only agent left is a host that finishes by itself, after its report has won.

    Any other end of an ask stops the host, unless the host has drained.
    """
    host = work.record(HOST)
    assert host is not None
    return host.is_stopped or host.children.size > 0


def _undrained(work: UnitOfWork) -> list[str]:
    """Return the addresses of the agents that have not drained, each before those below it."""
    found, rest = [], [HOST]
    while rest:
        record = work.record(rest.pop())
        if record is not None:
            if not record.is_drained:
                found.append(record.address)
            rest += [child.address for child in record.children.values()][::-1]
    return found
