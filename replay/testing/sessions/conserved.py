"""Conserved quantities in the books of the supervisor: a sum in one place equals its parts in the others.

    reserved    of a scope: the needs of the calls in it that are open
    kept        for background tasks: the end of each that is open, and each that no request holds
    places      calls in flight, living agents, copies in the background, copies of a program
    sides       an agent and the supervisor count the same tasks, ends and words, once no message between
                them is under way
    lines       each request with a ticket stands in one line: the queue, or that of the scope it waits for

A record that was changed twice, a copy from before another change, or an amount that one side forgets breaks
such a sum at once. The outcome of a session tells of it much later, or never.
"""

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from typing import Final

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import SUPERVISOR, child_of
from callboard.actors.protocol.conversation import text_block
from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.supervisor.reserve import NO_RESERVE
from callboard.actors.supervisor.state import Delegation, Record, SupervisorState
from callboard.replay.testing.rules.dearest import dearest_input_price
from callboard.replay.testing.sessions.world import SessionWorld

STATES_MAX: Final = 50_000
"""States that were looked at and are kept, some hundred bytes each beside those of the runs themselves."""


class Sums:
    """Looks at each state of a supervisor once: runs of one campaign share most of theirs."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[SupervisorState, tuple[str, str]]] = {}

    def reserved(self, state: SupervisorState) -> str:
        """Return the first amount that is not the sum of its parts, or ''."""
        return self.of(state)[0]

    def places(self, state: SupervisorState) -> str:
        """Return the first count that is not the number of its parts, or ''."""
        return self.of(state)[1]

    def of(self, state: SupervisorState) -> tuple[str, str]:
        """Return both."""
        known = self._known.get(id(state))
        if known is None:
            if len(self._known) >= STATES_MAX:
                self._known.clear()
            # With the state, since an object that is gone gives its identity to another.
            known = self._known[id(state)] = (state, (other_reserve(state), other_count(state)))
        return known[1]


def records_of(state: SupervisorState) -> Iterator[Record]:
    """Yield each record of the tree, each before those below it."""
    rest = [] if state.host is None else [state.host]
    while rest:
        record = rest.pop()
        yield record
        if record.children.size:
            rest += record.children.values()


# --- amounts ----------------------------------------------------------------------------


def other_reserve(state: SupervisorState) -> str:
    """Return the first amount of a scope that is not the sum of its parts, or ''."""
    rest = [] if state.host is None else [state.host]
    while rest:
        record = rest.pop()
        kept, grant, held = record.kept, record.grant or NOTHING, record.held or NOTHING
        tokens, micro_usd = grant.tokens + held.tokens, grant.micro_usd + held.micro_usd
        if record.children.size:
            for child in record.children.values():
                tokens, micro_usd = tokens + child.reserved.tokens, micro_usd + child.reserved.micro_usd
                rest.append(child)
        if (tokens, micro_usd) != (record.reserved.tokens, record.reserved.micro_usd):
            return f"{record.address} has reserved {record.reserved}, and its calls need {tokens} tokens"
        is_keeping = record.background or record.ended.size or kept is not NO_RESERVE
        if is_keeping and (how := _other_ends(record)):
            return how
    return ""


def _other_ends(record: Record) -> str:
    """Return how the reserve for the ends of background tasks differs from what these need, or ''."""
    tasks = [one for one in record.delegations.values() if one.is_background]
    for one in tasks:
        # Nothing is kept for a task of a time without limits, nor by a program.
        if one.kept != NOTHING and one.kept != (need := _need_of_end(record, one)):
            return f"{record.address} keeps {one.kept} for task {one.key}, whose end needs {need}"
    kept = reduce(_plus, [*(one.kept for one in tasks), *record.ended.values()], NOTHING)
    if kept != record.kept.ends:
        return f"{record.address} keeps {record.kept.ends} for its tasks, and their ends need {kept}"
    if min(record.kept.results.tokens, record.kept.results.micro_usd) < 0:
        return f"{record.address} keeps {record.kept.results} for results, less than nothing"
    return ""


def _need_of_end(parent: Record, task: Delegation) -> Need:
    """Return the need of the end of a background task in its parent's request, within a budget."""
    address = child_of(parent.address, task.racers[0])
    size = task.room + len(text_block(prompts.task_ended_with(address, "")))
    return Need(size, -(-size * dearest_input_price(parent.model) // 1_000_000))


def _plus(one: Need, other: Need) -> Need:
    return Need(one.tokens + other.tokens, one.micro_usd + other.micro_usd)


# --- counts -----------------------------------------------------------------------------


def other_count(state: SupervisorState) -> str:
    """Return the first count that is not the number of its parts, or ''."""
    calls = agents = 0
    waiting: list[tuple[str, int, str]] = []
    lines = [(address, ticket, "") for ticket, address in state.queue.items()] if state.queue.size else []
    for record in records_of(state):
        calls += _has_slot(record)
        agents += not record.is_drained
        if record.waiting.size:
            lines += [(address, ticket, record.address) for ticket, address in record.waiting.items()]
        wish = record.wanted
        if wish is not None and wish.ticket:
            is_queued = state.queue.get(wish.ticket) == record.address
            waiting.append((record.address, wish.ticket, "" if is_queued else wish.scope))
        has_copies = record.background or record.delegations.size or record.profile.is_eager
        if has_copies and (how := _other_copies(record)):
            return how
    if calls != state.in_flight:
        return f"{state.in_flight} model calls are in flight, and {calls} agents have one"
    if agents != state.live:
        return f"{state.live} agents live, and {agents} have not drained"
    if sorted(lines) != sorted(waiting):
        counted, stands = Counter(waiting), Counter(lines)
        wrong = sorted((stands - counted) + (counted - stands))
        return f"{wrong[0][0]} does not stand in exactly one line with its ticket {wrong[0][1]}"
    return ""


def _has_slot(record: Record) -> bool:
    """Return True if an agent has a call in flight, or waits for budgets or capacity to make one."""
    return record.held is not None or (record.grant is not None and record.grant != NOTHING)


def _other_copies(record: Record) -> str:
    """Return how the copies below an agent differ from those that are counted, or ''."""
    line = record.program.line if record.program is not None else None
    placed = [one for key, one in record.delegations.items() if line is None or line.get(key) is None]
    copies = sum(len(one.racers) for one in placed if one.is_background)
    if copies != record.background:
        return f"{record.address} counts {record.background} copies in the background, and has {copies}"
    if not record.profile.is_eager:
        return ""
    begun = record.children.size + sum(len(one.racers) for one in placed if one.is_checking)
    if begun != record.turn_children:
        return f"{record.address} counts {record.turn_children} live copies, and has {begun}"
    return ""


# --- both sides -------------------------------------------------------------------------

_SETTLED: Final = frozenset({"acting", "parked"})
"""The phases of an agent that waits for no turn."""


def other_side(world: SessionWorld) -> bool:
    """Return whether the agent that has moved last counts other tasks, ends or words than the supervisor."""
    made = world.made[-1] if world.made and world.scenario.has_news else None
    if made is None or made.move.kind != "deliver" or made.move.actor == SUPERVISOR:
        return False
    address, state = made.move.actor, world.states.get(made.move.actor)
    if not isinstance(state, AgentState) or state.phase not in _SETTLED or state.program is not None:
        return False
    if world.failure is not None or world.inboxes.get(address):
        return False
    if any(event.sender == address for event in world.inboxes.get(SUPERVISOR, ())):
        return False
    record = _record_at(world.supervisor, address)
    if record is None or not record.is_running:
        return False
    background = state.background
    tasks = sum(one.is_background and not one.is_checking for one in record.delegations.values())
    ends = background.words.size - background.tells
    counted = (tasks, record.ended.size, record.unheard.size)
    return counted != (background.tasks.size, ends, background.tells)


def _record_at(state: SupervisorState, address: str) -> Record | None:
    return next((one for one in records_of(state) if one.address == address), None)
