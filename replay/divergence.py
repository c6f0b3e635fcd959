"""Where code and log part: found, named, and made readable."""

from collections.abc import Sequence

import msgspec

from callboard.actors.protocol.events import Event


class Divergence(msgspec.Struct, frozen=True):
    """The first place where the deciders do not do what the log says.

    seq: the event that is not as computed (for a missing one, the seq it should have had). actor: whose
    decision it is; decision: the seq of the event that was decided on. what: changed, missing, extra, moved,
    raised or unexpected. field: path into the event, such as `body.need.tokens`. expected is what the code
    computes now, actual what the log has; both JSON, cut for display. chain: how it came to this decision.
    """

    seq: int
    actor: str
    decision: int
    what: str
    field: str = ""
    expected: str = ""
    actual: str = ""
    chain: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The report, for people."""
        place = f", field {self.field}" if self.field else ""
        what = f"{self.actor}, deciding on event {self.decision}{place} ({self.what})"
        found = [
            f"diverged at seq {self.seq}: {what}",
            f"  expected (this code): {self.expected or 'nothing'}",
            f"  actual   (the log)  : {self.actual or 'nothing'}",
        ]
        if self.chain:
            found.append("  how it came to this decision, latest first:")
            found += [f"    {link}" for link in self.chain]
        return found


def first_difference(expected: object, actual: object, path: str = "body") -> tuple[str, object, object]:
    """The path of the first difference of two JSON values, and both values there."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            if key not in expected or key not in actual or expected[key] != actual[key]:
                return first_difference(expected.get(key), actual.get(key), f"{path}.{key}")
    if isinstance(expected, list) and isinstance(actual, list):
        for place in range(max(len(expected), len(actual))):
            one = expected[place] if place < len(expected) else None
            other = actual[place] if place < len(actual) else None
            if one != other:
                return first_difference(one, other, f"{path}[{place}]")
    return path, expected, actual


def shown(value: object, longest: int = 400) -> str:
    """A JSON value on one line, cut in the middle if it is long."""
    text = msgspec.json.encode(value).decode()
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]} ... {text[-longest // 2 :]} ({len(text)} characters)"


def brief(event: Event) -> str:
    """An event in one line."""
    return f"{event.seq} {event.sender} -> {event.recipient}: {event.kind}"


def chain_of(events: Sequence[Event], seq: int, longest: int = 12) -> tuple[str, ...]:
    """The causes of an event, itself first. events: from seq 1, without gaps."""
    found: list[str] = []
    while 0 < seq <= len(events) and len(found) < longest:
        event = events[seq - 1]
        found.append(brief(event))
        if event.cause >= seq:
            break
        seq = event.cause
    return tuple(found)
