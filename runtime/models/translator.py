"""The parts that adapters share where they make requests.

Conversations as the models of one adapter read them, each message translated once.

    self._translator = Translator(rules=InputRules())   # one for each model object
    messages = self._translator.messages_for(request)   # in `call`; raises Unsayable

The translation is `actors/protocol/translation.py`. The translator keeps the messages as they were sent, and
reads on where it has stopped. A message that stays the same is the same object in the next answer, so that an
adapter too can convert it once. A conversation of which nothing is changed is `request.messages` itself.

The most tokens that one image has, by service and model, as the services document it.

It bounds an image that is named by its address or id, of which a budget sees no bytes. Read in November 2026:

    anthropic  https://platform.claude.com/docs/en/build-with-claude/vision
               a larger image is made smaller; 4,784 is the most of the models that see it largest
    openai     https://developers.openai.com/api/docs/guides/images-vision#calculating-costs
               tiles of 512 pixels, at most 8: a base and a price for each tile
               patches of 32 pixels, at most 1,536: a factor for each model
    google     https://ai.google.dev/gemini-api/docs/media-resolution
               Gemini 3 at the highest resolution of a whole request

The page of OpenAI was read in a copy of 2026 that a public repository keeps; the openai library names its
address. It limits no image for gpt-5.6, and states no factor for gpt-5.2, gpt-5.4 and gpt-5.5: they are not
listed here. Bills that people have published agree with the tiles (1,445 for gpt-4.1) and with 1,536 patches
x 1.62 for gpt-4.1-mini, and are lower for gpt-5-mini (x 1.2) and gpt-5-nano (x 1.5):
https://community.openai.com/t/1281361, /1262691, /1344040.

A model that is not listed has no maximum here.

The libraries that make the body of a request, with their versions.
"""

import re
from collections import OrderedDict
from functools import cache
from operator import is_
from typing import Final
from urllib.parse import urlsplit

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.repair_levels import Repair
from callboard.actors.protocol.repairs import InputRules
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.translation import (
    CanSend,
    Reader,
    Unsayable,
    is_as_said,
    read_on,
    reader_for,
)
from callboard.actors.protocol.value_types import ModelFailure

CONVERSATIONS_MAX: Final = 256
"""The translated conversations that are kept; others are translated again when they are needed."""


class _Kept:
    """One conversation: its messages that are read, and their reader."""

    def __init__(self, reader: Reader, request: ModelRequest) -> None:
        self.reader = reader
        self._read: tuple[Json, ...] = ()
        self._for = _way_of(request)

    def is_beginning_of(self, request: ModelRequest) -> bool:
        """Return True if the request begins with the messages that are read, for the same model."""
        # The same objects, not equal ones: messages never change, and a comparison would read them all.
        return (
            self._for == _way_of(request)
            and len(self._read) <= request.length
            and all(map(is_, self._read, request.messages))
        )

    def read_on(self, request: ModelRequest) -> tuple[Json, ...]:
        """Read the rest of the request's messages. Return all as they are sent. Raises Unsayable."""
        read_on(self.reader, request)
        self._read = request.messages
        return self.reader.sent if self.reader.is_changed else request.messages


def _way_of(request: ModelRequest) -> tuple[Origin, bool, Repair]:
    """Return all that the translation depends on beside the messages."""
    return request.model.made_by, request.is_lossy, request.repair


