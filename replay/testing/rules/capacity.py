"""Places of the capacity port in the log of one session: a call of a limited model has one, and only one."""

from collections.abc import Sequence

from callboard.actors.protocol.client_messages import Resumed, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage, TurnRequested
from callboard.actors.protocol.port_messages import CallModel, CapacityGiven, RequestCapacity
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind


class Places(Invariant):
    """Requests for a place, and the calls that follow."""

    name = "places"
    rule = "A call of a limited model starts after it was given a place, and no other call requests one."
    _limited: frozenset[str] = frozenset()
    _wishes: dict[str, TurnRequested] = {}
    _served: set[str] = set()
    _given: dict[int, CapacityGiven] = {}

    def handled_SessionOpened(self, event: Event, body: SessionOpened, outputs: Sequence[Event]) -> None:
        """Record the limited models."""
        self._limited = frozenset(body.capacity)

    def handled_Resumed(self, event: Event, body: Resumed, outputs: Sequence[Event]) -> None:
        """Record a change of the limited models."""
        if body.capacity is not None:
            self._limited = frozenset(body.capacity)

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Record the wish that a place may be requested for."""
        self._wishes[event.sender] = body
        self._served.discard(event.sender)

    def on_RequestCapacity(self, event: Event, body: RequestCapacity) -> None:
        """Compare a request with the wish of its agent, and its model with the limited ones."""
        wish = self._wishes.get(body.agent, TurnRequested(0))
        if body.agent in self._served:  # one wish asks for one place
            wish = TurnRequested(0)
        self._served.add(body.agent)
        if (body.turn, body.attempt, body.need) != (wish.turn, wish.attempt, wish.need):
            self.broken(event.seq, f"{body.agent} did not ask for this call, or has a place for it already")
        if body.model not in self._limited or body.model != self._model_of(body.agent):
            self.broken(event.seq, f"{body.agent} needs no place at {body.model!r}")

    def on_CapacityGiven(self, event: Event, body: CapacityGiven) -> None:
        """Record a place."""
        if body.status == "given":
            self._given[event.seq] = body

    def on_CallModel(self, event: Event, body: CallModel) -> None:
        """Check that the call of a limited model is the answer to a place for its agent."""
        given = self._given.get(event.cause)
        if given is None and self._model_of(body.agent) in self._limited:
            self.broken(event.seq, f"{body.agent} calls a limited model without a place")
        elif given is not None and given.agent != body.agent:
            self.broken(event.seq, f"{body.agent} has the place of {given.agent}")

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Report a place that was not used by now."""
        if outputs:
            self.confirm()

    def handled_CapacityGiven(self, event: Event, body: CapacityGiven, outputs: Sequence[Event]) -> None:
        """Check that an agent which runs uses its place at once."""
        is_used = any(call.agent == body.agent for _, call in of_kind(outputs, CallModel))
        life = self.facts.lives.get(body.agent)
        is_running = life is not None and not 0 < life.ended_by < event.seq
        if body.status == "given" and is_running and not is_used:
            self.in_doubt = event.seq, f"{body.agent} has a place and does not call its model"

    def _model_of(self, who: str) -> str:
        life, wish = self.facts.lives.get(who), self._wishes.get(who)
        if life is None:
            return ""
        return life.begin.model.spec_named(wish.model if wish else "").name
