"""The conversation of a request in the form in which one origin reads it. Pure: every replay gives the same.

    message made by that origin      the same object, with its reasoning, signatures and item ids, but for
                                     parts that its service is known to refuse (`repairs.py`)
    by another: text                 the text alone, without citations and marks; left out if it is blank
    by another: call                 its name and arguments, under an id of ours; its result gets the same id
    by another: image, document      at the next user message, behind the results, after a sentence about it
    by another: thinking, calls of   left out: they mean something to their maker only
      the service's own tools
    by another: any other block      refused, or a text in its place
    by a user                        the same object, but for the ids of results, and for blocks that the
                                     adapter says it cannot send: those are refused, or a text in their place

Rules
  - The translation of a message depends on it and on earlier messages only. So what one origin is sent grows
    at its end, as the conversation does, and a service finds its prompt cache.
  - An id of ours differs for calls of different messages although their makers gave them the same id.
  - From repair level 1 on each message of a model is read as another's, and ids of ours are short, since
    Mistral's models take no others; at level 2 calls and results are words.
  - Two messages of models in a row, one of them by another, get `GO_ON` between them, and so does a
    conversation that ends with another's message, even one that is left out: services continue their own
    last words only.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.blocks import (
    UNKNOWN,
    are_same,
    as_list,
    call_of,
    content_of,
    forms_in,
    id_of,
    is_private,
    kind_of,
    medium_of,
    parts_of,
    source_of,
    starts_with,
    texts_of,
    with_parts,
)
from callboard.actors.protocol.conversation import (
    blocks_of,
    is_by,
    message,
    text_block,
    text_json,
    user_message,
)
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.makers import maker_of
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.repair_levels import Repair
from callboard.actors.protocol.repairs import InputRules, Mender, our_id
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.spoken_calls import Speaker

CanSend: TypeAlias = Callable[[str, str], bool]
"""Tells if an adapter can send a block of a user: (its type, the type of its source or "") -> True if so."""

_MEDIA: Final = frozenset({"image", "document"})
_CONTINUE: Final = text_block("Continue.")
_BY_A_MODEL: Final = text_block("Made by the assistant:")
GO_ON: Final = user_message((_CONTINUE,))
_STRING: Final = msgspec.json.Decoder(str)


class Unsayable(ValueError):
    """A block that cannot be sent to an origin. place, block: of its message and in it. kind: its type.

    Its text counts from 1, as `callboard request` does.
    """

    def __init__(self, place: int, block: int, kind: str) -> None:
        super().__init__(f"message {place + 1}, block {block + 1} ({kind})")
        self.place = place
        self.block = block
        self.kind = kind


class _Reply(NamedTuple):
    """The remains of another's message: its blocks, the ids of its calls by its own, and its images."""

    blocks: list[Json]
    ids: dict[str, deque[str]]
    media: list[Json]


