"""The step function: (state, event) -> (state', posts). Live runs, replay, resume and simulation use it.

Rules
  - A message that its recipient does not handle changes nothing and posts nothing. A log may hold such
    messages, for example the answer to a request of an agent that has drained.
  - `steps` gives the same result as `step` for one event after the other.
  - `failed` replaces the decision of an agent's decider that raised: in a live run where it raises, in
    replay where the log records it.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, cast, get_args

from callboard.actors.agent.decider import decide_agent
from callboard.actors.agent.failing import fail_agent
from callboard.actors.agent.state import AgentState, initial_agent
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AgentInput, DeciderFailed
from callboard.actors.supervisor.decider import decide_supervisor, decide_together, initial_supervisor
from callboard.actors.supervisor.state import SupervisorState

ActorState: TypeAlias = AgentState | SupervisorState
Decision: TypeAlias = tuple[ActorState, tuple[Post, ...]]

_FOR_AGENTS = frozenset(get_args(AgentInput))


def initial(address: str) -> ActorState:
    """Return the state of an actor before its first event."""
    return initial_supervisor() if address == SUPERVISOR else initial_agent(address)


def step(state: ActorState, event: Event) -> Decision:
    """Make one decision: return the next state of the event's recipient and its posts, in order."""
    body: Any = event.body  # the deciders' tables narrow it by its type, which mypy cannot follow
    if type(state) is AgentState:
        return decide_agent(state, event.seq, body)
    return decide_supervisor(state, event.seq, event.sender, body)


def steps(state: ActorState, events: Sequence[Event]) -> tuple[ActorState, list[tuple[Post, ...]]]:
    """Make the decisions of one actor on consecutive events: return the last state and the posts of each."""
    # A busy supervisor puts the records that several decisions change into its state once.
    if type(state) is SupervisorState:
        return decide_together(state, events)
    posts: list[tuple[Post, ...]] = []
    for event in events:
        state, outputs = step(state, event)
        posts.append(outputs)
    return state, posts


def failed(state: ActorState, event: Event, error: str) -> Decision:
    """Return the decision that replaces the one of an agent's decider that raised.

    It posts the failure, for which the supervisor ends the agent as `crashed`. The agent waits for the
    answers that ports still owe it, and drains.

    error: the name of the exception's class.

    Raises TypeError for the supervisor, whose failure ends the session in this process.
    """
    if not isinstance(state, AgentState):
        raise TypeError("a session does not go on without its supervisor")
    posts: tuple[Post, ...] = ()
    if type(event.body) in _FOR_AGENTS:
        state, posts = fail_agent(state, event.seq, cast("AgentInput", event.body))
    return state, (Post(SUPERVISOR, DeciderFailed(event.seq, error)), *posts)


def is_at_rest(state: ActorState) -> bool:
    """Return True if an agent has nothing to do until its next `Begin`. A sub-agent gets no second one."""
    return type(state) is AgentState and state.phase == "idle"


def forgotten(address: str) -> ActorState:
    """Return the small state that a sub-agent at rest keeps: it handles no message any more."""
    return AgentState(address, phase="idle")
