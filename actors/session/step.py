"""The one step function: (state, event) -> (state', posts). Run, replay, resume, simulate and fork use it.

`steps` is the same for several events of one actor, and gives the same; a busy supervisor's are cheaper so.

It also answers the one question that is not in any decider: what happens to a message that its recipient
has no use for. Nothing: no posts, the same state. A log may hold such messages (answers to an agent that
is gone), and replay takes them as calmly as the live run did.

A decider that raises is not asked again about the same event. `failed` says what stands in place of its
decision: live where it raised, replay where the log says that it did.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, cast, get_args

from callboard.actors.agent.decider import decide_agent, fail_agent
from callboard.actors.agent.state import AgentState, initial_agent
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AgentInput, DeciderFailed, SupervisorInput
from callboard.actors.supervisor.decider import decide_in_turn, decide_supervisor, initial_supervisor
from callboard.actors.supervisor.state import SupervisorState

ActorState: TypeAlias = AgentState | SupervisorState
Decision: TypeAlias = tuple[ActorState, tuple[Post, ...]]

_FOR_AGENTS = frozenset(get_args(AgentInput))
_FOR_SUPERVISOR = frozenset(get_args(SupervisorInput))


def initial(address: str) -> ActorState:
    """The state of an actor that nothing has reached yet."""
    return initial_supervisor() if address == SUPERVISOR else initial_agent(address)


def step(state: ActorState, event: Event) -> Decision:
    """The next state of the event's recipient, and what it posts, in order."""
    body: Any = event.body  # looked up by its type, which mypy cannot follow
    if type(state) is AgentState:
        return decide_agent(state, event.seq, body)  # which has a table of what it takes in which phase
    if type(body) in _FOR_SUPERVISOR:
        return decide_supervisor(state, event.seq, event.sender, body)
    return state, ()


def steps(state: ActorState, events: Sequence[Event]) -> tuple[ActorState, list[tuple[Post, ...]]]:
    """`step` for one event after the other: what is posted for each, and the state behind all of them."""
    if type(state) is SupervisorState and all(type(event.body) in _FOR_SUPERVISOR for event in events):
        bodies: list[Any] = [(event.seq, event.sender, event.body) for event in events]
        return decide_in_turn(state, bodies)
    posts: list[tuple[Post, ...]] = []
    for event in events:
        state, said = step(state, event)
        posts.append(said)
    return state, posts


def failed(state: ActorState, event: Event, error: str) -> Decision:
    """What stands in place of an agent's decision that raised: the failure, and its drained state.

    The supervisor ends the agent as `crashed`; the agent counts the answers that are still to come and
    drains. error: the name of the exception's class. Raises TypeError for the supervisor, whose failure
    ends the session in this process.
    """
    if not isinstance(state, AgentState):
        raise TypeError("a session does not go on without its supervisor")
    posts: tuple[Post, ...] = ()
    if type(event.body) in _FOR_AGENTS:
        state, posts = fail_agent(state, event.seq, cast("AgentInput", event.body))
    return state, (Post(SUPERVISOR, DeciderFailed(event.seq, error)), *posts)


def is_at_rest(state: ActorState) -> bool:
    """Whether an agent has nothing to do until it is begun again; a sub-agent never is."""
    return type(state) is AgentState and state.phase == "idle"


def forgotten(address: str) -> ActorState:
    """All that need be kept of a sub-agent at rest: it answers whatever still comes with nothing."""
    return AgentState(address, phase="idle")
