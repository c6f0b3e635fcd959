"""Verification: the deciders run again on the recorded inputs, and must post what the log says they posted.

For every decision, recipients and bodies of its posts are compared, byte for byte and in order, with the
events that name the decided event as their cause and this actor as their sender. Times are not compared. A
decision without outputs is a divergence, unless it is among the last of its actor in a session that was not
closed. The log is read once; memory holds states, events that are not handled, and open requests.

The result of a verification.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from msgspec.structs import replace

from callboard.actors.protocol.addresses import PORTS, SUPERVISOR
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.codec import canonical, encode
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import CLOSING_KINDS, Event, Post, is_closed_after
from callboard.actors.session.core import SessionCore, recorded_failure
from callboard.replay.divergence import Divergence, causal_path, changed, extra, missing, raised, unexpected
from callboard.replay.open_requests import ANSWERS, OpenRequests
from callboard.replay.reading import Source
from callboard.runtime.log.hash_chain import PAGE_BYTES, PAGE_EVENTS
from callboard.runtime.log.protocol import Head

if TYPE_CHECKING:
    from callboard.replay.divergence import Divergence


_ENDS: Final = CLOSING_KINDS | {AskEnded}

Page: TypeAlias = Sequence[tuple[Event, bytes]]
"""Events that follow each other, each with its body as it is stored."""


def long_pages(source: Source) -> Iterator[Page]:
    """Yield the events of a session, checked, in pages long enough for decisions that are made together."""
    found: list[tuple[Event, bytes]] = []
    held = 0
    for page in source.sealed_pages():
        rows = [row.whole() if row.cuts else row for row in page]
        bodies = [row.body for row in rows]
        found += zip(source.events(rows), bodies, strict=True)
        held += sum(map(len, bodies))
        if max(len(found) / PAGE_EVENTS, held / PAGE_BYTES) >= 1:
            yield found
            found, held = [], 0
    yield found


class _Found(Exception):
    """Ends the run: the first divergence is found."""

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(divergence.seq)
        self.divergence = divergence


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
        self._is_in_doubt = self._is_closed = False
        # The event that was decided on last, and the posts of that decision that the log has still to show.
        self._decided: Event | None = None
        self._due: deque[Post] = deque()

    def run(self) -> Divergence | None:
        """Return the first divergence in the order of the log; None if there is no divergence."""
        try:
            for page in self._pages:
                self._decide_ahead(page)
                self._take(page)
            self._finish()
        except _Found as found:
            first = self._first(found.divergence)
            start = first.seq if first.kind == "unexpected" else first.decision
            return replace(first, causal_path=causal_path(self._events, start))
        return None

    def _take(self, page: Page) -> None:
        """Take the next events in."""
        due, inboxes, requests = self._due, self._inboxes, self._requests
        for event, body in page:
            if due:
                self._compare(event, body)
            elif event.sender not in PORTS:
                self._decide_for(event)
                self._compare(event, body)
            elif rule := requests.broken_rule(event):
                _fail(unexpected(event, rule))
            if type(event.body) in _ENDS:
                self._note_end(event)
            requests.take(event)
            if (recipient := event.recipient) not in PORTS:
                inboxes[recipient].append(event)

    def _note_end(self, event: Event) -> None:
        self._is_closed = is_closed_after(event.body, was_closed=self._is_closed)
        if type(event.body) is AskEnded and event.body.in_doubt:
            self._is_in_doubt = True

    @property
    def _is_complete(self) -> bool:
        """True if the session was closed with nothing left undone, so that no output may be missing."""
        return self._is_closed and not self._is_in_doubt

    def _compare(self, output: Event, body: bytes) -> None:
        """Compare the next post that is due with the event in its place."""
        event = self._decided
        if event is None or not self._due:
            _fail(extra(output))
        post = self._due.popleft()
        if output.cause != event.seq or output.sender != event.recipient:
            _fail(missing(event, output.seq, post, output))
        expected = encode(post.body)
        # `canonical` is for a body of an older format, so it is asked for only where the bytes differ.
        if output.recipient != post.recipient or (body != expected and canonical(body) != expected):
            _fail(changed(output, canonical(body), post))

    def _decide_for(self, output: Event) -> None:
        """Make the decision whose first output this is, after those before it in the actor's inbox."""
        inbox = self._inboxes[output.sender]
        if type(output.body) in ANSWERS:
            self._refuse(output)
        if not inbox or inbox[0].seq != output.cause:  # rarely: most events have outputs
            self._pass_over(output, inbox)
        self._decided = event = inbox.popleft()
        if not inbox:
            del self._inboxes[output.sender]  # an agent that has ended costs no memory
        self._due.extend(self._decide(event, output))

    def _pass_over(self, output: Event, inbox: deque[Event]) -> None:
        """Take the events before the one that an output answers off the inbox: they need no answer."""
        if output.cause not in [event.seq for event in inbox]:
            self._refuse(output)
        while inbox[0].seq != output.cause:
            event = inbox.popleft()
            if posts := self._decide(event):
                _fail(missing(event, output.seq, posts[0], output))

    def _refuse(self, output: Event) -> NoReturn:
        """Fail for an output that belongs to no decision that is still to be made."""
        is_earlier = 0 < output.cause < output.seq
        if is_earlier and self._events[output.cause - 1].recipient == output.sender:
            _fail(extra(output))
        rule = "an actor posts only in answer to an event it received, and no port's answers"
        _fail(unexpected(output, rule))

    def _finish(self) -> None:
        """Make the decisions that have no outputs in the log."""
        due = [(self._decided, post) for post in self._due if self._decided is not None]
        later = ((event, post) for event in self._undecided() for post in self._decide(event))
        for event, post in chain(due, later):
            # The log of an open session may end between a decision and its outputs: then none is missing.
            if self._is_complete:
                _fail(missing(event, len(self._events) + 1, post, None))

    def _decide_ahead(self, page: Page) -> None:
        """Make all decisions of the supervisor on this page together; no log holds a failure of it."""
        events = [event for event, _ in page if event.recipient == SUPERVISOR]
        if not self._is_ahead or not events:
            return
        # One unit of work for all of them: one for each event made verification 6 to 40 % slower.
        try:
            posts = self._core.decide_together(events)
        except Exception:  # one of them raises: from here on each is made in its turn, to find which
            self._is_ahead = False
            return
        self._made_ahead.update(zip([event.seq for event in events], posts, strict=True))

    def _decide(self, event: Event, output: Event | None = None) -> tuple[Post, ...]:
        """Make one decision. output: its first one in the log, if there is one."""
        self.decisions += 1
        if event.recipient == SUPERVISOR and (posts := self._made_ahead.pop(event.seq, None)) is not None:
            return posts
        try:
            return self._core.decide(event, "" if output is None else recorded_failure((output,)))
        except Exception as error:
            _fail(raised(event, error))

    def _undecided(self) -> list[Event]:
        """Return the events that actors have not handled, in the order of the log."""
        events = [event for inbox in self._inboxes.values() for event in inbox]
        return sorted(events, key=lambda event: event.seq)

    def _first(self, found: Divergence) -> Divergence:
        """Return the divergence of an earlier decision without outputs in the log, if any; else `found`."""
        # A missing request shows first as an answer without a request.
        undecided = [event for event in self._undecided() if event.seq < found.seq]
        if found.kind != "unexpected":
            undecided = [event for event in undecided if event.seq < found.decision]
        outputs, passing = self._outputs_of(undecided)
        for event in undecided:
            output, after = outputs.get(event.seq), passing.get(event.seq)
            try:
                posts = self._decide(event, output)
            except _Found as earlier:
                return earlier.divergence
            if posts and output is None and (after is not None or self._is_complete):
                place = len(self._events) + 1 if after is None else after.seq
                return missing(event, place, posts[0], after)
        return found

    def _outputs_of(self, undecided: list[Event]) -> tuple[dict[int, Event], dict[int, Event]]:
        """Return the first outputs of these decisions, and of later ones of their actors, by these seqs."""
        outputs: dict[int, Event] = {}
        passing: dict[int, Event] = {}
        by_actor: defaultdict[str, list[int]] = defaultdict(list)
        for event in undecided:
            by_actor[event.recipient].append(event.seq)
        for event in self._events:
            self._note_end(event)
            for seq in by_actor.get(event.sender, ()):
                if event.cause == seq:
                    outputs.setdefault(seq, event)
                elif event.cause > seq:
                    passing.setdefault(seq, event)
        return outputs, passing


def _fail(divergence: Divergence) -> NoReturn:
    raise _Found(divergence)


@dataclass(frozen=True)
class Verification:
    """The result of a verification: how much was checked, the head it holds for, the first divergence."""

    session_id: str
    events: int
    decisions: int
    head: Head
    divergence: "Divergence | None"

    @property
    def is_ok(self) -> bool:
        """Return whether the code does what the log says, byte for byte."""
        return self.divergence is None

    def check(self) -> None:
        """Raise Diverged with the report, if there is a divergence."""
        if self.divergence is not None:
            raise Diverged("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        if self.divergence is not None:
            return [f"session {self.session_id}", *self.divergence.lines()]
        return [
            f"session {self.session_id}: {self.events} events, {self.decisions} decisions, "
            f"all as recorded; head {self.head.seq}:{self.head.digest.hex()}"
        ]
