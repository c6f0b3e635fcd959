"""The differences that count between two decisions or two sessions.

Divergences: places where the deciders do not do what the log says, made readable.

The parts of a message in which two sessions may differ: no seqs, ids, times or figures of usage.

JSON of users, models and tools is compared whole, with all of its fields.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal, TypeAlias

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.near_names import NamedFields

DivergenceKind: TypeAlias = Literal["changed", "missing", "extra", "raised", "unexpected"]


class Divergence(msgspec.Struct, frozen=True, metaclass=NamedFields):
    """One place where the deciders do not do what the log says.

    seq: the place of the event. actor: the one that decided. decision: the seq of the event that it decided
    on. field: path into the event, such as `body.need.tokens`. expected: by this code. actual: in the log,
    as JSON, clipped. causal_path: the events that led to this decision, latest first.
    """

    seq: int
    actor: str
    decision: int
    kind: DivergenceKind
    field: str = ""
    expected: str = ""
    actual: str = ""
    causal_path: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        place = f", field {self.field}" if self.field else ""
        decision = f"{self.actor}, deciding on event {self.decision}{place} ({self.kind})"
        lines = [
            f"diverged at seq {self.seq}: {decision}",
            f"  expected (this code): {self.expected or 'nothing'}",
            f"  actual   (the log)  : {self.actual or 'nothing'}",
        ]
        if self.causal_path:
            lines.append("  how it came to this decision, latest first:")
            lines += [f"    {event}" for event in self.causal_path]
        return lines


ABSENT: Final = msgspec.UNSET
"""Stands for a value that one of two JSON values does not have: it is not null."""
ABSENT_TEXT: Final = "(absent)"


def first_difference(expected: object, actual: object, path: str = "body") -> tuple[str, object, object]:
    """Return the path of the first difference of two JSON values, and both values there, or `ABSENT`."""
    if type(expected) is type(actual):
        here, there = _parts(expected), _parts(actual)
        for place in {**here, **there}:
            if place not in here or place not in there or here[place] != there[place]:
                return first_difference(here.get(place, ABSENT), there.get(place, ABSENT), f"{path}{place}")
    return path, expected, actual


def _parts(value: object) -> dict[str, object]:
    """Return the parts of a JSON value by their places in a path."""
    if isinstance(value, dict):
        return {f".{key}": part for key, part in value.items()}
    return {f"[{place}]": part for place, part in enumerate(value)} if isinstance(value, list) else {}


def clipped_json(value: object, longest: int = 400) -> str:
    """Return a value as JSON on one line, cut in the middle if it is long."""
    if value is ABSENT:
        return ABSENT_TEXT
    text = msgspec.json.encode(value).decode()
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]} ... {text[-longest // 2 :]} ({len(text)} characters)"


def causal_path(events: Sequence[Event], seq: int, longest: int = 12) -> tuple[str, ...]:
    """Return the event and its causes, one line each, latest first. events: from seq 1, without gaps."""
    found: list[str] = []
    while 0 < seq <= len(events) and len(found) < longest:
        event = events[seq - 1]
        found.append(_brief(event))
        if event.cause >= seq:
            break
        seq = event.cause
    return tuple(found)


def unexpected(event: Event, rule: str) -> Divergence:
    """Return the divergence of an event that breaks a rule of the protocol by its place."""
    actual = f"cause {event.cause}, {_clipped_body(event)}"
    return Divergence(event.seq, event.sender, event.cause, "unexpected", "cause", rule, actual)


def raised(event: Event, error: Exception) -> Divergence:
    """Return the divergence of a decider that raises now and did not when this was recorded."""
    expected = f"the decider raises {type(error).__name__}: {error}"[:400]
    return Divergence(event.seq, event.recipient, event.seq, "raised", expected=expected)


def missing(event: Event, place: int, post: Post, found: Event | None) -> Divergence:
    """Return the divergence of an output that the log lacks. place: its seq. found: the event there."""
    expected = f"to {post.recipient}: {clipped_json(msgspec.json.decode(encode(post.body)))}"
    actual = f"event {_brief(found)}" if found is not None else ""
    return Divergence(place, event.recipient, event.seq, "missing", expected=expected, actual=actual)


def extra(output: Event) -> Divergence:
    """Return the divergence of an output that the code does not post."""
    return Divergence(output.seq, output.sender, output.cause, "extra", actual=_clipped_body(output))


def changed(output: Event, body: bytes, post: Post) -> Divergence:
    """Return the divergence of an output that the code posts otherwise. body: the output's stored bytes."""
    field, expected, actual = "recipient", post.recipient, output.recipient
    if expected == actual:
        now = msgspec.json.decode(encode(post.body))
        field, one, other = first_difference(now, msgspec.json.decode(body))
        expected, actual = clipped_json(one), clipped_json(other)
    return Divergence(output.seq, output.sender, output.cause, "changed", field, expected, actual)


