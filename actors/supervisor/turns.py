"""Who may call a model, and when: grants, reservations, settlements.

Rules
  - `CallModel` is the grant. It is posted only when the call fits in every scope above its agent and a
    slot is free, and its need stays reserved until the answer is settled, not a message longer.
  - What can never fit ends its agent as `budget`. What does not fit yet waits in line.
  - Slots and reservations never span tools, delegations, checks or back-off: 64 parents that wait for
    children hold nothing.
"""

from msgspec.structs import replace

from callboard.actors.protocol.addresses import HOST, MODEL
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.messages import CallModel, TurnRequested
from callboard.actors.protocol.usage import NOTHING
from callboard.actors.protocol.value_types import Settled
from callboard.actors.supervisor import budgets
from callboard.actors.supervisor.admission import (
    blocked_at,
    enqueue,
    is_waited_for,
    wait_for_budget,
    wake_along,
)
from callboard.actors.supervisor.ending import end_agent
from callboard.actors.supervisor.state import Record, Timer
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def on_turn_requested(work: UnitOfWork, sender: str, request: TurnRequested) -> None:
    """An agent wants a turn: it lines up, at once or after its back-off. One wish or call at a time."""
    chain = work.chain(sender)
    if chain is None:
        return
    record = chain[-1]
    if not record.is_running or record.wanted is not None or record.grant is not None:
        return
    if request.attempt == 1:
        budget = record.budget
        if budget.closing is not NOTHING:
            budget = replace(budget, closing=NOTHING)
        record = replace(
            record, wanted=request, wanted_at=work.seq, turn=request.turn, turn_children=0, budget=budget
        )
    else:
        record = replace(record, wanted=request, wanted_at=work.seq)
    if request.after_ms:
        timer = work.set_timer(Timer("turn", sender), request.after_ms)
        work.put_records((replace(record, turn_timer=timer),))
    else:
        chain[-1] = record
        _stand_in_line(work, chain, request)


def on_turn_timer(work: UnitOfWork, address: str) -> None:
    """The back-off of a retry is over."""
    chain = work.chain(address)
    if chain is not None and chain[-1].wanted is not None:
        chain[-1] = replace(chain[-1], turn_timer=0)
        _stand_in_line(work, chain, chain[-1].wanted)


def _stand_in_line(work: UnitOfWork, chain: list[Record], wanted: TurnRequested) -> None:
    """Grant at once where nobody stands before it, which is the usual case; else take a ticket."""
    if (
        work.state.queue.size
        or work.in_flight >= (chain[0].limits.max_parallel_calls or 1)
        or is_waited_for(chain)
        or budgets.fits(chain, wanted.need)[0] != "now"
    ):
        enqueue(work, chain)
    else:
        _grant(work, chain, wanted)


def serve_queue(work: UnitOfWork) -> None:
    """Look at the queue, in order, for as long as a slot is free."""
    if not work.state.queue.size:
        return
    host = work.record(HOST)
    slots = (host.limits.max_parallel_calls if host else None) or 1
    while work.in_flight < slots and (first := work.state.queue.first()) is not None:
        work.update_session(queue=work.state.queue.drop(first[0]))
        chain = work.chain(first[1])
        if chain is not None and chain[-1].wanted is not None:
            _look_at(work, chain, chain[-1].wanted)


def _look_at(work: UnitOfWork, chain: list[Record], wanted: TurnRequested) -> None:
    verdict, where = budgets.fits(chain, wanted.need)
    if verdict == "never":
        _refuse(work, chain[-1].address, where[0])
    elif blocker := blocked_at(chain) or (where[-1] if where else ""):
        wait_for_budget(work, chain, blocker)
    else:
        _grant(work, chain, wanted)
        wake_along(work, chain)


def _grant(work: UnitOfWork, chain: list[Record], wanted: TurnRequested) -> None:
    agent, need = chain[-1], wanted.need
    chain[-1] = replace(
        agent,
        reserved=budgets.reserve(chain, need),
        granted=(wanted.turn, wanted.attempt),
        grant=need,
        wanted=None,
        wanted_at=0,
        ticket=0,
        parked="",
    )
    work.put_records(chain)
    work.in_flight += 1
    work.posts.append(Post(MODEL, CallModel(agent.address, agent.wanted_at)))


def _refuse(work: UnitOfWork, address: str, where: str) -> None:
    scope = f"the budget of {where}" if where != address else "its budget"
    end_agent(work, address, "budget", f"{scope} is too small for another turn")


def settle(work: UnitOfWork, sender: str, settled: Settled | None) -> None:
    """The answer of a grant is in: give the reservation back, charge the use. Once for each grant."""
    if settled is None:
        return
    chain = work.chain(sender)
    if chain is None or (need := chain[-1].grant) is None:
        return
    record, used = chain[-1], budgets.charge_of(need, settled.usage)
    spent, reserved = budgets.settle(chain, need, used)
    text = settled.text or record.text
    chain[-1] = replace(record, spent=spent, reserved=reserved, grant=None, granted=(0, 0), text=text)
    work.put_records(chain)
    work.in_flight -= 1
    wake_along(work, chain)
