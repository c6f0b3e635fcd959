"""The rules of first requests: their system prompt, with the context put there, and their bound."""

from callboard.actors.agent.handed_history import FOREIGN
from callboard.actors.agent.request_prefix import TOOL_OVERHEAD_TOKENS, prefix_for
from callboard.actors.protocol import prompts
from callboard.actors.protocol.conversation import blocks_of, is_by
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.makers import maker_of
from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.spoken_calls import has_calls, in_words
from callboard.replay.testing.rules.read_profiles import profile_of

SYSTEM_RULES = {
    "system": "A system prompt is the agent's instructions, the note on reports, and the context put there.",
    "makers": "A message that is handed to an agent keeps its maker.",
    "bound": "The need of an agent's first request includes each byte of its text.",
}


def context_in_message(begin: Begin) -> Json:
    """Return the context that belongs before the prompt; null for none."""
    return NULL if profile_of(bytes(begin.profile)).context_in == "system" else begin.context


def handed_messages(begin: Begin) -> tuple[Json, ...]:
    """Return the messages that an agent is handed, as it reads them."""
    has_tools = not begin.history or bool(prefix_for(begin).tools)
    return begin.history if has_tools or not has_calls(begin.history) else in_words(begin.history)


def why_other_makers(request: ModelRequest, begin: Begin) -> str:
    """Return the first message of a first request whose maker is not the one that was handed over with it."""
    found = maker_of(request.origins)
    for place, said in enumerate(begin.history):
        given = next((maker for start, maker in reversed(begin.makers) if start <= place), None)
        if is_by("assistant", said) and found(place) not in (given, FOREIGN):
            return f"message {place} is by {found(place)}, and {given} made it"
    return ""


def why_other_system(request: ModelRequest, begin: Begin) -> str:
    """Return the difference of a request's system prompt to that of its agent's `Begin`; empty for none."""
    profile = profile_of(bytes(begin.profile))
    given = profile.instructions if begin.schema == NULL else prompts.with_report_note(profile.instructions)
    context = begin.context if profile.context_in == "system" else NULL
    expected, found = (*blocks_of(given), *blocks_of(context)), blocks_of(request.system)
    if [*map(bytes, found)] == [*map(bytes, expected)]:
        return ""
    return f"its system prompt has {len(found)} blocks, and {len(expected)} were given, or others"


def why_small_need(request: ModelRequest, wish: TurnRequested) -> str:
    """Return the bytes that the need of a first request does not count; empty if it counts all."""
    has_media = any(b'"source"' in bytes(message) for message in request.messages)
    if request.model.is_program or wish.is_unbounded or has_media:  # images take fewer tokens than bytes
        return ""
    sent = (request.system, *request.tools, *request.messages)
    least = sum(map(len, sent)) + request.model.max_tokens + bool(request.tools) * TOOL_OVERHEAD_TOKENS
    missing = least - wish.need.tokens
    return f"its need lacks {missing:,} tokens" if missing > 0 else ""
