"""The words of a specialist that failed: of the one folded result that its caller reads, the parts that tell.

{"status": "unavailable", "reason": "crashed", "detail": "..."}    crashed: ...
"""

from typing import Final

import msgspec

from callboard.actors.protocol.errors import DelegationFailed

WORDS_CHARS_MAX: Final = 500
"""Characters of each part, since the reason goes into the answer of the orchestrator."""


class _Folded(msgspec.Struct, frozen=True):
    reason: str
    detail: str
    problems: tuple[str, ...] = ()
    text: str = ""


def reason_of(error: DelegationFailed) -> str:
    """Return the kind of a failure and its words; of a failure without words, the kind."""
    told = [_cut(one) for one in _told(error.text) if one]
    return f"{error.kind}: {'; '.join(told)}" if told else error.kind


def _told(text: str) -> tuple[str, ...]:
    try:
        found = msgspec.json.decode(text, type=_Folded)
    except msgspec.DecodeError:  # an end that is not a folded result, such as an ask that was given up
        return (text,)
    return found.detail, *found.problems, found.text


def _cut(text: str) -> str:
    return text if len(text) <= WORDS_CHARS_MAX else f"{text[:WORDS_CHARS_MAX]}..."
