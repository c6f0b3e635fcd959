"""Calls that were made again after a compaction had taken their results out of the conversation."""

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.diagnosis.finding import CallCheck, Finding, Returned, ToolCall


class ClearedAgain(CallCheck):
    """Read tools that an agent called again with the same arguments, since it could not see the result."""

    kinds: ClassVar = frozenset({"Compacted", "ModelReplied"})

    def __init__(self) -> None:
        self._replies: Counter[str] = Counter()
        # Results are looked at once there was a compaction: in many sessions, none is. The number beside a
        # call is that of the reply that made it.
        self._new: list[tuple[ToolCall, int]] = []
        self._results: dict[tuple[str, str, bytes], int] = {}
        self._gone: Counter[str] = Counter()  # by agent, the replies whose results may be gone
        self._again: dict[str, list[tuple[int, str]]] = {}

    def take(self, event: Event) -> None:
        """Take in a reply, or a compaction."""
        body, who = event.body, event.recipient
        if isinstance(body, Compacted):
            self._look()
            kept = (body.kept + 1) // 2  # every second message that stays is a reply
            self._gone[who] = max(self._gone[who], self._replies[who] - kept - bool(body.summary))
        elif type(body) is ModelReplied and body.status == "ok":
            self._replies[who] += 1

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        self._new.append((call, self._replies[call.agent]))
        if self._gone:
            self._look()

    def _look(self) -> None:
        new, self._new = self._new, []
        for call, reply in new:
            key = call.agent, call.tool, call.arguments
            if call.effect == "read" and 0 < self._results.get(key, 0) <= self._gone[call.agent]:
                self._again.setdefault(call.agent, []).append((call.seq, call.tool))
            self._results[key] = reply

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent."""
        for agent, again in self._again.items():
            times = f"{len(again):,} times" if len(again) > 1 else "once"
            tools = ", ".join(dict.fromkeys(tool for _, tool in again))
            says = (
                f"{agent} called {tools} again {times} with the same arguments, after a compaction had taken "
                "the result out of its conversation"
            )
            yield Finding("cleared_again", again[0][0], agent, says, "request {at}")