class Translator:
    """Translates the requests to one model.

    can_send: tells if the adapter can send a block of a user; None if all are sent as they are. rules: of the
    service, for its own replies; None if it takes all of them back.
    """

    def __init__(
        self,
        can_send: CanSend | None = None,
        conversations_max: int = CONVERSATIONS_MAX,
        *,
        rules: InputRules | None = None,
    ) -> None:
        self._can_send = can_send
        self._rules = rules
        self._most = conversations_max
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    def messages_for(self, request: ModelRequest) -> tuple[Json, ...]:
        """Return the conversation of a request as its model reads it. Raises Unsayable."""
        if is_as_said(request, self._can_send, self._rules):
            return request.messages
        key = (request.session_id, request.address)
        kept = self._kept.pop(key, None)
        if kept is None or not kept.is_beginning_of(request):
            kept = _Kept(reader_for(request, self._can_send, self._rules), request)
        messages = kept.read_on(request)
        self._kept[key] = kept
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return messages

    def repairs(self, request: ModelRequest) -> tuple[str, ...]:
        """Return the changes to the replies of a request's own model, as texts. Raises Unsayable."""
        reader = reader_for(request, self._can_send, self._rules)
        read_on(reader, request)
        return tuple(reader.repairs)

    def forget(self, session_id: str, address: str = "") -> None:
        """Forget the conversation of an agent, or without an address all of a session."""
        for key in [key for key in self._kept if key[0] == session_id and address in ("", key[1])]:
            del self._kept[key]


def unsayable(request: ModelRequest, error: Unsayable) -> ModelFailure:
    """Return the failure of a call that was not made because its request has such a block."""
    where = f" of request {request.seq}" if request.seq else ""
    return ModelFailure(
        "unsayable",
        f"{error}{where} cannot be sent to the model {request.model.name}; ask a model whose service takes "
        "it, or let a text stand for it with Agent(lossy=True)",
    )


_DATE: Final = re.compile(r"-20\d\d-\d\d-\d\d$")
_TILES_MAX: Final = 8  # of an image that fits into 768 x 2,048 pixels
_PATCHES_MAX: Final = 1_536
_BY_START: Final = {"anthropic": ("claude-", 4_784), "google": ("gemini-3", 1_120)}
_TILED: Final = {
    **dict.fromkeys(("gpt-4o", "gpt-4.1", "gpt-4.5-preview"), (85, 170)),
    "gpt-4o-mini": (2_833, 5_667),
    **dict.fromkeys(("o1", "o1-pro", "o3"), (75, 150)),
    **dict.fromkeys(("gpt-5", "gpt-5-chat-latest"), (70, 140)),
}
# In hundredths, so that the product is exact.
_PATCHED: Final = {
    **dict.fromkeys(("gpt-4.1-mini", "gpt-5-mini", "gpt-5.4-mini"), 162),
    **dict.fromkeys(("gpt-4.1-nano", "gpt-5-nano", "gpt-5.4-nano"), 246),
    "o4-mini": 172,
}


def image_tokens_of(provider: str, name: str) -> int:
    """Return the most tokens of one image for a model of a service; 0 if it is not known.

    >>> image_tokens_of("openai", "gpt-4o-2024-11-20"), image_tokens_of("openai", "gpt-of-nobody")
    (1445, 0)
    """
    if provider == "openai":
        return _of_openai(_DATE.sub("", name))
    start, tokens = _BY_START.get(provider, ("", 0))
    return tokens if name.startswith(start) else 0


def _of_openai(name: str) -> int:
    if name in _TILED:
        base, tile = _TILED[name]
        return base + _TILES_MAX * tile
    return -(-_PATCHES_MAX * _PATCHED.get(name, 0) // 100)


@cache
def made_by(*libraries: str) -> str:
    """Return the names and versions of callboard and of the libraries that make a request."""
    from importlib.metadata import version  # 20 ms that programs without a model never need

    return ", ".join(f"{name} {version(name)}" for name in ("callboard", *libraries))


def checked_url(base_url: str) -> str:
    """Return an address without a slash at its end. Raises MisuseError for text that is not an address."""
    if not base_url.startswith(("http://", "https://")):
        raise MisuseError(f"base_url={base_url!r} is not an address; begin it with http:// or https://")
    return base_url.rstrip("/")


def endpoint_of(base_url: str) -> str:
    """Return an address as the log may show it: without a name, a password and a query."""
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
