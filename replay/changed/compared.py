"""The comparison of a decision with the recorded one.

Two decisions are the same if their posts are, in order, but for

  - timers and settlements, which follow from limits and from figures,
  - the parts of a message that describe agents (the profiles show them) and requests (compared on their own),
  - figures, seqs, and texts that state figures.

The timers that the agents of today set otherwise: they fire by the recorded times of the other events.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.messages import AnyMessage, Begin
from callboard.actors.protocol.port_messages import CancelTimer, ExtendTimer, SetTimer
from callboard.replay.changed.result import DifferenceKind
from callboard.replay.divergence import clipped_json, first_difference

_SILENT: Final = frozenset({"SetTimer", "ExtendTimer", "CancelTimer", "TurnSettled", "Wake", "SettleBudget"})

_EVERYWHERE: Final = frozenset(
    {"settled", "usage", "unsettled", "by", "event", "detail", "reasons", "closing", "room", "messages"}
    | {"timeout_ms", "need", "permission"}
)
_OF_KIND: Final[Mapping[str, frozenset[str]]] = {
    "TurnRequested": frozenset(
        {"digest", "new", "after_ms", "told", "ends", "breaks_cache", "model", "is_unbounded", "repair"}
    ),
    "CallModel": frozenset({"request", "opening"}),
    "RunStep": frozenset({"digest", "new"}),
    "RequestCapacity": frozenset({"model"}),
    "Begin": frozenset({"profile", "model", "limits", "schema", "roster", "permissions", "granted"}),
    "ToolsGiven": frozenset({"tools"}),
    "CheckSchema": frozenset({"check", "schema"}),
    "MakeContext": frozenset({"request"}),
    "CallTool": frozenset({"id"}),
}
_NAME: Final = msgspec.json.Decoder(JsonObject)


class Unequal(NamedTuple):
    """The first difference of two decisions. seq: of the recorded output, 0 without one."""

    seq: int
    kind: DifferenceKind
    path: str
    recorded: str
    now: str


def difference(recorded: Sequence[Event], posts: Sequence[Post]) -> Unequal | None:
    """Return the first difference of a decision; None if there is no difference."""
    before, now = visible(recorded), visible(posts)
    for event, post in zip(before, now, strict=False):
        if event.kind != _kind(post) or event.recipient != post.recipient:
            return Unequal(event.seq, "changed", "", _brief(event), _brief(post))
        one, other = _parts(event.body), _parts(post.body)
        if one != other:
            path, mine, theirs = first_difference(one, other, event.kind)
            return Unequal(event.seq, "changed", path, clipped_json(mine), clipped_json(theirs))
    return _left_over(before, now)


def _left_over(before: Sequence[Event], now: Sequence[Post]) -> Unequal | None:
    """Return the first post that only one of two decisions has."""
    if len(before) > len(now):
        return Unequal(before[len(now)].seq, "missing", "", _brief(before[len(now)]), "")
    if len(now) > len(before):
        return Unequal(0, "extra", "", "", _brief(now[len(before)]))
    return None


def visible(posts: Iterable[Any]) -> list[Any]:
    """Return the posts that are compared."""
    return [one for one in posts if _kind(one) not in _SILENT]


def paired(recorded: Sequence[Event], events: Sequence[Event]) -> Iterator[tuple[Event, Event]]:
    """Pair the outputs of two decisions that are the same."""
    yield from zip(visible(recorded), visible(events), strict=True)
    for kind in ("TurnSettled", "Wake"):
        yield from zip(*(_of_kind(side, kind) for side in (recorded, events)), strict=False)
    yield from _paired_timers(_of_kind(recorded, "SetTimer"), _of_kind(events, "SetTimer"))


def _paired_timers(recorded: list[Event], events: list[Event]) -> Iterator[tuple[Event, Event]]:
    """Pair timers: those of the same time, then the others in order."""
    left, waiting = [], events
    for one in recorded:
        same = next((other for other in waiting if timer_time(other) == timer_time(one)), None)
        if same is None:
            left.append(one)
        else:
            waiting = [other for other in waiting if other is not same]
            yield one, same
    yield from zip(left, waiting, strict=False)


def timer_time(event: Event) -> tuple[int, int | None]:
    """Return the time that a timer is set for."""
    assert isinstance(event.body, SetTimer)
    return event.body.after_ms, event.body.until


def raised(recorded: Sequence[Event], error: Exception) -> Unequal:
    """Return the difference of a decision whose decider raises now."""
    seen = visible(recorded)[:1]
    seq, said = (seen[0].seq, _brief(seen[0])) if seen else (0, "")
    return Unequal(seq, "raised", "", said, f"the decider raises {type(error).__name__}: {error}")


def profile_name(begin: Begin) -> str:
    """Return the name of the profile that an agent begins with."""
    return str(_NAME.decode(begin.profile)["name"])


def _of_kind(side: Sequence[Event], kind: str) -> list[Event]:
    return [one for one in side if one.kind == kind]


def _kind(post: Post | Event) -> str:
    return type(post.body).__name__


def _parts(body: AnyMessage) -> JsonObject:
    """Return the parts of a message that are compared, as JSON values."""
    left_out = _EVERYWHERE | _OF_KIND.get(type(body).__name__, frozenset())
    found = _NAME.decode(encode(body))
    parts = {name: value for name, value in found.items() if name not in left_out}
    return {**parts, "profile": profile_name(body)} if isinstance(body, Begin) else parts


def _brief(post: Post | Event) -> str:
    parts = {name: value for name, value in _parts(post.body).items() if name != "type"}
    return f"{_kind(post)} to {post.recipient} {clipped_json(parts)}"


class DueTimers:
    """Timers without a recorded firing that fits, by number: when each is due, and the event that set it."""

    def __init__(self) -> None:
        self._due: dict[int, tuple[int, Event]] = {}

    def set(self, event: Event) -> None:
        """Take a timer in that was set otherwise, or not at all, when the session was recorded."""
        assert isinstance(event.body, SetTimer)
        self._due[event.body.timer] = due_at(event), event

    def note(self, event: Event) -> None:
        """Take an order for a timer in, which may be one of these."""
        body = event.body
        if isinstance(body, CancelTimer):
            self._due.pop(body.timer, None)
        elif isinstance(body, ExtendTimer) and body.timer in self._due:
            due, setting = self._due[body.timer]
            self._due[body.timer] = due + body.by_ms, setting

    def holds(self, timer: int) -> bool:
        """Return True if a timer fires by its own time, and not when it was recorded."""
        return timer in self._due

    def take_due(self, at: int) -> Event | None:
        """Remove the first timer that is due before a time, and return the event that set it."""
        due = [(when, timer) for timer, (when, _) in self._due.items() if when < at]
        return self._due.pop(min(due)[1])[1] if due else None


def due_at(event: Event) -> int:
    """Return when a timer fires, in milliseconds since 1970 UTC. event: its `SetTimer`."""
    body = event.body
    assert isinstance(body, SetTimer)
    return event.at + body.after_ms if body.until is None else max(event.at, body.until)
