"""How an agent comes to be: the checks of a delegation, and its start.

Ordinals and agent slots are taken when `Delegate` is handled, refused ones take an ordinal too, so that
addresses never depend on the order in which answers come back.
"""

from msgspec.structs import replace

from callboard.actors.addresses import CLIENT, SCHEMA, child_of, depth_of
from callboard.actors.base import NULL, Json
from callboard.actors.endings import Kind
from callboard.actors.limits import Limits, micro, millis, narrow
from callboard.actors.messages import Begin, CheckSchema, Delegate, DelegationEnded
from callboard.actors.profiles import Profile
from callboard.actors.supervisor_ending import end_delegation
from callboard.actors.supervisor_state import (
    Account,
    Check,
    Delegation,
    Record,
    SupervisorState,
    Timer,
)
from callboard.actors.supervisor_work import Work


def on_delegate(work: Work, sender: str, request: Delegate) -> None:
    """A `task` call: refuse it, ask whether its schema is good, or begin."""
    chain = work.chain(sender)
    if chain is None or not chain[-1].is_running:
        detail = "the agent that delegated has ended"
        work.post(
            sender, DelegationEnded(request.turn, request.call, "cancelled", detail=detail, by=work.seq)
        )
        return
    parent, count = chain[-1], len(request.profiles)
    first = parent.next_ordinal
    chain[-1] = replace(parent, next_ordinal=first + count)
    refusal = why_denied(work.state, chain, request)
    if refusal is not None:
        work.store(chain)
        kind, detail = refusal
        end = DelegationEnded(
            request.turn, request.call, kind, child_of(sender, first), detail=detail, by=work.seq
        )
        work.post(sender, end)
        return
    schema = request.schema
    if schema == NULL:
        schema = work.state.profiles[request.profiles[0]][0].schema
    delegation = Delegation(
        first, request.turn, request.call, tuple(range(first, first + count)), schema, request
    )
    chain[-1] = replace(
        chain[-1],
        turn_children=parent.turn_children + count,
        account=replace(parent.account, closing=request.closing),
        delegations=parent.delegations.put(first, delegation),
    )
    work.store(chain)
    work.change(agents=work.state.agents + count)
    begin_or_check(work, sender, delegation)


def why_denied(state: SupervisorState, chain: list[Record], request: Delegate) -> tuple[Kind, str] | None:
    """The rule that a delegation breaks, in words for the parent's model; None if it breaks none."""
    parent, count = chain[-1], len(request.profiles)
    limits = parent.limits
    if parent.depth >= (limits.max_depth or 0):
        return "denied", f"agents may nest {limits.max_depth} deep, and this one is at that depth"
    for name in request.profiles:
        if name not in parent.profile.agents or name not in state.profiles:
            return "denied", f"there is no agent {name[:100]!r} to delegate to"
    if parent.turn_children + count > (limits.max_children or 0):
        return "denied", f"at most {limits.max_children} delegations in one turn, racers counted singly"
    if state.agents + count > (state.limits.max_agents or 0):
        return "denied", f"at most {state.limits.max_agents} agents in one session"
    return _over_budget(state, chain, request)


def _over_budget(state: SupervisorState, chain: list[Record], request: Delegate) -> tuple[Kind, str] | None:
    for record in chain:
        account = record.account
        if account.tokens is not None and account.spent.tokens + request.closing.tokens >= account.tokens:
            return "budget", f"the token budget of {record.address} leaves nothing for a sub-agent"
        if account.cost is None:
            continue
        if account.spent.cost + request.closing.cost >= account.cost:
            return "budget", f"the cost budget of {record.address} leaves nothing for a sub-agent"
    is_costed = any(record.account.cost is not None for record in chain) or request.limits.cost is not None
    for name in request.profiles:
        profile = state.profiles[name][0]
        model = profile.model or chain[-1].model
        if model.prices is None and (is_costed or profile.limits.cost is not None):
            return "denied", f"a cost limit applies and the prices of {model.name} are not known"
    return None


def begin_or_check(work: Work, parent: str, delegation: Delegation) -> None:
    """Begin at once if the schema is known to be good; else ask the schema port first."""
    if delegation.schema == NULL or bytes(delegation.schema) in work.state.accepted:
        begin(work, parent, delegation)
        return
    work.keep(parent, replace(delegation, is_checking=True))
    ask_schema(work, parent, delegation, "accept", NULL)


def ask_schema(work: Work, parent: str, delegation: Delegation, task: str, value: Json) -> None:
    """Ask the schema port about a delegation's schema, or about a report against it."""
    number = work.state.next_check
    check = Check("accept" if task == "accept" else "report", parent, delegation.key)
    work.change(next_check=number + 1, checks=work.state.checks.put(number, check))
    timeout = millis(work.state.limits.schema_timeout_s, 5_000)
    work.post(SCHEMA, CheckSchema(number, check.task, delegation.schema, value, timeout))


def on_schema_accepted(work: Work, parent: str, delegation: Delegation) -> None:
    """The schema is good: remember that, and begin."""
    work.change(accepted=work.state.accepted | {bytes(delegation.schema)})
    delegation = replace(delegation, is_checking=False)
    work.keep(parent, delegation)
    begin(work, parent, delegation)


def on_schema_refused(work: Work, parent: str, delegation: Delegation, why: str) -> None:
    """The schema is not one we accept: nobody begins."""
    work.keep(parent, replace(delegation, is_checking=False))
    end_delegation(work, parent, delegation.key, "denied", detail=f"the output schema was refused: {why}")


def begin(work: Work, parent: str, delegation: Delegation) -> None:
    """Start everyone who works on a delegation of an agent."""
    request = delegation.request
    if parent == CLIENT or request is None:
        return
    chain = work.chain(parent)
    assert chain is not None
    record = chain[-1]
    children = record.children
    for ordinal, name in zip(delegation.copies, request.profiles, strict=True):
        child = _child(work, record, delegation, ordinal, name, request.limits)
        children = children.put(ordinal, child)
        roster = roster_of(work.state, child.profile, child.depth, child.limits)
        start = Begin(
            work.state.profiles[name][1],
            request.prompt,
            child.model,
            child.limits,
            delegation.schema,
            child.depth,
            roster,
        )
        work.post(child.address, start)
    delegation = replace(delegation, request=None, running=len(delegation.copies))
    chain[-1] = replace(
        record, children=children, delegations=record.delegations.put(delegation.key, delegation)
    )
    work.store(chain)
    work.change(live=work.state.live + len(delegation.copies))


def _child(
    work: Work, parent: Record, delegation: Delegation, ordinal: int, name: str, call: Limits
) -> Record:
    profile = work.state.profiles[name][0]
    address = child_of(parent.address, ordinal)
    own = narrow(profile.limits, call)
    above = replace(parent.limits, tokens=None, cost=None, deadline_s=None)
    timer = 0
    if own.deadline_s is not None:
        timer = work.set_timer(Timer("deadline", address), millis(own.deadline_s))
    return Record(
        address,
        ordinal,
        delegation.key,
        profile,
        profile.model or parent.model,
        narrow(above, own),
        depth_of(address),
        Account(own.tokens, micro(own.cost)),
        deadline_timer=timer,
    )


def roster_of(
    state: SupervisorState, profile: Profile, depth: int, limits: Limits
) -> tuple[tuple[str, str], ...]:
    """Whom an agent is told it may delegate to: nobody, at the depth limit."""
    if depth >= (limits.max_depth or 0):
        return ()
    return tuple(
        (name, state.profiles[name][0].description) for name in profile.agents if name in state.profiles
    )
