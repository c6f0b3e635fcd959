"""Turns: the supervisor grants model calls, reserves their budget and settles them.

Rules
  - `CallModel` is the grant. It is posted when the call fits in the budget scope of its agent and of every
    agent above it, and a slot is free. Slot and reservation last until the answer is settled, no longer.
  - A model that the runtime limits has its calls over all sessions counted. The call then waits for
    `CapacityGiven`; slot and reservation last from `RequestCapacity` on. An agent that is stopped meanwhile
    drains with the answer, which releases both and charges nothing.
  - The first turn of a question is granted with its `Begin`, if a slot and the budgets have room at once: the
    question calls its model itself. It requests a turn where it would have to wait, as any agent does.
  - A session with budgets above it asks for them before it asks for capacity, and waits in the same way. A
    refusal ends the agent as `budget`. The settlement of the agent's message settles them too; without one
    `SettleBudget` says the charge.
  - A call that can never fit ends its agent as `budget`, and may latch for the programs above it. A call that
    does not fit yet waits in the queue.
  - A program's step needs nothing, and goes to its model without the supervisor. One that has a text to
    state, labels or a back-off is requested here: it passes the queue, takes no slot, reserves nothing, is
    compared with no scope, is charged nothing, and need not be settled.
  - No slot and no reservation spans tools, delegations, checks or back-off. Otherwise 64 parents that wait
    for their children would hold all slots, and no child could ever run.
"""

from msgspec.structs import replace

from callboard.actors.protocol.addresses import BUDGETS, CAPACITY, MODEL, depth_of
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
from callboard.actors.protocol.value_types import FirstTurn, Settled
from callboard.actors.supervisor import budgets
from callboard.actors.supervisor.ending import end_agent, end_answered, leave_tree
from callboard.actors.supervisor.latching import Left, latch
from callboard.actors.supervisor.line import (
    blocked_at,
    has_slot,
    is_waited_for,
    join,
    leave,
    wait_for_budget,
    wake_along,
)
from callboard.actors.supervisor.reserve import NO_RESERVE, add
from callboard.actors.supervisor.reserving import at_new_turn
from callboard.actors.supervisor.state import Record, Timer, Wish
from callboard.actors.supervisor.telling import hear
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def on_turn_requested(work: UnitOfWork, sender: str, request: TurnRequested) -> None:
    """Queue an agent's request for a turn, at once or after its back-off."""
    ancestry = work.ancestry(sender)
    if ancestry is None:
        return
    record = ancestry[-1]
    # An agent has one request or one call at a time.
    if not record.is_running or record.wanted is not None:
        return
    if record.grant is not None and not _ends_step(record, request):
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
    wish = Wish(request, work.seq)
    if request.is_unbounded and (work.state.scopes or budgets.is_limited(ancestry)):
        _refuse_unbounded(work, ancestry, request)
    elif request.after_ms:
        timer = work.set_timer(Timer("turn", sender), request.after_ms)
        work.put_record(replace(record, wanted=wish, turn_timer=timer))
    else:
        _grant_or_join(work, ancestry, wish)


def _ends_step(record: Record, request: TurnRequested) -> bool:
    """Return True if a program asks for its next step, which is all that ends the one before."""
    return record.grant == NOTHING and record.granted != (request.turn, request.attempt)


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
    if ancestry is not None and (wish := ancestry[-1].wanted) is not None:
        ancestry[-1] = replace(ancestry[-1], turn_timer=0)
        _grant_or_join(work, ancestry, wish)


def _grant_or_join(work: UnitOfWork, ancestry: list[Record], wish: Wish) -> None:
    """Grant a turn at once if the queue is empty and the call fits; else the request joins the line."""
    need = wish.request.need
    if need == NOTHING:
        work.put_record(_called(work, ancestry[-1], wish, ancestry[-1].reserved))
        return
    # Most requests are granted at once, so they take no ticket.
    if _fits_at_once(work, ancestry, need):
        _grant(work, ancestry, wish)
    else:
        join(work, ancestry, wish)


def _fits_at_once(work: UnitOfWork, ancestry: list[Record], need: Need) -> bool:
    """Return True if there is a slot and room for a call, and no other request waits for either."""
    return not (
        work.state.queue.size
        or not has_slot(work)
        or is_waited_for(ancestry)
        or budgets.fits(ancestry, need)[0] != "now"
    )


