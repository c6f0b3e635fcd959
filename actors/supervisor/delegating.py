"""Delegating: the supervisor takes the slots of a delegation and begins its agents.

One delegation takes these steps:

    on_delegate   resolve its agents and check it (resolving); deny it, or
    _take_slots   take ordinals and slots, and keep room for the result; a program's may stand in line
    start         ask the schema port if the schema is not known or the call has an input, and the context
                  port if a profile wants a context
    begin         post `Begin` to each racer, now or when all of them have answered

Rules
  - Ordinals and agent slots are taken when `Delegate` is handled, and a denied delegation takes an ordinal
    too. So an address never depends on the order in which ports answer.
  - Copies of a program's agents over max_children stand in line, in the order of the asks. They take ordinals
    and slots when they are asked for, like all others.
  - A delegation whose parent ends before those answers never begins.
  - Agents begin with their profiles of that moment: tools may have changed since `Delegate`.
  - A child starts with its own profile's instructions, its context if there is one, and the prompt, and no
    other part of the parent's conversation. Its limits are the narrowest of its parent's, its profile's and
    its call's.
"""

from typing import Final

from msgspec.structs import replace

from callboard.actors.agent.decider import first_turn_of
from callboard.actors.protocol.addresses import CONTEXT, SCHEMA, child_of, depth_of
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import handed_down, micro, millis, narrow
from callboard.actors.protocol.messages import Begin, Delegate, Delegated, DelegationEnded
from callboard.actors.protocol.port_messages import CheckSchema, ContextMade, MakeContext
from callboard.actors.protocol.profiles import Profile
from callboard.actors.protocol.usage import NOTHING
from callboard.actors.supervisor.contracts import callee_of, described_end, roster_of
from callboard.actors.supervisor.ending import end_delegation
from callboard.actors.supervisor.latching import bounds_questions, latch, with_latch
from callboard.actors.supervisor.line import has_place, join_children, out_of_line
from callboard.actors.supervisor.reserving import excess, for_delegation
from callboard.actors.supervisor.resolving import (
    Denial,
    Profiles,
    Wanted,
    resolve,
    resolve_again,
    why_denied,
)
from callboard.actors.supervisor.rights import handed_by
from callboard.actors.supervisor.state import (
    Budget,
    Check,
    CheckTask,
    Delegation,
    Record,
    SchemaVerdict,
    Timer,
)
from callboard.actors.supervisor.turns import grant_first
from callboard.actors.supervisor.unit_of_work import UnitOfWork

GRANTED_SINCE: Final = 2
"""The rules from which on the first turn of a program's question is granted with its `Begin`."""


def on_delegate(work: UnitOfWork, sender: str, request: Delegate) -> None:
    """Handle a parent's delegation: deny it, check its schema, or begin it."""
    ancestry = work.ancestry(sender)
    if ancestry is None or not ancestry[-1].is_running:
        detail = "the agent that delegated has ended"
        end = DelegationEnded(request.turn, request.call, "cancelled", detail=detail, by=work.seq)
        work.post(sender, end)
        return
    wanted = resolve(work.state, ancestry, request)
    denial = wanted if isinstance(wanted, Denial) else why_denied(work.state, ancestry, wanted)
    if denial is not None:
        _deny(work, ancestry, request, denial)
    else:
        assert isinstance(wanted, Wanted)
        _take_slots(work, ancestry, wanted)


def _deny(work: UnitOfWork, ancestry: list[Record], request: Delegate, denial: Denial) -> None:
    """End a delegation that does not begin. It uses up its ordinals too."""
    parent, first = ancestry[-1], ancestry[-1].next_ordinal
    end = DelegationEnded(
        turn=request.turn,
        call=request.call,
        kind=denial.kind,
        address=child_of(parent.address, first),
        detail=denial.detail,
        by=work.seq,
    )
    if request.profiles:
        end = described_end(work.state, end, parent.profile.name, callee_of(work.state, request))
    kept = parent.kept.plus("results", excess(ancestry, end)) if request.room else parent.kept
    if denial.kind == "budget" and parent.profile.is_eager:
        latch(work, ancestry, denial.scope, denial.detail)
        end = with_latch(work, ancestry, end)
    work.update_record(parent.address, next_ordinal=first + len(request.profiles), kept=kept)
    work.post(parent.address, end)


def _take_slots(work: UnitOfWork, ancestry: list[Record], wanted: Wanted) -> None:
    """Take the ordinals and slots of an allowed delegation. Start it, or let it stand in line."""
    request, parent = wanted.request, ancestry[-1]
    first, count = parent.next_ordinal, len(request.profiles)
    kept, for_end = parent.kept, NOTHING
    if not parent.profile.is_eager:  # a program keeps no reserve
        address = child_of(parent.address, first)
        kept, for_end = for_delegation(ancestry, request, address, wanted.size, wanted.result)
    work.update_record(parent.address, next_ordinal=first + count, kept=kept)
    schema, output_type = request.schema, ""
    if schema == NULL:
        profile, _ = wanted.profiles[0]
        schema, output_type = profile.schema, profile.output_type
    delegation = Delegation(
        key=first,
        turn=request.turn,
        call=request.call,
        racers=tuple(range(first, first + count)),
        schema=schema,
        request=request,
        output_type=output_type,
        room=wanted.size,
        is_background=request.mode == "background",
        callee=callee_of(work.state, request),
        kept=for_end,
    )
    if request.implicit == NULL:
        work.update_session(agents=work.state.agents + count)
    if has_place(parent, count):
        start(work, parent.address, delegation, wanted.profiles, work.seq)
        return
    join_children(work, parent, delegation)


