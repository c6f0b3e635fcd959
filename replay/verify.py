"""Verification: the deciders run again on what the log says they got, and must post what it says they posted.

For every decision, the ordered list of (recipient, body) that the code computes now is compared with the
events that name the decided event as their cause and this actor as their sender, byte for byte. What ports
and clients posted is input: it is not computed, only held to the protocol (an answer needs a request that
has none). The times are not compared.

A decision whose outputs are missing is a divergence, unless it is among the last of its actor in a session
that was not closed: a log is a prefix of what happened, and what was not yet posted when the process ended
is no fault of the code.
"""

from collections.abc import Iterator, Sequence

import msgspec

from callboard.actors.protocol.addresses import (
    CLIENT,
    CLOCK,
    SUPERVISOR,
    TOOLS,
    is_decider,
)
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import (
    AnyMessage,
    AskEnded,
    CallTool,
    SessionClosed,
    SetTimer,
    TimerFired,
    ToolStarted,
)
from callboard.actors.session.core import SessionCore, recorded_failure
from callboard.actors.session.port_table import PORT_REQUESTS, owner_of
from callboard.actors.session.step import ActorState
from callboard.replay.divergence import Divergence, chain_of, first_difference, shown

_ANSWERS: dict[type, tuple[str, type, tuple[str, ...]]] = {
    **{row.answer: (row.port, request, row.repeats) for request, row in PORT_REQUESTS.items()},
    ToolStarted: (TOOLS, CallTool, ("turn", "call")),
    TimerFired: (CLOCK, SetTimer, ("timer",)),
}
"""Which port posts an answer, what it answers, and what it repeats of that."""


_REQUESTS = frozenset({*PORT_REQUESTS, SetTimer})


