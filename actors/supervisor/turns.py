"""Turns: the supervisor grants model calls, reserves their budget and settles them.

Rules
  - `CallModel` is the grant. It is posted when the call fits in the budget scope of its agent and of every
    agent above it, and a slot is free. Slot and reservation last until the answer is settled, no longer.
  - A model that the runtime limits has its calls over all sessions counted. The call then waits for
    `CapacityGiven`; slot and reservation last from `RequestCapacity` on. An agent that is stopped meanwhile
    drains with the answer, which releases both and charges nothing.
  - A session with budgets above it asks for them before it asks for capacity, and waits in the same way. A
    refusal ends the agent as `budget`. The settlement of the agent's message settles them too; without one
    `SettleBudget` says the charge.
  - A call that can never fit ends its agent as `budget`, and may latch for the programs above it. A call that
    does not fit yet waits in the queue.
  - A program's step needs nothing. It passes the queue, takes no slot, reserves nothing, is compared with no
    scope, and is charged nothing.
  - No slot and no reservation spans tools, delegations, checks or back-off. Otherwise 64 parents that wait
    for their children would hold all slots, and no child could ever run.
"""

from msgspec.structs import replace

from callboard.actors.protocol.addresses import BUDGETS, CAPACITY, HOST, MODEL, depth_of
from callboard.actors.protocol.compaction_messages import SummaryRefused
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.labels import united
from callboard.actors.protocol.messages import TurnRequested, TurnSettled
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CallModel,
    CapacityGiven,
    RequestBudget,
    RequestCapacity,
    SettleBudget,
)
from callboard.actors.protocol.usage import NOTHING, ZERO, Need
from callboard.actors.protocol.value_types import Settled
from callboard.actors.supervisor import budgets
from callboard.actors.supervisor.admission import (
    blocked_at,
    enqueue,
    is_waited_for,
    wait_for_budget,
    wake_along,
)
from callboard.actors.supervisor.ending import end_agent, end_answered, leave_tree
from callboard.actors.supervisor.latching import Left, latch
from callboard.actors.supervisor.reserve import NO_RESERVE, add
from callboard.actors.supervisor.reserving import at_new_turn
from callboard.actors.supervisor.state import Record, Timer
from callboard.actors.supervisor.telling import hear
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def on_turn_requested(work: UnitOfWork, sender: str, request: TurnRequested) -> None:
    """Queue an agent's request for a turn, at once or after its back-off."""
    ancestry = work.ancestry(sender)
    if ancestry is None:
        return
    record = ancestry[-1]
    # An agent has one request or one call at a time.
    if not record.is_running or record.wanted is not None or record.grant is not None:
        return
    if request.labels:
        record = ancestry[-1] = replace(record, labels=united(record.labels, request.labels))
        work.put_record(record)
    # An end that crossed the parent's last request is heard by this one, and only its part is kept by now.
    is_keeping = record.turn_children or record.ended.size or record.kept is not NO_RESERVE
    is_keeping = is_keeping and not request.purpose  # the turn that was kept for is still to come
    if is_keeping and request.attempt == 1 and not record.profile.is_eager:
        ancestry = _with_kept(work, ancestry, at_new_turn(record, request))
        record = ancestry[-1]
    if request.summary is not NOTHING:
        record = ancestry[-1] = _with_summary(ancestry, request)
        work.put_record(record)
    if request.is_unbounded and (work.state.scopes or budgets.is_limited(ancestry)):
        _refuse_unbounded(work, record, request)
    elif request.after_ms:
        timer = work.set_timer(Timer("turn", sender), request.after_ms)
        record = replace(record, wanted=request, wanted_at=work.seq, turn_timer=timer)
        work.put_record(record)
    else:
        _grant_or_enqueue(work, ancestry, request, work.seq)


def _with_kept(work: UnitOfWork, ancestry: list[Record], record: Record) -> list[Record]:
    """Keep the record of an agent that has begun a turn. Return its ancestry after that.

    Its delegations in the background may have to leave less than before: those that wait are looked at again.
    """
    ancestry[-1] = record
    if not record.background or not is_waited_for(ancestry):
        return ancestry
    work.put_record(record)
    wake_along(work, ancestry)
    return work.ancestry(record.address) or ancestry


