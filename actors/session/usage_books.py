"""The charges of a session by day, model and profile: a fold over its log. No I/O, no clock.

A charge belongs to the UTC day of the event that settles its call, to the model that was asked, and to the
profile of the agent. It is the one of the supervisor: the usage of the call, or all that was reserved if the
usage is not known.

In a fork, a reused answer costs nothing, and neither does a call whose answer came before its base. A call
that was in flight at its base is the fork's if it makes it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    Finished,
    ReportBack,
    Stopped,
    TurnRequested,
    TurnSettled,
    Wake,
)
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.actors.protocol.usage import NOTHING, Usage
from callboard.actors.session.budget_limits import period_at
from callboard.actors.supervisor.budgets import charge_of


class Charge(msgspec.Struct, frozen=True, gc=False):
    """The usage of some calls. day: such as `2026-11-28`, in UTC."""

    day: str
    model: str
    profile: str
    usage: Usage


class _Named(msgspec.Struct):
    name: str = ""


_named = msgspec.json.Decoder(_Named).decode
_DAY_MS: Final = 86_400_000
_UNKNOWN: Final = ("", "")


class UsageBooks:
    """The calls of one session that are not settled yet. is_fork: its log is that of a fork.

    takers: the functions that take an event in, by the type of its message. They take events in their order.
    charges: of the calls that are settled, which `taken` has not returned yet.
    """

    def __init__(self, *, is_fork: bool = False) -> None:
        self._agents: dict[str, tuple[str, str]] = {}  # profile and model, by address
        self._wishes: dict[str, TurnRequested] = {}
        self._calls: dict[str, TurnRequested] = {}
        self._answered: dict[str, TurnRequested] = {}  # the calls with an answer, by agent; in a fork only
        self._day = (-1, "")  # the number of the last day, and its name
        self.charges: list[Charge] = []
        self.takers: dict[type, Callable[[Event], None]] = {
            Begin: self._begin,
            TurnRequested: self._wish,
            CallModel: self._call,
            TurnSettled: self._settled,
            **dict.fromkeys((Delegate, Wake, ReportBack), self._stated),
            **dict.fromkeys((Finished, Stopped), self._left),
        }
        if is_fork:
            self.takers |= {ModelReplied: self._replied, Forked: self._forked}

    def take(self, events: Iterable[Event]) -> list[Charge]:
        """Take events in, in their order. Return the charges of the calls that they settle."""
        taker_of = self.takers.get
        for event in events:
            taker = taker_of(type(event.body))
            if taker is not None:
                taker(event)
        return self.taken()

    def taken(self) -> list[Charge]:
        """Return the charges of the calls that are settled, once."""
        charges, self.charges = self.charges, []
        return charges

    def _begin(self, event: Event) -> None:
        body: Any = event.body
        self._agents[event.recipient] = (_named(body.profile).name, body.model.name)
        if body.granted is not None and body.granted != NOTHING:  # reserved from here on
            self._calls[event.recipient] = TurnRequested(turn=1, need=body.granted)

    def _wish(self, event: Event) -> None:
        body: Any = event.body
        if body.settled is not None:
            self._charge(event, body.settled.usage)
        self._wishes[event.sender] = body

    def _call(self, event: Event) -> None:
        body: Any = event.body
        agent = body.agent
        wish = self._wishes.get(agent)
        if wish is not None and wish.need is not NOTHING:  # a step of a program costs nothing
            self._calls[agent] = wish

    def _replied(self, event: Event) -> None:
        body: Any = event.body
        if body.reused:
            self._calls.pop(event.recipient, None)
        elif event.recipient in self._calls:
            self._answered[event.recipient] = self._calls[event.recipient]

    def _forked(self, event: Event) -> None:
        for agent, wish in self._answered.items():
            if self._calls.get(agent) is wish:
                del self._calls[agent]

    def _settled(self, event: Event) -> None:
        body: Any = event.body
        self._charge(event, body.usage)

    def _stated(self, event: Event) -> None:
        body: Any = event.body
        if body.settled is not None:
            self._charge(event, body.settled.usage)

    def _left(self, event: Event) -> None:
        body: Any = event.body
        self._charge(event, body.settled.usage if body.settled else None)

    def _charge(self, event: Event, usage: Usage | None) -> None:
        """Add the charge of a call, if the sender has made one."""
        wish = self._calls.pop(event.sender, None)
        if wish is None:
            return
        number = event.at // _DAY_MS
        if number != self._day[0]:
            self._day = (number, period_at("day", event.at))
        profile, model = self._agents.get(event.sender, _UNKNOWN)
        used = charge_of(wish.need, usage)
        self.charges.append(Charge(self._day[1], wish.model or model, profile, used))
