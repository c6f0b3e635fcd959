"""Checks of calls that tell an agent nothing new: loops, and read tools that always say the same.

A loop is a call that an agent makes with the same arguments again, and that gives the same result again,
with no effect of another call in between. Where a later such call gives another result, the agent has waited
for it: that is a poll, and no finding. Errors that repeat are found by `RepeatedErrors`.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.replay.diagnosis.finding import Finding

LOOP_FROM: Final = 3
"""Equal calls with equal results, by one agent, that count as a loop."""

SAME_FROM: Final = 8
"""Different calls of a read tool, all with one result, that a person should look at."""

_GROUPED: Final = "events {session} --grouped --actor "


class _Calls:
    """The calls of one agent with the same tool and arguments.

    result, since: the last result, and the effects before it. again: the calls in a row that gave it.
    most, third: the longest row that no other result ended, and its third call.
    """

    __slots__ = ("again", "most", "result", "since", "third")

    def __init__(self) -> None:
        self.result, self.since, self.again = 0, -1, 0
        self.most, self.third = 0, 0

    def take(self, seq: int, result: int, effects: int) -> None:
        """Take in a result. effects: the number of effects so far."""
        if result != self.result:  # it has changed: the agent has waited for that, or has caused it
            self.most = 0
        is_again = (result, effects) == (self.result, self.since)
        self.again = self.again + 1 if is_again else 1
        self.result, self.since = result, effects
        if self.again == LOOP_FROM and not self.most:
            self.third = seq
        if self.again >= LOOP_FROM:
            self.most = max(self.most, self.again)


class Loops:
    """Agents that make the same call again and again, and learn nothing from it."""

    kinds: ClassVar = frozenset({"CallTool", "ToolReturned"})

    def __init__(self) -> None:
        self._open: dict[int, tuple[str, str, bytes, int]] = {}
        self._calls: dict[tuple[str, str], dict[bytes, _Calls]] = {}
        self._effects: dict[tuple[str, bytes], int] = {}
        self._effect_count = 0

    def take(self, event: Event) -> None:
        """Take in a call or its result."""
        body = event.body
        if isinstance(body, CallTool):
            arguments = bytes(body.arguments)
            if body.effect != "read":
                self._effect_count += 1
                key = body.tool, arguments
                self._effects[key] = self._effects.get(key, 0) + 1
            self._open[event.seq] = event.sender, body.tool, arguments, event.seq
        elif isinstance(body, ToolReturned) and (call := self._open.pop(event.cause, None)):
            if body.status != "ok":
                return
            agent, tool, arguments, seq = call
            of_tool = self._calls.setdefault((agent, tool), {})
            # Calls like this one are no effects in between: they are what repeats.
            others = self._effect_count - self._effects.get((tool, arguments), 0)
            result = hash(bytes(body.output))
            of_tool.setdefault(arguments, _Calls()).take(seq, result, others)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent and tool."""
        for (agent, tool), by_arguments in self._calls.items():
            again = [calls for calls in by_arguments.values() if calls.most]
            if again:
                most, count = max(calls.most for calls in again), len(again)
                each = f"{count:,} different arguments, up to " if count > 1 else ""
                says = (
                    f"{agent} called {tool} with {each or 'the same arguments '}{most:,} times"
                    f"{' each' * (count > 1)}, and got the same result every time"
                )
                yield Finding(
                    "loop", min(calls.third for calls in again), agent, says, _GROUPED + agent, (agent,)
                )


class SameAnswers:
    """Read tools that give one agent the same result for every question."""

    kinds: ClassVar = frozenset({"CallTool", "ToolReturned"})

    def __init__(self) -> None:
        self._open: dict[int, tuple[str, str, bytes]] = {}
        self._results: dict[tuple[str, str], tuple[set[int], set[bytes], int, str]] = {}

    def take(self, event: Event) -> None:
        """Take in a call or its result."""
        body = event.body
        if isinstance(body, CallTool) and body.effect == "read":
            self._open[event.seq] = event.sender, body.tool, bytes(body.arguments)
        elif isinstance(body, ToolReturned) and (call := self._open.pop(event.cause, None)):
            agent, tool, arguments = call
            output = bytes(body.output)
            results, asked, first, _ = self._results.get((agent, tool), (set(), set(), event.seq, ""))
            if body.status == "ok" and len(results) <= 1:
                results.add(hash(output))
                asked.add(arguments)
            else:
                results |= {0, 1}  # errors are found by `RepeatedErrors`
            self._results[agent, tool] = results, asked, first, output[:80].decode("utf-8", "replace")

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent and tool."""
        for (agent, tool), (results, asked, first, said) in self._results.items():
            if len(results) == 1 and len(asked) >= SAME_FROM:
                says = f"{len(asked):,} different calls of {tool} by {agent} all gave the same: {said}"
                yield Finding("same_answers", first, agent, says, _GROUPED + agent, (agent,))
