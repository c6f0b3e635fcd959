"""The needs of later requests: the count of the last call, or the bound before it, and each byte since."""

from typing import Final

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.rules.offered_tools import is_about_tools

LATER_RULES: Final = {
    "later-needs": "The need of a later request includes the last count and each byte since then.",
}


_FRAME: Final = len(b'{"role":"user","content":[]}')


class Counted(msgspec.Struct, eq=False):
    """The bound on the input of an agent's next request.

    granted: on the input of its last one. known: on the conversation without the reply to it; None if there
        is not a reply, or one whose count is not taken for certain. of_reply: on that reply, which is not
        always kept.
    """

    granted: int = 0
    known: int | None = None
    of_reply: int = 0

    def replied(self, body: ModelReplied, begin: Begin | None) -> None:
        """Take the count of a call, or the bytes of its reply."""
        self.known = None
        model = begin.model if begin is not None else None
        # With several models, or with one that counts strangely, bytes count beside the counts.
        if body.status != "ok" or model is None or model.fallback or model.checks_usage:
            return
        usage = body.usage
        if usage is not None and usage.tokens:
            self.of_reply = usage.output_tokens
            self.known = usage.tokens - self.of_reply
        else:
            self.known, self.of_reply = self.granted, len(body.content)

    def why_small(self, before: ModelRequest | None, request: ModelRequest, wish: TurnRequested) -> str:
        """Grant a request. Return the tokens that its need does not count; empty if it counts all."""
        known, self.known = self.known, None
        self.granted = wish.need.tokens - request.model.max_tokens
        if before is None or known is None or wish.attempt > 1 or request.model.is_program:
            return ""
        all_new = request.messages[before.length :]
        new = [one for one in all_new if not _is_reply(one)]
        if len(new) < len(all_new):  # a refused reply is left out
            known += self.of_reply
        if wish.is_unbounded or any(b'"source"' in bytes(message) for message in new):
            return ""  # images take fewer tokens than bytes
        tools = [tool for tool in request.tools if tool not in before.tools] if wish.breaks_cache else []
        missing = known + sum(map(_size, new)) + sum(map(len, tools)) - self.granted
        return f"its need lacks {missing:,} tokens" if missing > 0 else ""


def _is_reply(message: Json) -> bool:
    return bytes(message).startswith(b'{"role":"assistant"')


def _size(message: Json) -> int:
    """Return the bytes of the blocks in a message."""
    if is_about_tools(message):
        return len(message)
    # Without its frame, and a comma between two blocks: cheaper than to read it, and never too much.
    return len(message) - _FRAME - bytes(message).count(b"},{")
