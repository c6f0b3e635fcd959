"""The grants of a session: their requests, and the budgets that they spend.

The model call of an event, and its request as it was sent.

The budgets of a session after an event: what each agent has spent and reserved, and the first refusal.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from callboard.actors.protocol.addresses import is_agent
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.kept_bodies import body_after
from callboard.actors.protocol.messages import DelegationEnded, Finished, Stop, TurnRequested
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CallModel,
    CapacityGiven,
    ModelReplied,
    RequestBudget,
    RequestCapacity,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import NOTHING, Need, Usage
from callboard.actors.protocol.value_types import Sent
from callboard.actors.supervisor.state import Record, SupervisorState
from callboard.runtime.log.tree import Tree


class Log(Protocol):
    """The events that the question needs."""

    def event(self, seq: int) -> Event:
        """Return one event."""

    def events_of(self, actor: str, upto: int) -> Iterable[Event]:
        """Return the events up to `upto` that an actor received or posted, in order."""

    def events_after(self, seq: int) -> Iterator[Event]:
        """Yield the events behind this one, in order."""


def grant_of(log: Log, event: Event) -> Event | None:
    """Return the model call of an event's turn, or the step; None for an event outside of turns.

    Events before the reply lead to the call that follows, later ones of the turn to the call that counted.
    """
    match event.body:
        case CallModel() | RunStep():
            return event
        case ModelReplied():
            return log.event(event.cause)
        case TurnRequested():
            return _next_grant(log, event, event.sender)
        case RequestCapacity(agent=agent) | CapacityGiven(agent=agent):
            return _next_grant(log, event, agent)
        case RequestBudget(agent=agent) | BudgetGiven(agent=agent):
            return _next_grant(log, event, agent)
        case _:
            return _grant_before(log, event)


def _next_grant(log: Log, event: Event, agent: str) -> Event | None:
    """Return the call of the turn that an event asks for, if it was granted."""
    wanted = _turn_of(event)
    for later in log.events_after(event.seq):
        body = later.body
        if isinstance(body, CallModel) and body.agent == agent:
            return later if _turn_of(log.event(body.request)) == wanted else None
    return None


def _turn_of(event: Event) -> tuple[int, int]:
    return getattr(event.body, "turn", 0), getattr(event.body, "attempt", 1)


def _grant_before(log: Log, event: Event) -> Event | None:
    """Return the call whose reply led to an event; its message names the turn, or its cause does."""
    agent = event.recipient if is_agent(event.recipient) else event.sender
    if turn := getattr(event.body, "turn", 0):
        return _grant_of_turn(log, event, agent, turn)
    is_output = is_agent(event.sender) and event.sender == agent and event.cause > 0
    return grant_of(log, log.event(event.cause)) if is_output else None


def _grant_of_turn(log: Log, event: Event, agent: str, turn: int) -> Event | None:
    replies = log.events_of(agent, event.seq) if is_agent(agent) else ()
    last = max((one.cause for one in replies if _is_reply(one, agent, turn)), default=0)
    return log.event(last) if last else None


def _is_reply(event: Event, agent: str, turn: int) -> bool:
    body = event.body
    return isinstance(body, ModelReplied) and event.recipient == agent and body.turn == turn


class SentRequest(NamedTuple):
    """A request as it was sent. body: without secrets; empty if it was not kept."""

    sent: Sent
    body: bytes


def sent_request(events: Iterable[Event], asked: ModelRequest) -> SentRequest | None:
    """Return a request as it was sent; None if the log does not say. events: of its agent, in order."""
    body = b""
    for event in events:
        reply = event.body
        if not isinstance(reply, ModelReplied) or event.recipient != asked.address:
            continue
        body = body_after(body, reply)
        is_own = (reply.turn, reply.attempt) == (asked.turn, asked.attempt)
        if is_own and reply.sent is not None:
            return SentRequest(reply.sent, body if reply.body else b"")
    return None


class Account(NamedTuple):
    """The account of one agent.

    own: its own usage. subtree: that of all agents below it, too. reserved: for model calls in flight, its
    own and those below it. tokens_max, micro_usd_max: its limits, None for none; an agent that has ended has
    none.
    """

    address: str
    profile: str
    own: Usage
    subtree: Usage
    reserved: Need = NOTHING
    tokens_max: int | None = None
    micro_usd_max: int | None = None


class Refusal(NamedTuple):
    """The first end by a budget. detail: the words of the refusal, with its figures."""

    seq: int
    agent: str
    detail: str


class BudgetReport(NamedTuple):
    """The budgets after event `at`. accounts: in the order of the tree, the host first."""

    at: int
    accounts: tuple[Account, ...]
    refusal: Refusal | None


def budget_report(events: Iterable[Event], state: SupervisorState, at: int) -> BudgetReport:
    """Return the budgets. events: 1 to `at`. state: the supervisor's after them."""
    tree, refusal = Tree(), None
    for event in events:
        tree.add(event)
        refusal = refusal or _refusal(event)
    records = {record.address: record for record in _records(state.host)}
    accounts = tuple(_account(tree, node.address, records.get(node.address)) for _, node in tree.walk())
    return BudgetReport(at, accounts, refusal)


def _records(record: Record | None) -> Iterator[Record]:
    if record is not None:
        yield record
        for _, child in record.children.items():
            yield from _records(child)


def _account(tree: Tree, address: str, record: Record | None) -> Account:
    node = tree.nodes[address]
    account = Account(address, node.profile, node.usage, tree.usage_of(address))
    if record is None:
        return account
    return account._replace(
        reserved=record.reserved, tokens_max=record.budget.tokens, micro_usd_max=record.budget.micro_usd
    )


def _refusal(event: Event) -> Refusal | None:
    """Return the refusal in an event; None for any other event."""
    match event.body:
        case Stop(reason="budget"):
            return Refusal(event.seq, event.recipient, "")
        case Finished(kind="budget", detail=detail):
            return Refusal(event.seq, event.sender, detail)
        case DelegationEnded(kind="budget", detail=detail, address=agent):
            return Refusal(event.seq, agent or event.recipient, detail)
        case _:
            return None
