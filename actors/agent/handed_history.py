"""The history that an agent is handed: messages of its parent as the beginning of its own conversation.

    messages      its conversation before the first request; their makers come with them
    the last one  if a user says it, its blocks stand before the prompt in the same message: some services
                  refuse two messages of a user in a row

Rules
  - An agent without any tool reads calls and results as words (`spoken_calls.py`). No model has made those.
  - A reply in which a service's own tool was used counts as one of another model, for an agent without such
    tools. So that use is left out.
  - The bytes of the messages are in the bound of the first request, as those of any other message.
"""

from typing import Final

from msgspec.structs import replace

from callboard.actors.agent.input_bound import with_message
from callboard.actors.agent.open_calls import only_answers
from callboard.actors.agent.request_prefix import RequestPrefix
from callboard.actors.agent.state import AgentState
from callboard.actors.agent.tasks import NOTHING_UNHEARD, Unheard
from callboard.actors.protocol.blocks import THOUGHTS, content_of, is_private, kind_of
from callboard.actors.protocol.conversation import blocks_of, is_by
from callboard.actors.protocol.histories import HandedHistory, history_of, origins_of, with_makers
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.media import media_in
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.spoken_calls import has_calls, in_words

FOREIGN: Final = Origin(adapter="handed-over")
"""The maker of replies that count as another model's: in words, or with the use of a service's tools."""


def as_read(begin: Begin, prefix: RequestPrefix) -> HandedHistory:
    """Return the history that a `Begin` hands over as its agent reads it."""
    if not prefix.tools and has_calls(begin.history):
        return history_of((said, FOREIGN) for said in in_words(begin.history))
    said = with_makers(begin.history, begin.makers)
    return history_of(said if prefix.profile.server_tools else map(_without_service, said))


def _without_service(said: tuple[Json, Origin | None]) -> tuple[Json, Origin | None]:
    return (said[0], FOREIGN) if _uses_service(said[0]) else said


def begin_history(state: AgentState, begin: Begin, prefix: RequestPrefix) -> AgentState:
    """Return the state with the history of its `Begin`. It has yet to hear the blocks of the last message."""
    history = as_read(begin, prefix)
    messages = history.messages
    last: tuple[Json, ...] = ()
    if messages and is_by("user", messages[-1]):
        messages, last = messages[:-1], blocks_of(content_of(messages[-1]))
    kept: IntMap[Json] = IntMap()
    for said in messages:
        kept = kept.append(said)
    answers = NOTHING_UNHEARD
    for block in last:
        answers = answers.append(Unheard(block))
    return replace(
        state,
        calls=only_answers(answers),
        history=kept,
        origins=origins_of(history.makers),
        context_tokens=sum(map(len, messages)),
        handed=(len(messages), len(last)),
    )


def with_media(state: AgentState) -> AgentState:
    """Return the state with the images and files of a history that was handed over in its bound."""
    for said in state.history.values():
        books, tokens = with_message(state, state.fallback, media_in(said), 0)
        state = replace(state, fallback=books, context_tokens=state.context_tokens + tokens)
    return state


def _uses_service(said: Json) -> bool:
    """Return True if a reply holds the use of a service's own tool."""
    return is_by("assistant", said) and any(
        is_private(kind) and kind not in THOUGHTS for kind in map(kind_of, blocks_of(content_of(said)))
    )