class Reader:
    """Translates a conversation, message after message. read: the number of messages so far.

    can_send: None for an adapter that sends the blocks of users as they are. is_lossy: a block that cannot
    be sent is replaced by a text. handed: so are those of the messages, and of the blocks of the next one,
    that the agent was handed by another. rules: of the service, for its own replies; None if none are known.
    repair: of the agent. After Unsayable a reader is of no more use.

    repairs: what was changed in replies of the origin, in words. is_changed: a message is not sent as it is.
    """

    def __init__(
        self,
        origin: Origin,
        can_send: CanSend | None,
        *,
        is_lossy: bool,
        handed: tuple[int, int],
        rules: InputRules | None,
        repair: Repair,
    ) -> None:
        self.read = 0
        self.repairs: list[str] = []
        self.is_changed = False
        self._rules = InputRules() if rules is None else rules
        self._mender = Mender(rules) if rules is not None else None
        # The places of a message, as sent and as said, and the message that goes there once a user speaks.
        self._closed: tuple[int, int, Json] | None = None
        self._level = repair.level
        self._speaker = Speaker() if repair.level > 1 else None
        self._sent: list[Json] = []
        self._origin = origin
        self._can_send = can_send
        self._sendable_forms: set[tuple[str, str]] = set()
        self._is_lossy = is_lossy
        self._handed = handed
        self._replies = 0
        self._last: Literal["heard", "own", "other"] = "heard"  # the message that was sent last
        self._ids: dict[str, deque[str]] = {}  # of the calls of the last message, if another made it
        self._media: list[Json] = []  # of others, for the next message of a user

    @property
    def sent(self) -> tuple[Json, ...]:
        """Return the messages to send."""
        return (*self._sent, self._go_on()) if self._last == "other" else tuple(self._sent)

    def take(self, said: Json, maker: Origin) -> None:
        """Translate the next message. maker: the maker of it, if it is a model's. Raises Unsayable."""
        if is_by("system", said):
            self._send(said, said, "heard")
        elif is_by("user", said):
            if self._closed is not None and not _has_results_only(said):
                self._close(*self._closed)
            self._send(said, self._heard(said), "heard")
            self._ids, self._media = {}, []
        elif maker == self._origin and not self._level:
            self._take_own(said)
        else:
            self._take_other(said)
        self.read += 1

    def _close(self, place: int, said_at: int, closed: Json) -> None:
        """Let a reply stand without the calls of server tools that a user's words have cut off."""
        self._sent[place], self._closed, self.is_changed = closed, None, True
        self.repairs.append(
            f"message {said_at + 1}: calls of the service's tools without a result are left out"
        )
        if self._mender is not None:
            self._mender.close()

    def _take_own(self, said: Json) -> None:
        self._replies += 1
        goes_on = self._last == "own"
        self._part_from(self._last == "other")
        if self._mender is None:
            self._send(said, said, "own")
            self._ids = {}
            return
        mended = self._mender.take(self.read, self._replies, said, goes_on=goes_on)
        self._send(said, mended.said, "own")
        self._ids = mended.ids
        if mended.closed is not None:
            self._closed = (len(self._sent) - 1, self.read, mended.closed)
        elif not mended.is_open:
            self._closed = None
        self.repairs += mended.told

    def _take_other(self, said: Json) -> None:
        self._replies += 1
        reply = self._translated(said)
        if reply.blocks:
            self._part_from(self._last != "heard")
            self._send(said, message("assistant", as_list(reply.blocks)), "other")
        elif self._last == "own":
            self._last = "other"  # it left nothing, but the own message before it is no longer the last word
        self.is_changed = True
        self._ids = reply.ids
        self._media += reply.media

    def _send(self, said: Json, sent: Json, by: Literal["heard", "own", "other"]) -> None:
        """Send a message. said: as the conversation has it."""
        if self._speaker is not None:
            sent = self._speaker.said(sent)
        self.is_changed = self.is_changed or sent is not said
        self._sent.append(sent)
        self._last = by

    def _part_from(self, is_reply: bool) -> None:
        """Let a user speak before a model's message. is_reply: the last message is a model's, of another."""
        if is_reply or self._media:
            self._sent.append(self._go_on())
            self._media = []

    def _go_on(self) -> Json:
        return user_message((_BY_A_MODEL, *self._media, _CONTINUE)) if self._media else GO_ON

    # --- a message of another model ---------------------------------------------------

    def _translated(self, said: Json) -> _Reply:
        reply = _Reply([], {}, [])
        for at, block in enumerate(blocks_of(content_of(said))):
            kind = kind_of(block)
            try:
                if kind == "tool_use":
                    reply.blocks.append(self._call(block, reply.ids))
                elif kind == "text":
                    reply.blocks.extend(texts_of(block))
                elif kind in _MEDIA:
                    reply.media.append(self._medium(at, kind, block))
                elif not is_private(kind):
                    reply.blocks.append(self._instead_of_own(at, kind))
            except msgspec.DecodeError:
                reply.blocks.append(self._instead_of_own(at, kind))
        return reply

    def _call(self, block: Json, ids: dict[str, deque[str]]) -> Json:
        theirs = id_of(block)
        number = sum(map(len, ids.values()))
        ours = our_id(self._replies, number, theirs, is_short=self._level > 0)
        ids.setdefault(theirs, deque()).append(ours)
        return call_of(block, ours, self._rules.name)

    def _medium(self, at: int, kind: str, block: Json) -> Json:
        medium = medium_of(block)
        if medium is None:  # such as one by the id of a file that another service keeps
            return self._instead_of_own(at, f"{kind} with source {source_of(block) or UNKNOWN}")
        return self._sendable(at, medium)

    # --- a message of a user ----------------------------------------------------------

    def _heard(self, said: Json) -> Json:
        if not (self._ids or self._media) and self._takes_all(said):
            return said
        before = blocks_of(content_of(said))
        blocks = [self._block(at, block) for at, block in enumerate(before)]
        if self._media:
            results = sum(1 for block in before if kind_of(block) == "tool_result")
            blocks[results:results] = [_BY_A_MODEL, *self._media]
        elif are_same(before, blocks):
            return said
        return message("user", as_list(blocks))

    def _takes_all(self, said: Json) -> bool:
        """Return True if the adapter can send every block of a user's message as it is."""
        can_send = self._can_send
        if can_send is None:
            return True
        forms = forms_in(said)
        if forms is None:
            return False
        new = {*forms} - self._sendable_forms
        if new:
            if not all(can_send(kind, source) for kind, source in new):
                return False
            self._sendable_forms |= new
        return True

    def _block(self, at: int, block: Json) -> Json:
        """Return a user's block as it is sent: a result under the id of its call."""
        if kind_of(block) != "tool_result":
            return self._sendable(at, block)
        parts, changed = parts_of(block), {}
        if self._ids:
            ours = self._ids.get(_STRING.decode(parts["tool_use_id"]))
            if not ours:
                return self._instead_of(at, "tool_result without its call")
            changed["tool_use_id"] = text_json(ours.popleft())
        content = parts.get("content", NULL)
        inner = blocks_of(content) if starts_with(b"[", content) else ()
        sendable = [self._sendable(at, one) for one in inner]
        if not are_same(inner, sendable):
            changed["content"] = as_list(sendable)
        return with_parts(block, changed)

    def _sendable(self, at: int, block: Json) -> Json:
        """Return a block if the adapter can send it, else a text in its place. at: of the outer block."""
        if self._can_send is None:
            return block
        kind, source = kind_of(block), source_of(block)
        if self._can_send(kind, source):
            return block
        return self._instead_of(at, f"{kind} with source {source}" if source else kind)

    def _instead_of_own(self, at: int, kind: str) -> Json:
        """Return a text in place of a model's block, from repair level 1 on always."""
        return _left_out(kind) if self._level else self._instead_of(at, kind)

    def _instead_of(self, at: int, kind: str) -> Json:
        if self._is_lossy or (self.read, at) < self._handed:
            return _left_out(kind)
        raise Unsayable(self.read, at, kind)