class Verifier:
    """Runs the deciders over a session's events, from seq 1, without gaps.

    bodies: the events' bytes as they are stored; without them, the events are encoded again.
    """

    def __init__(self, events: Sequence[Event], bodies: Sequence[bytes] | None = None) -> None:
        self.events = events
        self._bodies = bodies if bodies is not None else [encode(event.body) for event in events]
        self._core = SessionCore()
        self.decisions = 0
        self._outputs = _outputs_by_cause(events)
        self._last_decided = _last_decided(events)
        self._open: set[int] = set()
        self._is_complete = _is_complete(events)

    @property
    def states(self) -> dict[str, ActorState]:
        """The state of every actor after the decisions so far."""
        return self._core.states

    def run(self) -> Divergence | None:
        """The first divergence in the order of the log, or None."""
        return next(self.divergences(), None)

    def divergences(self) -> Iterator[Divergence]:
        """Every divergence; after the first, states may be off, so later ones may only follow from it."""
        for event in self.events:
            found = self._check_input(event) or self._check_decision(event)
            if found is not None:
                yield found

    # --- inputs -------------------------------------------------------------------

    def _check_input(self, event: Event) -> Divergence | None:
        """Hold what was not computed to the protocol."""
        rule = self._broken_rule(event)
        if rule:
            return self._unexpected(event, rule)
        if type(event.body) in _ANSWERS and type(event.body) is not ToolStarted:
            self._open.discard(event.cause)
        if type(event.body) in _REQUESTS:
            self._open.add(event.seq)
        return None

    def _broken_rule(self, event: Event) -> str:
        """The rule that an event breaks by its mere place, or nothing."""
        if not 0 <= event.cause < event.seq:
            return "an event is caused by an earlier one"
        cause = self.events[event.cause - 1] if event.cause else None
        answer = _ANSWERS.get(type(event.body))
        if is_decider(event.sender):
            is_good = cause is not None and cause.recipient == event.sender and answer is None
            return (
                ""
                if is_good
                else "an actor posts only in answer to an event it received, and no port's answers"
            )
        if event.sender == CLIENT:
            return (
                ""
                if event.cause == 0 and event.recipient == SUPERVISOR
                else "the client speaks to the supervisor"
            )
        if answer is None or answer[0] != event.sender:
            return f"{event.sender} does not post {event.kind}"
        if cause is None or event.cause not in self._open or type(cause.body) is not answer[1]:
            return "an answer needs a request that has no answer yet"
        repeated = self._repeated_source(cause)
        if any(getattr(event.body, name) != getattr(repeated, name, None) for name in answer[2]):
            return f"an answer repeats {' and '.join(answer[2])} of its request"
        return "" if event.recipient == owner_of(cause) else f"this answer is for {owner_of(cause)}"

    def _repeated_source(self, request: Event) -> AnyMessage:
        """Return the message whose fields an answer carries again: the request, or the one it points to."""
        row = PORT_REQUESTS.get(type(request.body))
        seq = getattr(request.body, row.through) if row is not None and row.through else 0
        return self.events[seq - 1].body if 0 < seq < request.seq else request.body

    def _unexpected(self, event: Event, rule: str) -> Divergence:
        actual = f"cause {event.cause}, {shown(_value(event))}"
        chain = chain_of(self.events, event.seq)
        return Divergence(event.seq, event.sender, event.cause, "unexpected", "cause", rule, actual, chain)

    # --- decisions ----------------------------------------------------------------

    def _check_decision(self, event: Event) -> Divergence | None:
        if not is_decider(event.recipient):
            return None
        logged = self._outputs.get(event.seq, ())
        try:
            expected = self.decide(event)
        except Exception as error:
            return self._raised(event, error)
        if not expected and not logged:
            return None
        return self._compare(event, expected, logged)

    def advance(self, event: Event) -> None:
        """Bring the states on by one event, comparing nothing."""
        if is_decider(event.recipient):
            self.decide(event)

    def outputs(self, seq: int) -> Sequence[Event]:
        """What the log says was posted in deciding on this event."""
        return self._outputs.get(seq, ())

    def decide(self, event: Event) -> tuple[Post, ...]:
        """Make one decision and keep its state; returns what the code posts now.

        A decision that raised when it was recorded is not made again: its failure stands in its place.
        """
        self.decisions += 1
        return self._core.decide(event, recorded_failure(self.outputs(event.seq)))

    def _raised(self, event: Event, error: Exception) -> Divergence:
        """The decider fails on what it took when this was recorded (DeciderFailed would stand in the log)."""
        expected = f"the decider raises {type(error).__name__}: {error}"[:400]
        chain = chain_of(self.events, event.seq)
        return Divergence(event.seq, event.recipient, event.seq, "raised", expected=expected, chain=chain)

    def _compare(
        self, event: Event, expected: tuple[Post, ...], logged: Sequence[Event]
    ) -> Divergence | None:
        for place, post in enumerate(expected):
            if place >= len(logged):
                return self._missing(event, post, logged)
            actual = logged[place]
            if actual.seq != logged[0].seq + place:
                return self._moved(event, actual, logged[0].seq + place)
            if actual.recipient != post.recipient or self._bodies[actual.seq - 1] != encode(post.body):
                return self._changed(event, post, actual)
        if len(logged) > len(expected):
            extra = logged[len(expected)]
            return Divergence(
                extra.seq,
                event.recipient,
                event.seq,
                "extra",
                actual=shown(_value(extra)),
                chain=chain_of(self.events, event.seq),
            )
        return None

    def _changed(self, event: Event, post: Post, actual: Event) -> Divergence:
        field, expected, found = "recipient", post.recipient, actual.recipient
        if expected == found:
            now = msgspec.json.decode(encode(post.body))
            field, one, other = first_difference(now, msgspec.json.decode(self._bodies[actual.seq - 1]))
            expected, found = shown(one), shown(other)
        chain = chain_of(self.events, event.seq)
        return Divergence(actual.seq, event.recipient, event.seq, "changed", field, expected, found, chain)

    def _missing(self, event: Event, post: Post, logged: Sequence[Event]) -> Divergence | None:
        if not self._is_complete and (
            logged[-1].seq == len(self.events)
            if logged
            else self._last_decided.get(event.recipient, 0) <= event.seq
        ):
            return None
        after = logged[-1].seq if logged else event.seq
        expected = f"to {post.recipient}: {shown(msgspec.json.decode(encode(post.body)))}"
        chain = chain_of(self.events, event.seq)
        return Divergence(after + 1, event.recipient, event.seq, "missing", expected=expected, chain=chain)

    def _moved(self, event: Event, actual: Event, place: int) -> Divergence:
        return Divergence(
            actual.seq,
            event.recipient,
            event.seq,
            "moved",
            "seq",
            f"seq {place}, with the other outputs of its decision",
            f"seq {actual.seq}",
            chain_of(self.events, event.seq),
        )


def _value(event: Event) -> object:
    return msgspec.json.decode(encode(event.body))


def _outputs_by_cause(events: Sequence[Event]) -> dict[int, list[Event]]:
    """What deciders posted, by the event they decided on."""
    found: dict[int, list[Event]] = {}
    for event in events:
        if is_decider(event.sender):
            found.setdefault(event.cause, []).append(event)
    return found


def _last_decided(events: Sequence[Event]) -> dict[str, int]:
    """The latest event, by actor, whose decision has outputs in the log."""
    found: dict[str, int] = {}
    for event in events:
        if is_decider(event.sender):
            found[event.sender] = max(found.get(event.sender, 0), event.cause)
    return found


def _is_complete(events: Sequence[Event]) -> bool:
    """Whether the session was closed with nothing left undone, so that no output may be missing."""
    if not events or not isinstance(events[-1].body, SessionClosed):
        return False
    return not any(isinstance(event.body, AskEnded) and event.body.in_doubt for event in events)
