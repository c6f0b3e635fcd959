"""The answer of a model while it comes in: its text for people, and the usage that its stream has told."""

from collections.abc import Callable
from typing import Final

from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.models.protocol import OnText
from callboard.runtime.secrets.stream_buffer import StreamBuffer

_TELL: Final = "tell_usage"


class LiveAnswer:
    """The `on_text` of one call. usage: what the stream has told so far.

    buffer_of: makes the buffer for the text of a call, from the seq of its grant and its request. It is
    called with the first piece.
    """

    # Ten thousand calls may wait at once: no dict, and no buffer before there is text (0.3 KiB a call).
    __slots__ = ("_buffer_of", "_grant", "_request", "_text", "usage")

    def __init__(
        self, buffer_of: Callable[[int, ModelRequest], StreamBuffer], grant: int, request: ModelRequest
    ) -> None:
        self.usage = ZERO
        self._buffer_of = buffer_of
        self._grant = grant
        self._request = request
        self._text: StreamBuffer | None = None

    def __call__(self, piece: str) -> None:
        """Pass a piece of text on."""
        if self._text is None:
            self._text = self._buffer_of(self._grant, self._request)
        self._text.take(piece)

    def tell_usage(self, usage: Usage) -> None:
        """Keep the usage of the call so far."""
        self.usage = usage

    def end(self) -> None:
        """Show the rest of the text."""
        if self._text is not None:
            self._text.end()


def tell_usage(on_text: OnText, usage: Usage | None) -> None:
    """Tell the usage of a call so far, which it is charged if the process ends before its answer.

    on_text: as the model got it. usage: None if it is not known yet.
    """
    tell = getattr(on_text, _TELL, None)
    if tell is not None and usage is not None:
        tell(usage)
