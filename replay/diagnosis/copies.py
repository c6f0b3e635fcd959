"""Guesses about ids and numbers that an agent copied with a slip.

Such a value stands nowhere in what agents were given, and one nearly like it does. A slip swaps two
neighbouring characters, leaves one out or doubles one.

Of an id, which is an argument of a call, a slip may also be another character, if the call failed, or had an
effect on something that its last character does not only number on. An id whose number follows that of one
before is counted on, and no copy: `fig21` behind `fig20` is not like `fig12`.

Of a number, which stands in an answer, in a report, in a task or in a call with an effect, a slip may also be
a lost last digit, unless that is a 0: then it is another unit. Numbers of fewer than five digits are like
another one by chance, so they are not looked at. Signs between digits do not count: 419.00 is 41,900. A
number is not like one with another count of decimal places, from which it may be rounded.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Final, NamedTuple

import msgspec

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import Ask, AskEnded, SessionOpened, Tell
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import ApprovalGiven
from callboard.replay.diagnosis.finding import CallCheck, Finding, Returned, ToolCall
from callboard.replay.json_values import leaves

VALUES_MAX: Final = 100_000  # of a session, by which memory is bounded
_BYTES_MAX: Final = 65_536  # of a result that is looked at
_UNREAD_MAX: Final = 4 * 2**20  # bytes of texts whose values are not looked for yet


class _Given:
    """The ids or numbers in the texts that agents were given. values_of: yields those of a text.

    They are looked for once an agent has written one: in many sessions, none does.
    """

    def __init__(self, values_of: Callable[[bytes], Iterable[tuple[str, str]]]) -> None:
        self.found: dict[str, tuple[int, str]] = {}
        self._values_of = values_of
        self._unread: list[tuple[int, bytes]] = []
        self._unread_bytes = 0

    def add(self, seq: int, text: bytes) -> None:
        """Add a text."""
        if len(self.found) < VALUES_MAX:
            text = text[:_BYTES_MAX]
            self._unread.append((seq, text))
            self._unread_bytes += len(text)
            if self._unread_bytes > _UNREAD_MAX:
                self.read()

    def read(self) -> None:
        """Look for the values of the texts so far."""
        unread, self._unread, self._unread_bytes = self._unread, [], 0
        for seq, text in unread:
            if len(self.found) >= VALUES_MAX:
                break
            for value, written in self._values_of(text):
                self.found.setdefault(value, (seq, written))


_TOKEN: Final = re.compile(rb"(?<![A-Za-z])(?=[A-Za-z_-]*+\d)[A-Za-z0-9][A-Za-z0-9_-]{4,63}+")
_ID: Final = re.compile(r"(?=[A-Za-z_-]*\d)[A-Za-z0-9][A-Za-z0-9_-]{4,63}")
_LAST_NUMBER: Final = re.compile(r"[0-9]+$")
_DATE: Final = re.compile(r"\d{4}-?\d\d-?\d\d")
_ESCAPES: Final = re.compile(rb"\\[nrtbf]")
_OWN_NAMES: Final = re.compile(
    r"(?i)(?:name|title|branch|key|path|file|label|tag|text|content|query|new)\w*$"
)
"""Fields in which a model gives a new thing a name."""


def _ids(text: bytes) -> Iterator[tuple[str, str]]:
    for token in _TOKEN.findall(_ESCAPES.sub(b" ", text)):
        written = token.decode().casefold()
        yield written, written


class CopiedIds(CallCheck):
    """Arguments that are nearly like an id that an agent was given, and like none."""

    kinds: ClassVar = frozenset({"SessionOpened", "Ask", "Tell", "ApprovalGiven"})

    def __init__(self) -> None:
        self._given = _Given(_ids)
        self._used: set[str] = set()
        self._found: dict[str, Finding] = {}

    def take(self, event: Event) -> None:
        """Take in what a client or a person wrote."""
        if isinstance(event.body, SessionOpened | Ask | Tell | ApprovalGiven):
            self._given.add(event.seq, encode(event.body))

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in a call and its result."""
        if _TOKEN.search(call.arguments):
            for path, value in leaves(msgspec.json.decode(call.arguments), ""):
                if isinstance(value, str) and _ID.fullmatch(value) and not _DATE.fullmatch(value):
                    self._look(call, result, path, value)
        self._given.add(result.seq, result.output)

    def _look(self, call: ToolCall, result: Returned, path: str, value: str) -> None:
        self._given.read()
        wanted = value.casefold()
        known, before = self._given.found, _one_before(wanted)
        is_counted = before in known or before in self._used
        if len(self._used) < VALUES_MAX:
            self._used.add(wanted)
        if wanted in known or value in self._found or is_counted or _OWN_NAMES.search(path):
            return
        may_differ = result.status == "error" or call.effect != "read"
        for token, (seq, _) in self._given.found.items():
            change = _change(wanted, token) if abs(len(token) - len(wanted)) <= 1 else ""
            is_last = change == "differs" and wanted[:-1] == token[:-1]
            if change in ("swaps", "lacks") or (
                change and may_differ and (not is_last or result.status == "error")
            ):
                says = (
                    f"{call.agent} called {call.tool} with {path.removeprefix('.')} = {value}, which appears "
                    f"in nothing that it was given; {token!r} does ({seq})"
                )
                self._found[value] = Finding(
                    "wrong_id", call.seq, call.agent, says, f"search {{session}} {token}"
                )
                return

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found.values()


