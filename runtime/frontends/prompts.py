"""The prompts that front ends send: texts, images and documents, as content blocks."""

import base64
import binascii
from typing import Final, Literal, NoReturn

import msgspec

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.runtime.contracts import Prompt

_KINDS: Final[dict[str, Literal["image", "document"]]] = {"image/": "image", "application/pdf": "document"}


class Medium(msgspec.Struct, frozen=True):
    """An image or a file in a prompt. media_type: as `image/png`. data: base64. url: instead of data."""

    media_type: str
    data: str = ""
    url: str = ""


def prompt_of(parts: list[str | Medium]) -> Prompt:
    """Return the prompt that these parts make: a text, or content blocks where there are media.

    Raises InvalidPrompt for no part, and for a medium that is neither an image nor a PDF.
    """
    texts = [part for part in parts if isinstance(part, str)]
    if not parts or (len(texts) == len(parts) and not "".join(texts).strip()):
        raise InvalidPrompt("the newest message has no text; send one with text, an image or a PDF")
    if len(texts) == len(parts):
        return "\n\n".join(texts)
    return [{"type": "text", "text": one} if isinstance(one, str) else _block(one) for one in parts]


def from_data_url(url: str, media_type: str) -> Medium:
    """Return a medium from its address: `data:image/png;base64,...`, or one that is fetched.

    Raises InvalidPrompt for another kind of address.
    """
    scheme = url[: url.find(":")].lower()
    if scheme == "data":
        head, _, data = url[len("data:") :].partition(",")
        kind, *parameters = head.split(";")  # RFC 2397: parameters of the type stand before the coding
        if not parameters or parameters[-1].lower() != "base64":
            _refuse(f"a data address that is not base64: {head!r:.40}; send base64")
        return Medium(kind.lower() or media_type, data=data)
    if scheme in ("https", "http"):
        return Medium(media_type, url=url)
    return _refuse(f"a file at {url!r:.80}; send it as base64 data, or give an https address")


def _block(medium: Medium) -> dict[str, object]:
    kind = next((kind for start, kind in _KINDS.items() if medium.media_type.startswith(start)), None)
    if kind is None:
        _refuse(f"a file of type {medium.media_type!r:.80}; an agent takes images and PDFs")
    if medium.url:
        return {"type": kind, "source": {"type": "url", "url": medium.url}}
    if not medium.data:
        _refuse("an empty file")
    try:
        base64.b64decode(medium.data, validate=True)
    except (binascii.Error, ValueError):
        _refuse("a file whose data is not base64")
    source = {"type": "base64", "media_type": medium.media_type, "data": medium.data}
    return {"type": kind, "source": source}


def _refuse(what: str) -> NoReturn:
    raise InvalidPrompt(f"the newest message has {what}")
