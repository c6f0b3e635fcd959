"""What the client may do: open the session, ask, cancel, close; and when an ask is over.

An ask is a delegation by the client whose only copy is the host. Its outcome is settled by the first end
in the log; `AskEnded` is posted when every agent has drained, or when the grace for that is over.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors.addresses import CLIENT, HOST
from callboard.actors.base import NULL
from callboard.actors.limits import fill, micro, millis, narrow
from callboard.actors.messages import (
    Ask,
    AskEnded,
    Begin,
    SessionClosed,
    SessionOpened,
)
from callboard.actors.profiles import Profile
from callboard.actors.supervisor_delegating import ask_schema, roster_of
from callboard.actors.supervisor_ending import end_delegation, stop_below, stop_one
from callboard.actors.supervisor_state import Account, AskState, Delegation, Record, Timer
from callboard.actors.supervisor_work import Work
from callboard.actors.usage import ZERO, Need, minus

_HOST_KEY: Final = 0


def on_opened(work: Work, opened: SessionOpened) -> None:
    """The first event: who may appear, and what bounds them."""
    if work.state.phase != "new":
        return
    profiles = {}
    for raw in opened.profiles:
        profile = msgspec.json.decode(raw, type=Profile)
        profiles[profile.name] = (profile, raw)
    work.change(
        phase="open",
        host_name=opened.host,
        profiles=profiles,
        model=opened.model,
        limits=fill(opened.limits),
    )


def on_ask(work: Work, ask: Ask) -> None:
    """A prompt for the host; refused while another one runs or drains, and after the end."""
    state = work.state
    if state.phase != "open" or state.live or state.is_closing or state.host_name not in state.profiles:
        work.post(CLIENT, AskEnded(ask.request_id, "denied", detail=_why_refused(work), by=work.seq))
        return
    profile = state.profiles[state.host_name][0]
    schema = ask.schema if ask.schema != NULL else profile.schema
    delegation = Delegation(_HOST_KEY, 0, 0, (_HOST_KEY,), schema)
    before = state.host.account.spent if state.host else ZERO
    running = AskState(ask.request_id, delegation, before, prompt=ask.prompt, limits=ask.limits)
    work.change(phase="asking", ask=running)
    if schema == NULL or bytes(schema) in state.accepted:
        begin_host(work)
    else:
        work.keep(CLIENT, replace(delegation, is_checking=True))
        ask_schema(work, CLIENT, delegation, "accept", NULL)


def _why_refused(work: Work) -> str:
    if work.state.phase == "asking" or work.state.live:
        return "another ask is running"
    return "the session is closed" if work.state.phase == "closed" else "the session is not open"


def begin_host(work: Work) -> None:
    """Give the running ask to the host, which keeps its conversation from ask to ask."""
    ask, state = work.state.ask, work.state
    assert ask is not None
    profile, raw = state.profiles[state.host_name]
    limits = narrow(narrow(state.limits, profile.limits), ask.limits)
    spent = ask.before
    account = Account(
        _least(narrow(state.limits, profile.limits).tokens, ask.limits.tokens, spent.tokens),
        _least(micro(narrow(state.limits, profile.limits).cost), micro(ask.limits.cost), spent.cost),
        spent,
    )
    timer = 0
    if limits.deadline_s is not None:
        timer = work.set_timer(Timer("deadline", HOST), millis(limits.deadline_s))
    old = state.host
    record = Record(
        HOST,
        _HOST_KEY,
        _HOST_KEY,
        profile,
        profile.model or state.model,
        limits,
        0,
        account,
        deadline_timer=timer,
        next_ordinal=old.next_ordinal if old else 1,
    )
    work.keep(CLIENT, replace(ask.delegation, running=1, is_checking=False))
    work.change(host=record, live=work.state.live + 1, agents=max(1, work.state.agents))
    roster = roster_of(state, profile, 0, limits)
    work.post(HOST, Begin(raw, ask.prompt, record.model, limits, ask.delegation.schema, 0, roster))


def _least(session: int | None, ask: int | None, spent: int) -> int | None:
    """The session's limit counts from its start, the ask's from now."""
    bounds = [bound for bound in (session, None if ask is None else spent + ask) if bound is not None]
    return min(bounds, default=None)


def on_cancel(work: Work, reason: str) -> None:
    """Stop the running ask and all under it, at once."""
    ask = work.state.ask
    if ask is None or ask.outcome is not None:
        return
    host = work.state.host
    stop_below(work, HOST)
    stop_one(work, HOST, "cancelled")
    text = host.text if host else ""
    end_delegation(work, CLIENT, _HOST_KEY, "cancelled", text=text, detail=reason)


def on_close(work: Work) -> None:
    """End the session; a running ask is cancelled first."""
    if work.state.phase in ("closed", "new") or work.state.is_closing:
        return
    work.change(is_closing=True)
    if work.state.phase == "asking":
        on_cancel(work, "the session was closed")
    else:
        _closed(work)


def _closed(work: Work) -> None:
    host = work.state.host
    work.change(phase="closed")
    work.post(CLIENT, SessionClosed(host.account.spent if host else ZERO))


def conclude(work: Work, is_grace_over: bool = False) -> None:
    """Post the outcome of an ask that is settled, once everything has drained or the grace is over."""
    ask = work.state.ask
    if ask is None or ask.outcome is None:
        return
    if work.state.live and not is_grace_over:
        if not ask.grace_timer and _has_stragglers(work):
            timer = work.set_timer(Timer("grace"), millis(work.state.limits.cancel_grace_s, 10_000))
            work.change(ask=replace(ask, grace_timer=timer))
        return
    work.cancel_timer(ask.grace_timer)
    host, outcome = work.state.host, ask.outcome
    spent = host.account.spent if host else ZERO
    work.change(ask=None, phase="open")
    ended = AskEnded(
        ask.request_id,
        outcome.kind,
        outcome.value,
        outcome.text,
        outcome.detail,
        minus(spent, ask.before),
        host.account.reserved if host else Need(),
        outcome.by,
        tuple(_undrained(host)) if host and work.state.live else (),
    )
    work.post(CLIENT, ended)
    if work.state.is_closing:
        _closed(work)


def _has_stragglers(work: Work) -> bool:
    """Whether anyone but a host whose report has just won, and who will finish by itself, is left."""
    host = work.state.host
    is_finishing = host is not None and not host.is_drained and not host.children.size
    ask = work.state.ask
    won = ask is not None and ask.outcome is not None and ask.outcome.kind == "reported"
    return not (won and is_finishing and work.state.live == 1)


def _undrained(record: Record) -> list[str]:
    found = [] if record.is_drained else [record.address]
    for child in record.children.values():
        found += _undrained(child)
    return found
