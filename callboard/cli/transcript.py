"""The host's text as it streams in, with line breaks between its replies.

Text arrives at once. The event that ends a reply arrives once it is durable, a few milliseconds later, when
the next reply may have begun. So the end of a reply is a position in the text, computed from the length of
the reply in its event.
"""

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import ModelReplied


class Transcript:
    """A stream of text: pieces are added, and new text is taken with the breaks between replies."""

    def __init__(self) -> None:
        self._received = ""
        self._shown = 0
        self._ends: list[int] = []
        self._last_end = 0

    @property
    def text(self) -> str:
        """Return all text that was added."""
        return self._received

    @property
    def ended(self) -> int:
        """Return the position at which the last complete reply ended."""
        return self._last_end

    def add(self, piece: str) -> None:
        """Add a piece of text."""
        self._received += piece

    def end_reply(self, reply: ModelReplied) -> None:
        """End a reply. The text of a reply that failed ends at the current end of the stream."""
        length = text_length(reply.content) if reply.status == "ok" else None
        end = len(self._received) if length is None else min(self._last_end + length, len(self._received))
        if end > self._last_end:
            self._ends.append(end)
            self._last_end = end

    def take(self, upto: int | None = None) -> str:
        """Take the new text up to a position, each reply ended with a line break."""
        upto = len(self._received) if upto is None else upto
        made = []
        while self._ends and self._ends[0] <= upto:
            end = self._ends.pop(0)
            made.append(self._upto(end))
            if not self._received[:end].endswith("\n"):
                made.append("\n")
        return "".join([*made, self._upto(upto)])

    def _upto(self, end: int) -> str:
        piece = self._received[self._shown : end]
        self._shown = max(self._shown, end)
        return piece


def text_length(content: Json) -> int | None:
    """Count the characters of text in a reply; None if it cannot be read."""
    try:
        blocks = msgspec.json.decode(content, type=list[dict[str, object]])
    except (msgspec.DecodeError, RecursionError):
        return None
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    return sum(len(text) for text in texts if isinstance(text, str))
