"""Guesses about bad news that got lost: an agent ended well after it, and its answer tells of none.

Bad news is an error that was the last result of a tool, or a report that counts failures. Words that may tell
of it are taken for telling: a guess that is wrong costs more than one that is missing.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DelegationEnded
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.tool_calls import CallCheck, Returned, ToolCall
from callboard.replay.json_values import leaves
from callboard.replay.reports import reported

_TELLS: Final = re.compile(
    r"(?i)err|fail|unavail|\b(?:not|no|none|nothing|un\w+able|without|but|however|sorry)\b|n't|cannot|missing"
    r"|time-?d? ?out|unknown|problem|issue|reject|refus|deni|broke|wrong|bug|warn|\?"
)
_COUNT: Final = re.compile(r"(?i)\b(?:fail(?:ed|ures?)|errors?)$")


class UntoldErrors(CallCheck):
    """Agents that ended well right after bad news, with an answer that has no word of it."""

    kinds: ClassVar = frozenset({"DelegationEnded", "AskEnded"})
    results: ClassVar = "errors"

    def __init__(self) -> None:
        self._news: dict[str, str] = {}
        self._found: list[Finding] = []

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in a result: one that is not an error is the way out of those before it."""
        if result.status == "error":
            self._news[call.agent] = f"{call.tool} had given it an error ({result.seq})"
        else:
            self._news.pop(call.agent, None)

    def take(self, event: Event) -> None:
        """Take in the end of an agent."""
        body = event.body
        if isinstance(body, DelegationEnded):
            self._end(event, body, body.address)
            self._report(event, body.address)
        elif isinstance(body, AskEnded):
            self._end(event, body, HOST)

    def _end(self, event: Event, body: DelegationEnded | AskEnded, agent: str) -> None:
        news = self._news.pop(agent, "")
        said = f"{body.text} {bytes(body.value).decode()}"
        if news and STATUS[body.kind] == "ok" and not _TELLS.search(said):
            says = f"{agent} ended well after {news}, and its answer has no word of that"
            command = f"events {{session}} --grouped --actor {agent}"
            self._found.append(Finding("untold_error", event.seq, agent, says, command, (agent,)))

    def _report(self, event: Event, agent: str) -> None:
        """Take in what a report means for the parent: failures, or that the work is done after all."""
        bad = [
            f"{path.removeprefix('.')} = {leaf}"
            for path, leaf in leaves(reported(event), "")
            if isinstance(leaf, int) and leaf > 0 and _COUNT.search(path)
        ]
        if bad:
            self._news[event.recipient] = f"{agent} had reported {bad[0]:.80} ({event.seq})"
        else:
            self._news.pop(event.recipient, None)

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


class RepeatedEffects(CallCheck):
    """Calls that may not be repeated, and were, with nothing else done in between."""

    results: ClassVar = "effects"

    def __init__(self) -> None:
        self._last: tuple[ToolCall, Returned] | None = None
        self._found: dict[tuple[str, bytes], Finding] = {}

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        last, self._last = self._last, (call, result) if result.status == "ok" else None
        if last is None or self._last is None or call.effect != "write" or len(call.arguments) <= len("{}"):
            return
        before, earlier = last
        if (before.tool, before.arguments) == (call.tool, call.arguments) and earlier.digest == result.digest:
            by = f" by {before.agent}" if before.agent != call.agent else ""
            says = (
                f"{call.agent} called {call.tool} as it was called before{by} ({before.seq}), with the same "
                "result and nothing done in between: its effect may have come twice"
            )
            command = f"events {{session}} --from {before.seq} --to {result.seq}"
            found = Finding("repeated_effect", call.seq, call.agent, says, command)
            self._found.setdefault((call.tool, call.arguments), found)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each call."""
        yield from self._found.values()