def _one_before(token: str) -> str:
    """Return an id with the number before its own at its end; empty for one without a number there."""
    number = _LAST_NUMBER.search(token)
    if number is None or not int(number[0]):
        return ""
    return token[: number.start()] + str(int(number[0]) - 1).zfill(len(number[0]) * (number[0][0] == "0"))


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


_NUMBER: Final = re.compile(
    rb"(?<![\w./])(?<!\w-)"
    rb"((?:\d{1,3}(?:[,.' ]\d{3})+(?!\d)|\d+)(?:\.\d{1,9})?)(,\d\d?(?![\d,]))?"
    rb"(?![\w/]|-\w|\.\d)"
)
"""A number, and behind a comma its decimals, or the next number of a list."""

_RUN: Final = re.compile(rb"\d(?:[,.' ]?\d){4,}")
"""A run of digits, which may hold such a number. It is found much faster than the number itself."""

_BESIDE: Final = 2  # bytes beside a number that say whether it is one
_SIGNS: Final = re.compile(rb"[^\d]")
_DIGITS_MIN: Final = 5
_SIGNIFICANT_MIN: Final = 3  # 120,000 is like 10,000 by chance
_NUMBERS_MAX: Final = 200  # of one text that are looked for among those that are given


class _Number(NamedTuple):
    """A number in a text. digits: without signs between them. written: as it stands there."""

    digits: str
    written: str

    def slips(self) -> Iterator[str]:
        """Yield the digits that a slip may have made this number of."""
        digits = self.digits
        for at in range(len(digits) - 1):
            one, other = digits[at], digits[at + 1]
            if one != other and "0" not in (one, other):
                yield digits[:at] + other + one + digits[at + 2 :]
        for at in range(len(digits) - 1):
            yield digits[:at] + digits[at + 1 :]
            for digit in "0123456789":
                yield digits[:at] + digit + digits[at:]
        if not _decimals(self.written):
            for digit in "123456789":
                yield digits + digit


def _numbers(text: bytes) -> Iterator[_Number]:
    for run in _RUN.finditer(text):
        start, end = run.span()
        around = _ESCAPES.sub(b" ", text[max(0, start - _BESIDE) : end + _BESIDE])
        for number, decimals in _NUMBER.findall(around):
            for found in (number, number + decimals) if decimals else (number,):
                digits = _SIGNS.sub(b"", found)
                if len(digits) >= _DIGITS_MIN and len(digits.strip(b"0")) >= _SIGNIFICANT_MIN:
                    yield _Number(digits.decode(), found.decode())


class CopiedNumbers(CallCheck):
    """Numbers that are nearly like one that an agent was given, and like none."""

    kinds: ClassVar = frozenset(
        {
            *("SessionOpened", "Ask", "Tell", "ApprovalGiven", "Begin"),
            *("Delegate", "DelegationEnded", "AskEnded"),
        }
    )

    def __init__(self) -> None:
        self._given = _Given(_numbers)
        self._found: dict[str, Finding] = {}

    def take(self, event: Event) -> None:
        """Take in what agents were given, a task or an end."""
        match event.body:
            case SessionOpened() | Ask() | Tell() | ApprovalGiven() | Begin():
                self._given.add(event.seq, encode(event.body))
            case Delegate(prompt=prompt):
                self._look(event.seq, event.sender, "delegated with", bytes(prompt))
            case DelegationEnded(address=agent, text=text, value=value) if agent:
                self._look(event.seq, agent, "passed on", text.encode() + b"\n" + bytes(value))
                self._given.add(event.seq, encode(event.body))
            case AskEnded(text=text, value=value):
                self._look(event.seq, HOST, "answered", text.encode() + b"\n" + bytes(value))
            case _:
                pass

    def called(self, call: ToolCall) -> None:
        """Take in a call with an effect."""
        self._look(call.seq, call.agent, f"called {call.tool} with", call.arguments)

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        self._given.add(result.seq, result.output)

    def _look(self, seq: int, agent: str, verb: str, text: bytes) -> None:
        said = {one.digits: one for one in _numbers(text)}
        if not said:
            return
        self._given.read()
        given = self._given.found
        new = [one for digits, one in said.items() if digits not in given and digits not in self._found]
        for number in new[:_NUMBERS_MAX]:
            like = next((given[one] for one in number.slips() if one in given), None)
            if like is not None and _decimals(like[1]) == _decimals(number.written):
                source, written = like
                says = (
                    f"{agent} {verb} {number.written}, which appears in nothing that it was given; {written} "
                    f"does ({source})"
                )
                command = f"search {{session}} {shlex.quote(written)}"
                self._found[number.digits] = Finding("wrong_number", seq, agent, says, command)
                return

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found.values()


_DECIMALS: Final = re.compile(r"[.,](\d+)$")
_THOUSANDS: Final = 3


def _decimals(written: str) -> int:
    """Count the decimal places of a number. Three are taken for thousands."""
    found = _DECIMALS.search(written)
    return len(found[1]) if found and len(found[1]) != _THOUSANDS else 0
