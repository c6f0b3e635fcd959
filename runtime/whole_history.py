"""The whole conversation of a parent as a context: messages, which the sub-agent continues.

It is a pure function of the parent's view, bounded in tokens: one for four characters of ASCII, one for any
other character, and `MEDIUM_TOKENS` for an image or a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from callboard.actors.protocol.blocks import as_list, content_of, kind_of, parts_of, with_parts
from callboard.actors.protocol.conversation import (
    blocks_of,
    is_by,
    message,
    text_block,
    text_json,
    user_message,
)
from callboard.actors.protocol.histories import HandedHistory, history_of
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.makers import maker_of
from callboard.actors.protocol.media import NO_MEDIA, Media, media_in
from callboard.actors.protocol.origin import Origin
from callboard.actors.session.contexts import ContextRequest
from callboard.runtime.brief import LEFT_OUT, Transcript, check_tokens, tokens_of

MEDIUM_TOKENS: Final = 1_600
"""Tokens that an image or a file counts. Most services read an image of usual size as fewer."""

HISTORY_BYTES_MAX: Final = 4_000_000
"""Bytes of JSON that a history may have: images count by these, too."""

_Said: TypeAlias = tuple[Json, Origin | None]
_NOTE: Final = "So far this is the conversation of {}, which delegates to you. Your task now:"
_MEDIA: Final = ("image", "document")
_LEFT: Final = 40  # tokens of a message with LEFT_OUT


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
