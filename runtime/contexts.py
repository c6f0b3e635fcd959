"""Contexts: what an agent gets to know of the one that delegates to it, made by a function of the user.

def last_words(view: ContextRequest) -> str: ...

Agent("reader", context=last_words)
Agent("reader", context=SystemContext(Brief(tokens=1_000)))

The view of an agent that delegates, for context functions: every part prints as its text.

As for policies (`runtime/models/readable.py`): `"found" in str(view.messages)` finds words of a message.

The whole conversation of a parent as a context: messages, which the sub-agent continues.

It is a pure function of the parent's view, bounded in tokens: one for four characters of ASCII, one for any
other character, and `MEDIUM_TOKENS` for an image or a file.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.blocks import as_list, content_of, kind_of, parts_of, with_parts
from callboard.actors.protocol.conversation import (
    blocks_of,
    is_by,
    message,
    text_block,
    text_json,
    user_message,
)
from callboard.actors.protocol.errors import InvalidAgent, InvalidPrompt
from callboard.actors.protocol.histories import HandedHistory, history_of, why_broken
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.makers import maker_of
from callboard.actors.protocol.media import NO_MEDIA, Media, media_in
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.profiles import ContextPlace
from callboard.actors.session.contexts import ContextRequest
from callboard.runtime.brief import LEFT_OUT, Brief, Transcript, check_tokens, tokens_of
from callboard.runtime.histories.history import History
from callboard.runtime.models.readable import PrintedList, printed
from callboard.runtime.sanitize import MAX_DEPTH, clean_json, to_json
from callboard.runtime.schemas.output_types import name_of

Content: TypeAlias = str | Sequence[Mapping[str, object]] | History | HandedHistory | None
"""A text, a list of content blocks, a `History`, the messages of `WholeHistory`, or None for no context."""
ContextFunction: TypeAlias = Callable[[ContextRequest], Content | Awaitable[Content]]
"""Makes the context of a delegation from the view of the agent that delegates; plain or async."""
CONTEXT_BYTES_MAX: Final = 400_000
"""Bytes of JSON that a context may have. A larger one ends its delegation."""
MEDIUM_TOKENS: Final = 1_600
"""Tokens that an image or a file counts. Most services read an image of usual size as fewer."""
HISTORY_BYTES_MAX: Final = 4_000_000
"""Bytes of JSON that a history may have: images count by these, too."""
_Said: TypeAlias = tuple[Json, Origin | None]
_NOTE: Final = "So far this is the conversation of {}, which delegates to you. Your task now:"
_MEDIA: Final = ("image", "document")
_LEFT: Final = 40  # tokens of a message with LEFT_OUT


class SystemContext(NamedTuple):
    """A context at the end of the sub-agent's system prompt. Its function returns text."""

    function: ContextFunction


def checked_context(
    agent: str, given: ContextFunction | SystemContext | None
) -> tuple[ContextFunction | None, ContextPlace]:
    """Return the function, None for no context, and the place of its text. Raises InvalidAgent."""
    place: ContextPlace = "system" if isinstance(given, SystemContext) else "message"
    function = given.function if isinstance(given, SystemContext) else given
    if place == "system" and isinstance(function, WholeHistory):
        raise InvalidAgent(
            f"agent {agent!r}: messages cannot stand in a system prompt; give SystemContext(Transcript())"
        )
    if callable(function) or given is None:
        return function, place
    raise InvalidAgent(
        f"agent {agent!r}: context={given!r:.80} is not a function; give one that takes a ContextRequest and "
        "returns a text or content blocks, or Brief()"
    )


def function_name(function: ContextFunction | None) -> str:
    """Return the name of a context function, as it stands in the log; empty for None."""
    if isinstance(function, Brief | Transcript | WholeHistory):
        return repr(function)
    return name_of(function) if function is not None else ""


def made_context(
    value: object, place: ContextPlace = "message", *, is_program: bool = False
) -> HandedHistory:
    """Return a context for the log: a content as its note, or messages. Raises InvalidPrompt with the reason.

    is_program: True for the context of a program, which is handed no messages.
    """
    if isinstance(value, History):
        value = value.handed
    if not isinstance(value, HandedHistory):
        return HandedHistory(note=content_json(value, place))
    if place == "system" or is_program:
        raise InvalidPrompt(
            "messages can stand neither in a system prompt nor before a program's prompt; use Transcript()"
        )
    messages = _checked_messages(value.messages)
    note = content_json(msgspec.json.decode(clean_json(bytes(value.note))))
    return HandedHistory(messages, value.makers, note, value.repairs)


def _checked_messages(given: tuple[Json, ...]) -> tuple[Json, ...]:
    # Cleaned first: what reads the messages next refuses half of a surrogate pair.
    cleaned = tuple(to_json(Json(bytes(said)), max_depth=2 * MAX_DEPTH, what="A message") for said in given)
    if why := why_broken(cleaned):
        raise InvalidPrompt(f"the messages of the context are not a conversation: {why}")
    if sum(map(len, cleaned)) > HISTORY_BYTES_MAX:
        raise InvalidPrompt(f"the messages of the context have more than {HISTORY_BYTES_MAX:,} bytes")
    return cleaned


