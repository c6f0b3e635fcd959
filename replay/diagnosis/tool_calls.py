"""Tool calls with their results: paired once, for all checks that look at them."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal, NamedTuple

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
    """A check that is given calls, and may take further events in.

    results: those that it is given: of all calls, of those with an effect, or of an agent's calls from its
    first error on.
    """

    kinds: ClassVar[frozenset[str]] = frozenset()
    results: ClassVar[Literal["all", "effects", "errors"]] = "all"

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
        of_all, of_effects, self._of_errors = (
            [check for check in self._checks if check.results == results]
            for results in ("all", "effects", "errors")
        )
        self._of_reads, self._of_effects = of_all, of_all + of_effects
        self._erred: set[str] = set()
        self._open: dict[int, ToolCall] = {}

    def take(self, event: Event) -> None:
        """Take in a call or a result."""
        body = event.body
        if type(body) is CallTool:
            call = ToolCall(event.seq, event.sender, body.tool, body.effect, bytes(body.arguments))
            self._open[event.seq] = call
            if body.effect != "read":
                for check in self._checks:
                    check.called(call)
        elif type(body) is ToolReturned and event.cause in self._open:
            call = self._open.pop(event.cause)
            output = bytes(body.output)
            result = Returned(event.seq, body.status, hash(output), output)
            for check in self._of_reads if call.effect == "read" else self._of_effects:
                check.returned(call, result)
            if result.status == "error":
                self._erred.add(call.agent)
            if call.agent in self._erred:
                for check in self._of_errors:
                    check.returned(call, result)
