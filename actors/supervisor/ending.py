"""How agents and delegations end.

Rules
  - An agent ends once: by its own `Finished`, or by the supervisor, which posts `Stop`. Ending an agent
    ends everything below it, deepest first.
  - A delegation ends once: when a report or an answer wins, when a cancel ends it, or when all who work on
    it have ended and no report of theirs waits for its judgement. `lost_race` ends an agent, never a
    delegation.
  - A record stays in the tree until it has drained and nothing below it is left; only then may the
    session be quiet.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, HOST, parent_of
from callboard.actors.protocol.endings import STATUS, OutcomeKind
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import DelegationEnded, ReportJudged, Stop
from callboard.actors.protocol.usage import Need, Usage, plus
from callboard.actors.protocol.value_types import Reason
from callboard.actors.supervisor.admission import dequeue
from callboard.actors.supervisor.budgets import add
from callboard.actors.supervisor.state import AskOutcome, Delegation, Pending, Record
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def end_agent(work: UnitOfWork, address: str, kind: OutcomeKind, detail: str = "") -> None:
    """End a running agent and all below it; its delegation goes on if others or reports are left."""
    record = work.record(address)
    if record is None or not record.is_running:
        return
    stop_below(work, address)
    stop_one(work, address, kind)
    racer_ended(work, record, kind, detail)


def stop_below(work: UnitOfWork, address: str) -> None:
    """Stop everything under an agent and end its delegations as cancelled, deepest first."""
    for below in _deepest_first(work, address):
        record = work.record(below)
        for delegation in record.delegations.values() if record else ():
            end_delegation(
                work, below, delegation, "cancelled", detail="the agent that delegated was stopped"
            )
        if below != address:
            stop_one(work, below, "cancelled")


def _deepest_first(work: UnitOfWork, address: str) -> list[str]:
    """The addresses of a subtree: every agent after all that are below it, siblings in their order."""
    found, rest = [], [address]
    while rest:
        address = rest.pop()
        found.append(address)
        record = work.record(address)
        if record is not None and record.children.size:
            rest += [child.address for child in record.children.values()]
    return found[::-1]


def stop_one(work: UnitOfWork, address: str, kind: OutcomeKind) -> None:
    """Mark one agent as ended and tell it to drain."""
    record = work.record(address)
    if record is None or not record.is_running:
        return
    work.post(address, Stop(kind, record.granted))
    retire(work, record)
    work.update_record(address, is_stopped=True)


def retire(work: UnitOfWork, record: Record) -> None:
    """An agent is running no more: its place in line and its timers go."""
    if record.ticket:
        dequeue(work, record.address)
    if record.turn_timer or record.deadline_timer:
        work.cancel_timer(record.turn_timer)
        work.cancel_timer(record.deadline_timer)
    work.update_record(
        record.address, is_running=False, wanted=None, wanted_at=0, turn_timer=0, deadline_timer=0
    )


def agent_crashed(work: UnitOfWork, address: str, detail: str) -> None:
    """An agent's decider raised: end it. One that has won and was to finish by itself has to drain too."""
    record = work.record(address)
    if record is None or record.is_drained or record.is_stopped:
        return
    if record.is_running:
        end_agent(work, address, "crashed", detail)
    else:
        work.post(address, Stop("crashed", record.granted))
        work.update_record(address, is_stopped=True)


def racer_ended(work: UnitOfWork, record: Record, kind: OutcomeKind, detail: str = "") -> None:
    """One of a delegation's agents has ended without winning."""
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
        ),
    )
    fail_if_over(work, parent_of(record.address), delegation.key)


def fail_if_over(work: UnitOfWork, parent: str, key: int) -> None:
    """End a delegation that nobody works on and that no report can win any more."""
    delegation = work.delegation(parent, key)
    if delegation is None or delegation.running or delegation.pending.size or delegation.is_checking:
        return
    last = delegation.reasons.get(delegation.reasons.size - 1)
    assert last is not None
    end_delegation(work, parent, delegation, last.kind, text=delegation.text, detail=last.detail)


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
) -> None:
    """A report or an answer wins: everyone else who works on the open delegation has lost the race."""
    end_delegation(work, parent, delegation, kind, value=value, text=text, detail=detail)
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
) -> None:
    """The one end of an open delegation, or of an ask."""
    for pending in delegation.pending.values():
        judge_late(work, pending)
    if STATUS[kind] != "ok":
        text = text or delegation.text or _last_words(work, parent, delegation)
    ask = work.state.ask
    if parent == CLIENT and ask is not None:
        work.update_session(ask=replace(ask, outcome=AskOutcome(kind, work.seq, value, text, detail)))
        return
    record = work.record(parent)
    if record is not None:
        work.update_record(parent, delegations=record.delegations.drop(delegation.key))
    work.post(parent, _ended(work, parent, delegation, kind, value, text, detail))


def _ended(
    work: UnitOfWork,
    parent: str,
    delegation: Delegation,
    kind: OutcomeKind,
    value: Json,
    text: str,
    detail: str,
) -> DelegationEnded:
    racers = delegation.racers
    has_reasons = len(racers) > 1 and STATUS[kind] != "ok"
    used, unsettled = _spent_on(work, parent, delegation)
    return DelegationEnded(
        delegation.turn,
        delegation.call,
        kind,
        work.racer_address(parent, racers[0]),
        value,
        text,
        detail,
        used,
        unsettled,
        work.seq,
        tuple(delegation.reasons.values()) if has_reasons else (),
    )


def _copies(work: UnitOfWork, parent: str, delegation: Delegation) -> Iterator[Record]:
    """Those who work, or worked, on a delegation and are still in the tree."""
    for ordinal in delegation.racers:
        record = work.record(work.racer_address(parent, ordinal))
        if record is not None and record.delegation == delegation.key:
            yield record


def _last_words(work: UnitOfWork, parent: str, delegation: Delegation) -> str:
    """What somebody who works on a delegation said last: the partial work of one that is cut short."""
    return next((record.text for record in _copies(work, parent, delegation) if record.text), "")


def _spent_on(work: UnitOfWork, parent: str, delegation: Delegation) -> tuple[Usage, Need]:
    """What a delegation used and what is still reserved, over all who worked on it."""
    used, unsettled = delegation.used, Need()
    for record in _copies(work, parent, delegation):
        used = plus(used, record.spent)
        unsettled = add(unsettled, record.reserved)
    return used, unsettled


def judge_late(work: UnitOfWork, pending: Pending) -> None:
    """A report that can win nothing any more."""
    work.post(pending.address, ReportJudged(pending.turn, pending.call, "late"))


def drained(work: UnitOfWork, address: str) -> None:
    """An agent has nothing outstanding: it leaves the tree, and so do ended ones above it."""
    record = work.record(address)
    if record is None or record.is_drained:
        return
    work.update_session(live=work.state.live - 1)
    leaf: Record | None = replace(record, is_drained=True)
    work.update_record(address, is_drained=True)
    while leaf is not None and leaf.address != HOST and _may_leave(leaf):
        work.remove(leaf)
        parent = parent_of(leaf.address)
        delegation = work.delegation(parent, leaf.delegation)
        if delegation is not None:
            work.put_delegation(parent, replace(delegation, used=plus(delegation.used, leaf.spent)))
        leaf = work.record(parent)


def _may_leave(record: Record) -> bool:
    return record.is_drained and not record.is_running and not record.children.size