def content_json(value: object, place: ContextPlace = "message") -> Json:
    """Encode a context for the log, null for an empty one. Raises InvalidPrompt with the reason."""
    if value in (None, "", []):
        return NULL
    if not _is_content(value):
        raise InvalidPrompt(
            f"a context is a text, a list of content blocks, or None, not {type(value).__name__}"
        )
    if place == "system" and not isinstance(value, str) and not _is_text(value):
        raise InvalidPrompt("a context in the system prompt is text, or a list of text blocks")
    return to_json(value, max_bytes=CONTEXT_BYTES_MAX, what="The context")


def _is_text(value: object) -> bool:
    return isinstance(value, list | tuple) and all(block["type"] == "text" for block in value)


def _is_content(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_block(one) for one in value)
    return isinstance(value, str)


def _is_block(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


class ReadableContext(ContextRequest):
    """A view as context functions read it."""

    _plain: ContextRequest

    @classmethod
    def of(cls, view: ContextRequest) -> "ReadableContext":
        """Return the view whose parts print."""
        readable = object.__new__(cls)
        own = readable.__dict__ = view.__dict__.copy()
        own["_plain"] = view
        own.pop("conversation", None)
        del own["messages"], own["system"]
        return readable

    @property
    def plain(self) -> ContextRequest:
        """Return the view with parts that msgspec encodes."""
        return self._plain

    @cached_property
    def system(self) -> Json:  # type: ignore[override]  # a field there, which no function sets
        """Return the system prompt, which prints."""
        return printed(self._plain.system)

    @cached_property
    def messages(self) -> tuple[Json, ...]:  # type: ignore[override]  # as above
        """Return the conversation, oldest first, which prints."""
        return PrintedList(map(printed, self._plain.messages))

    def __str__(self) -> str:
        return str(self.messages)

    __repr__ = __str__


@dataclass(frozen=True)
class WholeHistory:
    """A context with the parent's conversation itself: texts, calls, results and images, as messages.

    tokens: that it may have. If they do not suffice, the earliest messages are left out, and its first one
    says so.

    The parent's reply that delegates is not part of it. A program has no conversation that a model could
    continue: of it this is a `Transcript`. Raises InvalidAgent for fewer than 100 tokens.
    """

    tokens: int = 50_000

    def __post_init__(self) -> None:
        check_tokens(self.tokens)

    def __call__(self, view: ContextRequest) -> HandedHistory | str | None:
        """Return the messages, without the reply that delegates; None if nothing was said before."""
        view = view.plain
        if view.is_program:
            return Transcript(self.tokens)(view)
        places = _places(view)
        if not places:
            return None
        note = _NOTE.format(view.parent)
        kept = _newest(view, places, self.tokens - tokens_of(note) - _LEFT)
        left_out = len(places) - len(kept)
        whole = _opened(kept, left_out, view.messages[places[left_out - 1]] if left_out else NULL)
        if not whole:
            note = f"{LEFT_OUT.format(len(places))}\n{note}"
        return history_of(whole, text_json(note))


def _places(view: ContextRequest) -> list[int]:
    """Return the places of the messages of users and models before the reply that delegates."""
    return [at for at, said in enumerate(view.messages[:-1]) if not is_by("system", said)]


def _newest(view: ContextRequest, places: Sequence[int], tokens: int) -> list[_Said]:
    """Return the newest of the messages at these places that fit, with their makers, oldest first."""
    maker, room = maker_of(view.origins), HISTORY_BYTES_MAX
    kept: list[_Said] = []
    for at in reversed(places):
        said = _fitting(view.messages[at], tokens, room)
        tokens, room = tokens - _tokens(said), room - len(said)
        if min(tokens, room) < 0:
            break
        kept.append((said, maker(at)))
    kept.reverse()
    return kept


def _tokens(said: Json, media: Media | None = None) -> int:
    """Return about how many tokens a message has."""
    found = media_in(said) if media is None else media
    return tokens_of(bytes(said).decode()) - found.bytes // 4 + MEDIUM_TOKENS * (found.images + found.files)


def _fitting(said: Json, tokens: int, size: int) -> Json:
    """Return a message, or without its images and files if only then it has so few tokens and bytes."""
    media = media_in(said)
    if media == NO_MEDIA or max(_tokens(said, media) - tokens, len(said) - size) <= 0:
        return said
    blocks = as_list(_without_media(block) for block in blocks_of(content_of(said)))
    return message("user" if is_by("user", said) else "assistant", blocks)


def _without_media(block: Json) -> Json:
    kind = kind_of(block)
    if kind in _MEDIA:
        return text_block(f"[{kind}]")
    if kind != "tool_result":
        return block
    inner = blocks_of(parts_of(block).get("content", NULL))
    return with_parts(block, {"content": as_list(_without_media(one) for one in inner)})


def _opened(kept: Sequence[_Said], left_out: int, last: Json) -> list[_Said]:
    """Return messages that a user begins, with a word on those left out before them.

    left_out: their number. last: the last of them.
    """
    if not left_out:
        return list(kept)
    for place, (said, _) in enumerate(kept):
        word = text_block(LEFT_OUT.format(left_out + place))
        if is_by("assistant", said):
            if is_by("user", last):
                return [(user_message((word,)), None), *kept[place:]]
        elif others := [one for one in blocks_of(content_of(said)) if kind_of(one) != "tool_result"]:
            # The calls that the results in it belong to are left out, and so are the results.
            return [(user_message((word, *others)), None), *kept[place + 1 :]]
        last = said  # part of a reply that was paused, or results alone
    return []
