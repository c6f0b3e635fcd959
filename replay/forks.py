"""The lineage of a session, and the cost of a fork before it runs.

A change reaches an event if it is the event's cause, or if the event's sender is an agent that the change has
reached. The model calls among those are asked again if the session goes on as recorded. The fork may take
another way, so that only a limit bounds its cost: the limit less the usage before the fork, because
answers from the recording count, too, and cost nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from callboard.actors.protocol.addresses import is_agent
from callboard.actors.protocol.client_messages import Forked, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import micro
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec, Rates, read_profile
from callboard.actors.protocol.usage import ZERO, Usage, plus
from callboard.actors.protocol.value_types import ForkChange
from callboard.actors.session.place_names import named
from callboard.runtime.log.session_rows import SessionRow


class Branch(NamedTuple):
    """A place where sessions part. session_id: the other session. seq: the last event that both share."""

    session_id: str
    seq: int


class Lineage(NamedTuple):
    """The relatives of a session.

    origins: the session that it is a fork of, then that one's, up to a session that is not a fork. forks: of
    this session, the newest first.
    """

    origins: tuple[Branch, ...] = ()
    forks: tuple[Branch, ...] = ()


def lineage(rows: Iterable[SessionRow], session_id: str) -> Lineage:
    """Return the lineage of a session. rows: of all sessions of its log, newest first."""
    known = {row.session_id: row for row in rows}
    forks = (Branch(row.session_id, row.base) for row in known.values() if row.parent == session_id)
    origins: list[Branch] = []
    row = known.get(session_id)
    while row is not None and row.parent:
        origins.append(Branch(row.parent, row.base))
        row = known.get(row.parent)
    return Lineage(tuple(origins), tuple(forks))


class Billing(NamedTuple):
    """The figures of a fork's own events. used: as its agents count. billed: the part that was paid.

    reused, called: model calls that were answered from the recording, and others. tools: tool calls that ran.
    reused_tools: tool calls that were answered from the recording.
    """

    reused: int = 0
    called: int = 0
    tools: int = 0
    used: Usage = ZERO
    billed: Usage = ZERO
    reused_tools: int = 0


def changed_place(change: ForkChange) -> str:
    """Return the name of the call, the turn or the input whose answer or text a fork has changed."""
    call = change.agent, change.turn, change.call
    return named(call) if change.agent else f"input #{change.replaces}"


def without_steps(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events without the replies to steps of programs, which ask no model."""
    programs: set[str] = set()
    for event in events:
        body = event.body
        if isinstance(body, Begin):
            (programs.add if body.model.is_program else programs.discard)(event.recipient)
        if not isinstance(body, ModelReplied) or event.recipient not in programs:
            yield event


def billing(events: Iterable[Event], since: int = 0) -> Billing:
    """Return the figures of a session behind its latest `Forked`; of a whole session without one.

    since: the seq of the last event that does not count.
    """
    found = Billing()
    for event in without_steps(events):
        body = event.body
        if event.seq <= since:
            continue
        if isinstance(body, Forked):
            found = Billing()
        elif isinstance(body, ModelReplied):
            found = _with_reply(found, body)
        elif isinstance(body, ToolReturned) and body.reused:
            found = found._replace(reused_tools=found.reused_tools + 1)
        elif isinstance(body, ToolReturned) and body.status in ("ok", "error"):
            found = found._replace(tools=found.tools + 1)
    return found


def _with_reply(found: Billing, reply: ModelReplied) -> Billing:
    usage = reply.usage or ZERO
    found = found._replace(used=plus(found.used, usage))
    if reply.reused:
        return found._replace(reused=found.reused + 1)
    return found._replace(called=found.called + 1, billed=plus(found.billed, usage))


_PER_MILLION = 1_000_000


