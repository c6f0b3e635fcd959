"""Findings about calls that agents refused by themselves, and that were never made good.

A model that is told of a wrong name or argument mostly calls again, rightly. That is no finding. A call that
is not made again is one: the agent went on without its result.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate, ReportBack
from callboard.actors.protocol.prompts import REPORT_BACK, TASK, TASK_CANCEL, TASK_WAIT
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.tool_calls import CallCheck, Returned, ToolCall
from callboard.replay.refused_calls import RefusedCall

_REASON_CHARS: Final = 160
_WAITS: Final = frozenset({TASK_WAIT, TASK_CANCEL})
"""Calls that bring no result: an agent does without them."""


class MadeCalls(CallCheck):
    """The calls that agents made, as far as they make refused ones good. It has no findings of its own."""

    kinds: ClassVar = frozenset({"Delegate", "ReportBack"})

    def __init__(self) -> None:
        self._last: dict[tuple[str, str | bytes], int] = {}

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        if result.status == "ok":
            self._last[call.agent, call.tool] = self._last[call.agent, call.arguments] = result.seq

    def take(self, event: Event) -> None:
        """Take in a delegation or a report."""
        body = event.body
        if isinstance(body, Delegate | ReportBack):
            name = TASK if isinstance(body, Delegate) else REPORT_BACK
            self._last[event.sender, name] = event.seq

    def is_good(self, call: RefusedCall) -> bool:
        """Return whether the agent called the tool later, or another one with the same arguments."""
        arguments = bytes(call.arguments)
        names: list[str | bytes] = [call.tool, *([arguments] if len(arguments) > 2 else [])]
        return any(self._last.get((call.agent, name), 0) > call.seq for name in names)


def refusals(refused: Iterable[RefusedCall], made: MadeCalls) -> Iterator[Finding]:
    """Yield one finding for each agent and tool with a refused call that was not made good."""
    found: dict[tuple[str, str], list[RefusedCall]] = {}
    for call in refused:
        if call.tool not in _WAITS and not made.is_good(call):
            found.setdefault((call.agent, call.tool), []).append(call)
    for (agent, tool), calls in found.items():
        times = f" {len(calls):,} times" if len(calls) > 1 else ""
        reason = calls[0].reason[:_REASON_CHARS]
        says = f"{agent} called {tool}{times}, which did not run, and went on without it: {reason}"
        command = f"events {{session}} --grouped --actor {agent}"
        yield Finding("refused_call", calls[0].reply, agent, says, command)
