"""The content of notifications: followed sessions with new events, text under way, and progress of tools.

    notice = [[number of a followed session, ...], [[number, piece or sealed piece], ...]]
    piece  = ["text", epoch, seq of the grant, address, turn, attempt, offset, text]
           | ["progress", epoch, seq of the call, address, turn, call, text]

In an encrypted log each piece is sealed and written in base64, because notifications pass through files of
the server. A notification has at most 7,999 bytes, so a longer one becomes several: a piece of text is cut,
and its parts have their own offsets. A text of progress that does not fit loses its end.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from callboard.runtime.log.cipher import Cipher, Unopenable

PAYLOAD_BYTES_MAX: Final = 7_999  # of the server, fixed when it is compiled
_FRAME_BYTES: Final = 6  # [[],[]], without the comma of a first part
_PIECE_BYTES_MAX: Final = PAYLOAD_BYTES_MAX - _FRAME_BYTES - 32
_CHARS: Final = 5_000  # of text in a part; a part that is too long in bytes is halved

_encode: Final = msgspec.json.Encoder().encode


class TextPiece(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="text"):
    """A piece of the text of a reply under way. grant: the seq of the event that granted its model call.

    epoch: of the session's writer. The other fields are those of `TextDelta`.
    """

    epoch: int
    grant: int
    address: str
    turn: int
    attempt: int
    offset: int
    text: str


class ProgressPiece(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="progress"):
    """The progress of a running tool. grant: the seq of the event that called it.

    epoch: of the session's writer. The other fields are those of `ToolProgress`.
    """

    epoch: int
    grant: int
    address: str
    turn: int
    call: int
    text: str


Piece: TypeAlias = TextPiece | ProgressPiece


class Notice(msgspec.Struct, frozen=True, array_like=True):
    """A notification. news: numbers of followed sessions with new events. pieces: each with its number."""

    news: tuple[int, ...] = ()
    pieces: tuple[tuple[int, Piece | str], ...] = ()


_decode: Final = msgspec.json.Decoder(Notice).decode
_decode_piece: Final = msgspec.json.Decoder[Piece](Piece).decode


def notices(
    news: Iterable[int], pieces: Iterable[tuple[int, str, Piece]], cipher: Cipher | None = None
) -> Iterator[str]:
    """Yield the notifications for one follower. pieces: each with its number and its session."""
    page = _Page()
    for number in news:
        yield from page.add(page.news, b"%d" % number)
    for number, session, piece in pieces:
        for body in _bodies(session, piece, cipher):
            yield from page.add(page.pieces, b"[%d,%b]" % (number, body))
    yield from page.turned()


class _Page:
    """A notification that is being filled."""

    def __init__(self) -> None:
        self.news: list[bytes] = []
        self.pieces: list[bytes] = []
        self._bytes = _FRAME_BYTES

    def add(self, parts: list[bytes], part: bytes) -> Iterator[str]:
        """Add a part. Yield the notification before it if that is full."""
        if self._bytes + len(part) + 1 > PAYLOAD_BYTES_MAX:
            yield from self.turned()
        parts.append(part)
        self._bytes += len(part) + 1

    def turned(self) -> Iterator[str]:
        """Yield the notification, unless it is empty, and begin another."""
        if self.news or self.pieces:
            yield (b"[[" + b",".join(self.news) + b"],[" + b",".join(self.pieces) + b"]]").decode()
        self.news.clear()
        self.pieces.clear()
        self._bytes = _FRAME_BYTES


def notice_of(payload: str) -> Notice:
    """Return the content of a notification; an empty one for a foreign payload."""
    try:
        return _decode(payload)
    except msgspec.MsgspecError:
        return Notice()


def opened(session: str, piece: Piece | str, cipher: Cipher | None) -> Piece | None:
    """Return a piece as it was sent; None for one that is not of this log."""
    if not isinstance(piece, str):
        return None if cipher is not None else piece
    if cipher is None:
        return None
    try:
        return _decode_piece(cipher.open(("live", session), b64decode(piece, validate=True)))
    except (ValueError, Unopenable, msgspec.MsgspecError):
        return None


def _bodies(session: str, piece: Piece, cipher: Cipher | None, chars: int = _CHARS) -> Iterator[bytes]:
    """Yield the encoded parts of a piece, each small enough for a notification."""
    for part in _parts(piece, chars):
        body = _encode(part)
        if cipher is not None:
            body = b'"%b"' % b64encode(cipher.seal(("live", session), body))
        if len(body) <= _PIECE_BYTES_MAX:
            yield body
        elif len(part.text) > 1:
            yield from _bodies(session, part, cipher, len(part.text) // 2)


def _parts(piece: Piece, chars: int) -> Iterator[Piece]:
    """Yield a piece in parts of so many characters; of progress, only the first."""
    if isinstance(piece, ProgressPiece):
        yield replace(piece, text=piece.text[:chars])
        return
    for at in range(0, len(piece.text), chars):
        yield replace(piece, offset=piece.offset + at, text=piece.text[at : at + chars])
