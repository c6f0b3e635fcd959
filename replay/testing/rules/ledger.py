"""The books of a session, kept a second time from its log: spent and reserved, by scope, at every event.

A scope is an agent and all below it; the host's is the session's. For models that use no more than they may,
which is what a budget can promise.

A second opinion: nothing of the supervisor's own arithmetic is used. It keeps sums, these books keep items.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import HOST, is_agent, parent_of
from callboard.actors.protocol.client_messages import Ask, resumed_in
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import text_block
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.folded_results import json_bytes
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.limits import Limits, fill, micro, narrow
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    Delegated,
    DelegationEnded,
    Finished,
    Stopped,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CallModel,
    CapacityGiven,
    RequestBudget,
    RequestCapacity,
)
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage, plus
from callboard.actors.protocol.value_types import Settled
from callboard.replay.testing.rules.dearest import dearest_input_price, dearest_need
from callboard.replay.testing.rules.facts import Facts
from callboard.replay.testing.rules.lives import Call

NO_MODEL = ModelSpec("")

Item: TypeAlias = Literal["turn", "result", "started", "excess", "end", "summary"]
NEXT: Final = (0, 0)
"""In place of a turn and a call, for the next turn."""


def total(*needs: Need) -> Need:
    """Return the sum of needs."""
    return Need(sum(one.tokens for one in needs), sum(one.micro_usd for one in needs))


def less(one: Need, other: Need) -> Need:
    """Return a need without a part of it."""
    return total(one, Need(-other.tokens, -other.micro_usd))


class Scope(msgspec.Struct, eq=False):
    """The budget of an agent's subtree, and its amounts spent and reserved.

    model: its own, with those that it falls back to.
    results: by open delegation, the bytes that its parent will read.
    items: what its children must leave, each with the turn and the call of a delegation: its result, the
        answer that it has started, the excess of a result, its end in the background. And the next turn.
    sums: of the items of each kind.
    unheard: the turn and call of each delegation in the background whose end no request holds.
    """

    address: str
    tokens: int | None
    micro_usd: int | None
    spent: Usage = ZERO
    reserved: Need = NOTHING
    model: ModelSpec = NO_MODEL
    results: dict[tuple[int, int], int] = {}
    items: dict[tuple[Item, int, int], Need] = {}
    sums: dict[Item, Need] = {}
    unheard: list[tuple[int, int]] = []

    @property
    def is_limited(self) -> bool:
        """Return whether a budget bounds the subtree."""
        return self.tokens is not None or self.micro_usd is not None

    def keep(self, item: Item, place: tuple[int, int], need: Need) -> None:
        """Keep this need for an item, instead of its earlier one."""
        more = less(need, self.items.get((item, *place), NOTHING))
        self.sums[item] = total(self.sums.get(item, NOTHING), more)
        self.items[(item, *place)] = need

    def free(self, item: Item, place: tuple[int, int]) -> Need:
        """Keep an item no more. Return the need that was kept for it."""
        self.sums[item] = less(self.sums[item], need := self.items.pop((item, *place)))
        return need

    def kept_for(self, *items: Item) -> Need:
        """Return what is kept for these, or for all."""
        return total(*(self.sums.get(item, NOTHING) for item in items or self.sums))

    def may_hold(self, need: Need) -> bool:
        """Return whether the limits allow this need beside the amount spent."""
        tokens, cost = self.spent.tokens + need.tokens, self.spent.micro_usd + need.micro_usd
        return (self.tokens is None or tokens <= self.tokens) and (
            self.micro_usd is None or cost <= self.micro_usd
        )


_NO_WISH = TurnRequested(0)
"""Stands in for what a log does not hold; other rules find that."""


_UNSTATED = {Finished: Settled(), Stopped: Settled()}
"""An agent that ends without accounting is charged its reservation."""


class Ledger(msgspec.Struct, eq=False):
    """The scopes, the open grants and the wishes of a session, after each event that was handled.

    The step of a program is not among the grants, since it reserves nothing.
    """

    facts: Facts
    scopes: dict[str, Scope] = {}
    grants: dict[str, TurnRequested] = {}
    places: set[str] = set()  # the agents whose grants wait for budgets above the session, or for a place
    claims: list[
        tuple[Event, str]
    ] = []  # reserved by the last decision: `CallModel`, `Begin`, those that wait
    asked: dict[str, TurnRequested] = {}  # the latest turn that each agent requested
    wishes: dict[str, Need] = {}
    agents: int = 1  # that ever began, racers included
    children: Counter[tuple[str, int]] = msgspec.field(default_factory=Counter)  # by parent and turn
    background: Counter[str] = msgspec.field(default_factory=Counter)  # open background copies, by parent
    has_budgets: bool = False  # whether some scope ever had a limit
    ask_spent: Usage = ZERO  # the charges when the running ask began
    _started: set[Call] = set()  # the background delegations that have begun
    _background: dict[Call, int] = {}  # the copies of each open background delegation
    resumed: Limits | None = None  # of the session, if a resume has replaced those with which it was opened
    closing: Need = NOTHING  # what the children of the last `Delegate` must leave its sender
    # The wish whose grant the last event settled, if any, and the usage that it states.
    settled: tuple[TurnRequested, Usage | None] | None = None

    @property
    def in_flight(self) -> int:
        """Return the number of grants that hold a slot."""
        return len(self.grants)

    @property
    def spent(self) -> Usage:
        """Return the total charge of the session."""
        host = self.scopes.get(HOST)
        return host.spent if host else ZERO

    def handled(self, event: Event, outputs: Sequence[Event]) -> None:
        """Update the books by one decision of the supervisor: its event first, then its outputs."""
        body = event.body
        self.settled = self._settle(event)
        self.claims = []
        if isinstance(body, TurnRequested):
            self._ask(event.sender, body)
        elif isinstance(body, (Delegate, Ask)):
            if isinstance(body, Delegate):
                self.closing = self._closing_for(event.sender, body)
            if self.facts.is_taken_on(event, outputs):
                self._take_on(event.sender, body)
        elif isinstance(body, (CapacityGiven, BudgetGiven)):
            self._place(body.agent, outputs)
        elif isinstance(body, TurnSettled) and self.background[event.sender] and event.sender in self.scopes:
            self.scopes[event.sender].keep("turn", NEXT, body.closing)
        elif (resumed := resumed_in(body)) is not None and resumed.limits is not None:
            self._bound(resumed.limits)
        for output in outputs:
            self._posted(output)
            if isinstance(output.body, DelegationEnded):
                self._heard(output.recipient, output.body)

    def _ask(self, who: str, body: TurnRequested) -> None:
        self.asked[who] = body
        if (scope := self.scopes.get(who)) is not None:
            self.wishes[who] = body.need
            if body.attempt == 1 and not body.purpose:
                self._new_turn(who, scope, body)

    def _new_turn(self, who: str, scope: Scope, body: TurnRequested) -> None:
        """Begin the turn that an agent's delegations kept room for; those in the background go on."""
        for heard in scope.unheard[: body.ends]:
            scope.free("end", heard)
        del scope.unheard[: body.ends]
        self.children[who, body.turn] = self.background[who]
        for item, *place in [item for item in scope.items if item[0] != "end"]:
            scope.free(item, (place[0], place[1]))
        if self.background[who]:
            scope.keep("turn", NEXT, dearest_need(body.need.tokens, self.facts.lives[who].begin.model))
        if body.summary != NOTHING and self._is_bounded(who):
            held = self.held(who, total(body.need, body.summary))
            if all(above.may_hold(kept) for above, kept in held):
                scope.keep("summary", NEXT, body.summary)

    def _is_bounded(self, who: str) -> bool:
        return any(one.tokens is not None or one.micro_usd is not None for one in self.above(who))

    def _take_on(self, who: str, body: Delegate | Ask) -> None:
        if isinstance(body, Ask):
            self.ask_spent = self.spent
            return
        if (scope := self.scopes.get(who)) is not None:
            scope.results[body.turn, body.call] = room = self.room(who, body)
            scope.keep("turn", NEXT, body.closing)
            if body.mode == "await":
                scope.keep("result", (body.turn, body.call), self.need_of(who, room))
        if who in self.facts.lives:
            self.agents += len(body.profiles) if body.implicit == NULL else 0
            self.children[who, body.turn] += len(body.profiles)
            if body.mode == "background" and scope is not None:
                self._take_task(who, scope, body)

    def _take_task(self, who: str, scope: Scope, body: Delegate) -> None:
        """Keep what the answer to a background delegation needs, and the block of its end."""
        self._background[who, body.turn, body.call] = len(body.profiles)
        self.background[who] += len(body.profiles)
        room = scope.results[body.turn, body.call]
        address = self.facts.copies[who, body.turn, body.call][0]
        frame = len(text_block(prompts.task_ended_with(address, "")))
        started = self.need_of(who, json_bytes(prompts.started(address)))
        scope.keep("started", (body.turn, body.call), started)
        scope.keep("end", (body.turn, body.call), self.need_of(who, room + frame))

    def _closing_for(self, who: str, body: Delegate) -> Need:
        """Return the need of the sender's next turn, with the results of its delegations and this one."""
        scope = self.scopes.get(who)
        others = scope.kept_for("result", "started", "excess", "end") if scope is not None else NOTHING
        return total(body.closing, others, self.need_of(who, self.room(who, body)))

    def room(self, who: str, body: Delegate) -> int:
        """Return the bytes of a delegation's result that its parent may read; 0 for all of it."""
        left, price = [], self._price(who)
        for scope, above in self.held(who, NOTHING):
            if scope.tokens is not None:
                left.append(scope.tokens - scope.spent.tokens - above.tokens)
            if scope.micro_usd is not None and price:
                left.append((scope.micro_usd - scope.spent.micro_usd - above.micro_usd) * 1_000_000 // price)
        if not left or not body.room:
            return body.room
        return min(body.room, max(500, max(0, min(left)) // 4 // body.delegations))

    def need_of(self, who: str, size: int) -> Need:
        """Return the need of so many bytes in an agent's next turn; nothing if no budget bounds it."""
        if not size or all(scope.tokens is None and scope.micro_usd is None for scope in self.above(who)):
            return NOTHING
        return Need(size, -(-size * self._price(who) // 1_000_000))

    def _price(self, who: str) -> int:
        """Return the highest price of an agent's input, in micro-dollars for a million tokens."""
        return dearest_input_price(self.scopes[who].model if who in self.scopes else NO_MODEL)

    def _heard(self, who: str, end: DelegationEnded) -> None:
        """Count a result as it is, once it is known to exceed its room, while others of its parent run."""
        scope = self.scopes.get(who)
        delegate = self.facts.delegates.get((who, end.turn, end.call))
        if scope is None or delegate is None or not delegate.room or not end.address:
            return
        place = end.turn, end.call
        is_denied = place not in scope.results
        room, task = scope.results.pop(place, 0), scope.items.get(("end", *place))
        text, _ = prompts.delegation_result(end)
        excess = self.need_of(who, max(0, len(encode(text)) - 2 - room))
        if task is not None and (who, *place) in self._started:
            scope.unheard.append(place)
            scope.keep("end", place, task if room and end.kind != "reported" else total(task, excess))
            return
        if task is not None:  # it has never begun: its end is a result like any other
            scope.keep("result", place, scope.free("end", place))
        if is_denied or (end.kind == "reported" and scope.results):
            scope.keep("excess", place, excess)

    def _settle(self, event: Event) -> tuple[TurnRequested, Usage | None] | None:
        body, who = event.body, event.sender
        settled = getattr(body, "settled", None) or _UNSTATED.get(type(body))
        # A request that waits for a place is released by its answer, and charged nothing.
        if settled is None or who in self.places or (grant := self.grants.pop(who, None)) is None:
            return None
        used = _charge(grant.need, settled.usage)
        for scope in self.above(who):
            scope.reserved = less(scope.reserved, grant.need)
            scope.spent = plus(scope.spent, used)
        return grant, settled.usage

    def _place(self, who: str, outputs: Sequence[Event]) -> None:
        """Let a request wait no longer for a port. Release its reservation if no call follows."""
        if who not in self.places:
            return
        if any(isinstance(one.body, RequestCapacity) and one.body.agent == who for one in outputs):
            return  # it has its budget, and waits for its place
        self.places.remove(who)
        if not any(isinstance(one.body, CallModel) and one.body.agent == who for one in outputs):
            grant = self.grants.pop(who)
            for scope in self.above(who):
                scope.reserved = less(scope.reserved, grant.need)

    def _bound(self, limits: Limits) -> None:
        """Let these limits hold for the session from now on, also for the running ask."""
        self.resumed = limits
        host = self.scopes.get(HOST)
        if host is not None and self.facts.running is not None:
            bounds = self._host_scope()
            host.tokens, host.micro_usd = bounds.tokens, bounds.micro_usd
            self._note_budget(host)

    def _note_budget(self, scope: Scope) -> None:
        self.has_budgets |= scope.tokens is not None or scope.micro_usd is not None

    def _posted(self, output: Event) -> None:
        """Open a scope, or reserve a grant."""
        body = output.body
        if isinstance(body, Begin):
            scope = self.scopes[output.recipient] = self._scope(output.recipient, body)
            self._note_budget(scope)
            if body.granted is not None:
                self._ask(output.recipient, TurnRequested(turn=1, need=body.granted))
                self._reserve(output, output.recipient)
        elif isinstance(body, (CallModel, RequestCapacity, RequestBudget)) and body.agent not in self.grants:
            if self._reserve(output, body.agent) and not isinstance(body, CallModel):
                self.places.add(body.agent)
        elif isinstance(body, Delegated):
            self._started.add((output.recipient, body.turn, body.call))
        elif isinstance(body, DelegationEnded):
            call = (output.recipient, body.turn, body.call)
            self.background[output.recipient] -= self._background.pop(call, 0)

    def _reserve(self, output: Event, who: str) -> bool:
        """Reserve the need of an agent's latest wish; a step claims nothing, so nothing settles it."""
        wish = self.asked.get(who, _NO_WISH)
        if wish.need == NOTHING:
            return False
        self.grants[who] = wish
        self.claims.append((output, who))
        for scope in self.above(who):
            scope.reserved = total(scope.reserved, wish.need)
        return True

    def above(self, address: str) -> Iterator[Scope]:
        """Yield the scopes of an agent and of all above it."""
        while is_agent(address):
            if (scope := self.scopes.get(address)) is not None:
                yield scope
            address = parent_of(address)

    def could_ever_fit(self, who: str) -> bool:
        """Return whether an agent's last wish fits beside the charges and the closing turns above it."""
        return all(scope.may_hold(kept) for scope, kept in self.held(who, self.wishes.get(who, NOTHING)))

    def held(self, who: str, need: Need) -> Iterator[tuple[Scope, Need]]:
        """Yield each scope above an agent, its own first, with this need and the closing turns between."""
        for scope in self.above(who):
            need = total(need, scope.kept_for()) if scope.address != who else need
            yield scope, need

    def _scope(self, who: str, begin: Begin) -> Scope:
        if who != HOST:
            limits = begin.limits
            return Scope(who, limits.tokens, micro(limits.cost_usd), model=begin.model)
        return self._host_scope()

    def _host_scope(self) -> Scope:
        own = self.facts.lives[HOST].profile.limits
        opened, running = self.facts.opened, self.facts.running
        whole = self.resumed or (opened.limits if opened else Limits())
        session = narrow(fill(whole), own)
        ask = running[1].limits if running else fill(own)
        tokens = None if ask.tokens is None else self.ask_spent.tokens + ask.tokens
        cost = None if ask.cost_usd is None else self.ask_spent.micro_usd + (micro(ask.cost_usd) or 0)
        cost, model = _least(micro(session.cost_usd), cost), self.facts.lives[HOST].begin.model
        return Scope(HOST, _least(session.tokens, tokens), cost, self.spent, model=model)


def _charge(need: Need, usage: Usage | None) -> Usage:
    """Return the charge for a call of this need: its usage, or all of the need if the usage is not known."""
    if not need.tokens and not need.micro_usd:  # a step of a program
        return ZERO
    unknown = Usage(charged_tokens=need.tokens, micro_usd=need.micro_usd, unknown_calls=1)
    return replace(usage or unknown, calls=1)


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)
