"""The answer of a model while it comes in: its text for people, and the usage that its stream has told."""

from typing import Final

from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.models.protocol import OnText
from callboard.runtime.secrets.stream_buffer import StreamBuffer

_TELL: Final = "tell_usage"


class LiveAnswer:
    """The `on_text` of one call. usage: what the stream has told so far."""

    def __init__(self, text: StreamBuffer) -> None:
        self.usage = ZERO
        self._text = text

    def __call__(self, piece: str) -> None:
        """Pass a piece of text on."""
        self._text.take(piece)

    def tell_usage(self, usage: Usage) -> None:
        """Keep the usage of the call so far."""
        self.usage = usage

    def end(self) -> None:
        """Show the rest of the text."""
        self._text.end()


def tell_usage(on_text: OnText, usage: Usage | None) -> None:
    """Tell the usage of a call so far, which it is charged if the process ends before its answer.

    on_text: as the model got it. usage: None if it is not known yet.
    """
    tell = getattr(on_text, _TELL, None)
    if tell is not None and usage is not None:
        tell(usage)
