"""Guesses about ids and numbers that an agent copied with a slip.

Such a value stands nowhere in what agents were given, and one nearly like it does. A slip swaps two
neighbouring characters, leaves one out or doubles one.

Of an id in an argument of a call, a slip may also be another character, if the call failed, or had an effect
on something that its last character does not only number on. In an answer, a report or a task, only ids of
four digits and more are looked at, and no dates. An id whose number follows that of one
before is counted on, and no copy: `fig21` behind `fig20` is not like `fig12`.

Of a number, which stands in an answer, in a report, in a task or in a call with an effect, a slip may also be
a lost last digit, unless that is a 0: then it is another unit. Numbers of fewer than five digits are like
another one by chance, so they are not looked at. Signs between digits do not count: 419.00 is 41,900. A
number is not like one with another count of decimal places, from which it may be rounded.
"""

import re
import shlex
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import AnyMessage, Begin
from callboard.replay.diagnosis.finding import Finding, Returned, ToolCall
from callboard.replay.diagnosis.given_values import VALUES_MAX, WrittenValues
from callboard.replay.json_values import leaves

_TOKEN: Final = re.compile(rb"(?<![A-Za-z])(?=[A-Za-z_-]*+\d)[A-Za-z0-9][A-Za-z0-9_-]{4,63}+")
_ID: Final = re.compile(r"(?=[A-Za-z_-]*\d)[A-Za-z0-9][A-Za-z0-9_-]{4,63}")
_LAST_NUMBER: Final = re.compile(r"[0-9]+$")
_DATE: Final = re.compile(r"\d{4}-?\d\d-?\d\d")
_ESCAPES: Final = re.compile(rb"\\[nrtbf]")
_OWN_NAMES: Final = re.compile(
    r"(?i)(?:name|title|branch|key|path|file|label|tag|text|content|query|new)\w*$"
)
"""Fields in which a model gives a new thing a name."""


def _tokens(text: bytes) -> Iterator[str]:
    return (token.decode() for token in _TOKEN.findall(_ESCAPES.sub(b" ", text)))


def _ids(text: bytes) -> Iterator[tuple[str, str]]:
    return ((token.casefold(), token) for token in _tokens(text))


class CopiedIds(WrittenValues):
    """Ids that are nearly like one that an agent was given, and like none."""

    def __init__(self) -> None:
        super().__init__(_ids)
        self._used: set[str] = set()
        self._plain: set[bytes] = set()  # arguments without ids: agents look at the same things

    def _given_in(self, body: AnyMessage) -> AnyMessage:
        # An id in a task may have a slip of the parent, which a call of the child shows.
        return replace(body, prompt=NULL) if isinstance(body, Begin) else body

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in a call and its result."""
        if call.arguments not in self._plain:
            self._look_in(call, result)
        self._given.add(result.seq, result.output)

    def _look_in(self, call: ToolCall, result: Returned) -> None:
        if _TOKEN.search(call.arguments):
            for path, value in leaves(msgspec.json.decode(call.arguments), ""):
                if isinstance(value, str) and _ID.fullmatch(value) and not _DATE.fullmatch(value):
                    self._look_at(call, result, path, value)
        elif len(self._plain) < VALUES_MAX:
            self._plain.add(call.arguments)

    def _look(self, seq: int, agent: str, verb: str, text: bytes) -> None:
        for value in dict.fromkeys(_tokens(text)):
            like = self._like(value) if _is_sure(value) and self._is_new(value, value) else None
            if like is not None:
                self._note(seq, agent, f"{verb} {value}", value, *like)

    def _look_at(self, call: ToolCall, result: Returned, path: str, value: str) -> None:
        if self._is_new(value, path):
            is_error = result.status == "error"
            like = self._like(value, is_inside=is_error or call.effect != "read", is_last=is_error)
            if like is not None:
                said = f"called {call.tool} with {path.removeprefix('.')} = {value}"
                self._note(call.seq, call.agent, said, value, *like)

    def _note(self, seq: int, agent: str, said: str, value: str, token: str, source: int) -> None:
        says = f"{agent} {said}, which appears in nothing that it was given; {token!r} does ({source})"
        found = Finding("wrong_id", seq, agent, says, f"search {{session}} {token}")
        self._found[value.casefold()] = found

    def _is_new(self, value: str, path: str) -> bool:
        """Return whether an id was not given, is not counted on from another one, and names no new thing."""
        self._given.read()
        wanted, known = value.casefold(), self._given.found
        before = _one_before(wanted)
        is_counted = before in known or before in self._used
        if len(self._used) < VALUES_MAX:
            self._used.add(wanted)
        is_known = wanted in known or wanted in self._found or not self._given.is_whole
        return not (is_known or is_counted or _OWN_NAMES.search(path))

    def _like(self, value: str, *, is_inside: bool = False, is_last: bool = False) -> tuple[str, int] | None:
        """Return an id that was given of which a slip makes this one, and the event.

        is_inside, is_last: whether another character is a slip, inside the id or at its end.
        """
        wanted = value.casefold()
        for token, (seq, written) in self._given.found.items():
            change = _change(wanted, token)
            may_differ = is_last if wanted[:-1] == token[:-1] else is_inside
            if change in _SURE or (change and may_differ):
                return written, seq
        return None


_SURE: Final = ("swaps", "lacks")
_SURE_DIGITS_MIN: Final = 4
_NO_LETTERS_MIN: Final = 9  # digits of an id without letters, which is longer than a date
_DATE_INSIDE: Final = re.compile(r"(?:19|20)\d\d([-_]?)(?:0[1-9]|1[0-2])\1[0-3]\d")


def _is_sure(value: str) -> bool:
    """Return whether a word of a text is like another one by a slip, and not by chance."""
    digits = sum(map(str.isdigit, value))
    is_id = digits >= _SURE_DIGITS_MIN and any(map(str.isalpha, value))
    return (is_id or _NO_LETTERS_MIN <= digits < len(value)) and _DATE_INSIDE.search(value) is None


def _one_before(token: str) -> str:
    """Return an id with the number before its own at its end; empty for one without a number there."""
    number = _LAST_NUMBER.search(token)
    if number is None or not int(number[0]):
        return ""
    return token[: number.start()] + str(int(number[0]) - 1).zfill(len(number[0]) * (number[0][0] == "0"))


def _change(one: str, other: str) -> str:
    """Return how two texts differ, if that is a slip: `swaps`, `lacks`, `differs`; else empty."""
    if abs(len(one) - len(other)) > 1:
        return ""
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


class CopiedNumbers(WrittenValues):
    """Numbers that are nearly like one that an agent was given, and like none."""

    def __init__(self) -> None:
        super().__init__(_numbers)

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
        given = self._given.found if self._given.is_whole else {}
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


def copied_from(text: bytes, value: str) -> str:
    """Return the id or number in a text of which a slip makes a value; empty if none does."""
    if (said := next(_numbers(value.encode()), None)) is not None:
        given = {one.digits: one.written for one in _numbers(text)}
        like = next((given[one] for one in said.slips() if one in given), "")
        return like * (_decimals(like) == _decimals(value))
    near = (one for one in _tokens(text) if _change(value.casefold(), one.casefold()) in _SURE)
    return next(near, "") if _ID.fullmatch(value) else ""


_DECIMALS: Final = re.compile(r"[.,](\d+)$")
_THOUSANDS: Final = 3


def _decimals(written: str) -> int:
    """Count the decimal places of a number. Three are taken for thousands."""
    found = _DECIMALS.search(written)
    return len(found[1]) if found and len(found[1]) != _THOUSANDS else 0