def _with_summary(ancestry: list[Record], request: TurnRequested) -> Record:
    """Keep the need of a summary beside a turn, if both fit. Return the agent's record."""
    record = ancestry[-1]
    both = add(request.need, request.summary)
    if not budgets.is_limited(ancestry) or budgets.fits(ancestry, both)[0] == "never":
        return record  # the turn comes first
    return replace(record, kept=record.kept.plus("summary", request.summary))


def keep_turn(work: UnitOfWork, sender: str, settled: TurnSettled) -> None:
    """Let the background delegations of an agent leave room for its next turn, as it states it."""
    record = work.record(sender)
    if record is not None and record.background:
        work.update_record(sender, kept=replace(record.kept, turn=settled.closing))


def on_turn_timer(work: UnitOfWork, address: str) -> None:
    """Queue the request of an agent whose back-off is over."""
    ancestry = work.ancestry(address)
    if ancestry is not None and (wanted := ancestry[-1].wanted) is not None:
        record = ancestry[-1] = replace(ancestry[-1], turn_timer=0)
        _grant_or_enqueue(work, ancestry, wanted, record.wanted_at)


def _grant_or_enqueue(work: UnitOfWork, ancestry: list[Record], wanted: TurnRequested, seq: int) -> None:
    """Grant a turn at once if the queue is empty and the call fits; else queue the request.

    seq: of the request.
    """
    if wanted.need == NOTHING:
        work.put_record(_called(work, ancestry[-1], wanted, seq, ancestry[-1].reserved))
        return
    # Most requests are granted at once, so they take no ticket.
    if (
        work.state.queue.size
        or work.in_flight >= (ancestry[0].limits.max_parallel_calls or 1)
        or is_waited_for(ancestry)
        or budgets.fits(ancestry, wanted.need)[0] != "now"
    ):
        ancestry[-1] = replace(ancestry[-1], wanted=wanted, wanted_at=seq)
        enqueue(work, ancestry)
    else:
        _grant(work, ancestry, wanted, seq)


def serve_queue(work: UnitOfWork) -> None:
    """Serve queued requests in order, until no slot is free."""
    host = work.record(HOST)
    slots = (host.limits.max_parallel_calls if host else None) or 1
    while work.in_flight < slots and (first := work.state.queue.first()) is not None:
        work.update_session(queue=work.state.queue.drop(first[0]))
        ancestry = work.ancestry(first[1])
        if ancestry is not None and ancestry[-1].wanted is not None:
            _serve(work, ancestry, ancestry[-1].wanted)


def _serve(work: UnitOfWork, ancestry: list[Record], wanted: TurnRequested) -> None:
    """Grant a request, let it wait for a budget, or end its agent."""
    verdict, where = budgets.fits(ancestry, wanted.need)
    if verdict == "never":
        _refuse(work, ancestry, wanted, where[0])
    elif blocker := blocked_at(ancestry) or (where[-1] if where else ""):
        wait_for_budget(work, ancestry, blocker)
    else:
        _grant(work, ancestry, wanted, ancestry[-1].wanted_at)
        wake_along(work, ancestry)


def _grant(work: UnitOfWork, ancestry: list[Record], wanted: TurnRequested, seq: int) -> None:
    agent, need = ancestry[-1], wanted.need
    reserved = budgets.reserve(ancestry, need)
    work.in_flight += 1
    if work.state.scopes and not agent.is_budgeted:
        ancestry[-1] = _held(agent, wanted, seq, reserved)
        wish = RequestBudget(agent.address, wanted.turn, wanted.attempt, need)
        work.posts.append(Post(BUDGETS, wish))
    else:
        ancestry[-1] = _placed(work, agent, wanted, seq, reserved, is_budgeted=agent.is_budgeted)
    work.put_records(ancestry)


