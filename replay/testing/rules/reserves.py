"""The reserve of a parent: its next turn, and a room for the result of each delegation."""

from collections.abc import Sequence

from callboard.actors.protocol import prompts
from callboard.actors.protocol.client_messages import Forked, Resumed, resumed_in
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage, Delegate, DelegationEnded, ReportBack, Stop
from callboard.actors.protocol.port_messages import CallTool, RequestApproval
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Call, of_kind
from callboard.replay.testing.rules.ledger import total


class Rooms(Invariant):
    """The part of a result that a parent reads."""

    name = "rooms"
    rule = (
        "A result has room for `max_result_chars`, or an equal share of a quarter of the budget, or 500 "
        "bytes."
    )
    _rooms: dict[Call, int] = {}

    def handled_Delegate(self, event: Event, body: Delegate, outputs: Sequence[Event]) -> None:
        """Record the room of a delegation that begins."""
        life, scope = self.facts.lives.get(event.sender), self.ledger.scopes.get(event.sender)
        if life is not None and body.room != (0 if life.profile.is_eager else life.most("max_result_chars")):
            self.broken(event.seq, f"a delegation of {event.sender} wants {body.room} bytes for its result")
        if scope is not None and self.facts.is_taken_on(event, outputs):
            place = body.turn, body.call
            self._rooms[event.sender, *place] = self.ledger.room(event.sender, body)

    def on_DelegationEnded(self, event: Event, end: DelegationEnded) -> None:
        """Compare the room that an end states; a denial has none, and is short."""
        room = self._rooms.get((event.recipient, end.turn, end.call), 0)
        if end.room != room:
            self.broken(event.seq, f"{event.recipient} may read {end.room} bytes of it, not {room}")
        if room and end.kind != "reported" and (size := _size(end)) > room:
            self.broken(event.seq, f"{event.recipient} reads {size} bytes of it, not {room}")


def _size(end: DelegationEnded) -> int:
    """Return the bytes of a result within a request, without its quotation marks."""
    return len(encode(prompts.delegation_result(end)[0])) - 2


class ReserveHolds(Invariant):
    """The closing turn of a parent that waited for nothing but its delegations."""

    name = "reserve-holds"
    rule = "No agent ends as `budget` on its own budget at the turn for which its delegations left room."
    _kept: dict[str, int] = {}  # the turn of an agent's last delegations
    _other: dict[str, int] = {}  # the last turn with results that have no room

    def handled_Delegate(self, event: Event, body: Delegate, outputs: Sequence[Event]) -> None:
        """Record a delegation that begins with room for the turn after it, or one that has none."""
        who, scope = event.sender, self.ledger.scopes.get(event.sender)
        # A call of an earlier child may still hold what the turn needs: a race was lost, and it goes on.
        has_room = scope is None or scope.may_hold(total(scope.reserved, scope.kept_for()))
        is_kept = has_room or self._kept.get(who) == body.turn
        found = self._kept if is_kept and self.facts.is_taken_on(event, outputs) else self._other
        found[who] = body.turn

    def on_DelegationEnded(self, event: Event, end: DelegationEnded) -> None:
        """Except a report that is longer than its room: it is never cut."""
        if end.kind == "reported" and _size(end) > end.room:
            self._other[event.recipient] = end.turn

    def on_CallTool(self, event: Event, body: CallTool | RequestApproval | ReportBack) -> None:
        """Except turns with results of another kind."""
        self._other[event.sender] = body.turn

    on_RequestApproval = on_CallTool
    on_ReportBack = on_CallTool

    def on_Resumed(self, event: Event, body: Resumed | Forked) -> None:
        """Except turns under limits that have changed meanwhile."""
        if (resumed := resumed_in(body)) is not None and resumed.limits is not None:
            self._kept.clear()

    on_Forked = on_Resumed

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Check each agent that ends as `budget`."""
        for output, stop in of_kind(outputs, Stop):
            who = output.recipient
            wish, scope = self.ledger.asked.get(who), self.ledger.scopes.get(who)
            if stop.reason != "budget" or wish is None or scope is None or wish.attempt > 1:
                continue
            is_kept = self._kept.get(who) == wish.turn - 1 != self._other.get(who)
            if is_kept and not scope.may_hold(wish.need):
                self.broken(output.seq, f"turn {wish.turn} of {who} has no room beside its delegations")
