"""Delegating: the supervisor checks a delegation, takes its slots and begins its agents.

One delegation takes these steps:

    on_delegate        deny it if a limit, a budget or the parent's profile forbids it
    _open_delegation   take ordinals and slots; ask the schema port if the schema is not known, and
                       the context port if a profile wants a context
    begin              post `Begin` to each racer, now or when both have answered

Rules
  - Ordinals and agent slots are taken when `Delegate` is handled, and a denied delegation takes an ordinal
    too. So an address never depends on the order in which ports answer.
  - Copies of a program's agents over max_children stand in line, in the order of the asks. They take ordinals
    and slots when they are asked for, like all others.
  - A question of a program to a model begins an implicit agent. It counts among the program's copies, and
    neither for depth, for the number of agents, nor in the allowlist.
  - A delegation with several racers is denied as a whole or begins as a whole.
  - A delegation whose parent ends before those answers never begins.
  - A child starts with its own profile's instructions, its context if there is one, and the prompt, and no
    other part of the parent's conversation. Its limits are the narrowest of its parent's, its profile's and
    its call's.
"""

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.addresses import CONTEXT, SCHEMA, child_of, depth_of
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import handed_down, micro, millis, narrow
from callboard.actors.protocol.messages import Begin, Delegate, Delegated, DelegationEnded
from callboard.actors.protocol.port_messages import CheckSchema, ContextMade, MakeContext
from callboard.actors.protocol.profiles import Profile, read_profile
from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.supervisor.budgets import is_limited, kept_above
from callboard.actors.supervisor.contracts import callee_of, described_end, roster_of, why_unfit
from callboard.actors.supervisor.latching import bounds_questions, latch, with_latch
from callboard.actors.supervisor.reserve import add
from callboard.actors.supervisor.reserving import bytes_of_result, excess, for_delegation, need_of
from callboard.actors.supervisor.rights import agent_refusal, child_refusal, handed_by
from callboard.actors.supervisor.state import (
    NO_BOOKS,
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
    """Handle a parent's delegation: deny it, check its schema, or begin it."""
    ancestry = work.ancestry(sender)
    if ancestry is None or not ancestry[-1].is_running:
        detail = "the agent that delegated has ended"
        end = DelegationEnded(request.turn, request.call, "cancelled", detail=detail, by=work.seq)
        work.post(sender, end)
        return
    parent, count = ancestry[-1], len(request.profiles)
    first = parent.next_ordinal
    size = bytes_of_result(ancestry, request)
    result = need_of(ancestry, size)
    refusal = why_denied(work.state, ancestry, request, result)
    kept, for_end = parent.kept, NOTHING
    if refusal is not None:
        kind, detail = refusal
        address = child_of(sender, first)
        end = DelegationEnded(request.turn, request.call, kind, address, detail=detail, by=work.seq)
        if request.profiles:
            end = described_end(work.state, end, parent.profile.name, callee_of(work.state, request))
        kept = kept.plus("results", excess(ancestry, end)) if request.room else kept
        if kind == "budget" and parent.profile.is_eager:
            latch(work, ancestry, scope_without_room(ancestry, request, result)[0], detail)
            end = with_latch(work, ancestry, end)
        # A denied delegation uses up its ordinals too.
        work.update_record(sender, next_ordinal=first + count, kept=kept)
        work.post(sender, end)
        return
    if not parent.profile.is_eager:  # a program keeps no reserve
        kept, for_end = for_delegation(ancestry, request, child_of(sender, first), size, result)
    work.update_record(sender, next_ordinal=first + count, kept=kept)
    _open_delegation(work, parent, first, request, size, for_end)


def _open_delegation(
    work: UnitOfWork, parent: Record, first: int, request: Delegate, size: int, kept: Need
) -> None:
    """Take the slots of an allowed delegation. Begin it, or have its schema checked first.

    first: the ordinal of its first agent. size: the bytes of its result that are read. kept: for its end.
    """
    count = len(request.profiles)
    schema, output_type = request.schema, ""
    if schema == NULL:
        profile, _ = _profile_of(work.state, request, request.profiles[0])
        schema, output_type = profile.schema, profile.output_type
    delegation = Delegation(
        first,
        request.turn,
        request.call,
        tuple(range(first, first + count)),
        schema,
        request,
        output_type=output_type,
        room=size,
        is_background=request.mode == "background",
        callee=callee_of(work.state, request),
        kept=kept,
    )
    if request.implicit == NULL:
        work.update_session(agents=work.state.agents + count)
    if has_place(parent, count):
        start(work, parent.address, delegation, work.seq)
        return
    books = parent.program or NO_BOOKS
    line = books.line.put(delegation.key, work.seq)
    work.update_record(parent.address, program=replace(books, line=line))
    work.put_delegation(parent.address, delegation)


def has_place(parent: Record, count: int, *, is_first: bool = False) -> bool:
    """Return True if a delegation may start now: of a program, one that fits and is the next in line.

    count: its copies. is_first: True for the first in line.
    """
    if not parent.profile.is_eager:
        return True
    if not is_first and parent.program is not None and parent.program.line.size:
        return False
    return parent.turn_children + count <= (parent.limits.max_children or 0)


def start(work: UnitOfWork, parent: str, delegation: Delegation, seq: int) -> None:
    """Begin a delegation, or have its schema checked and its contexts made first.

    parent: the agent that delegated. seq: of its `Delegate`.
    """
    schema, record = delegation.schema, work.record(parent)
    assert record is not None
    count = len(delegation.racers)
    taken = record.turn_children + count
    background = record.background + count * delegation.is_background
    work.put_record(replace(record, turn_children=taken, background=background))
    verdict = work.schema_verdict(schema) if schema != NULL else None
    is_unchecked = schema != NULL and (verdict is None or not verdict.is_good)
    wanted = _contexts_wanted(work.state, delegation.request)
    has_input = delegation.request is not None and delegation.request.input != NULL
    if not is_unchecked and not wanted and not has_input:
        begin(work, parent, delegation)
        return
    delegation = replace(delegation, is_checking=True, waits=is_unchecked + len(wanted) + has_input)
    work.put_delegation(parent, delegation)
    if has_input:
        ask_input(work, parent, delegation)
    if is_unchecked and (verdict is None or not _join_check(work, parent, delegation, verdict)):
        ask_schema(work, parent, delegation, parent, "accept")
    for name in wanted:
        timeout = _timeout_ms(work, parent)
        work.post(CONTEXT, MakeContext(parent, delegation.key, name, seq, timeout))


def _contexts_wanted(state: SupervisorState, request: Delegate | None) -> tuple[str, ...]:
    """Return the profiles of a delegation whose agents begin with a context, each once."""
    if request is None or request.implicit != NULL:
        return ()
    return tuple(name for name in dict.fromkeys(request.profiles) if state.profiles[name][0].is_prepared)


def why_denied(
    state: SupervisorState, ancestry: list[Record], request: Delegate, result: Need
) -> tuple[OutcomeKind, str] | None:
    """Return the kind of a denial and its reason, in words for the parent's model; None allows it.

    result: the need of its result in the parent's next turn.
    """
    parent, count = ancestry[-1], len(request.profiles)
    limits = parent.limits
    if not count:
        return "denied", "a delegation names at least one agent"
    if request.implicit == NULL and (detail := _not_allowed(state, parent, request)):
        return "denied", detail
    # A program's delegation stands in line; one that could never fit would stand there forever.
    children = 0 if parent.profile.is_eager else parent.turn_children
    if children + count > (limits.max_children or 0):
        counted = "racers counted singly" + (", with those in the background" if parent.background else "")
        return "denied", f"at most {limits.max_children} delegations in one turn, {counted}"
    return (
        why_unfit(state, request)
        or _over_budget(ancestry, request, result)
        or _unreadable(request)
        or _unpriced(state, ancestry, request)
        or _forbidden(state, parent, request)
    )


def _not_allowed(state: SupervisorState, parent: Record, request: Delegate) -> str:
    """Return the reason for which an agent may not begin these agents, '' if it may."""
    limits, count = parent.limits, len(request.profiles)
    if parent.depth >= (limits.max_depth or 0):
        return f"agents may nest {limits.max_depth} deep, and this one is at that depth"
    for name in request.profiles:
        if name not in parent.profile.agents or name not in state.profiles:
            return f"there is no agent '{name[:100]}' to delegate to"
        if refusal := agent_refusal(parent, name):
            return refusal
    if state.agents + count > (limits.max_agents or 0):
        return f"at most {limits.max_agents} agents in one session"
    return ""


def _unreadable(request: Delegate) -> tuple[OutcomeKind, str] | None:
    """Return a denial if the profile of the implicit agent is not one."""
    if request.implicit == NULL:
        return None
    try:
        read_profile(bytes(request.implicit))
    except (msgspec.DecodeError, RecursionError):
        return "denied", "the profile of the implicit agent cannot be read"
    return None


def _profile_of(state: SupervisorState, request: Delegate, name: str) -> tuple[Profile, Json]:
    """Return the profile of one of a delegation's agents, with its bytes."""
    if request.implicit != NULL:
        return read_profile(bytes(request.implicit)), request.implicit
    return state.profiles[name]


def _over_budget(ancestry: list[Record], request: Delegate, result: Need) -> tuple[OutcomeKind, str] | None:
    """Return a denial if a budget leaves nothing for a sub-agent beside what is kept."""
    if not is_limited(ancestry):
        return None
    _, why = scope_without_room(ancestry, request, result)
    return ("budget", why) if why else None


def scope_without_room(ancestry: list[Record], request: Delegate, result: Need) -> tuple[int, str]:
    """Return the place of the lowest scope that leaves nothing for a sub-agent, and why; '' if all do."""
    turn, mine = request.closing, ancestry[-1].kept
    results = add(add(mine.results, mine.ends), result)
    own = add(turn, results)
    for record, above in kept_above(ancestry):
        budget, spent, need = record.budget, record.spent, add(own, above)
        # Every turn uses a token, hence `>=`. A turn may cost nothing, hence `>` below.
        if budget.tokens is not None and spent.tokens + need.tokens >= budget.tokens:
            amounts = spent.tokens, budget.tokens, turn.tokens, results.tokens, above.tokens
            return record.depth, _nothing_left(record.address, "tokens", *amounts)
        if budget.micro_usd is not None and spent.micro_usd + need.micro_usd > budget.micro_usd:
            amounts = spent.micro_usd, budget.micro_usd, turn.micro_usd, results.micro_usd, above.micro_usd
            return record.depth, _nothing_left(record.address, "micro-dollars", *amounts)
    return 0, ""


def _nothing_left(
    address: str, unit: str, spent: int, limit: int, turn: int, results: int, above: int
) -> str:
    beside = f", closing turns above it up to {above:,}" if above else ""
    return (
        f"the budget of {address} leaves nothing for a sub-agent: {spent:,} of {limit:,} {unit} are spent, "
        f"the next turn needs up to {turn:,}, and the results of its delegations up to {results:,}{beside}"
    )


def _forbidden(state: SupervisorState, parent: Record, request: Delegate) -> tuple[OutcomeKind, str] | None:
    """Return a denial if one of the agents would begin with a model that it may not use."""
    for name in request.profiles:
        if refusal := child_refusal(parent, _profile_of(state, request, name)[0]):
            return "denied", refusal
    return None


def _unpriced(
    state: SupervisorState, ancestry: list[Record], request: Delegate
) -> tuple[OutcomeKind, str] | None:
    """Return a denial if a cost limit applies to a model without known prices."""
    is_costed = (
        any(record.budget.micro_usd is not None for record in ancestry) or request.limits.cost_usd is not None
    )
    for name in request.profiles:
        profile, _ = _profile_of(state, request, name)
        unpriced = profile.own_model(ancestry[-1].model).unpriced
        if unpriced and (is_costed or profile.limits.cost_usd is not None):
            return "denied", f"a cost limit applies and the prices of {unpriced} are not known"
    return None


def _join_check(work: UnitOfWork, parent: str, delegation: Delegation, verdict: SchemaVerdict) -> bool:
    """Let a delegation wait for the running check of its schema. Return False if a check of its own is due.

    verdict: the verdict on the schema, which names the running check.
    """
    # A check with a shorter time limit could fail where one with this delegation's limit would not.
    check = work.state.checks.get(verdict.check)
    if check is None or verdict.timeout_ms != _timeout_ms(work, parent):
        return False
    others = check.others.append((parent, delegation.key))
    work.update_session(checks=work.state.checks.put(verdict.check, replace(check, others=others)))
    return True


def ask_schema(
    work: UnitOfWork, parent: str, delegation: Delegation, payer: str, task: CheckTask, value: Json = NULL
) -> None:
    """Ask the schema port to accept a delegation's schema, or to check a report against it.

    payer: the agent, or the client, whose `schema_timeout_s` bounds the check.
    task: `accept` for the schema itself, `report` for a report.
    value: the report.
    """
    number, schema, timeout = work.state.next_check, delegation.schema, _timeout_ms(work, payer)
    key = work.begin_schema_check(schema, number, timeout) if task == "accept" else 0
    check = Check(task, parent, delegation.key, key)
    work.update_session(next_check=number + 1, checks=work.state.checks.put(number, check))
    output_type = delegation.output_type if task == "report" else ""
    work.post(SCHEMA, CheckSchema(number, task, schema, value, timeout, output_type))


def ask_input(work: UnitOfWork, parent: str, delegation: Delegation) -> None:
    """Ask the schema port to check the input of an agent with a contract."""
    request, number = delegation.request, work.state.next_check
    assert request is not None
    profile, _ = _profile_of(work.state, request, request.profiles[0])
    check = Check("input", parent, delegation.key, 0)
    work.update_session(next_check=number + 1, checks=work.state.checks.put(number, check))
    asked = (profile.input_schema, request.input, _timeout_ms(work, parent), profile.input_type)
    work.post(SCHEMA, CheckSchema(number, "input", *asked))


def _timeout_ms(work: UnitOfWork, address: str) -> int:
    return millis(work.limits_of(address).schema_timeout_s, 5_000)


def begin(work: UnitOfWork, parent: str, delegation: Delegation) -> None:
    """Begin every racer of a delegation. parent: the agent that delegated."""
    request, record, contexts = delegation.request, work.record(parent), dict(delegation.contexts)
    assert request is not None
    assert record is not None
    for ordinal, name in zip(delegation.racers, request.profiles, strict=True):
        profile, raw = _profile_of(work.state, request, name)
        child = _child(work, record, delegation, ordinal, profile, request)
        work.add(child)
        roster, callees = roster_of(work.state, profile, child.depth, child.limits)
        told = (profile.own_model(child.model), child.limits, delegation.schema, child.depth, roster)
        given = (NULL, child.permissions, request.labels, callees)
        named = request.description
        first = Begin(raw, request.prompt, *told, *given, rules=work.state.rules, description=named)
        if bounds_questions(work.state.rules, profile, request.limits):
            first = replace(first, bounds_questions=True)
        work.post(child.address, _with_context(first, contexts.get(name)))
    if delegation.is_background:
        address = child_of(parent, delegation.racers[0])
        work.post(parent, Delegated(delegation.turn, delegation.call, address))
    running = len(delegation.racers)
    begun = replace(delegation, request=None, is_checking=False, contexts=(), running=running)
    work.put_delegation(parent, begun)
    work.update_session(live=work.state.live + len(delegation.racers))


def _with_context(first: Begin, made: ContextMade | None) -> Begin:
    if made is None:
        return first
    return replace(first, context=made.content, history=made.history, makers=made.makers)


def _child(
    work: UnitOfWork,
    parent: Record,
    delegation: Delegation,
    ordinal: int,
    profile: Profile,
    request: Delegate,
) -> Record:
    address = child_of(parent.address, ordinal)
    own = narrow(profile.limits, request.limits)
    above = handed_down(parent.limits)
    timer = 0
    if own.deadline_s is not None:
        timer = work.set_timer(Timer("deadline", address), millis(own.deadline_s))
    return Record(
        address,
        ordinal,
        delegation.key,
        profile,
        profile.model_below(parent.model),
        narrow(above, own),
        depth_of(address),
        Budget(own.tokens, micro(own.cost_usd)),
        deadline_timer=timer,
        handed=handed_by(parent),
        labels=request.labels,
    )