def serve_turn(work: UnitOfWork, ancestry: list[Record], wish: Wish) -> None:
    """Grant a request that is next, let it wait for a budget, or end its agent."""
    verdict, where = budgets.fits(ancestry, wish.request.need)
    if verdict == "never":
        _refuse_here(work, ancestry, wish.request, where[0])
    elif blocker := blocked_at(ancestry, wish) or (where[-1] if where else ""):
        wait_for_budget(work, ancestry, wish, blocker)
    else:
        _grant(work, ancestry, wish)
        wake_along(work, ancestry)


def _grant(work: UnitOfWork, ancestry: list[Record], wish: Wish) -> None:
    agent, wanted = ancestry[-1], wish.request
    reserved = budgets.reserve(ancestry, wanted.need)
    work.in_flight += 1
    if work.state.scopes and not agent.is_budgeted:
        ancestry[-1] = _held(agent, wish, reserved)
        call = RequestBudget(agent.address, wanted.turn, wanted.attempt, wanted.need)
        work.posts.append(Post(BUDGETS, call))
    else:
        ancestry[-1] = _placed(work, agent, wish, reserved, is_budgeted=agent.is_budgeted)
    work.put_records(ancestry)


def grant_first(work: UnitOfWork, address: str, first: FirstTurn) -> bool:
    """Grant the first turn of an agent that begins now, if that is possible at once. Return True if it is.

    The agent posts the `CallModel` itself. Where a port gives places or reserves, it requests its turn.
    """
    ancestry = work.ancestry(address)
    if ancestry is None or work.state.scopes or ancestry[-1].model.name in work.state.capacity:
        return False
    agent, reserved = ancestry[-1], ancestry[-1].reserved
    if first.need != NOTHING:
        if not _fits_at_once(work, ancestry, first.need):
            return False
        reserved = budgets.reserve(ancestry, first.need)
        work.in_flight += 1
    ancestry[-1] = replace(agent, reserved=reserved, turn=1, attempt=1, grant=first.need)
    work.put_records(ancestry)
    return True


def _held(agent: Record, wish: Wish, reserved: Need) -> Record:
    """Return the record of an agent whose request waits for a port. Arguments as of `_called`."""
    return replace(agent, wanted=Wish(wish.request, wish.seq), reserved=reserved, held=wish.request.need)


def _placed(work: UnitOfWork, agent: Record, wish: Wish, reserved: Need, *, is_budgeted: bool) -> Record:
    """Ask for a place for a call, or post its grant if its model needs none. Return the agent's record."""
    wanted = wish.request
    model = wanted.model or agent.model.name
    if model not in work.state.capacity:
        return _called(work, agent, wish, reserved, is_budgeted=is_budgeted)
    if is_budgeted:
        agent = replace(agent, is_budgeted=True)
    place = RequestCapacity(
        agent=agent.address, turn=wanted.turn, attempt=wanted.attempt, model=model, need=wanted.need
    )
    work.posts.append(Post(CAPACITY, place))
    return _held(agent, wish, reserved)


def _called(
    work: UnitOfWork, agent: Record, wish: Wish, reserved: Need, *, is_budgeted: bool = False
) -> Record:
    """Post the grant of an agent's call. Return the agent's record.

    reserved: in the agent's scope, the call's need included. is_budgeted: True if budgets above the session
    have reserved the call.
    """
    wanted = wish.request
    work.posts.append(Post(MODEL, CallModel(agent.address, wish.seq)))
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
        is_budgeted=is_budgeted,
    )