class ForkCost(NamedTuple):
    """The cost of a fork.

    base: the last shared event. agents, calls, tools: those that the change reaches, and usage: of these
    model calls, as recorded. used: before the fork. tokens_max, micro_usd_max: the most that the fork may pay
    for; None if that is not known.
    """

    base: int
    agents: tuple[str, ...]
    calls: int
    tools: int
    usage: Usage
    used: Usage
    tokens_max: int | None
    micro_usd_max: int | None


def fork_cost(
    events: Sequence[Event],
    base: int,
    changed: Collection[int],
    profiles: Collection[str],
    tokens: int | None = None,
    cost_usd: float | None = None,
) -> ForkCost:
    """Return the cost of a fork.

    changed: the seqs of the changed answers. profiles: the agents with other instructions. tokens, cost_usd:
    the limits of the fork, which hold for all that its session has used.
    """
    changed_seqs = frozenset(changed)
    reached = list(_reached(events, base, changed_seqs, frozenset(profiles)))
    counted = {event.seq for event in without_steps(events)} - changed_seqs
    asked = [one.body for one in reached if isinstance(one.body, ModelReplied) and one.seq in counted]
    called = [one for one in reached if isinstance(one.body, ToolReturned) and one.seq not in changed]
    agents = dict.fromkeys(one.recipient for one in reached if is_agent(one.recipient))
    used = _sum(event.body for event in events[:base])
    tokens_max = None if tokens is None else max(0, tokens - used.tokens)
    return ForkCost(
        base,
        tuple(agents),
        len(asked),
        len(called),
        _sum(asked),
        used,
        tokens_max,
        _micro_usd_max(events, used, tokens_max, cost_usd),
    )


def _reached(
    events: Sequence[Event], base: int, changed: frozenset[int], profiles: frozenset[str]
) -> Iterator[Event]:
    """Yield the events behind the base that a change reaches."""
    found: set[int] = set()
    agents: set[str] = set()
    for event in events[base:]:
        is_reached = event.seq in changed or event.cause in found or event.sender in agents
        if is_reached or _is_changed(event, profiles):
            found.add(event.seq)
            if is_agent(event.recipient):
                agents.add(event.recipient)
            yield event


def _is_changed(event: Event, profiles: frozenset[str]) -> bool:
    body = event.body
    return bool(profiles) and isinstance(body, Begin) and read_profile(bytes(body.profile)).name in profiles


def _sum(bodies: Iterable[object]) -> Usage:
    total = ZERO
    for body in bodies:
        if isinstance(body, ModelReplied) and body.usage is not None:
            total = plus(total, body.usage)
    return total


def _micro_usd_max(
    events: Sequence[Event], used: Usage, tokens_max: int | None, cost_usd: float | None
) -> int | None:
    """Return the most that a fork may cost by its limits and the recorded prices; None if it is not known."""
    stated = micro(cost_usd)
    bounds = [] if stated is None else [max(0, stated - used.micro_usd)]
    dearest = _dearest(events)
    if tokens_max is not None and dearest is not None:
        bounds.append(-int(-tokens_max * dearest // 1))
    return min(bounds, default=None)


def _dearest(events: Sequence[Event]) -> float | None:
    """Return the highest price of a token among the recorded models; None if a price is not known."""
    highest = 0.0
    for spec in _models(events):
        if spec.is_free:
            continue
        if spec.prices is None:
            return None
        highest = max(highest, *map(_highest, spec.prices.reached(_PER_MILLION * _PER_MILLION)))
    return highest  # dollars for a million tokens are micro-dollars for one


def _highest(rates: Rates) -> float:
    return max(rates.input_usd, rates.output_usd, rates.cache_read_usd, rates.cache_write_usd)


def _models(events: Sequence[Event]) -> Iterator[ModelSpec]:
    for event in events:
        body = event.body
        if isinstance(body, Begin):
            yield from body.model.all_specs
        elif isinstance(body, SessionOpened):
            named = (read_profile(bytes(raw)).model for raw in body.profiles)
            for spec in (body.model, *filter(None, named)):
                yield from spec.all_specs