def _clipped_body(event: Event) -> str:
    return clipped_json(msgspec.json.decode(encode(event.body)))


def _brief(event: Event) -> str:
    return f"{event.seq} {event.sender} -> {event.recipient}: {event.kind}"


_FIGURES: Final = frozenset(
    {"usage", "settled", "need", "closing", "room", "unsettled", "messages", "telemetry"}
)
_NUMBERS: Final = frozenset(
    {
        "request",
        "new",
        "by",
        "check",
        "timer",
        "until",
        "event",
        "permission",
        "reused",
        "after_origin",
        "cached_from",
    }
)
IDS: Final = frozenset({"id", "request_id", "digest", "tool_use_id", "signature"})
_LEFT_OUT: Final = _FIGURES | _NUMBERS | IDS
"""Fields of messages that are not compared. In JSON of users, models and tools these names mean nothing."""

_ADDRESSES: Final = frozenset({"address", "agent", "parent"})
"""Fields that name an agent."""

_ASKED: Final = {"prompt", "context", "schema", "input_schema", "extra", "implicit", "params", "metadata"}
_GIVEN: Final = {
    "arguments",
    "input",
    "presets",
    "first",
    "form",
    "forms",
    "output",
    "value",
    "values",
    "edits",
}
FOREIGN: Final = frozenset(_ASKED | _GIVEN)
"""Fields of messages that hold such JSON: they are compared whole."""

_OF_BLOCKS: Final = frozenset({"id", "tool_use_id"})
_OF_STEPS: Final = frozenset({"run", "at", "wake"})


LONG_CHARS: Final = 65_536
"""Texts that are longer are compared by their digests: two sessions of 1 GB do not fit the memory."""

_KEPT_CHARS: Final = 2_000


def shortened(value: object) -> Any:
    """Return a JSON value with each long text cut, and its length and digest behind the cut."""
    if isinstance(value, str) and len(value) > LONG_CHARS:
        digest = blake2b(value.encode(), digest_size=16).hexdigest()
        return f"{value[:_KEPT_CHARS]}… ({len(value):,} characters, BLAKE2b {digest})"
    if isinstance(value, dict):
        return {name: shortened(inner) for name, inner in value.items()}
    return [shortened(inner) for inner in value] if isinstance(value, list) else value


def compared(value: object, names: Mapping[str, str]) -> Any:
    """Return the parts of a message that a difference may be in, its agents renamed."""
    if isinstance(value, list):
        return [compared(inner, names) for inner in value]
    if not isinstance(value, dict):
        return value
    parts = {name: _part(name, value[name], names) for name in value if name not in _LEFT_OUT}
    for name in _ADDRESSES & parts.keys():
        if isinstance(parts[name], str):
            parts[name] = names.get(parts[name], parts[name])
    return parts


def _part(name: str, value: object, names: Mapping[str, str]) -> Any:
    """Return the parts of a field that a difference may be in."""
    if name in FOREIGN:
        return value
    return _blocks(value) if name == "content" else compared(value, names)


def _blocks(content: object) -> object:
    """Return the content of a model, without the ids of its calls and the times of a program's steps."""
    if not isinstance(content, list):
        return content
    return [_block(one) if isinstance(one, dict) else one for one in content]


def _block(block: dict[str, object]) -> dict[str, object]:
    left_out = _OF_STEPS if block.get("type") == "program_step" else _OF_BLOCKS
    return {name: value for name, value in block.items() if name not in left_out}
