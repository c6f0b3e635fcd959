"""Checks of tool calls: errors that repeat, calls in doubt."""

from collections.abc import Iterator
from typing import ClassVar, Final

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.tool_calls import CallCheck, Returned, ToolCall

_TWICE: Final = 2


class RepeatedErrors(CallCheck):
    """Tools that give one agent the same error more than once, and nothing else after it."""

    results: ClassVar = "errors"

    def __init__(self) -> None:
        self._errors: dict[tuple[str, str], tuple[int, list[int]]] = {}

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        key = call.agent, call.tool
        if result.status == "error":
            before, seqs = self._errors.get(key, (result.digest, []))
            self._errors[key] = result.digest, seqs if before == result.digest else []
            self._errors[key][1].append(result.seq)
        else:  # the agent has found a way
            self._errors.pop(key, None)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent and tool."""
        for (agent, tool), (_, seqs) in self._errors.items():
            if len(seqs) >= _TWICE:
                says = f"{tool} gave {agent} the same error {len(seqs):,} times, and nothing else after it"
                command = f"events {{session}} --grouped --actor {agent}"
                yield Finding("repeated_error", seqs[0], agent, says, command, (agent,))


class InDoubt:
    """Tool calls with an effect that is not known, and agents that had not ended with their ask."""

    kinds: ClassVar = frozenset({"ToolReturned", "AskEnded"})

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in the answer to a call, or the end of an ask."""
        body = event.body
        if type(body) is ToolReturned:
            if body.status != "interrupted":
                return
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