def _left_out(kind: str) -> Json:
    return text_block(f"[Left out, since it cannot be sent to this model: {kind}]")


def _has_results_only(said: Json) -> bool:
    return all(kind_of(block) == "tool_result" for block in blocks_of(content_of(said)))


def messages_for(
    request: ModelRequest, can_send: CanSend | None = None, rules: InputRules | None = None
) -> tuple[Json, ...]:
    """Return the conversation of a request as its model reads it. Raises Unsayable."""
    if is_as_said(request, can_send, rules):
        return request.messages
    reader = reader_for(request, can_send, rules)
    read_on(reader, request)
    return reader.sent if reader.is_changed else request.messages


def reader_for(request: ModelRequest, can_send: CanSend | None, rules: InputRules | None) -> Reader:
    """Return a reader of the conversation of a request, at its beginning."""
    return Reader(
        request.model.made_by,
        can_send,
        is_lossy=request.is_lossy,
        handed=request.handed,
        rules=rules,
        repair=request.repair,
    )


def is_as_said(request: ModelRequest, can_send: CanSend | None, rules: InputRules | None) -> bool:
    """Return True if any conversation is sent as it is."""
    return can_send is None and rules is None and not request.repair.level and is_all_own(request)


def is_all_own(request: ModelRequest) -> bool:
    """Return True if the model that is asked has made all messages of models."""
    own = request.model.made_by
    return all(maker == own for maker in request.origins.values())


def read_on(reader: Reader, request: ModelRequest) -> None:
    """Let a reader take the messages of a request that it has not taken. Raises Unsayable."""
    maker, own = maker_of(request.origins), request.model.made_by
    for place in range(reader.read, request.length):
        reader.take(request.message(place), maker(place) or own)
