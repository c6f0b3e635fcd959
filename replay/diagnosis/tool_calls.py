"""Tool calls with their results: paired once, for all checks that look at them."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, NamedTuple

from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.replay.diagnosis.finding import Finding


class ToolCall(NamedTuple):
    """A call. seq: of its `CallTool`. arguments: as the model wrote them."""

    seq: int
    agent: str
    tool: str
    effect: Effect
    arguments: bytes


class Returned(NamedTuple):
    """The result of a call. seq: of its `ToolReturned`. digest: equal for equal outputs. output: the JSON."""

    seq: int
    status: str
    digest: int
    output: bytes


class CallCheck:
    """A check that is given calls, and may take further events in."""

    kinds: ClassVar[frozenset[str]] = frozenset()

    def take(self, event: Event) -> None:
        """Take in an event of its kinds; a check without kinds is given none."""

    def called(self, call: ToolCall) -> None:
        """Take in the start of a call with an effect."""

    @abstractmethod
    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""

    def findings(self) -> Iterator[Finding]:
        """Yield the findings, after the last event."""
        yield from ()


class ToolCalls:
    """Pairs calls and results. checks: are given each pair."""

    kinds: ClassVar = frozenset({"CallTool", "ToolReturned"})

    def __init__(self, checks: Iterable[CallCheck]) -> None:
        self._checks = list(checks)
        self._open: dict[int, ToolCall] = {}

    def take(self, event: Event) -> None:
        """Take in a call or a result."""
        body = event.body
        if isinstance(body, CallTool):
            call = ToolCall(event.seq, event.sender, body.tool, body.effect, bytes(body.arguments))
            self._open[event.seq] = call
            if body.effect != "read":
                for check in self._checks:
                    check.called(call)
        elif isinstance(body, ToolReturned) and (made := self._open.pop(event.cause, None)):
            output = bytes(body.output)
            result = Returned(event.seq, body.status, hash(output), output)
            for check in self._checks:
                check.returned(made, result)