def on_given(work: UnitOfWork, given: BudgetGiven | CapacityGiven) -> None:
    """Go on with a call for which there is room above the session, or end its agent.

    If the agent has ended, its reservations are released. A request that the port has lost joins the line.
    """
    ancestry = work.ancestry(given.agent)
    if ancestry is None or (need := ancestry[-1].held) is None:
        return
    agent, wish = ancestry[-1], ancestry[-1].wanted
    is_of_budgets, is_given = isinstance(given, BudgetGiven), given.status == "given"
    is_budgeted = agent.is_budgeted or (is_of_budgets and is_given)
    if wish is not None and is_given:
        go_on = _placed if is_of_budgets else _called
        work.put_record(go_on(work, agent, wish, agent.reserved, is_budgeted=is_budgeted))
        return
    if is_budgeted and wish is None:
        work.posts.append(Post(BUDGETS, SettleBudget(agent.address, given.turn, given.attempt)))
        agent = replace(agent, is_budgeted=False)
    _release(work, ancestry, agent, need)
    if wish is not None and isinstance(given, BudgetGiven) and given.status == "refused":
        _refuse_above(work, ancestry, wish.request, given)
    elif wish is not None:
        join(work, ancestry, wish)
    wake_along(work, ancestry)
    if agent.is_leaving:
        leave_tree(work, given.agent)


def _release(work: UnitOfWork, ancestry: list[Record], agent: Record, need: Need) -> None:
    """Release the reservation and the slot of a request that waited for a port. agent: its record."""
    _, reserved = budgets.settle(ancestry, need, ZERO)
    ancestry[-1] = replace(agent, reserved=reserved, held=None)
    work.put_records(ancestry)
    work.in_flight -= 1


# --- refusals -------------------------------------------------------------------------


def _refuse_here(work: UnitOfWork, ancestry: list[Record], wanted: TurnRequested, where: str) -> None:
    """End an agent whose call can never fit in a scope of the session."""
    address, place = ancestry[-1].address, depth_of(where)
    scope = f"the budget of {where}" if where != address else "its budget"
    why = budgets.shortage(ancestry, wanted.need, place, work.state.rules)
    latches = f"the budget of {where} is too small for a turn of {address}: {why}"
    _refuse(work, ancestry, wanted, f"{scope} is too small for another turn: {why}", latches, place=place)


def _refuse_above(
    work: UnitOfWork, ancestry: list[Record], wanted: TurnRequested, given: BudgetGiven
) -> None:
    """End an agent whose call a budget above the session refuses."""
    why = budgets.shortage_above(wanted.need, given)
    left = Left(given.unit or "tokens", given.limit - given.spent - given.elsewhere)
    _refuse(work, ancestry, wanted, why, f"a turn of {ancestry[-1].address} was refused: {why}", left=left)


def _refuse_unbounded(work: UnitOfWork, ancestry: list[Record], wanted: TurnRequested) -> None:
    """End an agent within a budget whose next call can use any amount."""
    model = wanted.model or ancestry[-1].model.name
    why = f"an image or a file is named by its address or id, and {model} states no most tokens of one"
    _refuse(work, ancestry, wanted, f"its next turn has no upper bound: {why}")


def _refuse(
    work: UnitOfWork,
    ancestry: list[Record],
    wanted: TurnRequested,
    why: str,
    latches: str = "",
    *,
    place: int = 0,
    left: Left | None = None,
) -> None:
    """End an agent whose turn is refused: with the answer that it had, if it asked for that, or as `budget`.

    latches: the words with which the refusal may latch; empty if it does not. place, left: as of `latch`.
    """
    if wanted.purpose:
        _refuse_summary(work, ancestry[-1], wanted, why)
        return
    if wanted.otherwise == "answered":
        end_answered(work, ancestry[-1])
        return
    if latches:
        latch(work, ancestry[:-1], place, latches, left)
    end_agent(work, ancestry[-1].address, "budget", why)


def _refuse_summary(work: UnitOfWork, record: Record, wanted: TurnRequested, why: str) -> None:
    """Let an agent go on without a summary."""
    if record.wanted is not None:
        leave(work, record.address, record.wanted)
    work.posts.append(Post(record.address, SummaryRefused(wanted.turn, why)))


def settle(work: UnitOfWork, sender: str, settled: Settled, *, is_stated: bool) -> None:
    """Settle a grant, once: release its reservation and charge its usage.

    settled: the settlement that the sender's message carries. is_stated: False if the message carries none,
        and this one stands in its place.
    """
    ancestry = work.ancestry(sender)
    if ancestry is None:
        return
    record, text = ancestry[-1], settled.text or ancestry[-1].text
    if (need := record.grant) is None:
        if text != record.text and record.profile.is_eager:  # of a step, which had no grant
            work.put_record(replace(record, text=text))
        return
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
