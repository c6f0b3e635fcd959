"""The life of an agent after its decider has raised: it counts answers, and waits to be stopped."""

from msgspec.structs import replace

from callboard.actors.agent.decider import decide_agent
from callboard.actors.agent.state import AgentState
from callboard.actors.agent.turns import Decision
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.messages import AgentInput, Begin, Stopped
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import Settled


def fail_agent(state: AgentState, seq: int, body: AgentInput) -> Decision:
    """Return the state and the posts of an agent whose decider raised on this message.

    The agent counts the message as an answer and waits to be stopped. If its decider raises again, the agent
    forgets its conversation and posts `Stopped` at once, so that its session does not wait for it.
    """
    if state.phase == "idle" and not isinstance(body, Begin):
        return state, ()
    if state.phase not in ("failed", "stopping"):
        state = replace(state, phase="failed", is_model_out=state.phase == "thinking")
        if isinstance(body, Begin) and body.granted is not None:
            state = replace(state, owed=Settled(ZERO))  # the call that was granted is never made
        try:
            return decide_agent(state, seq, body)
        except Exception:  # not even counting works; the log has the first failure
            return _forget_all(state)
    return _forget_all(state)


def _forget_all(state: AgentState) -> Decision:
    # What its host has read stays labelled, and the supervisor is still to be told of it.
    untold = state.new_labels if state.rules >= 2 else ()
    rested = AgentState(
        state.address,
        phase="idle",
        turn=state.turn,
        labels=state.labels,
        new_labels=untold,
        rules=state.rules,
        repair=state.repair,
    )
    return rested, (Post(SUPERVISOR, Stopped(state.owed)),)
