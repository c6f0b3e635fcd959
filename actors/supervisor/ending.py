"""Endings: how the supervisor ends agents and delegations.

An agent and its delegation end apart. A deadline ends an agent; the delegation stays open for the other
racers and for a report that waits for its judgement. A winning report ends the delegation, and then each of
its agents. An agent that has ended is still in the tree: it drains, that is, it waits for the answers that
ports owe it. The parent gets `DelegationEnded` at once and does not wait for that.

    agent        running -> ended (`Finished`, or a `Stop` for it) -> drained -> out of the tree
    delegation   open -> ended (`DelegationEnded` to the parent, `AskOutcome` for the client)

Rules
  - An agent ends once: by its own `Finished`, or by the supervisor, which posts `Stop`.
  - The end of an agent ends every agent and delegation below it, deepest first.
  - A delegation ends once: when a report or an answer wins, when a cancel ends it, or when all its racers
    have ended and no report of theirs waits for its judgement.
  - `lost_race` ends an agent, never a delegation.
  - A record leaves the tree when its agent has drained and no child is left in the tree.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, HOST, child_of, parent_of
from callboard.actors.protocol.endings import STATUS, OutcomeKind
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.labels import Labels, united
from callboard.actors.protocol.messages import DelegationEnded, ReportJudged, Stop
from callboard.actors.protocol.prompts import NO_SUMMARY
from callboard.actors.protocol.usage import Need, Usage, plus
from callboard.actors.protocol.value_types import Reason, SchemaProblem
from callboard.actors.supervisor.contracts import described_end
from callboard.actors.supervisor.latching import with_latch
from callboard.actors.supervisor.line import leave, leave_children
from callboard.actors.supervisor.reserve import add
from callboard.actors.supervisor.reserving import at_end
from callboard.actors.supervisor.state import AskOutcome, Delegation, Pending, Record
from callboard.actors.supervisor.telling import refuse_unheard
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def end_agent(work: UnitOfWork, address: str, kind: OutcomeKind, detail: str = "") -> None:
    """End a running agent and all below it. Its delegation ends too if no racer and no report is left."""
    record = work.record(address)
    if record is None or not record.is_running:
        return
    stop_below(work, address)
    stop_one(work, address, kind)
    record_racer_end(work, record, kind, detail)


def end_answered(work: UnitOfWork, record: Record) -> None:
    """End a running agent with the answer that it gave before it asked for one more turn."""
    stop_below(work, record.address)
    stop_one(work, record.address, "answered")
    delegation = work.delegation_of(record)
    if delegation is not None:
        text = record.text or NO_SUMMARY
        parent, labels = parent_of(record.address), record.labels
        win(work, parent, delegation, record.address, "answered", text=text, labels=labels)


def stop_below(work: UnitOfWork, address: str) -> None:
    """Stop every agent below an agent and end the delegations of all as cancelled, deepest first."""
    for below in _deepest_first(work, address):
        record = work.record(below)
        for delegation in record.delegations.values() if record else ():
            end_delegation(
                work, below, delegation, "cancelled", detail="the agent that delegated was stopped"
            )
        if below != address:
            stop_one(work, below, "cancelled")


def _deepest_first(work: UnitOfWork, address: str) -> list[str]:
    """Return the addresses of a subtree, every agent after its descendants."""
    found, rest = [], [address]
    while rest:
        address = rest.pop()
        found.append(address)
        record = work.record(address)
        if record is not None and record.children.size:
            rest += [child.address for child in record.children.values()]
    return found[::-1]


def stop_one(work: UnitOfWork, address: str, kind: OutcomeKind) -> None:
    """Mark one agent as ended and post its `Stop`, which makes it drain."""
    record = work.record(address)
    if record is None or not record.is_running:
        return
    # `granted` tells the agent whether an answer of the model is still to come before it has drained.
    work.post(address, Stop(kind, record.granted))
    retire(work, record)
    work.update_record(address, is_stopped=True)


def retire(work: UnitOfWork, record: Record) -> None:
    """Mark an agent as ended. Its request leaves the line, and its timers are cancelled."""
    if record.wanted is not None:
        leave(work, record.address, record.wanted)
    if record.turn_timer or record.deadline_timer:
        work.cancel_timer(record.turn_timer)
        work.cancel_timer(record.deadline_timer)
    if record.program is not None:
        work.cancel_timer(record.program.wake_timer)
    work.update_record(
        record.address,
        is_running=False,
        unheard=IntMap(),
    )
    refuse_unheard(work, record)


def end_crashed(work: UnitOfWork, address: str, detail: str) -> None:
    """End an agent whose decider raised as `crashed`."""
    record = work.record(address)
    if record is None or record.is_drained or record.is_stopped:
        return
    if record.is_running:
        end_agent(work, address, "crashed", detail)
    else:  # its report has won, and it can no longer finish by itself
        work.post(address, Stop("crashed", record.granted))
        work.update_record(address, is_stopped=True)


def cancel_delegation(work: UnitOfWork, parent: str, turn: int, call: int) -> None:
    """End the delegation of this turn and call as cancelled, if it is open, with every agent below it.

    parent: the agent that delegated.
    """
    record = work.record(parent)
    if record is None or not record.is_running:
        return
    # An agent delegates in the order of its turns and calls, so its open delegations stand in that order.
    found = record.delegations.last_until(lambda one: (one.turn, one.call) > (turn, call))
    if found is None or (found.turn, found.call) != (turn, call):
        return
    _stop_racers(work, parent, found)
    detail = "the agent that delegated has cancelled it"
    end_delegation(work, parent, found, "cancelled", detail=detail)


def _stop_racers(work: UnitOfWork, parent: str, delegation: Delegation) -> None:
    for ordinal in delegation.racers:
        racer = child_of(parent, ordinal)
        stop_below(work, racer)
        stop_one(work, racer, "cancelled")


def record_racer_end(work: UnitOfWork, record: Record, kind: OutcomeKind, detail: str = "") -> None:
    """Record that a racer has ended without winning. End its delegation if it was the last."""
    delegation = work.delegation_of(record)
    if delegation is None:
        return
    reason = Reason(record.address, kind, detail)
    work.put_delegation(
        parent_of(record.address),
        replace(
            delegation,
            running=delegation.running - 1,
            reasons=delegation.reasons.append(reason),
            text=record.text or delegation.text,
            labels=united(delegation.labels, record.labels),
        ),
    )
    fail_if_over(work, parent_of(record.address), delegation.key)


def fail_if_over(work: UnitOfWork, parent: str, key: int) -> None:
    """End an open delegation whose racers have all ended and for which no report waits."""
    delegation = work.delegation(parent, key)
    if delegation is None or delegation.running or delegation.pending.size or delegation.is_checking:
        return
    last = delegation.reasons.get(delegation.reasons.size - 1)
    assert last is not None
    end_delegation(work, parent, delegation, last.kind, detail=last.detail)


def win(
    work: UnitOfWork,
    parent: str,
    delegation: Delegation,
    address: str,
    kind: OutcomeKind,
    *,
    value: Json = NULL,
    text: str = "",
    detail: str = "",
    labels: Labels = (),
) -> None:
    """End an open delegation with its winning report or answer. Stop the racers that have lost.

    address: the winner. labels: of the winner.
    """
    end_delegation(work, parent, delegation, kind, value=value, text=text, detail=detail, labels=labels)
    for ordinal in delegation.racers:
        other = work.racer_address(parent, ordinal)
        stop_below(work, other)
        record = work.record(other)
        if other != address:
            stop_one(work, other, "lost_race")
        elif record and record.is_running:
            retire(work, record)


def end_delegation(
    work: UnitOfWork,
    parent: str,
    delegation: Delegation,
    kind: OutcomeKind,
    *,
    value: Json = NULL,
    text: str = "",
    detail: str = "",
    labels: Labels = (),
    problems: tuple[SchemaProblem, ...] = (),
) -> None:
    """End an open delegation, or settle the outcome of the running ask.

    parent: the agent that delegated, or the client.
    text: the winner's text; an end that is not `ok` carries a racer's partial work instead.
    labels: of the winner; an end that is not `ok` has those of all racers.
    problems: of a wrong input.
    """
    for pending in delegation.pending.values():
        judge_late(work, pending)
    if STATUS[kind] != "ok":
        text = delegation.text or _partial_text(work, parent, delegation)
        labels = united(delegation.labels, *(one.labels for one in _racers(work, parent, delegation)))
    ask = work.state.ask
    if parent == CLIENT and ask is not None:
        outcome = AskOutcome(kind=kind, by=work.seq, value=value, text=text, detail=detail, labels=labels)
        work.update_session(ask=replace(ask, outcome=outcome))
        return
    end = _ended(work, parent, delegation, kind, value, text, detail, labels, problems)
    ancestry = work.ancestry(parent)
    if ancestry is not None:
        end = described_end(work.state, end, ancestry[-1].profile.name, delegation.callee)
        if STATUS[kind] == "failed":
            end = with_latch(work, ancestry, end)
    if ancestry is not None:
        _leave_parent(work, ancestry, delegation, end)
        if delegation.request is not None:
            leave_children(work, parent, delegation)
    work.post(parent, end)


def _leave_parent(
    work: UnitOfWork, ancestry: list[Record], delegation: Delegation, end: DelegationEnded
) -> None:
    """Take a delegation that has ended out of its parent's record. Keep what its result needs."""
    parent = ancestry[-1]
    delegations = parent.delegations.drop(delegation.key)
    is_last = not delegations.size
    kept, unheard = at_end(ancestry, delegation, end, is_last=is_last, rules=work.state.rules)
    number, ended = parent.ends, parent.ended
    if unheard is not None:
        number += 1
        ended = ended.put(number, unheard)
    background = parent.background - len(delegation.racers) * delegation.is_background
    fields = {"delegations": delegations, "background": background, "kept": kept}
    work.update_record(parent.address, **fields, ends=number, ended=ended)


