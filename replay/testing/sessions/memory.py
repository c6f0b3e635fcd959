"""What the runs of a campaign have in common, kept: deciders are pure, so a decision need be made only once.

Thousands of runs of one scenario share their beginnings, and much of what each actor goes through. Here the
result of a decision is kept under the very objects it was made of, the state and the event; and an event that
was posted before, with the same number, time and body, is the same object again. So a hit costs one look into
a dictionary, and nothing is ever compared by value but the answers of ports.

Rules
  - It is a memory of pure functions: without it, every run is the same and slower. A decider that is not pure
    is found by replaying a log, which asks the deciders themselves, or by the same run in another process.
  - Ports are asked every time: their functions are the user's, and may want to count.
  - It belongs to one campaign, and forgets everything when it is full.
"""

from typing import Final

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.step import ActorState, Decision, initial, step

DECISIONS_MAX: Final = 20_000
"""Decisions that are kept, 1 to 3 KB each."""


class Memory:
    """Decisions, events and answers of earlier runs."""

    def __init__(self, most: int = DECISIONS_MAX) -> None:
        self._most = most
        self._decisions: dict[tuple[int, int], tuple[ActorState, Event, Decision]] = {}
        self._events: dict[tuple[int, int], Event] = {}
        self._answers: dict[tuple[int, str], tuple[Event, Post]] = {}
        self._requests: dict[int, tuple[AgentState, ModelRequest]] = {}
        self._initials: dict[str, ActorState] = {}

    def initial(self, address: str) -> ActorState:
        """Return the initial state of an actor."""
        state = self._initials.get(address)
        if state is None:
            state = self._initials[address] = initial(address)
        return state

    def step(self, state: ActorState, event: Event) -> Decision:
        """Return the decision for this state and event. An exception passes and is not kept."""
        key = (id(state), id(event))
        known = self._decisions.get(key)
        if known is not None:
            return known[2]
        decision = step(state, event)
        if len(self._decisions) >= self._most:
            self.forget()
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

    def request(self, state: AgentState) -> ModelRequest:
        """Return the request of an agent in this state, the same object each time."""
        known = self._requests.get(id(state))
        if known is not None:
            return known[1]
        request = request_of(state)
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
        """Forget everything: objects that are gone give their identity to others."""
        self._decisions.clear()
        self._events.clear()
        self._answers.clear()
        self._requests.clear()
        self._initials.clear()
