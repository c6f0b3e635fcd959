"""Checks of tool calls: errors that repeat, calls in doubt.

Checks of calls that tell an agent nothing new: loops, and read tools that always say the same.

A loop is a call that an agent makes with the same arguments again, and that gives the same result again,
with no effect of another call in between. Where a later such call gives another result, the agent has waited
for it: that is a poll, and no finding. Errors that repeat are found by `RepeatedErrors`.

A guess about requests that timed out and were made again: both may have had their effect.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

import msgspec

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event
from callboard.replay.diagnosis.finding import GROUPED, CallCheck, Finding, Returned, ToolCall

_TWICE: Final = 2


class RepeatedErrors(CallCheck):
    """Tools that give one agent the same error more than once, or many errors, and nothing else after it."""

    results: ClassVar = "errors"

    def __init__(self) -> None:
        self._errors: dict[tuple[str, str], tuple[int, list[int]]] = {}
        self._all: dict[tuple[str, str], list[int]] = {}

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        key = call.agent, call.tool
        if result.status == "error":
            before, seqs = self._errors.get(key, (result.digest, []))
            self._errors[key] = result.digest, seqs if before == result.digest else []
            self._errors[key][1].append(result.seq)
            self._all.setdefault(key, []).append(result.seq)
        elif result.status == "ok":  # the agent has found a way
            self._errors.pop(key, None)
            self._all.pop(key, None)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent and tool."""
        for (agent, tool), (_, seqs) in self._errors.items():
            every = self._all[agent, tool]
            if len(every) >= SAME_FROM and len(seqs) < len(every):
                seqs, says = (
                    every,
                    f"{tool} gave {agent} {len(every):,} errors in a row, and nothing else",
                )
            elif len(seqs) >= _TWICE:
                says = f"{tool} gave {agent} the same error {len(seqs):,} times, and nothing else after it"
            else:
                continue
            yield Finding("repeated_error", seqs[0], agent, says, GROUPED + agent, (agent,))


_UNKNOWN: Final = b"whether it had its effect is not known"
"""The words in the result of a call with an effect that was given up."""


class InDoubt(CallCheck):
    """Tool calls with an effect that is not known, and agents that had not ended with their ask.

    A call that was given up after its time is in doubt until a later call of its agent succeeds, because that
    may be the look at its work.
    """

    kinds: ClassVar = frozenset({"AskEnded"})
    results: ClassVar = "errors"

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._late: dict[str, list[Finding]] = {}

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        if result.status == "interrupted":
            self._found.append(_unknown(call, result, "was interrupted"))
        elif result.status == "error" and call.effect != "read" and _UNKNOWN in result.output:
            self._late.setdefault(call.agent, []).append(_unknown(call, result, "did not answer in time"))
        elif result.status == "ok":
            self._late.pop(call.agent, None)

    def take(self, event: Event) -> None:
        """Take in the end of an ask."""
        if isinstance(event.body, AskEnded):
            self._found += [_not_stopped(event.seq, agent) for agent in event.body.in_doubt]

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        late = [finding for findings in self._late.values() for finding in findings]
        yield from sorted([*self._found, *late], key=lambda one: one.seq)


def _unknown(call: ToolCall, result: Returned, what: str) -> Finding:
    says = f"{call.tool}, called by {call.agent}, {what}: it is not known whether it took effect"
    return Finding("in_doubt", result.seq, call.agent, says, ends=(call.agent,))


def _not_stopped(seq: int, agent: str) -> Finding:
    says = f"{agent} had not stopped at the end of the grace: its calls may have taken effect"
    return Finding("in_doubt", seq, agent, says)


LOOP_FROM: Final = 3
"""Equal calls with equal results, by one agent, that count as a loop."""

SAME_FROM: Final = 8
"""Different calls of a tool, all with one result or with errors, that a person should look at."""

_CHARS: Final = 80


class _Calls(msgspec.Struct, gc=False):
    """The calls of one agent with the same tool and arguments.

    last: the seq of the last result. result, since: that result, and the effects before it. again: the calls
    in a row that gave it.
    most, third: the longest row that no other result ended, and its third call.
    """

    result: int
    since: int
    again: int
    last: int
    most: int = 0
    third: int = 0

    def take(self, seq: int, result: int, effects: int) -> None:
        """Take in a result. effects: the number of effects so far."""
        if result != self.result:  # it has changed: the agent has waited for that, or has caused it
            self.result, self.since, self.again, self.most = result, effects, 1, 0
            return
        self.again = self.again + 1 if effects == self.since else 1
        self.since = effects
        if self.again >= LOOP_FROM:
            if self.again == LOOP_FROM and not self.most:
                self.third = seq
            self.most = max(self.most, self.again)


