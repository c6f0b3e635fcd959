"""A guess about ids: an argument stands nowhere in what agents were given, and one nearly like it does.

Nearly: two neighbouring characters are swapped, one is missing or doubled; or one is another, if the call
failed, or had an effect on something that its last character does not only number on.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from callboard.actors.protocol.client_messages import Ask, SessionOpened, Tell
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ApprovalGiven
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.tool_calls import CallCheck, Returned, ToolCall
from callboard.replay.json_values import leaves

TOKENS_MAX: Final = 100_000  # of a session, by which memory is bounded
_BYTES_MAX: Final = 65_536  # of a result that is looked at
_TOKEN: Final = re.compile(rb"(?=[A-Za-z_-]*\d)[A-Za-z0-9][A-Za-z0-9_-]{4,63}")
_ID: Final = re.compile(r"(?=[A-Za-z_-]*\d)[A-Za-z0-9][A-Za-z0-9_-]{4,63}")
_DATE: Final = re.compile(r"\d{4}-?\d\d-?\d\d")
_ESCAPES: Final = re.compile(rb"\\[nrtbf]")
_OWN_NAMES: Final = re.compile(
    r"(?i)(?:name|title|branch|key|path|file|label|tag|text|content|query|new)\w*$"
)
"""Fields in which a model gives a new thing a name."""


class CopiedIds(CallCheck):
    """Arguments that are nearly like an id that an agent was given, and like none."""

    kinds: ClassVar = frozenset({"SessionOpened", "Ask", "Tell", "ApprovalGiven"})

    def __init__(self) -> None:
        self._given: dict[str, int] = {}
        self._found: dict[str, Finding] = {}

    def take(self, event: Event) -> None:
        """Take in what a client or a person wrote."""
        if isinstance(event.body, SessionOpened | Ask | Tell | ApprovalGiven):
            self._add(event.seq, encode(event.body))

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in a call and its result."""
        if _TOKEN.search(call.arguments):
            for path, value in leaves(msgspec.json.decode(call.arguments), ""):
                if isinstance(value, str) and _ID.fullmatch(value) and not _DATE.fullmatch(value):
                    self._look(call, result, path, value)
        self._add(result.seq, result.output)

    def _add(self, seq: int, text: bytes) -> None:
        if len(self._given) < TOKENS_MAX:
            for token in _TOKEN.findall(_ESCAPES.sub(b" ", text[:_BYTES_MAX])):
                self._given.setdefault(token.decode().casefold(), seq)

    def _look(self, call: ToolCall, result: Returned, path: str, value: str) -> None:
        wanted = value.casefold()
        if wanted in self._given or value in self._found or _OWN_NAMES.search(path):
            return
        may_differ = result.status == "error" or call.effect != "read"
        for token, seq in self._given.items():
            change = _change(wanted, token) if abs(len(token) - len(wanted)) <= 1 else ""
            is_last = change == "differs" and wanted[:-1] == token[:-1]
            if change in ("swaps", "lacks") or (
                change and may_differ and (not is_last or result.status == "error")
            ):
                says = (
                    f"{call.agent} called {call.tool} with {path.removeprefix('.')} = {value}, which stands "
                    f"in nothing that it was given; {token!r} does ({seq})"
                )
                self._found[value] = Finding(
                    "wrong_id", call.seq, call.agent, says, f"search {{session}} {token}"
                )
                return

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found.values()


def _change(one: str, other: str) -> str:
    """Return how two texts differ, if that is a slip: `swaps`, `lacks`, `differs`; else empty."""
    start = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    if len(one) != len(other):
        short, long = sorted((one, other), key=len)
        # At the end of a text it is another number: A-100 and A-1007, file1 and file10.
        return "lacks" if start < len(short) and short[start:] == long[start + 1 :] else ""
    if one[start + 1 :] == other[start + 1 :]:
        return "differs"
    is_swapped = (
        one[start : start + 2] == other[start : start + 2][::-1] and one[start + 2 :] == other[start + 2 :]
    )
    return "swaps" if is_swapped else ""
