"""An agent that carries a program's question with its whole request.

Its request is the one that the program keeps, and then its own conversation, which is empty at first. So it
needs the digest and the size of that request, and its most tokens of a reply, which bind the grant.

Rules
  - Without a schema the reply is the answer as it is, with its calls and its stop reason: they are the
    program's, and no call of it runs here.
  - With a schema the agent owes a report, as any agent does, and its reports follow the program's messages.
"""

from msgspec.structs import replace

from callboard.actors.agent.input_bound import with_message
from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.agent.turns import Decision, ask_turn, finish
from callboard.actors.protocol.conversation import rolled
from callboard.actors.protocol.media import NO_MEDIA, Media
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.value_types import AskedRequest, Settled


def model_of(begin: Begin) -> ModelSpec:
    """Return the model of an agent that begins so, with the bound on the reply that its question states."""
    model, asked = begin.model, begin.asked
    if asked is None or not asked.max_tokens:
        return model
    most = asked.max_tokens
    return replace(
        model, max_tokens=most, fallback=tuple(replace(one, max_tokens=most) for one in model.fallback)
    )


def ask_whole(state: AgentState, seq: int, asked: AskedRequest) -> Decision:
    """Ask for the first turn with the request of a program. seq: of the `Begin` that names it."""
    prefix = prefix_of(state)
    own = (prefix.system, *prefix.tools) if prefix.reports else ()
    state = replace(
        state,
        digest=rolled(asked.digest, *own) if own else asked.digest,
        context_tokens=asked.tokens + prefix.tokens,
        fresh=(seq,),
        asked=asked,
    )
    media = Media(*asked.media) if asked.media else NO_MEDIA
    if media is not NO_MEDIA or state.fallback is not None:
        books, more = with_message(state, state.fallback, media, asked.bytes)
        state = replace(state, fallback=books, context_tokens=state.context_tokens + more)
    return ask_turn(state)


def answers_whole(state: AgentState) -> bool:
    """Return True if the next reply is the answer to a question as it is."""
    return state.asked is not None and not prefix_of(state).reports


def finish_whole(state: AgentState, reply: ModelReplied, settled: Settled) -> Decision:
    """End the agent with the blocks of its reply. The stop reason is the detail."""
    return finish(replace(state, text=""), "answered", settled, reply.stop_reason, reply.content)