def _held(agent: Record, wanted: TurnRequested, seq: int, reserved: Need) -> Record:
    """Return the record of an agent whose request waits for a port. Arguments as of `_called`."""
    return replace(
        agent, wanted=wanted, wanted_at=seq, reserved=reserved, held=wanted.need, ticket=0, parked=""
    )


def _placed(
    work: UnitOfWork, agent: Record, wanted: TurnRequested, seq: int, reserved: Need, *, is_budgeted: bool
) -> Record:
    """Ask for a place for a call, or post its grant if its model needs none. Return the agent's record."""
    model = wanted.model or agent.model.name
    if model not in work.state.capacity:
        return _called(work, agent, wanted, seq, reserved, is_budgeted=is_budgeted)
    if is_budgeted:
        agent = replace(agent, is_budgeted=True)
    place = RequestCapacity(agent.address, wanted.turn, wanted.attempt, model, wanted.need)
    work.posts.append(Post(CAPACITY, place))
    return _held(agent, wanted, seq, reserved)


def _called(
    work: UnitOfWork,
    agent: Record,
    wanted: TurnRequested,
    seq: int,
    reserved: Need,
    *,
    is_budgeted: bool = False,
) -> Record:
    """Post the grant of an agent's call. Return the agent's record.

    seq: of the request. reserved: in the agent's scope, the call's need included. is_budgeted: True if
    budgets above the session have reserved the call.
    """
    work.posts.append(Post(MODEL, CallModel(agent.address, seq)))
    if wanted.told:
        agent = hear(work, agent, wanted)
    return replace(
        agent,
        reserved=reserved,
        turn=wanted.turn,
        attempt=wanted.attempt,
        grant=wanted.need,
        held=None,
        wanted=None,
        wanted_at=0,
        ticket=0,
        parked="",
        is_budgeted=is_budgeted,
    )


def on_capacity_given(work: UnitOfWork, given: CapacityGiven) -> None:
    """Grant the call that has a place. Release its reservation instead if its agent has ended."""
    ancestry = work.ancestry(given.agent)
    if ancestry is None or (need := ancestry[-1].held) is None:
        return
    agent, wanted = ancestry[-1], ancestry[-1].wanted
    if wanted is not None and given.status == "given":
        call = (wanted, agent.wanted_at, agent.reserved)
        work.put_record(_called(work, agent, *call, is_budgeted=agent.is_budgeted))
        return
    if agent.is_budgeted and wanted is None:
        agent = _give_budget_back(work, agent, given)
    _release(work, ancestry, agent, need)
    if wanted is not None:  # the port has lost the request: it takes a place in the queue again
        enqueue(work, ancestry)
    wake_along(work, ancestry)
    if agent.is_leaving:
        leave_tree(work, given.agent)


def on_budget_given(work: UnitOfWork, given: BudgetGiven) -> None:
    """Go on with a call that is reserved in all budgets above the session, or end its agent.

    If the agent has ended, give the reservation back.
    """
    ancestry = work.ancestry(given.agent)
    if ancestry is None or (need := ancestry[-1].held) is None:
        return
    agent, wanted = ancestry[-1], ancestry[-1].wanted
    if given.status == "given":
        if wanted is not None:
            work.put_record(_placed(work, agent, wanted, agent.wanted_at, agent.reserved, is_budgeted=True))
            return
        agent = _give_budget_back(work, agent, given)
    _release(work, ancestry, agent, need)
    if wanted is not None and given.status == "refused":
        _refuse_above(work, ancestry, wanted, given)
    elif wanted is not None:  # the port has lost the request, as in `on_capacity_given`
        enqueue(work, ancestry)
    wake_along(work, ancestry)
    if agent.is_leaving:
        leave_tree(work, given.agent)


def _give_budget_back(work: UnitOfWork, agent: Record, given: BudgetGiven | CapacityGiven) -> Record:
    """Settle the reservation of a call that is not made. Return the agent's record."""
    work.posts.append(Post(BUDGETS, SettleBudget(agent.address, given.turn, given.attempt)))
    return replace(agent, is_budgeted=False)