def _ended(
    work: UnitOfWork,
    parent: str,
    delegation: Delegation,
    kind: OutcomeKind,
    value: Json,
    text: str,
    detail: str,
    labels: Labels,
    problems: tuple[SchemaProblem, ...],
) -> DelegationEnded:
    racers = delegation.racers
    # The only racer's reason is the kind and detail of the end itself.
    has_reasons = len(racers) > 1 and STATUS[kind] != "ok"
    used, unsettled = _spent_on(work, parent, delegation)
    return DelegationEnded(
        turn=delegation.turn,
        call=delegation.call,
        kind=kind,
        address=work.racer_address(parent, racers[0]),
        value=value,
        text=text,
        detail=detail,
        usage=used,
        unsettled=unsettled,
        by=work.seq,
        reasons=tuple(delegation.reasons.values()) if has_reasons else (),
        room=delegation.room,
        labels=labels,
        problems=problems,
    )


def _racers(work: UnitOfWork, parent: str, delegation: Delegation) -> Iterator[Record]:
    """Yield the records of a delegation's racers that are still in the tree."""
    for ordinal in delegation.racers:
        record = work.record(work.racer_address(parent, ordinal))
        if record is not None and record.delegation == delegation.key:
            yield record


def _partial_text(work: UnitOfWork, parent: str, delegation: Delegation) -> str:
    """Return the last text of the first racer that has any: partial work of an unfinished delegation."""
    return next((record.text for record in _racers(work, parent, delegation) if record.text), "")


