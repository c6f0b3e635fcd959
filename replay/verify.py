"""Verification: the deciders run again on the recorded inputs, and must post what the log says they posted.

For every decision, the ordered list of (recipient, body) that the code computes now is compared, byte for
byte, with the events that name the decided event as their cause and this actor as their sender. Inputs are
held to the protocol (`open_requests`). Times are not compared.

A decision whose outputs are missing is a divergence, unless it is among the last of its actor in a session
that was not closed.

The log is read once, in order. Memory holds the actors' states, the events that they have not handled yet,
and the requests that have no answer.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from msgspec.structs import replace

from callboard.actors.protocol.addresses import SUPERVISOR, is_decider
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AskEnded, SessionClosed
from callboard.actors.session.core import SessionCore, recorded_failure
from callboard.replay.divergence import (
    Divergence,
    causal_path,
    changed,
    extra,
    missing,
    raised,
    unexpected,
)
from callboard.replay.open_requests import ANSWERS, OpenRequests

Page: TypeAlias = Sequence[tuple[Event, bytes]]
"""Events that follow each other, each with its body as it is stored."""


@dataclass(slots=True)
class _Decision:
    """A decision made again. place: how many of its posts are found in the log."""

    event: Event
    posts: tuple[Post, ...]
    place: int = 0


class _Found(Exception):
    """Ends the run: the first divergence is found."""

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(divergence.seq)
        self.divergence = divergence


class _Completeness:
    """Watches for a session that was closed with nothing left undone, so that no output may be missing."""

    def __init__(self) -> None:
        self._is_in_doubt = self._is_closed = False

    def take(self, event: Event) -> None:
        """Take the next event in."""
        self._is_closed = type(event.body) is SessionClosed
        if type(event.body) is AskEnded and event.body.in_doubt:
            self._is_in_doubt = True

    def __bool__(self) -> bool:
        return self._is_closed and not self._is_in_doubt


class Verifier:
    """Runs the deciders once over a session's events.

    events: from seq 1, without gaps; read at random only to explain a divergence. pages: the same events in
    order, with their bodies as they are stored; without it, the events are encoded again.
    """

    def __init__(self, events: Sequence[Event], pages: Iterable[Page] | None = None) -> None:
        self.decisions = 0
        self._events = events
        self._pages = pages if pages is not None else ([(event, encode(event.body)) for event in events],)
        self._core = SessionCore()
        self._inboxes: defaultdict[str, deque[Event]] = defaultdict(deque)
        self._made_ahead: dict[int, tuple[Post, ...]] = {}
        self._is_ahead = True
        self._requests = OpenRequests()
        self._completeness = _Completeness()
        self._decision: _Decision | None = None

    def run(self) -> Divergence | None:
        """Return the first divergence in the order of the log; None if there is no divergence."""
        seq = 0
        try:
            for page in self._pages:
                self._decide_ahead(page)
                for event, body in page:
                    seq = event.seq
                    self._take(event, body)
            self._finish(seq)
        except _Found as found:
            first = self._first(found.divergence)
            start = first.seq if first.kind == "unexpected" else first.decision
            return replace(first, causal_path=causal_path(self._events, start))
        return None

    def _take(self, event: Event, body: bytes) -> None:
        decision = self._decision
        if decision is not None and decision.place < len(decision.posts):
            if (event.sender, event.cause) != (decision.event.recipient, decision.event.seq):
                _fail(missing(decision.event, event.seq, decision.posts[decision.place], event))
            self._compare(decision, event, body)
        elif is_decider(event.sender):
            self._compare(self._decision_of(event), event, body)
        elif rule := self._requests.broken_rule(event):
            _fail(unexpected(event, rule))
        self._completeness.take(event)
        self._requests.take(event)
        if is_decider(event.recipient):
            self._inboxes[event.recipient].append(event)

    def _compare(self, decision: _Decision, output: Event, body: bytes) -> None:
        """Compare the next post of a decision with the event in its place."""
        if decision.place >= len(decision.posts):
            _fail(extra(output))
        post = decision.posts[decision.place]
        if output.recipient != post.recipient or body != encode(post.body):
            _fail(changed(output, body, post))
        decision.place += 1

    def _decision_of(self, output: Event) -> _Decision:
        """Make the decision whose first output this is, after those before it in the actor's inbox."""
        inbox = self._inboxes.get(output.sender)
        # Nearly always it answers the first event: a look at the others is for a log that was changed.
        is_known = inbox and (inbox[0].seq == output.cause or any(one.seq == output.cause for one in inbox))
        if not inbox or not is_known or type(output.body) in ANSWERS:
            self._refuse(output)
        while (event := inbox.popleft()).seq != output.cause:
            if posts := self._decide(event):
                _fail(missing(event, output.seq, posts[0], output))
        if not inbox:
            del self._inboxes[output.sender]  # an agent that has ended costs no memory
        self._decision = _Decision(event, self._decide(event, (output,)))
        return self._decision

    def _refuse(self, output: Event) -> NoReturn:
        """Fail for an output that belongs to no decision that is still to be made."""
        is_earlier = 0 < output.cause < output.seq
        if is_earlier and self._events[output.cause - 1].recipient == output.sender:
            _fail(extra(output))
        rule = "an actor posts only in answer to an event it received, and no port's answers"
        _fail(unexpected(output, rule))

    def _finish(self, last: int) -> None:
        """Make the decisions that have no outputs in the log."""
        # The log of an open session may end between a decision and its outputs: then none is missing.
        decision, is_complete = self._decision, bool(self._completeness)
        if is_complete and decision is not None and decision.place < len(decision.posts):
            _fail(missing(decision.event, last + 1, decision.posts[decision.place], None))
        for event in self._undecided():
            posts = self._decide(event)
            if posts and is_complete:
                _fail(missing(event, last + 1, posts[0], None))

    def _decide_ahead(self, page: Page) -> None:
        """Make all decisions of the supervisor on this page together.

        They need not wait for their outputs: no log holds a failure of the supervisor.
        """
        events = [event for event, _ in page if event.recipient == SUPERVISOR]
        if not self._is_ahead or not events:
            return
        # One unit of work for all of them: one for each event made verification 6 to 40 % slower.
        try:
            posts = self._core.decide_together(events)
        except Exception:  # one of them raises: from here on each is made in its turn, to find which
            self._is_ahead = False
            return
        self._made_ahead.update(zip((event.seq for event in events), posts, strict=True))

    def _decide(self, event: Event, outputs: Sequence[Event] = ()) -> tuple[Post, ...]:
        """Make one decision. outputs: what the log has of it, the first at least, if it has any."""
        self.decisions += 1
        posts = self._made_ahead.pop(event.seq, None)
        if posts is not None:
            return posts
        try:
            return self._core.decide(event, recorded_failure(outputs))
        except Exception as error:
            _fail(raised(event, error))

    def _undecided(self) -> list[Event]:
        """Return the events that actors have not handled, in the order of the log."""
        events = [event for inbox in self._inboxes.values() for event in inbox]
        return sorted(events, key=lambda event: event.seq)

    def _first(self, found: Divergence) -> Divergence:
        """Return the divergence of an earlier decision, if its outputs are nowhere in the log; else `found`.

        A missing request shows first as an answer without a request. So the rest of the log is read for the
        outputs of decisions that were still to be made.
        """
        undecided = [event for event in self._undecided() if event.seq < found.seq]
        if found.kind != "unexpected":
            undecided = [event for event in undecided if event.seq < found.decision]
        outputs, passing, is_complete = self._outputs_of(undecided)
        for event in undecided:
            output, after = outputs.get(event.seq), passing.get(event.seq)
            try:
                posts = self._decide(event, () if output is None else (output,))
            except _Found as earlier:
                return earlier.divergence
            if posts and output is None and (after is not None or is_complete):
                place = len(self._events) + 1 if after is None else after.seq
                return missing(event, place, posts[0], after)
        return found

    def _outputs_of(self, undecided: list[Event]) -> tuple[dict[int, Event], dict[int, Event], bool]:
        """Read the whole log for the first outputs of these decisions.

        Returns, by the seqs of the decisions: their first outputs, and the first outputs of later decisions
        of the same actors. The last item is whether the session is complete.
        """
        outputs: dict[int, Event] = {}
        passing: dict[int, Event] = {}
        by_actor: dict[str, list[int]] = {}
        for event in undecided:
            by_actor.setdefault(event.recipient, []).append(event.seq)
        completeness = _Completeness()
        for event in self._events:
            completeness.take(event)
            for seq in by_actor.get(event.sender, ()):
                if event.cause == seq:
                    outputs.setdefault(seq, event)
                elif event.cause > seq:
                    passing.setdefault(seq, event)
        return outputs, passing, bool(completeness)


def _fail(divergence: Divergence) -> NoReturn:
    raise _Found(divergence)
