"""Tell each cause once.

Rules
  - An end of an agent, at a limit or by a failure, is told with the loop, the error or the repeated task that
    explains it. An end without one stays a finding of its own.
  - Agents that do the same, such as twelve that are refused one tool, share one finding: that of the first.
  - Of findings about one agent at one event, the most telling one stays.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from callboard.replay.diagnosis.finding import Finding, FindingKind

_ENDS: Final[frozenset[FindingKind]] = frozenset({"failed_below_ok", "refused", "untold_error"})
_SHARED: Final[frozenset[FindingKind]] = frozenset(
    {"loop", "repeated_error", "refused_call", "other_model", "refused_replies", "lost_cache", "same_answers"}
)
_NAMED: Final = 3  # further agents in a sentence
_NUMBER: Final = re.compile(r"\d[\d,]*")


def each_once(found: Sequence[Finding]) -> list[Finding]:
    """Return findings without those that tell of a cause again. found: the most telling kind first."""
    told = _with_ends(_shared(found))
    first: dict[tuple[int, str], Finding] = {}
    for one in told:
        first.setdefault((one.seq, one.agent), one)
    return [one for one in told if first[one.seq, one.agent] is one]


def _shared(found: Iterable[Finding]) -> list[Finding]:
    """Let agents that do the same share a finding."""
    groups: dict[object, list[Finding]] = {}
    for one in found:
        said = _NUMBER.sub("", one.says.replace(one.agent, ""))
        groups.setdefault((one.kind, said) if one.kind in _SHARED else id(one), []).append(one)
    return [_of_all(group) for group in groups.values()]


def _of_all(group: Sequence[Finding]) -> Finding:
    first, *others = group
    if not others:
        return first
    names = [one.agent for one in others]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    ends = tuple(agent for one in group for agent in one.ends)
    return first._replace(says=f"{first.says}; the same for {', '.join(names[:_NAMED])}{more}", ends=ends)


def _with_ends(found: Iterable[Finding]) -> list[Finding]:
    """Let the findings that explain ends tell of them, instead of findings of their own."""
    found = list(found)
    why = {agent: one for one in reversed(found) if one.kind not in _ENDS for agent in one.ends}
    told: dict[int, str] = {}  # by the finding that tells of them
    left = []
    for one in found:
        if one.kind not in _ENDS or any(agent not in why for agent in one.ends):
            left.append(one)
        else:
            told.setdefault(id(why[one.ends[0]]), f"; {one.says}")
    return [one._replace(says=one.says + told.get(id(one), "")) for one in left]
