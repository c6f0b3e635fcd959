"""How an agent comes to be: the checks of a delegation, and its start.

Ordinals and agent slots are taken when `Delegate` is handled, refused ones take an ordinal too, so that
addresses never depend on the order in which answers come back.
"""

from msgspec.structs import replace

from callboard.actors.protocol.addresses import SCHEMA, child_of, depth_of
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits, handed_down, micro, millis, narrow
from callboard.actors.protocol.messages import Begin, CheckSchema, Delegate, DelegationEnded
from callboard.actors.protocol.profiles import Profile
from callboard.actors.supervisor.state import (
    Budget,
    Check,
    CheckTask,
    Delegation,
    Record,
    SchemaVerdict,
    SupervisorState,
    Timer,
)
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def on_delegate(work: UnitOfWork, sender: str, request: Delegate) -> None:
    """A `task` call: refuse it, ask whether its schema is good, or begin."""
    chain = work.chain(sender)
    if chain is None or not chain[-1].is_running:
        detail = "the agent that delegated has ended"
        end = DelegationEnded(request.turn, request.call, "cancelled", detail=detail, by=work.seq)
        work.post(sender, end)
        return
    parent, count = chain[-1], len(request.profiles)
    first = parent.next_ordinal
    work.update_record(sender, next_ordinal=first + count)
    refusal = why_denied(work.state, chain, request)
    if refusal is not None:
        kind, detail = refusal
        address = child_of(sender, first)
        work.post(
            sender, DelegationEnded(request.turn, request.call, kind, address, detail=detail, by=work.seq)
        )
        return
    _take_on(work, parent, first, request)


def _take_on(work: UnitOfWork, parent: Record, first: int, request: Delegate) -> None:
    """A delegation that nothing forbids: its slots are taken now, its schema may still be refused."""
    count = len(request.profiles)
    schema = request.schema
    if schema == NULL:
        schema = work.state.profiles[request.profiles[0]][0].schema
    racers = tuple(range(first, first + count))
    delegation = Delegation(first, request.turn, request.call, racers, schema, request)
    work.update_record(
        parent.address,
        turn_children=parent.turn_children + count,
        budget=replace(parent.budget, closing=request.closing),
    )
    work.update_session(agents=work.state.agents + count)
    seen = work.schema_verdict(schema) if schema != NULL else None
    if schema == NULL or (seen is not None and seen.is_good):
        begin(work, parent.address, delegation)
        return
    delegation = replace(delegation, is_checking=True)
    work.put_delegation(parent.address, delegation)
    if seen is None or not _waits(work, parent.address, delegation, seen):
        ask_schema(work, parent.address, delegation, parent.address, "accept")


def why_denied(
    state: SupervisorState, chain: list[Record], request: Delegate
) -> tuple[OutcomeKind, str] | None:
    """The rule that a delegation breaks, in words for the parent's model; None if it breaks none."""
    parent, count = chain[-1], len(request.profiles)
    limits = parent.limits
    if parent.depth >= (limits.max_depth or 0):
        return "denied", f"agents may nest {limits.max_depth} deep, and this one is at that depth"
    if not count:
        return "denied", "a delegation names at least one agent"
    for name in request.profiles:
        if name not in parent.profile.agents or name not in state.profiles:
            return "denied", f"there is no agent '{name[:100]}' to delegate to"
    if parent.turn_children + count > (limits.max_children or 0):
        return "denied", f"at most {limits.max_children} delegations in one turn, racers counted singly"
    if state.agents + count > (limits.max_agents or 0):
        return "denied", f"at most {limits.max_agents} agents in one session"
    return _over_budget(state, chain, request)


def _over_budget(
    state: SupervisorState, chain: list[Record], request: Delegate
) -> tuple[OutcomeKind, str] | None:
    """Whether nothing is left for a sub-agent: any turn uses a token, but one may cost nothing."""
    closing = request.closing
    for record in chain:
        budget, spent = record.budget, record.spent
        if budget.tokens is not None and spent.tokens + closing.tokens >= budget.tokens:
            return "budget", f"the token budget of {record.address} leaves nothing for a sub-agent"
        if budget.cost is not None and spent.cost + closing.cost > budget.cost:
            return "budget", f"the cost budget of {record.address} leaves nothing for a sub-agent"
    is_costed = any(record.budget.cost is not None for record in chain) or request.limits.cost is not None
    for name in request.profiles:
        profile = state.profiles[name][0]
        model = profile.model or chain[-1].model
        if model.prices is None and (is_costed or profile.limits.cost is not None):
            return "denied", f"a cost limit applies and the prices of {model.name} are not known"
    return None


def _waits(work: UnitOfWork, parent: str, delegation: Delegation, seen: SchemaVerdict) -> bool:
    """Wait for the check of this schema that is under way, if it has the time that this one would have."""
    check = work.state.checks.get(seen.check)
    if check is None or seen.timeout_ms != _timeout_ms(work, parent):
        return False
    others = check.others.append((parent, delegation.key))
    work.update_session(checks=work.state.checks.put(seen.check, replace(check, others=others)))
    return True


def ask_schema(
    work: UnitOfWork, parent: str, delegation: Delegation, who: str, task: CheckTask, value: Json = NULL
) -> None:
    """Ask the schema port about a delegation's schema, or about a report against it, in the time of `who`."""
    number, schema, timeout = work.state.next_check, delegation.schema, _timeout_ms(work, who)
    key = work.begin_schema_check(schema, number, timeout) if task == "accept" else 0
    check = Check(task, parent, delegation.key, key)
    work.update_session(next_check=number + 1, checks=work.state.checks.put(number, check))
    work.post(SCHEMA, CheckSchema(number, task, schema, value, timeout))


def _timeout_ms(work: UnitOfWork, who: str) -> int:
    return millis(work.limits_of(who).schema_timeout_s, 5_000)


def begin(work: UnitOfWork, parent: str, delegation: Delegation) -> None:
    """Start everyone who works on a delegation of an agent."""
    request, record = delegation.request, work.record(parent)
    assert request is not None
    assert record is not None
    for ordinal, name in zip(delegation.racers, request.profiles, strict=True):
        child = _child(work, record, delegation, ordinal, name, request.limits)
        work.add(child)
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
    begun = replace(delegation, request=None, is_checking=False, running=len(delegation.racers))
    work.put_delegation(parent, begun)
    work.update_session(live=work.state.live + len(delegation.racers))


def _child(
    work: UnitOfWork, parent: Record, delegation: Delegation, ordinal: int, name: str, call: Limits
) -> Record:
    profile = work.state.profiles[name][0]
    address = child_of(parent.address, ordinal)
    own = narrow(profile.limits, call)
    above = handed_down(parent.limits)
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
        Budget(own.tokens, micro(own.cost)),
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
