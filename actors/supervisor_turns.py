"""Who may call a model, and when: grants, reservations, the queue.

Rules
  - `CallModel` is the grant. It is posted only when the call fits in every scope above its agent and a
    slot is free, and its need stays reserved until the answer is settled, not a message longer.
  - What can never fit ends its agent as `budget`. What does not fit yet waits, first in first out; one may
    overtake another only if they share no exhausted scope.
  - Slots and reservations never span tools, delegations, checks or back-off: 64 parents that wait for
    children hold nothing.
"""

from msgspec.structs import replace

from callboard.actors import accounts
from callboard.actors.addresses import HOST, MODEL
from callboard.actors.messages import CallModel, Settled, TurnRequested
from callboard.actors.supervisor_ending import end_agent
from callboard.actors.supervisor_state import Record, Timer
from callboard.actors.supervisor_work import Work
from callboard.actors.usage import Need


def on_turn_requested(work: Work, sender: str, request: TurnRequested) -> None:
    """An agent wants a turn: grant, queue, wait for the back-off, or end it."""
    chain = work.chain(sender)
    if chain is None or not chain[-1].is_running:
        return
    record = chain[-1]
    if request.attempt == 1:
        account = replace(record.account, closing=Need())
        record = replace(record, turn=request.turn, turn_children=0, account=account)
    if request.after_ms:
        timer = work.set_timer(Timer("turn", sender), request.after_ms)
        chain[-1] = replace(record, wanted=request, turn_timer=timer)
        work.store(chain)
        return
    chain[-1] = record
    _consider(work, chain, request)


def on_turn_timer(work: Work, address: str) -> None:
    """The back-off of a retry is over."""
    chain = work.chain(address)
    if chain is None or chain[-1].wanted is None:
        return
    wanted = chain[-1].wanted
    chain[-1] = replace(chain[-1], turn_timer=0)
    _consider(work, chain, wanted)


def _consider(work: Work, chain: list[Record], request: TurnRequested) -> None:
    state = work.state
    if not state.queue.size and state.in_flight < (state.limits.max_parallel_calls or 1):
        verdict, where = accounts.fits(chain, request.need)
        if verdict == "now":
            _grant(work, chain, request)
            return
        if verdict == "never":
            work.store(chain)
            _refuse(work, chain[-1].address, where)
            return
    ticket = state.next_ticket
    chain[-1] = replace(chain[-1], wanted=request, ticket=ticket)
    address = chain[-1].address
    work.store(chain)
    work.change(queue=work.state.queue.put(ticket, address), next_ticket=ticket + 1)
    if state.queue.size and state.in_flight < (state.limits.max_parallel_calls or 1):
        work.has_freed = True


def _grant(work: Work, chain: list[Record], request: TurnRequested) -> None:
    chain = accounts.reserve(chain, request.need)
    address = chain[-1].address
    chain[-1] = replace(
        chain[-1], granted=(request.turn, request.attempt), grant=request.need, wanted=None, ticket=0
    )
    work.store(chain)
    work.change(in_flight=work.state.in_flight + 1)
    work.post(MODEL, CallModel(address, request.turn, request.attempt, request.need, request.digest))


def _refuse(work: Work, address: str, where: tuple[str, ...]) -> None:
    scope = f"the budget of {where[0]}" if where[0] != address else "its budget"
    end_agent(work, address, "budget", f"{scope} is too small for another turn")


def settle(work: Work, sender: str, settled: Settled | None) -> None:
    """The answer of a grant is in: give the reservation back, charge the use. Once for each grant."""
    if settled is None:
        return
    chain = work.chain(sender)
    if chain is None or chain[-1].grant is None:
        return
    need = chain[-1].grant
    chain = accounts.settle(chain, need, accounts.charge_of(need, settled.usage))
    record = chain[-1]
    chain[-1] = replace(record, grant=None, granted=(0, 0), text=settled.text or record.text)
    work.store(chain)
    work.change(in_flight=work.state.in_flight - 1)
    work.has_freed = True


def serve_queue(work: Work) -> None:
    """Grant what fits now, in the order of the queue."""
    exhausted: set[str] = set()
    limit = work.state.limits.max_parallel_calls or 1
    for ticket, address in work.state.queue.items():
        if work.state.in_flight >= limit:
            return
        chain = work.chain(address)
        if work.state.queue.get(ticket) is None or chain is None or chain[-1].wanted is None:
            continue
        if exhausted and any(record.address in exhausted for record in chain):
            continue
        wanted = chain[-1].wanted
        verdict, where = accounts.fits(chain, wanted.need)
        if verdict == "later":
            exhausted.update(where)
            if HOST in exhausted:
                return
            continue
        work.change(queue=work.state.queue.drop(ticket))
        if verdict == "now":
            _grant(work, chain, wanted)
        else:
            work.edit(address, ticket=0)
            _refuse(work, address, where)