class Loops(CallCheck):
    """Agents that make the same call again and again, and learn nothing from it.

    A program that has slept in between waits for another result, as its code says.
    """

    kinds: ClassVar = frozenset({"Woken"})

    def __init__(self) -> None:
        self._woken: Counter[str] = Counter()
        self._calls: dict[tuple[str, str], dict[bytes, _Calls]] = {}
        self._effects: Counter[tuple[str, bytes]] = Counter()
        self._effect_count = 0

    def take(self, event: Event) -> None:
        """Take in the end of a program's sleep."""
        self._woken[event.recipient] += 1

    def called(self, call: ToolCall) -> None:
        """Count a call with an effect."""
        self._effect_count += 1
        self._effects[call.tool, call.arguments] += 1

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        if result.status == "ok":
            arguments, others = call.arguments, self._effect_count
            if others:  # calls like this one are not effects in between: they are what repeats
                others -= self._effects.get((call.tool, arguments), 0)
            if self._woken:
                others += self._woken[call.agent]
            if (of_tool := self._calls.get(key := (call.agent, call.tool))) is None:
                of_tool = self._calls[key] = {}
            if (calls := of_tool.get(arguments)) is None:
                of_tool[arguments] = _Calls(result.digest, others, 1, result.seq)
            else:
                calls.last = result.seq
                calls.take(call.seq, result.digest, others)

    def answered(self) -> Iterator[tuple[str, str, bytes, int]]:
        """Yield agent, tool and arguments of each call that was answered, and the seq of its last result."""
        for (agent, tool), by_arguments in self._calls.items():
            for arguments, calls in by_arguments.items():
                yield agent, tool, arguments, calls.last

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
                    "loop", min(calls.third for calls in again), agent, says, GROUPED + agent, (agent,)
                )


class _Answers(NamedTuple):
    """A tool's answers, all like the first, and the arguments of the calls."""

    first: Returned
    asked: set[bytes]


_NEW: Final = _Answers(Returned(0, "", 0, b""), set())


class SameAnswers(CallCheck):
    """Read tools that give one agent the same result for every question."""

    def __init__(self) -> None:
        self._tools: dict[tuple[str, str], _Answers | None] = {}

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        key = call.agent, call.tool
        answers = self._tools.get(key, _NEW)
        if answers is None or call.effect != "read":
            return
        if answers is _NEW:
            answers = self._tools[key] = _Answers(result, set())
        if result.status != "ok" or result.digest != answers.first.digest:
            self._tools[key] = None  # errors are found by `RepeatedErrors`
        else:
            answers.asked.add(call.arguments)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent and tool."""
        for (agent, tool), answers in self._tools.items():
            if answers is not None and len(answers.asked) >= SAME_FROM:
                said = answers.first.output[:_CHARS].decode("utf-8", "replace")
                says = (
                    f"{len(answers.asked):,} different calls of {tool} by {agent} all gave the same: {said}"
                )
                command = GROUPED + agent
                yield Finding("same_answers", answers.first.seq, agent, says, command, (agent,))


_TIMED_OUT: Final = re.compile(
    rb"(?i)time[sd]?[ -]?out|deadline[ _]exceeded|\b(?:408|504|524)\b"
    rb"|connection (?:was )?(?:reset|closed|lost|aborted)"
)


class SentAgain(CallCheck):
    """Calls that may not be repeated, timed out, and were made again without a look at what they had done."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, bytes], tuple[ToolCall, Returned]] = {}
        self._found: list[Finding] = []

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        if call.effect == "read":
            if self._open and result.status == "ok":  # it may have looked
                self._open = {key: one for key, one in self._open.items() if one[0].agent != call.agent}
            return
        key = call.tool, call.arguments
        if result.status == "ok":
            before = self._open.pop(key, None)
            if before is not None and call.effect == "write":
                self._found.append(_found(*before, call))
        elif result.status == "interrupted" or (
            result.status == "error" and _TIMED_OUT.search(result.output)
        ):
            self._open.setdefault(key, (call, result))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


def _found(before: ToolCall, result: Returned, again: ToolCall) -> Finding:
    says = (
        f"{before.agent} called {before.tool}, which did not answer in time ({result.seq}), and "
        f"{again.agent} called it again ({again.seq}): its effect may have come twice"
    )
    command = f"events {{session}} --from {before.seq} --to {again.seq}"
    return Finding("sent_again", result.seq, before.agent, says, command)
