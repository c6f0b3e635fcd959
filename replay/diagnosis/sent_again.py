"""A guess about requests that timed out and were made again: both may have had their effect."""

import re
from collections.abc import Iterator
from typing import Final

from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.tool_calls import CallCheck, Returned, ToolCall

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
