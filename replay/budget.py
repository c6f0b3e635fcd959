"""The budgets of a session after an event: what each agent has spent and reserved, and the first refusal."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DelegationEnded, Finished, Stop
from callboard.actors.protocol.usage import NOTHING, Need, Usage
from callboard.actors.supervisor.state import Record, SupervisorState
from callboard.runtime.log.tree import Tree


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