def _release(work: UnitOfWork, ancestry: list[Record], agent: Record, need: Need) -> None:
    """Release the reservation and the slot of a request that waited for a port. agent: its record."""
    _, reserved = budgets.settle(ancestry, need, ZERO)
    ancestry[-1] = replace(agent, reserved=reserved, held=None)
    work.put_records(ancestry)
    work.in_flight -= 1


def _refuse_summary(work: UnitOfWork, record: Record, wanted: TurnRequested, why: str) -> None:
    """Let an agent go on without a summary."""
    cleared = replace(record, wanted=None, wanted_at=0, ticket=0, parked="", turn_timer=0)
    work.put_record(cleared)
    work.posts.append(Post(record.address, SummaryRefused(wanted.turn, why)))


def _refuse(work: UnitOfWork, ancestry: list[Record], wanted: TurnRequested, where: str) -> None:
    address = ancestry[-1].address
    if wanted.purpose:
        why = budgets.shortage(ancestry, wanted.need, depth_of(where), work.state.rules)
        _refuse_summary(work, ancestry[-1], wanted, why)
        return
    if wanted.otherwise == "answered":
        end_answered(work, ancestry[-1])
        return
    scope = f"the budget of {where}" if where != address else "its budget"
    place = depth_of(where)
    why = budgets.shortage(ancestry, wanted.need, place, work.state.rules)
    latch(work, ancestry[:-1], place, f"the budget of {where} is too small for a turn of {address}: {why}")
    end_agent(work, address, "budget", f"{scope} is too small for another turn: {why}")


def _refuse_above(
    work: UnitOfWork, ancestry: list[Record], wanted: TurnRequested, given: BudgetGiven
) -> None:
    """End an agent whose call a budget above the session refuses."""
    address = ancestry[-1].address
    if wanted.purpose:
        record = work.record(address) or ancestry[-1]
        _refuse_summary(work, record, wanted, budgets.shortage_above(wanted.need, given))
        return
    if wanted.otherwise == "answered":
        end_answered(work, ancestry[-1])
        return
    why = budgets.shortage_above(wanted.need, given)
    left = Left(given.unit or "tokens", given.limit - given.spent - given.elsewhere)
    latch(work, ancestry[:-1], 0, f"a turn of {address} was refused: {why}", left)
    end_agent(work, address, "budget", why)


def _refuse_unbounded(work: UnitOfWork, record: Record, wanted: TurnRequested) -> None:
    """End an agent within a budget whose next call can use any amount."""
    if wanted.otherwise == "answered":
        end_answered(work, record)
        return
    model = wanted.model or record.model.name
    why = f"an image or a file is named by its address or id, and {model} states no most tokens of one"
    if wanted.purpose:
        _refuse_summary(work, record, wanted, why)
        return
    end_agent(work, record.address, "budget", f"its next turn has no upper bound: {why}")


def settle(work: UnitOfWork, sender: str, settled: Settled, *, is_stated: bool) -> None:
    """Settle a grant, once: release its reservation and charge its usage.

    settled: the settlement that the sender's message carries. is_stated: False if the message carries none,
        and this one stands in its place.
    """
    ancestry = work.ancestry(sender)
    if ancestry is None or (need := ancestry[-1].grant) is None:
        return
    record, text = ancestry[-1], settled.text or ancestry[-1].text
    if need == NOTHING:
        work.put_record(replace(record, grant=None, turn=0, attempt=0, text=text))
        return
    used = budgets.charge_of(need, settled.usage)
    spent, reserved = budgets.settle(ancestry, need, used)
    if record.is_budgeted and not is_stated:
        charge = SettleBudget(sender, record.turn, record.attempt, used.tokens, used.micro_usd)
        work.posts.append(Post(BUDGETS, charge))
    ancestry[-1] = replace(
        record,
        spent=spent,
        reserved=reserved,
        grant=None,
        turn=0,
        attempt=0,
        text=text,
        is_budgeted=False,
    )
    work.put_records(ancestry)
    work.in_flight -= 1
    wake_along(work, ancestry)
