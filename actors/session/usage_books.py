"""The charges of a session by day, model and profile: a fold over its log. No I/O, no clock.

A charge belongs to the UTC day of the event that settles its call, to the model that was asked, and to the
profile of the agent. It is the one of the supervisor: the usage of the call, or all that was reserved if the
usage is not known.

In a fork, a reused answer costs nothing, and neither does a call whose answer came before its base. A call
that was in flight at its base is the fork's if it makes it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

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
from callboard.actors.session.budget_periods import period_at
from callboard.actors.supervisor.budgets import charge_of


class Charge(NamedTuple):
    """The usage of some calls. day: such as `2026-11-28`, in UTC."""

    day: str
    model: str
    profile: str
    usage: Usage


class _Named(msgspec.Struct):
    name: str = ""


_named = msgspec.json.Decoder(_Named).decode
_DAY_MS: Final = 86_400_000
_NOTHING: Final = (0,) * len(Usage.__struct_fields__)

_Sums: TypeAlias = dict[tuple[str, str, str], list[int]]
"""The fields of `Usage`, by day, model and profile: added up in place, since this runs every turn."""


class UsageBooks:
    """The calls of one session that are not settled yet. is_fork: its log is that of a fork."""

    def __init__(self, *, is_fork: bool = False) -> None:
        self._agents: dict[str, tuple[str, str]] = {}  # profile and model, by address
        self._wishes: dict[str, TurnRequested] = {}
        self._calls: dict[str, TurnRequested] = {}
        self._answered: dict[str, TurnRequested] = {}  # the calls with an answer, by agent; in a fork only
        self._days = (-1, "")  # the number of the last day, and its name
        self._handlers = _OF_FORKS if is_fork else _HANDLERS

    def take(self, events: Iterable[Event]) -> list[Charge]:
        """Take events in, in their order. Return the charges of the calls that they settle, summed up."""
        sums: _Sums = {}
        handler_of = self._handlers.get
        for event in events:
            handler = handler_of(type(event.body))
            if handler is not None:
                handler(self, event, sums)
        return [Charge(*place, Usage(*sums[place])) for place in sums]

    def _begin(self, event: Event, sums: _Sums) -> None:
        body: Any = event.body
        self._agents[event.recipient] = (_named(body.profile).name, body.model.name)

    def _wish(self, event: Event, sums: _Sums) -> None:
        body: Any = event.body
        if body.settled is not None:
            self._charge(event, body.settled.usage, sums)
        self._wishes[event.sender] = body

    def _call(self, event: Event, sums: _Sums) -> None:
        body: Any = event.body
        wish = self._wishes.get(body.agent)
        if wish is not None and wish.need != NOTHING:  # a step of a program costs nothing
            self._calls[body.agent] = wish

    def _replied(self, event: Event, sums: _Sums) -> None:
        body: Any = event.body
        if body.reused:
            self._calls.pop(event.recipient, None)
        elif event.recipient in self._calls:
            self._answered[event.recipient] = self._calls[event.recipient]

    def _forked(self, event: Event, sums: _Sums) -> None:
        for agent, wish in self._answered.items():
            if self._calls.get(agent) is wish:
                del self._calls[agent]

    def _settled(self, event: Event, sums: _Sums) -> None:
        body: Any = event.body
        self._charge(event, body.usage, sums)

    def _stated(self, event: Event, sums: _Sums) -> None:
        body: Any = event.body
        if body.settled is not None:
            self._charge(event, body.settled.usage, sums)

    def _left(self, event: Event, sums: _Sums) -> None:
        body: Any = event.body
        self._charge(event, body.settled.usage if body.settled else None, sums)

    def _charge(self, event: Event, usage: Usage | None, sums: _Sums) -> None:
        """Add the charge of a call: that of `charge_of`, in place."""
        wish = self._calls.pop(event.sender, None)
        if wish is None:
            return
        number = event.at // _DAY_MS
        if number != self._days[0]:
            self._days = (number, period_at("day", event.at))
        profile, model = self._agents.get(event.sender, ("", ""))
        place = (self._days[1], wish.model or model, profile)
        sums_of = sums.get(place)
        if sums_of is None:
            sums_of = sums[place] = list(_NOTHING)
        used = usage if usage is not None else charge_of(wish.need, None)
        sums_of[0] += used.input_tokens
        sums_of[1] += used.output_tokens
        sums_of[2] += used.cache_read_tokens
        sums_of[3] += used.cache_write_tokens
        sums_of[4] += used.charged_tokens
        sums_of[5] += used.micro_usd
        sums_of[6] += 1
        sums_of[7] += used.unknown_calls


_Handler: TypeAlias = Callable[[UsageBooks, Event, _Sums], None]

_HANDLERS: Final[dict[type, _Handler]] = {
    Begin: UsageBooks._begin,
    TurnRequested: UsageBooks._wish,
    CallModel: UsageBooks._call,
    TurnSettled: UsageBooks._settled,
    **dict.fromkeys((Delegate, Wake, ReportBack), UsageBooks._stated),
    **dict.fromkeys((Finished, Stopped), UsageBooks._left),
}
_OF_FORKS: Final[dict[type, _Handler]] = {
    **_HANDLERS,
    ModelReplied: UsageBooks._replied,
    Forked: UsageBooks._forked,
}
