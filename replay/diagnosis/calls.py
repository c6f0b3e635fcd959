"""Checks of tool calls: loops, repeated errors, calls in doubt."""

from collections.abc import Iterator
from typing import ClassVar, Final

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.replay.diagnosis.finding import Finding

LOOP_FROM: Final = 3
"""Calls of one tool with the same arguments, by one agent, that count as a loop."""

_TWICE: Final = 2


class Loops:
    """Agents that call a tool with the same arguments again and again."""

    kinds: ClassVar = frozenset({"CallTool"})

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], dict[bytes, list[int]]] = {}

    def take(self, event: Event) -> None:
        """Count a call by its agent, tool and arguments."""
        assert isinstance(event.body, CallTool)
        of_tool = self._calls.setdefault((event.sender, event.body.tool), {})
        of_tool.setdefault(bytes(event.body.arguments), []).append(event.seq)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent and tool."""
        for (agent, tool), by_arguments in self._calls.items():
            again = [seqs for seqs in by_arguments.values() if len(seqs) >= LOOP_FROM]
            if again:
                calls = sum(map(len, by_arguments.values()))
                says = (
                    f"{agent} called {tool} {calls:,} times with {len(by_arguments):,} different arguments; "
                    f"{max(map(len, again)):,} times with the same"
                )
                first = min(seqs[LOOP_FROM - 1] for seqs in again)
                command = f"events {{session}} --grouped --actor {agent}"
                yield Finding("loop", first, agent, says, command)


class RepeatedErrors:
    """Tools that give one agent the same error more than once."""

    kinds: ClassVar = frozenset({"CallTool", "ToolReturned"})

    def __init__(self) -> None:
        self._tools: dict[int, str] = {}
        self._errors: dict[tuple[str, str, bytes], list[int]] = {}

    def take(self, event: Event) -> None:
        """Take in a call or its answer."""
        if isinstance(event.body, CallTool):
            self._tools[event.seq] = event.body.tool
        elif isinstance(event.body, ToolReturned):
            tool = self._tools.pop(event.cause, "a tool")
            if event.body.status == "error":
                key = event.recipient, tool, bytes(event.body.output)
                self._errors.setdefault(key, []).append(event.seq)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent, tool and error."""
        for (agent, tool, _), seqs in self._errors.items():
            if len(seqs) >= _TWICE:
                says = f"{tool} gave {agent} the same error {len(seqs):,} times"
                yield Finding("repeated_error", seqs[0], agent, says)


class InDoubt:
    """Tool calls with an effect that is not known, and agents that had not ended with their ask."""

    kinds: ClassVar = frozenset({"ToolReturned", "AskEnded"})

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in the answer to a call, or the end of an ask."""
        body = event.body
        if isinstance(body, ToolReturned) and body.status == "interrupted":
            call = f"call {body.call} of turn {body.turn} of {event.recipient}"
            says = f"{call} was interrupted: it is not known whether it took effect"
            self._found.append(Finding("in_doubt", event.seq, event.recipient, says))
        elif isinstance(body, AskEnded):
            self._found += [_not_stopped(event.seq, agent) for agent in body.in_doubt]

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


def _not_stopped(seq: int, agent: str) -> Finding:
    says = f"{agent} had not stopped at the end of the grace: its calls may have taken effect"
    return Finding("in_doubt", seq, agent, says)
