"""A check of model calls that used more than the most that they were granted."""

from collections.abc import Iterator
from typing import ClassVar

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.diagnosis.finding import Finding


class AboveNeed:
    """Answers above the need of their call. They are charged in full, so a budget may be exceeded by them."""

    kinds: ClassVar = frozenset({"TurnRequested", "ModelReplied"})

    def __init__(self) -> None:
        self._needs: dict[str, int] = {}
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in a request or its answer."""
        body = event.body
        if type(body) is TurnRequested:
            self._needs[event.sender] = body.need.tokens
        elif type(body) is ModelReplied and body.usage is not None:
            need = self._needs.get(event.recipient, 0)
            if need and body.usage.tokens > need:
                who = f"turn {body.turn} of {event.recipient}"
                says = f"{who} used {body.usage.tokens:,} tokens, and {need:,} were the most that it needed"
                self._found.append(Finding("above_need", event.seq, event.recipient, says))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found
