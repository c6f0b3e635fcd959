"""The one result that a calling model reads of an agent tool that failed.

    {"status": "invalid_input", "reason": "denied", "detail": ..., "problems": [...]}  a wrong call
    {"status": "unavailable", "reason": KIND, "detail": ..., "text": ...}              no result

The true kind of the end stands under `reason`, and in the log. `text` is partial work.

Rules
  - A result that is too long for its room is cut: first the text, then the detail, then the problems. At
    least a part of one problem is left.
  - In a room that is too small for that it is a text, as the end of a `task` is.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.endings import EXPLAINED, STATUS
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.value_types import Response, SchemaProblem

WRONG_INPUT: Final = "the input does not match; correct it and call again"
FOLDED: Final[tuple[Response, ...]] = ("invalid_input", "unavailable")
_PROBLEMS_TOLD: Final = 10


def response_of(end: DelegationEnded, *, is_folded: bool) -> Response:
    """Return the form in which a model reads the end of a delegation. is_folded: to an agent tool."""
    if STATUS[end.kind] == "ok":
        return "ok"
    if not is_folded:
        return "error"
    return _status(end)


def fits_folded(end: DelegationEnded) -> bool:
    """Return whether the room of an end is enough for the shortest result of an agent tool."""
    return not end.room or end.room >= FOLDED_BYTES_MIN


def with_problems_cut(end: DelegationEnded) -> DelegationEnded:
    """Return the end with as many of its problems as its room holds: at least a part of the first."""

    def fits(problems: tuple[SchemaProblem, ...]) -> bool:
        return json_bytes(_written(replace(end, problems=problems), "", "")) <= end.room

    problems = end.problems[:_PROBLEMS_TOLD]
    if not problems or not end.room or fits(problems):
        return end
    most = bisect_right(range(1, len(problems)), 0, key=lambda count: not fits(problems[:count]))
    if most:
        return replace(end, problems=problems[:most])
    first = problems[0] if fits((replace(problems[0], message=""),)) else SchemaProblem("", str(problems[0]))
    message = first.message
    chars = range(1, len(message) + 1)
    kept = bisect_right(chars, 0, key=lambda count: not fits((replace(first, message=message[:count]),)))
    return replace(end, problems=(replace(first, message=message[:kept]),))


def folded(end: DelegationEnded) -> str:
    """Return the result of an agent tool that failed, as JSON of at most `end.room` bytes where that fits."""
    detail = end.detail or EXPLAINED[end.kind]
    whole = _written(end, detail, end.text)
    if not end.room or json_bytes(whole) <= end.room:
        return whole
    if json_bytes(_written(end, detail, "")) <= end.room:
        return _longest(lambda kept: _written(end, detail, end.text[:kept]), len(end.text), end.room)
    return _longest(lambda kept: _written(end, detail[:kept], ""), len(detail), end.room)


def _written(end: DelegationEnded, detail: str, text: str) -> str:
    fields: dict[str, object] = {"status": _status(end), "reason": end.kind, "detail": detail}
    if end.problems:
        fields["problems"] = [str(one) for one in end.problems[:_PROBLEMS_TOLD]]
    if text:
        fields["text"] = text
    return encode(fields).decode()


def _status(end: DelegationEnded) -> Response:
    return "invalid_input" if end.problems else "unavailable"


def json_bytes(text: str) -> int:
    """Return the bytes that a text takes within a request, without its quotation marks."""
    return len(encode(text)) - 2


def cut_to(text: str, most: int) -> str:
    """Return the beginning of a text, with a note, so that both take at most so many bytes of a request."""
    size = json_bytes(text)
    if size <= most:
        return text
    note = f" [cut: this result has {size:,} bytes, and {most:,} may be read]"
    left = most - json_bytes(note)
    if left < 0:  # a user's own limit may be as small as 1
        note, left = "", most
    # A character takes at least one byte, and a longer beginning never fewer than a shorter one.
    kept = bisect_right(range(1, left + 1), left, key=lambda chars: json_bytes(text[:chars]))
    return text[:kept] + note


FOLDED_BYTES_MIN: Final = max(
    json_bytes(_written(DelegationEnded(1, 0, kind, problems=wrong), "", ""))
    for kind in EXPLAINED
    for wrong in ((), (SchemaProblem("", ""),))
)
"""The bytes of the longest result from which nothing more can be cut."""


def _longest(written: Callable[[int], str], most: int, room: int) -> str:
    """Return the longest result with a beginning of its words that fits; the shortest if none does."""
    kept = bisect_right(range(1, most + 1), room, key=lambda chars: json_bytes(written(chars)))
    return written(kept)
