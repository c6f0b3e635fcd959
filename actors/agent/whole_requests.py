"""The whole requests of a program's questions, which the program writes itself: messages, tools, settings.

A question says what differs from the earlier requests of its run, so that each message is kept once:

    messages   new messages, and references [ask, from, to] to those of an earlier request with its reply
    like       the ask whose system prompt, tools and settings it has; without it they stand in the question

The agent that carries the question knows the digest and the size of its request alone. The conversation is
put together from the state of the program that asked (`request_of`).

Rules
  - The last `REQUESTS_MAX` requests of a run may be referred to, and those whose questions are open.
  - The requests of one step count in the order of their ids, and none refers to another one of its step:
    asyncio itself may order the asks of a step by chance.
  - A reply belongs to its request once the program is handed it. `programs/kept_requests.py` counts alike.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.arguments import Question, read_question
from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.open_calls import OpenCalls, find
from callboard.actors.agent.request_prefix import TOOL_OVERHEAD_TOKENS
from callboard.actors.protocol import prompts
from callboard.actors.protocol.conversation import message, rolled
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.media import NO_MEDIA, Media, media_in, together
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.value_types import AskedRequest

REQUESTS_MAX: Final = 64
_MESSAGES: Final = b'"messages"'


class WholeRequest(msgspec.Struct, frozen=True, gc=False):
    """A request of a program, with the reply to it once the program has that.

    ask: the id of its question; turn, call: its place. digest: of the request, rolling. tokens: a bound on
    its input, which a service's count may have made smaller; bytes: the same without any count.
    """

    ask: str
    turn: int
    call: int
    messages: IntMap[Json]
    system: Json
    tools: tuple[Json, ...]
    settings: Json
    max_tokens: int
    force_tool: str
    digest: str
    tokens: int
    bytes: int
    media: Media

    @property
    def title(self) -> str:
        """Return the name, for people, of its question."""
        count = self.messages.size
        return f"a request of {count} message{'s' * (count != 1)}"

    @property
    def asked(self) -> AskedRequest:
        """Return what the agent that carries the question has to know."""
        media = self.media
        counts = () if media == NO_MEDIA else (media.images, media.files, media.bytes, media.links)
        return AskedRequest(self.ask, self.digest, self.tokens, self.bytes, self.max_tokens, counts)


Kept: TypeAlias = tuple[WholeRequest, ...]
"""The requests of a run, oldest first."""


def with_requests(kept: Kept, calls: OpenCalls, turn: int, uses: Iterable[ToolUse]) -> Kept:
    """Keep the whole requests of a step. turn: of the step; calls: those that are open."""
    new: list[WholeRequest] = []
    for place, use in enumerate(uses):
        if use.spec is None and use.name == prompts.ASK_MODEL and _MESSAGES in bytes(use.input):
            question = read_question(use.input)
            if question is not None and question.messages is not None:
                request = _resolved(question, question.messages, kept, use.id, turn, place)
                new += [request] if request is not None else []
    if not new:
        return kept
    kept += tuple(sorted(new, key=lambda one: one.ask))
    over = len(kept) - REQUESTS_MAX
    return tuple(
        one
        for place, one in enumerate(kept)
        if place >= over or one.turn == turn or find(calls, one.turn, one.call) is not None
    )


def request_at(kept: Kept, turn: int, call: int) -> WholeRequest | None:
    """Return the request of the question at this place; None if it has none."""
    return next((one for one in reversed(kept) if (one.turn, one.call) == (turn, call)), None)


def with_reply(kept: Kept, ended: DelegationEnded) -> Kept:
    """Add the reply that ends a question to its request."""
    request = request_at(kept, ended.turn, ended.call)
    if request is None or ended.kind != "answered" or ended.value == NULL:
        return kept
    said = message("assistant", ended.value)
    # After a single call the service's own count bounds the conversation, as it does for any agent.
    counted = ended.usage.tokens if ended.usage.calls == 1 and not ended.usage.unknown_calls else 0
    answered = replace(
        request,
        messages=request.messages.append(said),
        digest=rolled(request.digest, said),
        tokens=min(counted or request.tokens + len(said), request.tokens + len(said)),
        bytes=request.bytes + len(said),
    )
    return tuple(answered if one is request else one for one in kept)


def _find(kept: Kept, ask: str) -> WholeRequest | None:
    return next((one for one in reversed(kept[-REQUESTS_MAX:]) if one.ask == ask), None)


def _resolved(
    question: Question, items: Sequence[Json], kept: Kept, ask: str, turn: int, call: int
) -> WholeRequest | None:
    """Return the request of a question; None if it refers to a request or a message that is not kept."""
    like = _find(kept, question.like) if question.like else None
    if question.like and like is None:
        return None
    system, tools, settings = question.system, question.tools, question.settings
    if like is not None:
        system, tools, settings = like.system, like.tools, like.settings
    first = _first(items[0], kept)
    start = rolled("", system, settings, *tools)
    size = len(system) + sum(map(len, tools)) + (TOOL_OVERHEAD_TOKENS if tools else 0)
    request = WholeRequest(
        ask,
        turn,
        call,
        IntMap(),
        system,
        tools,
        settings,
        question.max_tokens or 0,
        question.force_tool,
        start,
        size,
        size,
        NO_MEDIA,
    )
    if first is not None and (first.system, first.tools, first.settings) == (system, tools, settings):
        request = replace(
            request,
            messages=first.messages,
            digest=first.digest,
            tokens=first.tokens,
            bytes=first.bytes,
            media=first.media,
        )
        items = items[1:]
    messages = _messages(items, kept)
    return None if messages is None else _with_messages(request, messages)


def _with_messages(request: WholeRequest, messages: Sequence[Json]) -> WholeRequest:
    media, conversation = request.media, request.messages
    for said in messages:
        conversation = conversation.append(said)
        media = together(media, found) if (found := media_in(said)) is not NO_MEDIA else media
    size = sum(map(len, messages))
    return replace(
        request,
        messages=conversation,
        digest=rolled(request.digest, *messages),
        tokens=request.tokens + size,
        bytes=request.bytes + size,
        media=media,
    )


def _first(item: Json, kept: Kept) -> WholeRequest | None:
    """Return the earlier request that a request begins with as a whole, its reply included."""
    place = _read_place(item)
    if place is None:
        return None
    found = _find(kept, place[0])
    return found if found is not None and place[1:] == (0, found.messages.size) else None


def _messages(items: Iterable[Json], kept: Kept) -> list[Json] | None:
    """Return new messages and those that are referred to; None for a reference that leads nowhere."""
    found: list[Json] = []
    for item in items:
        if bytes(memoryview(item)[:1]) != b"[":
            found.append(item)
            continue
        place = _read_place(item)
        if place is None:
            return None
        ask, start, end = place
        known = _find(kept, ask)
        if known is None or not 0 <= start < end <= known.messages.size:
            return None
        found += [*known.messages.values()][start:end]
    return found


_PLACE: Final = msgspec.json.Decoder(tuple[str, int, int])


def _read_place(item: Json) -> tuple[str, int, int] | None:
    try:
        return _PLACE.decode(item)
    except msgspec.DecodeError:
        return None
