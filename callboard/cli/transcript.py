"""What the host says while it streams in, with the breaks between its replies in the right places.

Text is ephemeral and comes at once; the event that ends a reply comes once it is durable, a few
milliseconds later, when the next reply may have begun. So a reply's end is a position in the text, told by
the length of the reply in its event, not by when the event came; and text is shown a moment late.
"""

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import ModelReplied


class Transcript:
    """Pieces in, lines out."""

    def __init__(self) -> None:
        self._received = ""
        self._shown = 0
        self._ends: list[int] = []
        self._last_end = 0

    @property
    def text(self) -> str:
        """All that came."""
        return self._received

    @property
    def ended(self) -> int:
        """Where the last reply ended that is known to be over."""
        return self._last_end

    def add(self, piece: str) -> None:
        """One more piece of text."""
        self._received += piece

    def end_reply(self, reply: ModelReplied) -> None:
        """A reply is over. What was streamed of one that failed ends where the stream stands now."""
        length = text_length(reply.content) if reply.status == "ok" else None
        end = len(self._received) if length is None else min(self._last_end + length, len(self._received))
        if end > self._last_end:
            self._ends.append(end)
            self._last_end = end

    def take(self, upto: int | None = None) -> str:
        """What is new, up to a position, each reply ended with a line break."""
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
    """How many characters of text a reply has; None if it cannot be read."""
    try:
        blocks = msgspec.json.decode(content, type=list[dict[str, object]])
    except (msgspec.DecodeError, RecursionError):
        return None
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    return sum(len(text) for text in texts if isinstance(text, str))
