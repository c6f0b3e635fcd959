"""Findings about calls that agents refused by themselves, and that were never made good.

A model that reads of a wrong name or argument mostly calls again, correctly. That is not a finding. A call
that is not made again is one, because the agent went on without its result.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate, ReportBack
from callboard.actors.protocol.prompts import REPORT_BACK, TASK, TASK_CANCEL, TASK_WAIT
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.loops import Loops
from callboard.replay.refused_calls import RefusedCall

_REASON_CHARS: Final = 160
_WAITS: Final = frozenset({TASK_WAIT, TASK_CANCEL})
"""Calls that bring no result: an agent does without them."""


class MadeCalls:
    """The calls that agents made, as far as they make refused ones good. loops: has those of tools."""

    kinds: ClassVar = frozenset({"Delegate", "ReportBack"})

    def __init__(self, loops: Loops) -> None:
        self._loops = loops
        self._last: dict[tuple[str, str | bytes], int] = {}

    def take(self, event: Event) -> None:
        """Take in a delegation or a report."""
        body = event.body
        if isinstance(body, Delegate | ReportBack):
            name = TASK if isinstance(body, Delegate) else REPORT_BACK
            self._last[event.sender, name] = event.seq

    def last(self) -> dict[tuple[str, str | bytes], int]:
        """Return where each agent last had a result, by the tool and by the arguments of the call."""
        last = self._last.copy()
        for agent, tool, arguments, seq in self._loops.answered():
            for name in (tool, arguments):
                last[agent, name] = max(seq, last.get((agent, name), 0))
        return last


def _is_good(call: RefusedCall, last: Mapping[tuple[str, str | bytes], int]) -> bool:
    """Return whether the agent called the tool later, or another one with the same arguments."""
    arguments = bytes(call.arguments)
    names: list[str | bytes] = [call.tool, *([arguments] if len(arguments) > 2 else [])]
    return any(last.get((call.agent, name), 0) > call.seq for name in names)


def refusals(refused: Sequence[RefusedCall], made: MadeCalls) -> Iterator[Finding]:
    """Yield one finding for each agent and tool with a refused call that was not made good."""
    found: dict[tuple[str, str], list[RefusedCall]] = {}
    last = made.last() if refused else {}
    for call in refused:
        if call.tool not in _WAITS and not _is_good(call, last):
            found.setdefault((call.agent, call.tool), []).append(call)
    for (agent, tool), calls in found.items():
        times = f" {len(calls):,} times" if len(calls) > 1 else ""
        reason = calls[0].reason[:_REASON_CHARS]
        says = f"{agent} called {tool}{times}, which did not run, and went on without it: {reason}"
        command = f"events {{session}} --grouped --actor {agent}"
        yield Finding("refused_call", calls[0].reply, agent, says, command)
