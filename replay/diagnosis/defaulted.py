"""A guess about reports: an empty value, of an agent whose tool gave an error and nothing after it."""

from collections.abc import Iterator
from typing import ClassVar, Final

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.json_values import leaves
from callboard.replay.reports import reported

_EMPTY: Final = frozenset({"", "0", "0.0", "-1", "none", "null", "unknown", "n/a", "na", "-"})
_TELLS: Final = ("error", "fail", "unavailable", "could not", "cannot", "not found", "missing", "timeout")
"""Words of a report that tells of its error. A name of a field may hold them, too."""


class Defaulted:
    """Reports with an empty value after an error of a tool that they do not tell of."""

    kinds: ClassVar = frozenset({"CallTool", "ToolReturned", "DelegationEnded"})

    def __init__(self) -> None:
        self._tools: dict[int, str] = {}
        self._errors: dict[str, dict[str, int]] = {}
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in a call, its result, or the end of an agent."""
        body = event.body
        if isinstance(body, CallTool):
            self._tools[event.seq] = body.tool
        elif isinstance(body, ToolReturned):
            tool, errors = self._tools.pop(event.cause, ""), self._errors.setdefault(event.recipient, {})
            if body.status == "error":
                errors.setdefault(tool, event.seq)
            else:
                errors.pop(tool, None)
        elif isinstance(body, DelegationEnded) and body.address:
            errors = self._errors.pop(body.address, {})
            if errors and body.kind == "reported":
                self._found += _findings(event, body.address, errors)

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


def _findings(event: Event, agent: str, errors: dict[str, int]) -> Iterator[Finding]:
    values = [(path.removeprefix("."), leaf) for path, leaf in leaves(reported(event), "")]
    said = " ".join(f"{path} {leaf}" for path, leaf in values if not _is_empty(leaf)).casefold()
    empty = [f"{path} = {leaf!r}" for path, leaf in values if _is_empty(leaf)]
    if empty and not any(word in said for word in _TELLS):
        tool, seq = next(iter(errors.items()))
        says = (
            f"{agent} reported {empty[0]:.80}, and {tool} had given it an error ({seq}) and nothing after it"
        )
        yield Finding("defaulted", event.seq, agent, says, f"events {{session}} --grouped --actor {agent}")


def _is_empty(leaf: object) -> bool:
    return not isinstance(leaf, bool) and str(leaf).strip().casefold() in _EMPTY