def _spent_on(work: UnitOfWork, parent: str, delegation: Delegation) -> tuple[Usage, Need]:
    """Return the usage of a delegation's racers and their open reservations."""
    used, unsettled = delegation.used, Need()
    for record in _racers(work, parent, delegation):
        used = plus(used, record.spent)
        unsettled = add(unsettled, record.reserved)
    return used, unsettled


def judge_late(work: UnitOfWork, pending: Pending) -> None:
    """Judge a report as `late`: its delegation has ended, or its sender ended before it."""
    work.post(pending.address, ReportJudged(pending.turn, pending.call, "late"))


def leave_tree(work: UnitOfWork, address: str) -> None:
    """Mark an agent as drained. Remove it and drained ancestors from the tree if they have no children.

    An agent whose request still waits for budgets or for capacity drains with the answer.
    """
    record = work.record(address)
    if record is None or record.is_drained:
        return
    if record.held is not None:  # its request is answered soon: `on_given`
        work.update_record(address, is_leaving=True)
        return
    work.update_session(live=work.state.live - 1)
    drained = replace(record, is_drained=True)
    work.put_record(drained)
    leaf: Record | None = drained
    while leaf is not None and _may_leave(leaf):
        work.remove(leaf)
        parent = parent_of(leaf.address)
        delegation = work.delegation(parent, leaf.delegation)
        if delegation is not None:
            work.put_delegation(parent, replace(delegation, used=plus(delegation.used, leaf.spent)))
        work.free_places(parent, 1)
        leaf = work.record(parent)


def _may_leave(record: Record) -> bool:
    # The host stays: its next ask continues its ordinals and its usage.
    return record.is_drained and not record.children.size and record.address != HOST
