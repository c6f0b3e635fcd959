"""The results that the runs of a campaign share, so that pure functions are called only once.

Thousands of runs of one scenario share their beginnings. Results are kept under the identity of the very
objects they were made of, and an event that was posted before, with the same number, time and body, is the
same object again. So a hit costs one look into a dictionary. Only the answers of ports are compared by value:
their functions are the user's and may count their calls, so they are called every time.

A memory belongs to one campaign, and forgets everything when it is full. Without it every run is the same,
only slower.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.step import ActorState, Decision, initial, step
from callboard.replay.testing.rules.base import Breach

DECISIONS_MAX: Final = 20_000
"""Decisions that are kept, 1 to 3 KB each."""

OBJECTS_MAX: Final = 200_000
"""Events and requests of all logs that a `BreachCache` keeps: 50 bytes each, themselves not counted."""


class Memory:
    """Decisions, events and answers of earlier runs. initial: the first state of an actor."""

    def __init__(self, most: int = DECISIONS_MAX) -> None:
        self._most = most
        self._decisions: dict[tuple[int, int], tuple[ActorState, Event, Decision]] = {}
        self._events: dict[tuple[int, int], Event] = {}
        self._answers: dict[tuple[int, str], tuple[Event, Post]] = {}
        self._requests: dict[int, tuple[AgentState, ModelRequest]] = {}
        self.initial = cache(initial)

    def step(self, state: ActorState, event: Event) -> Decision:
        """Return the decision for this state and event. An exception passes and is not kept."""
        key = (id(state), id(event))
        known = self._decisions.get(key)
        if known is not None:
            return known[2]
        decision = step(state, event)
        if len(self._decisions) >= self._most:
            self.forget()
        # With its arguments, since objects that are gone give their identity to others.
        self._decisions[key] = (state, event, decision)
        return decision

    def event(self, seq: int, at: int, sender: str, recipient: str, cause: int, body: AnyMessage) -> Event:
        """Return the event; the same object as in an earlier run if all its fields are the same."""
        key = (seq, id(body))
        known = self._events.get(key)
        if known is not None and known.cause == cause and known.at == at and known.sender == sender:
            return known
        event = Event(seq, at, sender, recipient, cause, body)
        if known is None and len(self._events) < self._most:
            self._events[key] = event
        return event

    def request(self, state: AgentState, state_of: Callable[[str], object]) -> ModelRequest:
        """Return the request of an agent in this state, the same object each time.

        It must not depend on the state of another actor, which `state_of` returns.
        """
        known = self._requests.get(id(state))
        if known is not None:
            return known[1]
        request = request_of(state, state_of)
        if len(self._requests) < self._most:
            self._requests[id(state)] = (state, request)
        return request

    def answer(self, request: Event, fault: str, post: Post) -> Post:
        """Return the answer, the same object as in an earlier run if it is equal."""
        key = (id(request), fault)
        known = self._answers.get(key)
        if known is not None and known[1] == post:
            return known[1]
        if len(self._answers) < self._most:
            self._answers[key] = (request, post)
        return post

    def forget(self) -> None:
        """Forget everything."""
        for kept in (self._decisions, self._events, self._answers, self._requests):
            kept.clear()


class BreachCache:
    """Breaches that a rule found, by the identity of the objects that it is a pure function of."""

    def __init__(self, most: int = OBJECTS_MAX) -> None:
        self._most = most
        self._kept = 0
        self._known: dict[tuple[int, ...], tuple[tuple[object, ...], list[Breach]]] = {}

    def of(self, given: Iterable[object], find: Callable[[], list[Breach]]) -> list[Breach]:
        """Return the breaches in these objects, in this order; call `find` if they are not known."""
        objects = tuple(given)
        key = tuple(map(id, objects))
        known = self._known.get(key)
        if known is not None:
            return known[1]
        found = find()
        if self._kept + len(objects) > self._most:
            self._known.clear()
            self._kept = 0
        self._kept += len(objects)
        self._known[key] = (objects, found)
        return found
