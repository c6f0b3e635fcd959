"""A check of ends: agents that ended well with nothing."""

from collections.abc import Iterator
from typing import ClassVar, Final

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.prompts import NO_SUMMARY
from callboard.replay.diagnosis.finding import Finding

_NOTHING: Final = frozenset({b"{}", b"[]", b'""'})


class EmptyAnswers:
    """Ends without a text and without a value, or with an empty report."""

    kinds: ClassVar = frozenset({"DelegationEnded", "AskEnded"})

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in an end."""
        body = event.body
        if not isinstance(body, DelegationEnded | AskEnded) or STATUS[body.kind] != "ok":
            return
        if body.value == NULL:
            is_empty = body.kind != "reported" and body.text.strip() in ("", NO_SUMMARY)
        else:
            is_empty = bytes(body.value) in _NOTHING
        if is_empty:
            agent = body.address if isinstance(body, DelegationEnded) else HOST
            self._found.append(
                Finding("empty_answer", event.seq, agent, f"{agent} ended well, and said nothing")
            )

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found