def start_from_line(work: UnitOfWork, ancestry: list[Record], delegation: Delegation, seq: int) -> None:
    """Start the first delegation in a program's line. seq: of its `Delegate`."""
    parent = ancestry[-1].address
    profiles = resolve_again(work.state, ancestry, delegation)
    if isinstance(profiles, Denial):
        end_delegation(work, parent, delegation, profiles.kind, detail=profiles.detail)
        return
    out_of_line(work, parent, delegation)
    start(work, parent, delegation, profiles, seq)


def start(work: UnitOfWork, parent: str, delegation: Delegation, profiles: Profiles, seq: int) -> None:
    """Begin a delegation, or have its schema checked and its contexts made first.

    parent: the agent that delegated. profiles: those of the racers. seq: the event of its `Delegate`.
    """
    schema, request, record = delegation.schema, delegation.request, work.record(parent)
    assert request is not None
    assert record is not None
    count = len(delegation.racers)
    taken = record.turn_children + count
    background = record.background + count * delegation.is_background
    work.put_record(replace(record, turn_children=taken, background=background))
    verdict = work.schema_verdict(schema) if schema != NULL else None
    is_unchecked = schema != NULL and (verdict is None or not verdict.is_good)
    prepared = _prepared(profiles)
    has_input = request.input != NULL
    if not is_unchecked and not prepared and not has_input:
        begin(work, parent, delegation, profiles)
        return
    delegation = replace(delegation, is_checking=True, waits=is_unchecked + len(prepared) + has_input)
    work.put_delegation(parent, delegation)
    if has_input:
        _ask_input(work, parent, delegation, request, profiles[0][0])
    if is_unchecked and (verdict is None or not _join_check(work, parent, delegation, verdict)):
        ask_schema(work, parent, delegation, parent, "accept")
    for name in prepared:
        timeout = _timeout_ms(work, parent)
        work.post(
            CONTEXT,
            MakeContext(
                parent=parent, delegation=delegation.key, profile=name, request=seq, timeout_ms=timeout
            ),
        )


def _prepared(profiles: Profiles) -> tuple[str, ...]:
    """Return the agents of a delegation that begin with a context, each once."""
    return tuple(dict.fromkeys(profile.name for profile, _ in profiles if profile.is_prepared))


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
    check = Check(task=task, parent=parent, delegation=delegation.key, schema=key)
    work.update_session(next_check=number + 1, checks=work.state.checks.put(number, check))
    output_type = delegation.output_type if task == "report" else ""
    work.post(
        SCHEMA,
        CheckSchema(
            check=number, task=task, schema=schema, value=value, timeout_ms=timeout, output_type=output_type
        ),
    )


def _ask_input(
    work: UnitOfWork, parent: str, delegation: Delegation, request: Delegate, profile: Profile
) -> None:
    """Ask the schema port to check the input of an agent with a contract."""
    number = work.state.next_check
    check = Check(task="input", parent=parent, delegation=delegation.key)
    work.update_session(next_check=number + 1, checks=work.state.checks.put(number, check))
    asked = CheckSchema(
        check=number,
        task="input",
        schema=profile.input_schema,
        value=request.input,
        timeout_ms=_timeout_ms(work, parent),
        output_type=profile.input_type,
    )
    work.post(SCHEMA, asked)


def _timeout_ms(work: UnitOfWork, address: str) -> int:
    return millis(work.limits_of(address).schema_timeout_s)


def begin(work: UnitOfWork, parent: str, delegation: Delegation, profiles: Profiles) -> None:
    """Begin every racer of a delegation. parent: the agent that delegated. profiles: as they are now."""
    request, record, contexts = delegation.request, work.record(parent), dict(delegation.contexts)
    assert request is not None
    assert record is not None
    for ordinal, (profile, raw) in zip(delegation.racers, profiles, strict=True):
        child = _child(work, record, delegation, ordinal, profile, request)
        work.add(child)
        roster, callees = roster_of(work.state, profile, child.depth, child.limits)
        first = Begin(
            profile=raw,
            prompt=request.prompt,
            model=profile.own_model(child.model),
            limits=child.limits,
            schema=delegation.schema,
            depth=child.depth,
            roster=roster,
            permissions=child.permissions,
            labels=request.labels,
            callees=callees,
            rules=work.state.rules,
            description=request.description,
            asked=request.asked,
        )
        if bounds_questions(work.state.rules, profile, request.limits):
            first = replace(first, bounds_questions=True)
        first = _with_context(first, contexts.get(profile.name))
        if request.implicit != NULL and work.state.rules >= GRANTED_SINCE:
            first = _with_grant(work, child.address, first)
        work.post(child.address, first)
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


def _with_grant(work: UnitOfWork, question: str, first: Begin) -> Begin:
    """Grant the first turn of a question with its `Begin`, if it need not wait."""
    turn = first_turn_of(question, first)
    if turn is None or not grant_first(work, question, turn):
        return first
    return replace(first, granted=turn.need)


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
        address=address,
        ordinal=ordinal,
        delegation=delegation.key,
        profile=profile,
        model=profile.model_below(parent.model),
        limits=narrow(above, own),
        depth=depth_of(address),
        budget=Budget(own.tokens, micro(own.cost_usd)),
        deadline_timer=timer,
        handed=handed_by(parent),
        labels=request.labels,
    )
